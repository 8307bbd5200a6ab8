/* What a node that has proved itself could still send (net/frame.h, net/engine.h): bytes on a control and a data
 * stream, in chunks. Frames come out with the bounds that frame.h promises, payloads stay within their place, and the
 * neighbour ends once, and after its last frame.
 *
 * Input: a byte (bits 0 to 2: the size of chunks; bit 3: each place is given at the second time it is asked for; bit 4:
 * header by header through kolo_frame_parse alone; bit 5: data is stopped amid), a byte (what part of the rest goes by
 * control, in 255ths), bytes.
 */
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fuzz_target.h"
#include "kolo.h"
#include "net/engine.h"

enum { BYTES_MAX = 8192, PAYLOAD_MAX = 4096, RUNS_MAX = 4 * BYTES_MAX };

struct owner {
    bool later, asked, stopped;
    uint8_t *payload; /* of just the size, so that a byte too far shows under a sanitizer */
    uint8_t *control;
    unsigned ended;
};

static void require_good(const struct kolo_frame *frame) {
    REQUIRE(frame->kind > 0 && frame->kind < KOLO_FRAME_KINDS);
    REQUIRE((frame->kind != KOLO_FRAME_BEGUN && frame->kind != KOLO_FRAME_PROGRESS) || frame->bytes == 0);
    REQUIRE(frame->kind != KOLO_FRAME_CLOCK || (frame->bytes == 0 && frame->part < KOLO_CLOCK_PARTS));
    REQUIRE(frame->bytes <= KOLO_FRAME_BYTES_MAX && frame->offset <= KOLO_MESSAGE_BYTES_MAX - frame->bytes);
    REQUIRE(frame->kind >= KOLO_FRAME_CHUNK || frame->bytes <= KOLO_CONTROL_BYTES_MAX);
    REQUIRE(frame->kind != KOLO_FRAME_CHUNK || (frame->bytes > 0 && frame->bytes <= KOLO_CHUNK_BYTES_MAX));
}

/* A stream brings one frame at a time, so one payload a stream is on its way. */
static uint8_t **place_of(struct owner *owner, const struct kolo_frame *frame) {
    return frame->kind < KOLO_FRAME_DATA ? &owner->control : &owner->payload;
}

static int place(void *context, uint32_t node, const struct kolo_frame *frame, void **where) {
    struct owner *owner = context;
    require_good(frame);
    REQUIRE(node == 0 && !owner->ended && frame->kind != KOLO_FRAME_HEARTBEAT &&
            (frame->bytes > 0 || frame->kind >= KOLO_FRAME_DATA));
    REQUIRE(frame->kind < KOLO_FRAME_DATA || !owner->stopped);
    owner->asked = !owner->asked;
    if (owner->later && owner->asked)
        return KOLO_PLACE_LATER;
    if (frame->bytes > PAYLOAD_MAX)
        return KOLO_ERR_MISMATCH;
    if (frame->bytes == 0)
        return 0;
    uint8_t **payload = place_of(owner, frame);
    REQUIRE(!*payload);
    *where = *payload = malloc(frame->bytes);
    REQUIRE(*payload);
    return 0;
}

static void arrived(void *context, uint32_t node, const struct kolo_frame *frame) {
    struct owner *owner = context;
    require_good(frame);
    REQUIRE(node == 0 && !owner->ended && frame->kind != KOLO_FRAME_HEARTBEAT);
    REQUIRE(frame->kind < KOLO_FRAME_DATA || !owner->stopped);
    uint8_t **payload = place_of(owner, frame);
    REQUIRE((*payload != NULL) == (frame->bytes > 0));
    free(*payload);
    *payload = NULL;
}

static void sent(void *context, uint32_t node, const struct kolo_frame *frame) {
    (void)context, (void)node, (void)frame;
    REQUIRE(!"nothing was sent");
}

static void ended(void *context, uint32_t node, int error) {
    struct owner *owner = context;
    REQUIRE(node == 0 && error >= 0);
    owner->ended++;
}

static void parse_headers(const uint8_t *data, size_t bytes) {
    for (; bytes >= KOLO_FRAME_HEADER_BYTES; data += KOLO_FRAME_HEADER_BYTES, bytes -= KOLO_FRAME_HEADER_BYTES) {
        struct kolo_frame frame;
        uint8_t header[KOLO_FRAME_HEADER_BYTES];
        if (kolo_frame_parse(data, &frame) < 0)
            continue;
        require_good(&frame);
        kolo_frame_pack(&frame, header);
        REQUIRE(memcmp(header, data, sizeof header) == 0);
    }
}

static size_t smaller(size_t a, size_t b) {
    return a < b ? a : b;
}

static void put(kolo_engine *engine, int fd, const uint8_t *data, size_t bytes, size_t chunk_bytes) {
    for (size_t put_bytes; bytes > 0; data += put_bytes, bytes -= put_bytes) {
        put_bytes = smaller(bytes, chunk_bytes);
        if (send(fd, data, put_bytes, MSG_NOSIGNAL) < 0)
            return; /* what came before was refused */
        kolo_engine_resume(engine);
        REQUIRE(kolo_engine_run(engine, 0) == 0);
    }
}

/* A payload of data that has come in part is given back. */
static void stop(kolo_engine *engine, struct owner *owner) {
    REQUIRE(kolo_engine_stop_data(engine));
    owner->stopped = true;
    free(owner->payload);
    owner->payload = NULL;
}

static void feed(kolo_engine *engine, struct owner *owner, const int *fds, const uint8_t *data, size_t bytes,
                 size_t chunk_bytes) {
    const size_t control_bytes = (bytes - 2) * data[1] / 255;
    const uint8_t *rest = data + 2 + control_bytes;
    const size_t rest_bytes = bytes - 2 - control_bytes, first_bytes = data[0] & 32 ? rest_bytes / 2 : rest_bytes;
    put(engine, fds[0], data + 2, control_bytes, chunk_bytes);
    put(engine, fds[1], rest, first_bytes, chunk_bytes);
    if (data[0] & 32)
        stop(engine, owner);
    put(engine, fds[1], rest + first_bytes, rest_bytes - first_bytes, chunk_bytes);
    close(fds[0]);
    close(fds[1]);
    for (unsigned runs = 0; !owner->ended && runs < RUNS_MAX; runs++) {
        kolo_engine_resume(engine);
        REQUIRE(kolo_engine_run(engine, 0) == 0);
    }
    REQUIRE(owner->ended == 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    static const struct kolo_engine_events events = {place, arrived, sent, ended, NULL};
    static const struct kolo_engine_options options = {
        .kind = KOLO_NET_ENGINE_POLL, .nodes = 1, .streams_max = 1, .silence_ns = INT64_C(100000000000)};
    static const size_t chunks[8] = {1, 7, 47, 48, 49, 500, 4096, BYTES_MAX};
    if (bytes < 2 || bytes > BYTES_MAX)
        return 0;
    if (data[0] & 16) {
        parse_headers(data + 2, bytes - 2);
        return 0;
    }
    struct owner owner = {.later = data[0] & 8};
    kolo_engine *engine = NULL;
    int fds[2];
    REQUIRE(kolo_engine_create(&engine, &options, &events, &owner) == 0);
    for (int i = 0; i < 2; i++) {
        int pair[2];
        REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
        REQUIRE(kolo_engine_add(engine, 0, pair[1]) == 0);
        fds[i] = pair[0];
    }
    feed(engine, &owner, fds, data, bytes, chunks[data[0] & 7]);
    kolo_engine_destroy(engine, 0);
    free(owner.payload);
    free(owner.control);
    return 0;
}
