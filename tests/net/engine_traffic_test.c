/* Messages of 0 bytes to 16 MiB between two and three engines, in all directions at once, each engine in a thread of
 * its own: io_uring, poll, and both together.
 *
 * usage: engine_traffic_test [SEED] */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine_fixture.h"

static const uint32_t sizes[] = {
    0,      1,      8,          47,        48,     49,     100,  512,     2048,     4047,
    4048,   4049,   4096,       5000,      8192,   65535,  0,    65536,   65537,    131071,
    131072, 200000, 262144 + 5, 64,        524288, 999999, 8,    1 << 20, 12345678, (1 << 20) + 1,
    16,     70000,  3000017,    (8 << 20), 64,     64,     1024, 33333,   16 << 20, 4,
};
enum { MESSAGES = sizeof sizes / sizeof sizes[0] };
_Static_assert((int)MESSAGES <= (int)TICKETS_MAX, "an inbox a message");

struct traffic {
    kolo_net_engine kinds[SIDES_MAX];
    unsigned sides;
    uint32_t streams;
    sockets_kind sockets;
    int buffer_bytes;
    unsigned later_one_in;
    uint32_t bytes_max; /* larger messages are left out */
    bool zero_copy;
};

struct worker {
    const struct traffic *traffic;
    struct side side;
    uint8_t *payloads[SIDES_MAX][MESSAGES];
    struct kolo_engine_counts counts;
    pthread_t thread;
};

static bool takes_part(const struct traffic *traffic, unsigned message) {
    return sizes[message] <= traffic->bytes_max;
}

static struct kolo_frame frame_of(uint32_t from, unsigned message) {
    return (struct kolo_frame){
        .kind = KOLO_FRAME_DATA + 1,
        .part = (uint16_t)(message + 1000 * from),
        .bytes = sizes[message],
        .ticket = message,
        .stamp = fixture_seed + message,
        .key = {.count = UINT64_MAX - message},
    };
}

static void send_all(struct worker *worker) {
    const struct traffic *traffic = worker->traffic;
    for (unsigned message = 0; message < MESSAGES; message++)
        for (uint32_t node = 0; node < traffic->sides; node++) {
            if (node == worker->side.self || !takes_part(traffic, message))
                continue;
            const struct kolo_frame frame = frame_of(worker->side.self, message);
            if (kolo_engine_send(worker->side.engine, node, &frame, worker->payloads[node][message]) < 0)
                worker->side.complaint = "could not send";
        }
}

static bool got_all(const struct worker *worker) {
    const struct traffic *traffic = worker->traffic;
    for (unsigned message = 0; message < MESSAGES; message++)
        for (uint32_t node = 0; node < traffic->sides; node++) {
            const struct inbox *inbox = &worker->side.inbox[node][message];
            if (node != worker->side.self && takes_part(traffic, message) &&
                (inbox->frames == 0 || inbox->arrived_bytes < inbox->room))
                return false;
        }
    return true;
}

static unsigned messages_sent(const struct traffic *traffic) {
    unsigned messages = 0;
    for (unsigned message = 0; message < MESSAGES; message++)
        messages += takes_part(traffic, message);
    return messages * (traffic->sides - 1);
}

static void run_until_left(struct worker *worker, int64_t until_ns) {
    static const struct kolo_frame leave = {.kind = KOLO_FRAME_LEAVE, .bytes = 3};
    struct side *side = &worker->side;
    const unsigned others = worker->traffic->sides - 1;
    bool told = false;
    while (side->left < others || !told) {
        if (!told && got_all(worker) && side->sent == messages_sent(worker->traffic)) {
            told = true;
            for (uint32_t node = 0; node <= others; node++)
                if (node != side->self && kolo_engine_tell(side->engine, node, &leave, "bye") < 0)
                    side->complaint = "could not tell";
        }
        if (kolo_engine_run(side->engine, 20000000) < 0 || fixture_now_ns() > until_ns) {
            side->complaint = "not all came in time";
            return;
        }
        if (side->held > 0) {
            side->held = 0;
            kolo_engine_resume(side->engine);
        }
    }
}

static void *work(void *argument) {
    struct worker *worker = argument;
    send_all(worker);
    run_until_left(worker, fixture_now_ns() + INT64_C(100000000000));
    worker->counts = *kolo_engine_counts(worker->side.engine);
    kolo_engine_destroy(worker->side.engine, INT64_C(2000000000));
    worker->side.engine = NULL;
    return NULL;
}

static void prepare(struct worker *worker, const struct traffic *traffic, uint32_t self) {
    const struct kolo_engine_options options = {
        .kind = traffic->kinds[self],
        .nodes = traffic->sides,
        .streams_max = traffic->streams,
        .silence_ns = INT64_C(60000000000),
        .zero_copy = traffic->zero_copy,
    };
    *worker = (struct worker){.traffic = traffic};
    assert_int_equal(side_open(&worker->side, self, &options), 0);
    worker->side.later_one_in = traffic->later_one_in;
    for (uint32_t node = 0; node < traffic->sides; node++)
        for (unsigned message = 0; message < MESSAGES; message++)
            if (node != self && takes_part(traffic, message)) {
                worker->payloads[node][message] = fixture_payload(self, node, message, sizes[message]);
                side_expect(&worker->side, node, message, sizes[message]);
            }
}

static void connect_workers(struct worker *workers, const struct traffic *traffic) {
    for (uint32_t a = 0; a < traffic->sides; a++)
        for (uint32_t b = a + 1; b < traffic->sides; b++)
            for (uint32_t stream = 0; stream <= traffic->streams; stream++) {
                int fds[2];
                fixture_sockets(traffic->sockets, traffic->buffer_bytes, fds);
                assert_int_equal(kolo_engine_add(workers[a].side.engine, b, fds[0]), 0);
                assert_int_equal(kolo_engine_add(workers[b].side.engine, a, fds[1]), 0);
            }
}

static void check_counts(const struct worker *worker) {
    const struct traffic *traffic = worker->traffic;
    uint64_t least_bytes = 0, frames_max = 64; /* heartbeats and control included */
    for (unsigned message = 0; message < MESSAGES; message++)
        if (takes_part(traffic, message)) {
            least_bytes += sizes[message] + KOLO_FRAME_HEADER_BYTES;
            frames_max += sizes[message] / KOLO_STRIPE_BYTES;
        }
    least_bytes *= traffic->sides - 1;
    frames_max *= traffic->sides - 1;
    const uint64_t most_bytes = least_bytes + frames_max * KOLO_FRAME_HEADER_BYTES;
    const struct kolo_engine_counts *counts = &worker->counts;
    assert_true(counts->system_calls > 0);
    assert_true(counts->sent_bytes >= least_bytes && counts->sent_bytes <= most_bytes);
    assert_true(counts->received_bytes >= least_bytes && counts->received_bytes <= most_bytes);
}

static void check_worker(struct worker *worker) {
    const struct traffic *traffic = worker->traffic;
    const struct side *side = &worker->side;
    if (side->complaint)
        fail_msg("side %u, seed %llu: %s", side->self, (unsigned long long)fixture_seed, side->complaint);
    check_counts(worker);
    for (uint32_t node = 0; node < traffic->sides; node++) {
        if (node == side->self)
            continue;
        assert_true(side->error[node] == 0);
        for (unsigned message = 0; message < MESSAGES; message++) {
            if (!takes_part(traffic, message))
                continue;
            if (!side_has(side, node, message))
                fail_msg("side %u, seed %llu: message %u of %u bytes from %u is wrong", side->self,
                         (unsigned long long)fixture_seed, message, sizes[message], node);
            const struct kolo_frame sent = frame_of(node, message), *got = &side->inbox[node][message].last;
            assert_true(got->kind == sent.kind && got->part == sent.part && got->ticket == sent.ticket &&
                        got->stamp == sent.stamp && kolo_call_keys_equal(got->key, sent.key));
        }
    }
}

static void exchange(struct traffic traffic) {
    static struct worker workers[SIDES_MAX];
    if (traffic.bytes_max == 0)
        traffic.bytes_max = UINT32_MAX;
    for (uint32_t i = 0; i < traffic.sides; i++)
        prepare(&workers[i], &traffic, i);
    connect_workers(workers, &traffic);
    for (uint32_t i = 0; i < traffic.sides; i++)
        assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    for (uint32_t i = 0; i < traffic.sides; i++)
        pthread_join(workers[i].thread, NULL);
    for (uint32_t i = 0; i < traffic.sides; i++) {
        check_worker(&workers[i]);
        side_close(&workers[i].side, 0);
        for (uint32_t node = 0; node < traffic.sides; node++)
            for (unsigned message = 0; message < MESSAGES; message++)
                free(workers[i].payloads[node][message]);
    }
}

/* Calls `exchange` for each combination of kinds. */
static void exchange_by_all(struct traffic traffic) {
    kolo_net_engine kinds[2];
    const unsigned count = fixture_kinds(kinds);
    for (unsigned choice = 0; choice < count * count; choice++) {
        for (unsigned i = 0; i < traffic.sides; i++)
            traffic.kinds[i] = kinds[i == 0 ? choice / count : choice % count];
        exchange(traffic);
    }
}

static void test_two(void **state) {
    (void)state;
    exchange_by_all((struct traffic){.sides = 2, .streams = 4});
}

static void test_one_data_stream(void **state) {
    (void)state;
    exchange_by_all((struct traffic){.sides = 2, .streams = 1, .bytes_max = 4 << 20});
}

static void test_three(void **state) {
    (void)state;
    exchange_by_all((struct traffic){.sides = 3, .streams = 3, .bytes_max = 4 << 20});
}

static void test_places_later(void **state) {
    (void)state;
    exchange_by_all((struct traffic){.sides = 3, .streams = 2, .later_one_in = 2, .bytes_max = 4 << 20});
}

static void test_tiny_buffers(void **state) {
    (void)state;
    exchange_by_all((struct traffic){.sides = 2, .streams = 3, .buffer_bytes = 2048, .bytes_max = 70000});
}

static void test_unix_sockets(void **state) {
    (void)state;
    exchange_by_all((struct traffic){.sides = 2, .streams = 2, .sockets = SOCKETS_UNIX, .bytes_max = 4 << 20});
}

static void test_zero_copy(void **state) {
    (void)state;
    exchange_by_all((struct traffic){.sides = 2, .streams = 4, .zero_copy = true});
    exchange_by_all(
        (struct traffic){.sides = 2, .streams = 2, .zero_copy = true, .sockets = SOCKETS_UNIX, .bytes_max = 4 << 20});
}

int main(int argc, char **argv) {
    if (argc > 1)
        fixture_seed = strtoull(argv[1], NULL, 10);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two),          cmocka_unit_test(test_one_data_stream),
        cmocka_unit_test(test_three),        cmocka_unit_test(test_places_later),
        cmocka_unit_test(test_tiny_buffers), cmocka_unit_test(test_unix_sockets),
        cmocka_unit_test(test_zero_copy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
