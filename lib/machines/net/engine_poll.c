/* The backend that moves bytes with sendmsg and recvmsg, which never block, and waits with poll. It tries an operation
 * while it believes the socket to be ready. A socket is ready to send until it takes less than it is given. It is ready
 * to receive from the moment when poll says so until it gives less than there is room for. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "net/engine_state.h"
#include "sync/point.h"

static bool can_receive(const struct kolo_stream *stream) {
    return stream->receiving && stream->readable;
}

static bool can_send(const struct kolo_stream *stream) {
    return stream->sending && stream->writable;
}

/* engine->moving: the eventfd, then each stream at its index, -1 where there is nothing to wait for. */
static int poll_open(struct kolo_engine *engine) {
    engine->moving = calloc((size_t)engine->streams_max + 1, sizeof(struct pollfd));
    return engine->moving ? 0 : -ENOMEM;
}

static void poll_close(struct kolo_engine *engine) {
    free(engine->moving);
}

static int poll_attach(struct kolo_stream *stream) {
    stream->writable = true;
    return 0;
}

/* Does nothing: stream->receiving and sending say which operations to try, and none is in flight meanwhile. */
static void nothing_to_do(struct kolo_stream *stream) {
    (void)stream;
}

static void poll_cancel(struct kolo_stream *stream) {
    if (stream->receiving)
        kolo_input_done(stream, -ECANCELED);
    if (stream->sending)
        kolo_output_done(stream, -ECANCELED);
}

static size_t parts_bytes(const struct msghdr *message) {
    size_t bytes = 0;
    for (size_t i = 0; i < (size_t)message->msg_iovlen; i++)
        bytes += message->msg_iov[i].iov_len;
    return bytes;
}

static void try_to_receive(struct kolo_stream *stream) {
    stream->engine->counts.system_calls++;
    KOLO_POINT("poll.receiving");
    const ssize_t got = recvmsg(stream->fd, &stream->input_message, MSG_DONTWAIT);
    const int result = got < 0 ? -errno : (int)got;
    stream->readable = got >= 0 && (size_t)got == parts_bytes(&stream->input_message);
    if (result != -EAGAIN && result != -EINTR)
        kolo_input_done(stream, result);
}

static void try_to_send(struct kolo_stream *stream) {
    stream->engine->counts.system_calls++;
    KOLO_POINT("poll.sending");
    const ssize_t put = sendmsg(stream->fd, &stream->output_message, MSG_DONTWAIT | MSG_NOSIGNAL);
    KOLO_POINT("poll.sent");
    const int result = put < 0 ? -errno : (int)put;
    stream->writable = put >= 0 && (size_t)put == parts_bytes(&stream->output_message);
    if (result != -EAGAIN && result != -EINTR)
        kolo_output_done(stream, result);
}

static int poll_submit(struct kolo_engine *engine) {
    for (uint32_t i = 0; i < engine->streams_count; i++)
        if (can_send(engine->streams[i]))
            try_to_send(engine->streams[i]);
    return 0;
}

static void poll_reap(struct kolo_engine *engine) {
    struct pollfd *wake = engine->moving;
    if (wake->revents) {
        uint64_t wakes;
        wake->revents = 0;
        engine->counts.system_calls++;
        if (read(engine->wake_fd, &wakes, sizeof wakes) < 0)
            return;
    }
    for (uint32_t i = 0; i < engine->streams_count; i++) {
        if (can_receive(engine->streams[i]))
            try_to_receive(engine->streams[i]);
        if (can_send(engine->streams[i]))
            try_to_send(engine->streams[i]);
    }
}

static int poll_wait(struct kolo_engine *engine, int64_t wait_ns) {
    struct pollfd *polled = engine->moving;
    polled[0] = (struct pollfd){.fd = engine->wake_fd, .events = POLLIN};
    for (uint32_t i = 0; i < engine->streams_count; i++) {
        const struct kolo_stream *stream = engine->streams[i];
        const short events = (short)((stream->receiving && !stream->readable ? POLLIN : 0) |
                                     (stream->sending && !stream->writable ? POLLOUT : 0));
        polled[1 + i] = (struct pollfd){.fd = events ? stream->fd : -1, .events = events};
        if (can_receive(stream) || can_send(stream))
            wait_ns = 0;
    }
    const struct timespec limit = {.tv_sec = wait_ns / 1000000000, .tv_nsec = wait_ns % 1000000000};
    engine->counts.system_calls++;
    const int found = ppoll(polled, 1 + engine->streams_count, &limit, NULL);
    if (found < 0)
        return errno == EINTR || errno == EAGAIN || errno == ENOMEM ? 0 : -errno;
    for (uint32_t i = 0; found > 0 && i < engine->streams_count; i++) {
        struct kolo_stream *stream = engine->streams[i];
        stream->readable = stream->readable || (polled[1 + i].revents & ~POLLOUT);
        stream->writable = stream->writable || (polled[1 + i].revents & ~POLLIN);
    }
    return 0;
}

const struct kolo_backend kolo_backend_poll = {
    .name = "poll",
    .open = poll_open,
    .attach = poll_attach,
    .receive = nothing_to_do,
    .send = nothing_to_do,
    .cancel = poll_cancel,
    .submit = poll_submit,
    .wait = poll_wait,
    .reap = poll_reap,
    .close = poll_close,
    .forget = poll_close,
};
