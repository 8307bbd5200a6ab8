/* Moves bytes with sendmsg and recvmsg that never block, and waits with poll. An operation is tried while its socket is
 * believed to be ready: one for sending until it takes less than it is given, one for receiving from when poll says so
 * until it gives less than there is room for. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "net/engine_state.h"
#include "sync/point.h"

/* The operations of one socket, and for which of them it is believed to be ready. */
struct interest {
    bool receive, send;
    bool readable, writable;
};

struct polled {
    struct interest *interest; /* [streams_max] */
    struct pollfd *fds;        /* [1 + streams_max]: the eventfd, then those of interest */
    uint32_t *stream_of;       /* [1 + streams_max] */
    nfds_t fds_count;
    bool woken;
};

static struct interest *interest_of(const struct kolo_stream *stream) {
    const struct polled *polled = stream->engine->moving;
    return &polled->interest[stream->index];
}

static void poll_close(struct kolo_engine *engine) {
    struct polled *polled = engine->moving;
    free(polled->interest);
    free(polled->fds);
    free(polled->stream_of);
    free(polled);
    engine->moving = NULL;
}

static int poll_open(struct kolo_engine *engine) {
    const size_t max = (size_t)engine->streams_max + 1;
    struct polled *polled = calloc(1, sizeof *polled);
    if (!polled)
        return -ENOMEM;
    engine->moving = polled;
    polled->interest = calloc(max, sizeof *polled->interest);
    polled->fds = calloc(max, sizeof *polled->fds);
    polled->stream_of = calloc(max, sizeof *polled->stream_of);
    if (polled->interest && polled->fds && polled->stream_of)
        return 0;
    poll_close(engine);
    return -ENOMEM;
}

static int poll_attach(struct kolo_stream *stream) {
    *interest_of(stream) = (struct interest){.writable = true};
    return 0;
}

static void poll_detach(struct kolo_stream *stream) {
    *interest_of(stream) = (struct interest){0};
}

static void poll_receive(struct kolo_stream *stream) {
    interest_of(stream)->receive = true;
}

static void poll_send(struct kolo_stream *stream) {
    interest_of(stream)->send = true;
}

static size_t parts_bytes(const struct iovec *parts, size_t count) {
    size_t bytes = 0;
    for (size_t i = 0; i < count; i++)
        bytes += parts[i].iov_len;
    return bytes;
}

static void try_to_receive(struct kolo_stream *stream) {
    struct interest *interest = interest_of(stream);
    const size_t room_bytes = parts_bytes(stream->input_parts, stream->input_message.msg_iovlen);
    stream->engine->system_calls++;
    KOLO_POINT("poll.receiving");
    const ssize_t got = recvmsg(stream->fd, &stream->input_message, MSG_DONTWAIT);
    const int result = got < 0 ? -errno : (int)got;
    interest->readable = got >= 0 && (size_t)got == room_bytes;
    if (result == -EAGAIN || result == -EINTR)
        return;
    interest->receive = false;
    kolo_input_done(stream, result);
}

static void try_to_send(struct kolo_stream *stream) {
    struct interest *interest = interest_of(stream);
    const size_t bytes = parts_bytes(stream->output_parts, 2);
    stream->engine->system_calls++;
    KOLO_POINT("poll.sending");
    const ssize_t put = sendmsg(stream->fd, &stream->output_message, MSG_DONTWAIT | MSG_NOSIGNAL);
    KOLO_POINT("poll.sent");
    const int result = put < 0 ? -errno : (int)put;
    interest->writable = put >= 0 && (size_t)put == bytes;
    if (result == -EAGAIN || result == -EINTR)
        return;
    interest->send = false;
    kolo_output_done(stream, result);
}

static int poll_submit(struct kolo_engine *engine) {
    const struct polled *polled = engine->moving;
    for (uint32_t i = 0; i < engine->streams_count; i++)
        if (polled->interest[i].send && polled->interest[i].writable)
            try_to_send(engine->streams[i]);
    return 0;
}

static void poll_reap(struct kolo_engine *engine) {
    struct polled *polled = engine->moving;
    if (polled->woken) {
        uint64_t wakes;
        polled->woken = false;
        engine->system_calls++;
        if (read(engine->wake_fd, &wakes, sizeof wakes) < 0)
            return;
    }
    for (uint32_t i = 0; i < engine->streams_count; i++) {
        if (polled->interest[i].receive && polled->interest[i].readable)
            try_to_receive(engine->streams[i]);
        if (polled->interest[i].send && polled->interest[i].writable)
            try_to_send(engine->streams[i]);
    }
}

/* Lists what to wait for; true where something is believed to be ready already. */
static bool gather_interests(const struct kolo_engine *engine) {
    struct polled *polled = engine->moving;
    bool ready = false;
    polled->fds[0] = (struct pollfd){.fd = engine->wake_fd, .events = POLLIN};
    polled->fds_count = 1;
    for (uint32_t i = 0; i < engine->streams_count; i++) {
        const struct interest *interest = &polled->interest[i];
        const bool receive = interest->receive && !interest->readable, send = interest->send && !interest->writable;
        ready = ready || (interest->receive && interest->readable) || (interest->send && interest->writable);
        if (!receive && !send)
            continue;
        polled->stream_of[polled->fds_count] = i;
        polled->fds[polled->fds_count++] = (struct pollfd){
            .fd = engine->streams[i]->fd,
            .events = (short)((receive ? POLLIN : 0) | (send ? POLLOUT : 0)),
        };
    }
    return ready;
}

static int poll_wait(struct kolo_engine *engine, int64_t wait_ns) {
    struct polled *polled = engine->moving;
    if (gather_interests(engine))
        wait_ns = 0;
    const struct timespec limit = {.tv_sec = wait_ns / 1000000000, .tv_nsec = wait_ns % 1000000000};
    engine->system_calls++;
    const int found = ppoll(polled->fds, polled->fds_count, &limit, NULL);
    if (found < 0)
        return errno == EINTR || errno == EAGAIN || errno == ENOMEM ? 0 : -errno;
    polled->woken = polled->fds[0].revents != 0;
    for (nfds_t i = 1; found > 0 && i < polled->fds_count; i++) {
        struct interest *interest = &polled->interest[polled->stream_of[i]];
        const short revents = polled->fds[i].revents;
        interest->readable = interest->readable || (revents & ~POLLOUT);
        interest->writable = interest->writable || (revents & ~POLLIN);
    }
    return 0;
}

static uint64_t poll_in_flight(const struct kolo_engine *engine) {
    (void)engine;
    return 0; /* nothing is, between two system calls */
}

const struct kolo_backend kolo_backend_poll = {
    .name = "poll",
    .open = poll_open,
    .attach = poll_attach,
    .receive = poll_receive,
    .send = poll_send,
    .submit = poll_submit,
    .wait = poll_wait,
    .reap = poll_reap,
    .detach = poll_detach,
    .in_flight = poll_in_flight,
    .close = poll_close,
    .forget = poll_close,
};
