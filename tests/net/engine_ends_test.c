/* What a neighbour can do: the test plays it with raw sockets. Frames come in pieces, stripes out of order; streams end
 * anywhere, break, say nonsense, or nothing. */
#include <errno.h>
#include <linux/sockios.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine_fixture.h"
#include "kolo.h"

#define MS     INT64_C(1000000)
#define SECOND (1000 * MS)

enum { CONTROL, DATA, STREAMS = 2, FRAME_BYTES = KOLO_FRAME_HEADER_BYTES + 10 };

static struct side side;
static int raw[1 + STREAMS];

static void open_side(kolo_net_engine kind, uint32_t streams, int64_t silence_ns) {
    side_open_raw(&side, kind, streams, silence_ns, raw);
}

static void close_raw(void) {
    for (int i = 0; i <= STREAMS; i++)
        if (raw[i] >= 0)
            close(raw[i]);
    for (int i = 0; i <= STREAMS; i++)
        raw[i] = -1;
}

static void reset_raw(int stream) {
    const struct linger none = {.l_onoff = 1, .l_linger = 0};
    assert_int_equal(setsockopt(raw[stream], SOL_SOCKET, SO_LINGER, &none, sizeof none), 0);
    close(raw[stream]);
    raw[stream] = -1;
}

static void close_side(void) {
    if (side.complaint)
        fail_msg("%s", side.complaint);
    side_close(&side, 0);
    close_raw();
}

static struct kolo_frame data_frame(uint64_t ticket, uint32_t bytes) {
    return (struct kolo_frame){.kind = KOLO_FRAME_DATA, .ticket = ticket, .bytes = bytes};
}

/* Calls a test with each kind of engine. */
static void with_each(void (*test)(kolo_net_engine kind)) {
    kolo_net_engine kinds[2];
    const unsigned count = fixture_kinds(kinds);
    for (unsigned i = 0; i < count; i++) {
        for (int j = 0; j <= STREAMS; j++)
            raw[j] = -1;
        test(kinds[i]);
        close_side();
    }
}

static void put_data(int stream, uint64_t ticket, uint32_t bytes) {
    const struct kolo_frame frame = data_frame(ticket, bytes);
    uint8_t *payload = fixture_payload(0, 1, ticket, bytes);
    assert_true(raw_put(raw[stream], &frame, payload));
    free(payload);
}

static void put_control(uint16_t kind) {
    const struct kolo_frame frame = {.kind = kind};
    assert_true(raw_put(raw[CONTROL], &frame, NULL));
}

static void expect_end(int error) {
    assert_true(side_run_until(&side, &side.ended[0], 1));
    assert_int_equal(side.error[0], error);
    side_run_idle(&side);
    assert_int_equal(side.ended[0], 1);
}

/* Frames that come whole, in pieces, in another order. */

static void dribble(kolo_net_engine kind) {
    enum { BYTES = 100 };
    open_side(kind, 1, 10 * SECOND);
    for (uint64_t ticket = 0; ticket < 3; ticket++) {
        uint8_t bytes[KOLO_FRAME_HEADER_BYTES + BYTES];
        const struct kolo_frame frame = data_frame(ticket, BYTES);
        uint8_t *payload = fixture_payload(0, 1, ticket, BYTES);
        side_expect(&side, 0, ticket, BYTES);
        kolo_frame_pack(&frame, bytes);
        memcpy(bytes + KOLO_FRAME_HEADER_BYTES, payload, BYTES);
        free(payload);
        for (size_t i = 0; i < sizeof bytes; i++) {
            assert_int_equal(side.arrived, ticket);
            assert_int_equal(send(raw[DATA], bytes + i, 1, 0), 1);
            assert_int_equal(kolo_engine_run(side.engine, 0), 0);
        }
        assert_true(side_run_until(&side, &side.arrived, (unsigned)ticket + 1));
        assert_true(side_has(&side, 0, ticket));
    }
}

static void test_dribble(void **state) {
    (void)state;
    with_each(dribble);
}

/* Waits until the other side's kernel has all that was sent. */
static void await_delivery(int fd) {
    const int64_t until_ns = fixture_now_ns() + 10 * SECOND;
    int left = 0;
    while (ioctl(fd, SIOCOUTQ, &left) == 0 && left > 0 && fixture_now_ns() < until_ns)
        usleep(1000);
    assert_int_equal(left, 0);
}

static void many_at_once(kolo_net_engine kind) {
    open_side(kind, 1, 10 * SECOND);
    for (uint64_t ticket = 0; ticket < TICKETS_MAX; ticket++) {
        side_expect(&side, 0, ticket, (uint32_t)(ticket * 37 % 300));
        put_data(DATA, ticket, (uint32_t)(ticket * 37 % 300));
    }
    await_delivery(raw[DATA]);
    assert_true(side_run_until(&side, &side.arrived, TICKETS_MAX));
    for (uint64_t ticket = 0; ticket < TICKETS_MAX; ticket++)
        assert_true(side_has(&side, 0, ticket));
    assert_in_range(kolo_engine_counts(side.engine)->system_calls, 1, 20); /* they come by a few receives */
}

static void test_many_at_once(void **state) {
    (void)state;
    with_each(many_at_once);
}

static void stripes(kolo_net_engine kind) {
    enum { STRIPE = 5000, STRIPES = 6 };
    static const uint32_t order[STRIPES] = {3, 0, 5, 1, 4, 2};
    open_side(kind, STREAMS, 10 * SECOND);
    side_expect(&side, 0, 7, STRIPES * STRIPE);
    uint8_t *payload = fixture_payload(0, 1, 7, STRIPES * STRIPE);
    for (unsigned i = 0; i < STRIPES; i++) {
        struct kolo_frame frame = data_frame(7, STRIPE);
        frame.offset = (uint64_t)order[i] * STRIPE;
        assert_true(raw_put(raw[DATA + i % STREAMS], &frame, payload + frame.offset));
        assert_true(side_run_until(&side, &side.arrived, i + 1));
    }
    free(payload);
    assert_true(side_has(&side, 0, 7));
}

static void test_stripes_out_of_order(void **state) {
    (void)state;
    with_each(stripes);
}

/* Places. */

static void place_later(kolo_net_engine kind) {
    open_side(kind, STREAMS, 10 * SECOND);
    side_expect(&side, 0, 0, 9000);
    side_expect(&side, 0, 1, 10);
    side_expect(&side, 0, 2, 10);
    side.closed = true;
    put_data(DATA, 0, 9000);
    put_data(DATA, 1, 10);
    assert_true(side_run_until(&side, &side.held, 1));
    side.closed = false;
    put_data(DATA + 1, 2, 10); /* another stream goes on */
    assert_true(side_run_until(&side, &side.arrived, 1));
    assert_true(side_has(&side, 0, 2));
    side_run_idle(&side);
    assert_int_equal(side.held, 1); /* nobody asks again before kolo_engine_resume */
    assert_int_equal(side.arrived, 1);
    kolo_engine_resume(side.engine);
    assert_true(side_run_until(&side, &side.arrived, 3));
    assert_true(side_has(&side, 0, 0) && side_has(&side, 0, 1));
}

static void test_place_later(void **state) {
    (void)state;
    with_each(place_later);
}

static void place_nowhere(kolo_net_engine kind) {
    open_side(kind, STREAMS, 10 * SECOND);
    side_expect(&side, 0, 2, 9000);
    side.verdict = KOLO_PLACE_NOWHERE;
    put_data(DATA, 0, 9000);
    put_data(DATA, 1, 10);
    side_run_idle(&side);
    assert_int_equal(side.arrived, 0);
    side.verdict = 0;
    put_data(DATA, 2, 9000);
    assert_true(side_run_until(&side, &side.arrived, 1));
    assert_true(side_has(&side, 0, 2));
    assert_int_equal(side.ended[0], 0);
}

static void test_place_nowhere(void **state) {
    (void)state;
    with_each(place_nowhere);
}

/* A neighbour that is gone may be what its frame waits for. */
static void held_without_leave(kolo_net_engine kind) {
    open_side(kind, STREAMS, 10 * SECOND);
    side_expect(&side, 0, 0, 10);
    side.closed = true;
    put_data(DATA, 0, 10);
    close_raw();
    expect_end(ECONNRESET);
    assert_int_equal(side.arrived, 0);
}

static void test_held_without_leave(void **state) {
    (void)state;
    with_each(held_without_leave);
}

static void held_after_leave(kolo_net_engine kind) {
    open_side(kind, STREAMS, 100 * MS);
    side_expect(&side, 0, 0, 10);
    side.closed = true;
    put_data(DATA, 0, 10);
    put_control(KOLO_FRAME_LEAVE);
    close_raw();
    assert_true(side_run_until(&side, &side.held, 1));
    for (int i = 0; i < 10; i++)
        side_run_idle(&side); /* longer than the silence */
    assert_int_equal(side.ended[0], 0);
    side.closed = false;
    kolo_engine_resume(side.engine);
    expect_end(0);
    assert_true(side_has(&side, 0, 0));
}

static void test_held_after_leave(void **state) {
    (void)state;
    with_each(held_after_leave);
}

/* The end of a message comes slowly, longer after the last heartbeat than the silence. */
static void slow_after_leave(kolo_net_engine kind) {
    enum { PIECE = 1000, PIECES = 9 };
    const struct kolo_frame frame = data_frame(0, PIECES * PIECE);
    uint8_t header[KOLO_FRAME_HEADER_BYTES], *payload = fixture_payload(0, 1, 0, frame.bytes);
    open_side(kind, 1, 400 * MS);
    side_expect(&side, 0, 0, frame.bytes);
    side.closed = true;
    kolo_frame_pack(&frame, header);
    assert_int_equal(send(raw[DATA], header, sizeof header, 0), sizeof header);
    put_control(KOLO_FRAME_LEAVE);
    close(raw[CONTROL]);
    raw[CONTROL] = -1;
    for (int i = 0; i < 25; i++)
        side_run_idle(&side); /* longer than the silence */
    assert_int_equal(side.held, 1);
    side.closed = false;
    kolo_engine_resume(side.engine);
    for (size_t i = 0; i < PIECES; i++) {
        for (int j = 0; j < 5; j++)
            side_run_idle(&side);
        assert_int_equal(side.ended[0], 0);
        assert_int_equal(send(raw[DATA], payload + i * PIECE, PIECE, 0), PIECE);
    }
    free(payload);
    close_raw();
    expect_end(0);
    assert_true(side_has(&side, 0, 0));
}

static void test_slow_after_leave(void **state) {
    (void)state;
    with_each(slow_after_leave);
}

static void refused(kolo_net_engine kind) {
    open_side(kind, 1, 10 * SECOND);
    side.verdict = KOLO_ERR_MISMATCH;
    put_data(DATA, 0, 10);
    expect_end(EPROTO);
    assert_int_equal(side.arrived, 0);
}

static void test_refused_frame(void **state) {
    (void)state;
    with_each(refused);
}

/* Ends. */

static void cut_at(kolo_net_engine kind, int stream, size_t cut) {
    uint8_t bytes[FRAME_BYTES] = {0};
    struct kolo_frame frame = data_frame(0, 10);
    if (stream == CONTROL)
        frame.kind = KOLO_FRAME_FAILURE;
    kolo_frame_pack(&frame, bytes);
    open_side(kind, 1, 10 * SECOND);
    side_expect(&side, 0, 0, 10);
    assert_int_equal(send(raw[stream], bytes, cut, 0), cut);
    close_raw();
    assert_true(side_run_until(&side, &side.ended[0], 1));
    assert_int_equal(side.error[0], cut == 0 || cut == FRAME_BYTES ? 0 : ECONNRESET);
    assert_int_equal(side.arrived, cut == FRAME_BYTES);
    close_side();
}

static void cut_everywhere(kolo_net_engine kind) {
    for (size_t cut = 0; cut <= FRAME_BYTES; cut++) {
        cut_at(kind, CONTROL, cut);
        cut_at(kind, DATA, cut);
    }
}

static void test_end_at_every_byte(void **state) {
    (void)state;
    with_each(cut_everywhere);
}

static void end_after_much(kolo_net_engine kind) {
    open_side(kind, STREAMS, 10 * SECOND);
    for (uint64_t ticket = 0; ticket < 10; ticket++) {
        side_expect(&side, 0, ticket, 20000);
        put_data(DATA + (int)ticket % STREAMS, ticket, 20000);
    }
    put_control(KOLO_FRAME_LEAVE);
    close_raw();
    expect_end(0);
    assert_int_equal(side.arrived, 11);
    for (uint64_t ticket = 0; ticket < 10; ticket++)
        assert_true(side_has(&side, 0, ticket));
}

static void test_end_after_much(void **state) {
    (void)state;
    with_each(end_after_much);
}

static void reset_after_frame(kolo_net_engine kind) {
    open_side(kind, STREAMS, 10 * SECOND);
    side_expect(&side, 0, 0, 100);
    side_expect(&side, 0, 1, 100);
    put_data(DATA, 0, 100);
    put_data(DATA + 1, 1, 100);
    reset_raw(DATA);
    expect_end(ECONNRESET); /* though the other streams' sockets are open still */
    assert_true(side_has(&side, 0, 0) && side_has(&side, 0, 1));
}

static void test_reset(void **state) {
    (void)state;
    with_each(reset_after_frame);
}

/* A stream that ends by itself takes what was to come by it away. */
static void one_ends(kolo_net_engine kind, int stream) {
    open_side(kind, STREAMS, 10 * SECOND);
    const int64_t begin_ns = fixture_now_ns();
    close(raw[stream]);
    raw[stream] = -1;
    expect_end(ECONNRESET);
    assert_true(fixture_now_ns() - begin_ns < 8 * SECOND); /* long before the silence is up */
    close_side();
}

static void each_ends(kolo_net_engine kind) {
    one_ends(kind, CONTROL);
    one_ends(kind, DATA + 1);
}

static void test_one_stream_ends(void **state) {
    (void)state;
    with_each(each_ends);
}

static void one_ends_after_leave(kolo_net_engine kind) {
    open_side(kind, STREAMS, 10 * SECOND);
    put_control(KOLO_FRAME_LEAVE);
    assert_true(side_run_until(&side, &side.left, 1));
    close(raw[DATA]);
    raw[DATA] = -1;
    for (int i = 0; i < 25; i++)
        side_run_idle(&side);
    assert_int_equal(side.ended[0], 0);
    close_raw();
    expect_end(0);
}

static void test_one_stream_ends_after_leave(void **state) {
    (void)state;
    with_each(one_ends_after_leave);
}

static void reset_after_leave(kolo_net_engine kind) {
    open_side(kind, STREAMS, 10 * SECOND);
    put_control(KOLO_FRAME_LEAVE);
    assert_true(side_run_until(&side, &side.left, 1));
    for (int i = 0; i <= STREAMS; i++)
        reset_raw(i);
    expect_end(0);
}

static void test_reset_after_leave(void **state) {
    (void)state;
    with_each(reset_after_leave);
}

/* Headers. */

static void test_header(void **state) {
    static const uint8_t expected[KOLO_FRAME_HEADER_BYTES] = {
        'k',  'o',  'l',  3,    0x0a, 0,    0x02, 0x01, 0x06, 0x05, 0x04, 0x03, 0,    0,    0,    0,
        0x0c, 0x0b, 0x0a, 0x09, 0x08, 0x07, 0,    0,    0x18, 0x17, 0x16, 0x15, 0x14, 0x13, 0x12, 0x11,
        0x28, 0x27, 0x26, 0x25, 0x24, 0x23, 0x22, 0x21, 0x38, 0x37, 0x36, 0x35, 0x34, 0x33, 0x32, 0x31,
        0x48, 0x47, 0x46, 0x45, 0x44, 0x43, 0x42, 0x41, 0x58, 0x57, 0x56, 0x55, 0x54, 0x53, 0x52, 0x51,
    };
    const struct kolo_frame frame = {
        .kind = KOLO_FRAME_DATA + 1,
        .part = 0x0102,
        .bytes = 0x03040506,
        .offset = UINT64_C(0x0708090a0b0c),
        .ticket = UINT64_C(0x1112131415161718),
        .stamp = UINT64_C(0x2122232425262728),
        .key = {.collective = 0x38,
                .dtype = 0x37,
                .op = 0x36,
                .flags = 0x35,
                .root = 0x3334,
                .element_bytes = 0x3132,
                .count = UINT64_C(0x4142434445464748),
                .digest = UINT64_C(0x5152535455565758)},
    };
    struct kolo_frame read;
    uint8_t header[KOLO_FRAME_HEADER_BYTES];
    (void)state;
    kolo_frame_pack(&frame, header);
    assert_memory_equal(header, expected, sizeof header);
    assert_int_equal(kolo_frame_parse(header, &read), 0);
    assert_true(read.kind == frame.kind && read.part == frame.part && read.bytes == frame.bytes &&
                read.offset == frame.offset && read.ticket == frame.ticket && read.stamp == frame.stamp &&
                kolo_call_keys_equal(read.key, frame.key));
}

/* Garbage. */

static void put_garbage(kolo_net_engine kind, int stream, const uint8_t *header) {
    open_side(kind, 1, 10 * SECOND);
    side_expect(&side, 0, 0, 10);
    put_data(DATA, 0, 10); /* what came before counts */
    assert_true(side_run_until(&side, &side.arrived, 1));
    assert_int_equal(send(raw[stream], header, KOLO_FRAME_HEADER_BYTES, 0), KOLO_FRAME_HEADER_BYTES);
    assert_true(side_run_until(&side, &side.ended[0], 1));
    assert_int_equal(side.error[0], EPROTO);
    assert_int_equal(side.arrived, 1);
    assert_int_equal(side.placed, 1);
    close_side();
}

static void put_frame(kolo_net_engine kind, int stream, const struct kolo_frame *frame) {
    uint8_t header[KOLO_FRAME_HEADER_BYTES];
    kolo_frame_pack(frame, header);
    put_garbage(kind, stream, header);
}

static void garbage(kolo_net_engine kind) {
    static const struct kolo_frame wrong_for_data[] = {
        {.kind = 0},
        {.kind = KOLO_FRAME_HEARTBEAT},
        {.kind = KOLO_FRAME_LEAVE},
        {.kind = KOLO_FRAME_BEGUN},
        {.kind = KOLO_FRAME_DATA - 1},
        {.kind = KOLO_FRAME_KINDS},
        {.kind = UINT16_MAX},
        {.kind = KOLO_FRAME_DATA, .bytes = KOLO_FRAME_BYTES_MAX + 1},
        {.kind = KOLO_FRAME_DATA, .bytes = UINT32_MAX},
        {.kind = KOLO_FRAME_DATA, .bytes = 1, .offset = KOLO_MESSAGE_BYTES_MAX},
        {.kind = KOLO_FRAME_DATA, .bytes = 1, .offset = UINT64_MAX},
    };
    static const struct kolo_frame wrong_for_control[] = {
        {.kind = 0},
        {.kind = KOLO_FRAME_DATA},
        {.kind = KOLO_FRAME_HEARTBEAT, .bytes = 1},
        {.kind = KOLO_FRAME_BEGUN, .bytes = 1},
        {.kind = KOLO_FRAME_PROGRESS, .bytes = 1},
        {.kind = KOLO_FRAME_MESSAGE, .bytes = KOLO_CONTROL_BYTES_MAX + 1},
        {.kind = KOLO_FRAME_CHUNK},
        {.kind = KOLO_FRAME_CHUNK, .bytes = KOLO_CHUNK_BYTES_MAX + 1},
        {.kind = KOLO_FRAME_FAILURE, .bytes = KOLO_CONTROL_BYTES_MAX + 1},
    };
    for (size_t i = 0; i < sizeof wrong_for_data / sizeof *wrong_for_data; i++)
        put_frame(kind, DATA, &wrong_for_data[i]);
    for (size_t i = 0; i < sizeof wrong_for_control / sizeof *wrong_for_control; i++)
        put_frame(kind, CONTROL, &wrong_for_control[i]);
    const struct kolo_frame good = data_frame(1, 0);
    for (size_t i = 0; i < KOLO_FRAME_HEADER_BYTES; i++) {
        uint8_t header[KOLO_FRAME_HEADER_BYTES];
        struct kolo_frame read;
        kolo_frame_pack(&good, header);
        header[i] ^= 0x80;
        if (kolo_frame_parse(header, &read) < 0)
            put_garbage(kind, DATA, header);
        else
            assert_true(i >= 6); /* neither mark nor kind */
    }
}

static void test_garbage(void **state) {
    (void)state;
    with_each(garbage);
}

/* Silence. */

static unsigned heartbeats_at(int fd) {
    uint8_t header[KOLO_FRAME_HEADER_BYTES];
    struct kolo_frame frame;
    unsigned count = 0;
    while (recv(fd, header, sizeof header, MSG_DONTWAIT) == (ssize_t)sizeof header) {
        assert_int_equal(kolo_frame_parse(header, &frame), 0);
        assert_int_equal(frame.kind, KOLO_FRAME_HEARTBEAT);
        count++;
    }
    return count;
}

static void silence(kolo_net_engine kind) {
    const int64_t begin_ns = fixture_now_ns();
    open_side(kind, STREAMS, 200 * MS);
    assert_true(side_run_until(&side, &side.ended[0], 1));
    const int64_t took_ns = fixture_now_ns() - begin_ns;
    assert_int_equal(side.error[0], ETIMEDOUT);
    assert_true(took_ns >= 200 * MS && took_ns < 10 * SECOND);
    const unsigned least = took_ns < 300 * MS; /* who ran too seldom has had no time for any */
    assert_in_range(heartbeats_at(raw[CONTROL]), least, 4);
}

static void test_silence(void **state) {
    (void)state;
    with_each(silence);
}

static void sign_of_life(kolo_net_engine kind) {
    open_side(kind, STREAMS, SECOND);
    const int64_t begin_ns = fixture_now_ns();
    while (fixture_now_ns() - begin_ns < 2 * SECOND) {
        put_control(KOLO_FRAME_HEARTBEAT);
        side_run_idle(&side);
    }
    assert_int_equal(side.ended[0], 0);
    assert_int_equal(side.arrived, 0); /* heartbeats are the engine's own */
}

static void test_sign_of_life(void **state) {
    (void)state;
    with_each(sign_of_life);
}

/* An owner that was kept from running for longer than the silence hears first, and judges then. */
static void late_owner(kolo_net_engine kind) {
    open_side(kind, STREAMS, 500 * MS);
    side_run_idle(&side);
    put_control(KOLO_FRAME_HEARTBEAT);
    usleep(600000);
    assert_int_equal(kolo_engine_run(side.engine, 0), 0);
    assert_int_equal(side.ended[0], 0);
    expect_end(ETIMEDOUT);
}

static void test_late_owner(void **state) {
    (void)state;
    with_each(late_owner);
}

int main(int argc, char **argv) {
    if (argc > 1)
        fixture_seed = strtoull(argv[1], NULL, 10);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dribble),
        cmocka_unit_test(test_many_at_once),
        cmocka_unit_test(test_stripes_out_of_order),
        cmocka_unit_test(test_place_later),
        cmocka_unit_test(test_place_nowhere),
        cmocka_unit_test(test_held_without_leave),
        cmocka_unit_test(test_held_after_leave),
        cmocka_unit_test(test_slow_after_leave),
        cmocka_unit_test(test_refused_frame),
        cmocka_unit_test(test_end_at_every_byte),
        cmocka_unit_test(test_end_after_much),
        cmocka_unit_test(test_reset),
        cmocka_unit_test(test_one_stream_ends),
        cmocka_unit_test(test_one_stream_ends_after_leave),
        cmocka_unit_test(test_reset_after_leave),
        cmocka_unit_test(test_header),
        cmocka_unit_test(test_garbage),
        cmocka_unit_test(test_silence),
        cmocka_unit_test(test_sign_of_life),
        cmocka_unit_test(test_late_owner),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
