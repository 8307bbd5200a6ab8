/* Stopping data while control goes on: what was in flight reaches no payload any more, whichever thread had started
 * it, and neighbours end with their control streams. */
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine_fixture.h"
#include "kolo.h"

#define MS     INT64_C(1000000)
#define SECOND (1000 * MS)

enum { CONTROL, DATA, STREAMS = 2, BYTES = 16 << 20, PART = 100000, SENDS = 4, PATTERN = 0x5a };

static struct side side;
static int raw[1 + STREAMS];
static const struct kolo_frame failure = {.kind = KOLO_FRAME_FAILURE};

static void close_raw(int first) {
    for (int i = first; i <= STREAMS; i++)
        close(raw[i]);
}

static void stop(void) {
    const int64_t begin_ns = fixture_now_ns();
    assert_true(kolo_engine_stop_data(side.engine));
    assert_true(fixture_now_ns() - begin_ns < SECOND);
}

/* The kernel ends the operations of a thread that has ended in a thread of its own, when the machine lets that run. */
static void stop_of_ended_thread(void) {
    const int64_t until_ns = fixture_now_ns() + 60 * SECOND;
    while (!kolo_engine_stop_data(side.engine))
        assert_true(fixture_now_ns() < until_ns);
}

static void run_for(int64_t ns) {
    const int64_t until_ns = fixture_now_ns() + ns;
    while (fixture_now_ns() < until_ns)
        assert_int_equal(kolo_engine_run(side.engine, 5 * MS), 0);
}

static void expect_pattern(const uint8_t *memory, const char *what) {
    for (size_t i = 0; i < BYTES; i++)
        if (memory[i] != PATTERN)
            fail_msg("byte %zu was written to after %s", i, what);
}

/* Control goes both ways. */
static void expect_control(void) {
    uint8_t got[KOLO_FRAME_HEADER_BYTES];
    const unsigned arrived = side.arrived;
    assert_true(raw_put(raw[CONTROL], &failure, NULL));
    assert_true(side_run_until(&side, &side.arrived, arrived + 1));
    assert_int_equal(kolo_engine_tell(side.engine, 0, &failure, NULL), 0);
    run_for(20 * MS);
    assert_int_equal(recv(raw[CONTROL], got, sizeof got, MSG_WAITALL), sizeof got);
}

/* Receiving. A thread runs the engine until part of a payload is there and the rest is awaited, then does something
 * else. */

enum afterwards { GOES_ON, SLEEPS, COMPUTES, ENDS, AFTERWARDS };

static struct {
    enum afterwards afterwards;
    sem_t begun, over;
    atomic_bool computed;
} starter;

static void *start(void *argument) {
    (void)argument;
    side_run_until(&side, &side.placed, 1);
    side_run_idle(&side);
    sem_post(&starter.begun);
    while (starter.afterwards == COMPUTES && !atomic_load_explicit(&starter.computed, memory_order_relaxed))
        ;
    if (starter.afterwards == SLEEPS)
        sem_wait(&starter.over);
    return NULL;
}

static void stop_receiving(kolo_net_engine kind, enum afterwards afterwards) {
    const struct kolo_frame frame = {.kind = KOLO_FRAME_DATA, .bytes = BYTES};
    pthread_t thread;
    side_open_raw(&side, kind, STREAMS, 100 * SECOND, raw);
    side_expect(&side, 0, 0, BYTES);
    uint8_t *memory = side.inbox[0][0].bytes, *payload = fixture_payload(0, 1, 0, BYTES),
            header[KOLO_FRAME_HEADER_BYTES];
    kolo_frame_pack(&frame, header);
    assert_int_equal(send(raw[DATA], header, sizeof header, 0), sizeof header);
    assert_int_equal(send(raw[DATA], payload, PART, 0), PART);
    starter.afterwards = afterwards;
    starter.computed = false;
    sem_init(&starter.begun, 0, 0);
    sem_init(&starter.over, 0, 0);
    assert_int_equal(afterwards == GOES_ON ? start(NULL) != NULL : pthread_create(&thread, NULL, start, NULL), 0);
    sem_wait(&starter.begun);
    if (afterwards == ENDS)
        pthread_join(thread, NULL);
    assert_memory_equal(memory, payload, PART);
    (afterwards == ENDS ? stop_of_ended_thread : stop)();
    memset(memory, PATTERN, BYTES);
    assert_int_equal(send(raw[DATA], payload, PART, 0), PART);
    atomic_store_explicit(&starter.computed, true, memory_order_relaxed);
    sem_post(&starter.over);
    if (afterwards == SLEEPS || afterwards == COMPUTES)
        pthread_join(thread, NULL);
    expect_control();
    expect_pattern(memory, "data was stopped");
    assert_int_equal(side.ended[0], 0);
    side_close(&side, 100 * MS); /* reads what has come */
    free(payload);
    close_raw(CONTROL);
}

static void stop_each(kolo_net_engine kind) {
    for (int afterwards = 0; afterwards < AFTERWARDS; afterwards++)
        stop_receiving(kind, (enum afterwards)afterwards);
}

static void test_receiving(void **state) {
    (void)state;
    fixture_with_each(&side, stop_each);
}

/* Sending: nothing is sent of what the memory holds afterwards. */

static void expect_no_pattern(int fd) {
    static uint8_t got[1 << 16];
    unsigned run = 0;
    for (ssize_t bytes; (bytes = recv(fd, got, sizeof got, MSG_DONTWAIT)) > 0; run_for(0))
        for (ssize_t i = 0; i < bytes; i++) {
            run = got[i] == PATTERN ? run + 1 : 0;
            assert_true(run < KOLO_FRAME_HEADER_BYTES);
        }
}

static void stop_sending(kolo_net_engine kind, int zero_copy) {
    const struct kolo_engine_options options = {
        .kind = kind, .nodes = 1, .streams_max = STREAMS, .silence_ns = 100 * SECOND, .zero_copy = zero_copy};
    const struct kolo_frame frame = {.kind = KOLO_FRAME_DATA, .bytes = BYTES};
    assert_int_equal(side_open(&side, 1, &options), 0);
    for (int i = 0; i <= STREAMS; i++) {
        int pair[2];
        fixture_sockets(SOCKETS_TCP, 0, pair);
        assert_int_equal(kolo_engine_add(side.engine, 0, pair[1]), 0);
        raw[i] = pair[0];
    }
    uint8_t *payload = calloc(1, BYTES);
    for (int i = 0; i < SENDS; i++)
        assert_int_equal(kolo_engine_send(side.engine, 0, &frame, payload), 0);
    side_run_idle(&side);
    assert_true(side.sent < SENDS); /* more than the kernel's buffers hold */
    stop();
    assert_int_equal(side.sent, SENDS);
    memset(payload, PATTERN, BYTES);
    for (int i = 0; i < 20; i++) {
        run_for(MS);
        expect_no_pattern(raw[DATA]);
        expect_no_pattern(raw[DATA + 1]);
    }
    expect_control();
    assert_int_equal(kolo_engine_send(side.engine, 0, &frame, payload), 0);
    assert_true(side_run_until(&side, &side.sent, SENDS + 1));
    assert_int_equal(side.ended[0], 0);
    side_close(&side, 0);
    free(payload);
    close_raw(CONTROL);
}

static void stop_each_sending(kolo_net_engine kind) {
    stop_sending(kind, 0);
    stop_sending(kind, 1);
}

static void test_sending(void **state) {
    (void)state;
    fixture_with_each(&side, stop_each_sending);
}

/* Neighbours. */

/* Data streams that break before data is stopped, or afterwards, are no end; that of the control stream is. */
static void ends_with_control(kolo_net_engine kind, bool before) {
    side_open_raw(&side, kind, STREAMS, 100 * SECOND, raw);
    side.closed = true;
    const struct kolo_frame frame = {.kind = KOLO_FRAME_DATA, .bytes = PART};
    uint8_t *payload = fixture_payload(0, 1, 0, PART), header[KOLO_FRAME_HEADER_BYTES];
    kolo_frame_pack(&frame, header);
    assert_int_equal(send(raw[DATA], header, sizeof header, 0), sizeof header);
    assert_int_equal(send(raw[DATA + 1], header, 1, 0), 1);
    run_for(10 * MS);
    if (before) {
        close_raw(DATA);
        run_for(10 * MS); /* it listens for news */
    }
    stop();
    if (!before)
        close_raw(DATA);
    run_for(700 * MS);
    assert_int_equal(side.ended[0], 0);
    expect_control();
    close(raw[CONTROL]);
    assert_true(side_run_until(&side, &side.ended[0], 1));
    run_for(10 * MS);
    assert_int_equal(side.ended[0], 1);
    side_close(&side, SECOND);
    free(payload);
}

static void ends_with_control_each(kolo_net_engine kind) {
    ends_with_control(kind, true);
    ends_with_control(kind, false);
}

static void test_ends_with_control(void **state) {
    (void)state;
    fixture_with_each(&side, ends_with_control_each);
}

static void silence(kolo_net_engine kind) {
    side_open_raw(&side, kind, STREAMS, SECOND, raw);
    stop();
    assert_true(side_run_until(&side, &side.ended[0], 1));
    assert_int_equal(side.error[0], ETIMEDOUT);
    side_close(&side, 0);
    close_raw(CONTROL);
}

static void test_silence(void **state) {
    (void)state;
    fixture_with_each(&side, silence);
}

/* As many operations are cancelled as a ring has entries whose size is just enough for the operations themselves; then
 * a control frame, too, finds no room in its socket. */
static void fill_ring(kolo_net_engine kind) {
    enum { MANY = 26, SENDING = 19, SMALL = 4096, PIECE = 1 << 16 };
    static uint8_t payload[PIECE];
    const struct kolo_engine_options options = {
        .kind = kind, .nodes = 1, .streams_max = MANY, .silence_ns = 100 * SECOND};
    const struct kolo_frame frame = {.kind = KOLO_FRAME_DATA, .bytes = PIECE};
    int pairs[1 + MANY][2];
    uint8_t got[SMALL];
    assert_int_equal(side_open(&side, 1, &options), 0);
    for (int i = 0; i <= MANY; i++) {
        fixture_sockets(SOCKETS_UNIX, SMALL, pairs[i]);
        assert_int_equal(kolo_engine_add(side.engine, 0, dup(pairs[i][1])), 0);
    }
    for (int i = 0; i < SENDING; i++)
        assert_int_equal(kolo_engine_send(side.engine, 0, &frame, payload), 0);
    run_for(20 * MS);
    size_t before = 0;
    for (ssize_t put; (put = send(pairs[CONTROL][1], payload, 1, MSG_DONTWAIT)) > 0;)
        before += (size_t)put;
    assert_int_equal(kolo_engine_tell(side.engine, 0, &failure, NULL), 0);
    stop();
    const int64_t until_ns = fixture_now_ns() + 10 * SECOND;
    for (size_t left = before + KOLO_FRAME_HEADER_BYTES; left > 0;) {
        assert_true(fixture_now_ns() < until_ns);
        const ssize_t more = recv(pairs[CONTROL][0], got, left < SMALL ? left : SMALL, MSG_DONTWAIT);
        left -= more > 0 ? (size_t)more : 0;
        run_for(MS);
    }
    assert_int_equal(side.sent, SENDING);
    side_close(&side, 0);
    for (int i = 0; i <= MANY; i++) {
        close(pairs[i][0]);
        close(pairs[i][1]);
    }
}

static void test_full_ring(void **state) {
    (void)state;
    fixture_with_each(&side, fill_ring);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_receiving), cmocka_unit_test(test_sending),   cmocka_unit_test(test_ends_with_control),
        cmocka_unit_test(test_silence),   cmocka_unit_test(test_full_ring),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
