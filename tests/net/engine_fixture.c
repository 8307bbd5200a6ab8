#include "engine_fixture.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "kolo.h"
#include "net/connect/handshake.h"
#include "ranks/oracle.h"

uint64_t fixture_seed = 1;

static void require(bool good, const char *what) {
    if (good)
        return;
    perror(what);
    abort();
}

int64_t fixture_now_ns(void) {
    return kolo_clock_ns();
}

unsigned fixture_kinds(kolo_net_engine kinds[2]) {
    kinds[0] = KOLO_NET_ENGINE_POLL;
    kinds[1] = KOLO_NET_ENGINE_URING;
    const bool uring = kolo_engine_probe_uring() == 0;
    if (!uring)
        printf("no io_uring here: poll alone is tested\n");
    return uring ? 2 : 1;
}

void fixture_with_each(const struct side *side, void (*test)(kolo_net_engine kind)) {
    kolo_net_engine kinds[2];
    const unsigned count = fixture_kinds(kinds);
    for (unsigned i = 0; i < count; i++) {
        test(kinds[i]);
        if (side->complaint)
            fail_msg("%s", side->complaint);
    }
}

static uint64_t mix(uint64_t value) {
    value += UINT64_C(0x9e3779b97f4a7c15);
    value = (value ^ (value >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    value = (value ^ (value >> 27)) * UINT64_C(0x94d049bb133111eb);
    return value ^ (value >> 31);
}

uint8_t *fixture_payload(uint32_t from, uint32_t to, uint64_t ticket, uint32_t bytes) {
    uint8_t *payload = malloc(bytes ? bytes : 1);
    require(payload != NULL, "malloc");
    random_fill(payload, bytes, mix(fixture_seed + mix(from + 16 * (to + 16 * ticket))));
    return payload;
}

static void connect_over_tcp(int buffer_bytes, int fds[2]) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof address;
    const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    fds[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    require(listener >= 0 && fds[0] >= 0, "socket");
    if (buffer_bytes) {
        setsockopt(listener, SOL_SOCKET, SO_RCVBUF, &buffer_bytes, sizeof buffer_bytes);
        setsockopt(fds[0], SOL_SOCKET, SO_RCVBUF, &buffer_bytes, sizeof buffer_bytes);
    }
    require(bind(listener, (struct sockaddr *)&address, bytes) == 0 && listen(listener, 1) == 0, "listen");
    require(getsockname(listener, (struct sockaddr *)&address, &bytes) == 0, "getsockname");
    require(connect(fds[0], (struct sockaddr *)&address, bytes) == 0, "connect");
    fds[1] = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK); /* an engine takes both kinds */
    require(fds[1] >= 0, "accept");
    for (int i = 0; i < 2; i++)
        require(kolo_socket_prepare(fds[i]) == 0, "kolo_socket_prepare");
    close(listener);
}

void fixture_sockets(sockets_kind kind, int buffer_bytes, int fds[2]) {
    if (kind == SOCKETS_TCP)
        connect_over_tcp(buffer_bytes, fds);
    else
        require(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0, "socketpair");
    for (int i = 0; i < 2 && buffer_bytes; i++)
        require(setsockopt(fds[i], SOL_SOCKET, SO_SNDBUF, &buffer_bytes, sizeof buffer_bytes) == 0, "SO_SNDBUF");
}

static void complain(struct side *side, const char *text) {
    if (!side->complaint)
        side->complaint = text;
}

static bool throw(struct side * side, unsigned one_in) {
    side->random = mix(side->random);
    return one_in && side->random % one_in == 0;
}

static struct inbox *find_inbox(struct side *side, uint32_t node, const struct kolo_frame *frame) {
    if (frame->kind < KOLO_FRAME_DATA || frame->ticket >= TICKETS_MAX || node >= SIDES_MAX)
        return NULL;
    struct inbox *inbox = &side->inbox[node][frame->ticket];
    return inbox->bytes && frame->offset + frame->bytes <= inbox->room ? inbox : NULL;
}

static int place(void *owner, uint32_t node, const struct kolo_frame *frame, void **where) {
    struct side *side = owner;
    if (frame->bytes == 0 && frame->kind < KOLO_FRAME_DATA)
        complain(side, "asked where a control frame without payload belongs");
    if (side->verdict)
        return side->verdict;
    if (side->closed || throw(side, side->later_one_in)) {
        side->held++;
        return KOLO_PLACE_LATER;
    }
    side->placed++;
    if (frame->kind < KOLO_FRAME_DATA) {
        *where = side->control;
        return 0;
    }
    struct inbox *inbox = find_inbox(side, node, frame);
    if (!inbox) {
        complain(side, "an unexpected frame was to be placed");
        return KOLO_ERR_MISMATCH;
    }
    *where = inbox->bytes + frame->offset;
    return 0;
}

static void arrived(void *owner, uint32_t node, const struct kolo_frame *frame) {
    struct side *side = owner;
    side->arrived++;
    if (node < SIDES_MAX && side->ended[node])
        complain(side, "a frame arrived after the end");
    if (frame->kind == KOLO_FRAME_LEAVE)
        side->left++;
    if (frame->kind < KOLO_FRAME_DATA)
        return;
    struct inbox *inbox = find_inbox(side, node, frame);
    if (!inbox) {
        complain(side, "an unexpected frame arrived");
        return;
    }
    inbox->arrived_bytes += frame->bytes;
    inbox->frames++;
    inbox->last = *frame;
}

static void sent(void *owner, uint32_t node, const struct kolo_frame *frame) {
    struct side *side = owner;
    (void)node;
    if (frame->kind < KOLO_FRAME_DATA || frame->offset != 0)
        complain(side, "`sent` shows another frame than was sent");
    side->sent++;
}

static void ended(void *owner, uint32_t node, int error) {
    struct side *side = owner;
    side->ended[node]++;
    side->error[node] = error;
}

int side_open(struct side *side, uint32_t self, const struct kolo_engine_options *options) {
    static const struct kolo_engine_events events = {place, arrived, sent, ended, NULL};
    *side = (struct side){.self = self, .random = fixture_seed + self};
    return kolo_engine_create(&side->engine, options, &events, side);
}

void side_open_raw(struct side *side, kolo_net_engine kind, uint32_t streams, int64_t silence_ns, int *fds) {
    const struct kolo_engine_options options = {
        .kind = kind, .nodes = 1, .streams_max = streams, .silence_ns = silence_ns};
    require(side_open(side, 1, &options) == 0, "kolo_engine_create");
    for (uint32_t i = 0; i <= streams; i++) {
        int pair[2];
        fixture_sockets(SOCKETS_TCP, 0, pair);
        require(kolo_engine_add(side->engine, 0, pair[1]) == 0, "kolo_engine_add");
        fds[i] = pair[0];
    }
    kolo_engine_watch(side->engine);
}

void side_expect(struct side *side, uint32_t from, uint64_t ticket, uint32_t bytes) {
    struct inbox *inbox = &side->inbox[from][ticket];
    inbox->bytes = malloc(bytes ? bytes : 1);
    require(inbox->bytes != NULL, "malloc");
    memset(inbox->bytes, 0xa5, bytes);
    inbox->room = bytes;
}

bool side_has(const struct side *side, uint32_t from, uint64_t ticket) {
    const struct inbox *inbox = &side->inbox[from][ticket];
    if (inbox->frames == 0 || inbox->arrived_bytes != inbox->room)
        return false;
    uint8_t *payload = fixture_payload(from, side->self, ticket, inbox->room);
    const bool same = memcmp(payload, inbox->bytes, inbox->room) == 0;
    free(payload);
    return same;
}

bool side_run_until(struct side *side, const unsigned *word, unsigned value) {
    const int64_t until_ns = kolo_clock_ns() + INT64_C(30000000000);
    while (*word < value && kolo_clock_ns() < until_ns)
        if (kolo_engine_run(side->engine, 10 * KOLO_NS_PER_MS) < 0)
            return false;
    return *word >= value;
}

void side_run_idle(struct side *side) {
    const int64_t until_ns = kolo_clock_ns() + 30 * KOLO_NS_PER_MS;
    while (kolo_clock_ns() < until_ns)
        kolo_engine_run(side->engine, 5 * KOLO_NS_PER_MS);
}

void side_close(struct side *side, int64_t linger_ns) {
    if (side->engine)
        kolo_engine_destroy(side->engine, linger_ns);
    side->engine = NULL;
    for (unsigned from = 0; from < SIDES_MAX; from++)
        for (unsigned ticket = 0; ticket < TICKETS_MAX; ticket++) {
            free(side->inbox[from][ticket].bytes);
            side->inbox[from][ticket].bytes = NULL;
        }
}

bool raw_put(int fd, const struct kolo_frame *frame, const void *payload) {
    uint8_t header[KOLO_FRAME_HEADER_BYTES];
    kolo_frame_pack(frame, header);
    return send(fd, header, sizeof header, MSG_NOSIGNAL) == (ssize_t)sizeof header &&
           (frame->bytes == 0 || send(fd, payload, frame->bytes, MSG_NOSIGNAL) == (ssize_t)frame->bytes);
}
