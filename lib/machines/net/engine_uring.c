/* The backend that moves bytes with io_uring. Receives and sends become submissions, which go to the kernel together
 * with the wait for completions: one system call submits what has gathered and waits. MSG_WAITALL makes the kernel go
 * on until a piece is there, or gone, as a whole, without this thread. Kernels before 5.19 complete such operations
 * early; then the rest is started anew like after any short count.
 *
 * Small sends. The socket nearly always has room for a small send, which is therefore made at once and without the
 * ring: the ring would add about a fifth to the time of a small all-reduce. Where there is no room, the send goes
 * through the ring. Receives always do: while a thread spins, only the ring's flags are read. Receives are submitted
 * with the next wait, and so not between the arrival of a frame and its use.
 *
 * Registration. Sockets are no registered files: of a process that has ended the kernel would close them only when it
 * takes down the ring, after 20 ms and on a busy machine after hundreds, and by that the neighbours learn of the end.
 * Memory is registered only for zero-copy sends, which pin pages. Such a send leaves the payload with the kernel until
 * a notification comes after its completion; until then the message counts it among its holds. Its header is sent
 * before it, as a copy, so that the stream may go on.
 *
 * Threads that end. Where the thread that submitted an operation has ended, the kernel ends the operation with
 * ECANCELED, once its socket is ready for more and the kernel finds time for it: on a busy machine after seconds. So
 * the proxy's thread ends the engine itself. The thread that reaps the completion starts the operation anew.
 * Until then the stream stands still, as all streams do with poll while no thread runs the engine. No bytes are lost:
 * an operation that had moved some reports their number instead, which is a short count like any other. Kernels before
 * 6.1 may forget that number: there, without MSG_WAITALL, operations end with the first bytes that they move. */
#include <errno.h>

#include "base/file.h"
#include "net/engine_state.h"
#include "sync/point.h"

#if KOLO_HAVE_URING

#include <assert.h>
#include <fcntl.h>
#include <liburing.h>
#include <stdlib.h>
#include <unistd.h>

/* The user data of an operation. Its lowest byte is the kind of operation; then come the stream's index in 24 bits and,
 * of zero-copy sends, the message's in 32. */
enum operation { OP_WAKE = 1, OP_RECEIVE, OP_SEND, OP_ZERO_COPY, OP_CANCEL };

enum { SMALL_BYTES = KOLO_FRAME_HEADER_BYTES + KOLO_STAGING_BYTES, ENTRIES_MAX = 1 << 15, REGISTERED_MAX = 64 };
enum { CANCELS_MAX = 32 }; /* between two submissions, at least */

#define REGISTERED_BYTES ((size_t)1 << 30) /* of one buffer, at most */

struct uring {
    struct io_uring ring;
    bool zero_copy;
    int whole;        /* MSG_WAITALL; 0 where a kernel may forget what a cancelled operation has moved */
    unsigned buffers; /* of options.memory, REGISTERED_BYTES each */
    uint64_t wakes;   /* what the eventfd says */
    bool waking;      /* it is being read */
    bool sending;     /* sends have been prepared, but not submitted */
    struct kolo_stream *small, **end; /* a list, by `next`: those with a small send that is to be tried */
};

static uint64_t make_data(enum operation op, const struct kolo_stream *stream, uint32_t message) {
    return (uint64_t)op | (uint64_t)(stream ? stream->index : 0) << 8 | (uint64_t)message << 32;
}

/* The number of operations that can be started between two submissions, or however long the kernel takes none: a
 * receive and a send of each stream, and the wake. */
static unsigned operations_max(const struct kolo_engine *engine) {
    return 2 * engine->streams_max + 1;
}

/* Takes an entry of the ring. One is always free: the ring has room for all operations, and cancel_one leaves it. */
static struct io_uring_sqe *take_entry(struct kolo_engine *engine) {
    struct uring *uring = engine->moving;
    struct io_uring_sqe *entry = io_uring_get_sqe(&uring->ring);
    assert(entry);
    return entry;
}

static struct io_uring_sqe *next_entry(struct kolo_engine *engine) {
    engine->in_flight++;
    return take_entry(engine);
}

static void uring_receive(struct kolo_stream *stream) {
    struct uring *uring = stream->engine->moving;
    struct io_uring_sqe *entry = next_entry(stream->engine);
    struct iovec *parts = stream->input_parts;
    if (stream->input_whole)
        io_uring_prep_recv(entry, stream->fd, parts[0].iov_base, parts[0].iov_len, uring->whole);
    else if (stream->input_message.msg_iovlen == 1)
        io_uring_prep_recv(entry, stream->fd, parts[0].iov_base, parts[0].iov_len, 0);
    else
        io_uring_prep_recvmsg(entry, stream->fd, &stream->input_message, 0);
    io_uring_sqe_set_data64(entry, make_data(OP_RECEIVE, stream, 0));
}

/* The index of the registered buffer that holds the whole part; negative where there is none. */
static int buffer_of(const struct kolo_engine *engine, const struct iovec *part) {
    const struct uring *uring = engine->moving;
    const uintptr_t begin = (uintptr_t)engine->options.memory, at = (uintptr_t)part->iov_base;
    if (at < begin || at - begin + part->iov_len > engine->options.memory_bytes)
        return -1;
    const size_t first = (at - begin) / REGISTERED_BYTES, last = (at - begin + part->iov_len - 1) / REGISTERED_BYTES;
    return first == last && first < uring->buffers ? (int)first : -1;
}

static void send_without_copy(struct kolo_stream *stream, struct io_uring_sqe *entry) {
    const struct iovec *part = &stream->output_parts[1];
    const struct uring *uring = stream->engine->moving;
    const int flags = MSG_NOSIGNAL | uring->whole, buffer = buffer_of(stream->engine, part);
    if (buffer >= 0)
        io_uring_prep_send_zc_fixed(entry, stream->fd, part->iov_base, part->iov_len, flags, 0, (unsigned)buffer);
    else
        io_uring_prep_send_zc(entry, stream->fd, part->iov_base, part->iov_len, flags, 0);
    io_uring_sqe_set_data64(entry, make_data(OP_ZERO_COPY, stream, stream->message->index));
}

static void send_by_ring(struct kolo_stream *stream) {
    struct uring *uring = stream->engine->moving;
    struct io_uring_sqe *entry = next_entry(stream->engine);
    const struct iovec *parts = stream->output_parts;
    uring->sending = true;
    const int flags = MSG_NOSIGNAL | uring->whole;
    const bool zero_copy = uring->zero_copy && parts[1].iov_len >= KOLO_STRIPE_BYTES;
    if (zero_copy && parts[0].iov_len == 0) {
        send_without_copy(stream, entry);
    } else {
        if (zero_copy)
            io_uring_prep_send(entry, stream->fd, parts[0].iov_base, parts[0].iov_len, flags | MSG_MORE);
        else
            io_uring_prep_sendmsg(entry, stream->fd, &stream->output_message, flags);
        io_uring_sqe_set_data64(entry, make_data(OP_SEND, stream, 0));
    }
}

static void uring_send(struct kolo_stream *stream) {
    struct uring *uring = stream->engine->moving;
    if (stream->output_parts[0].iov_len + stream->output_parts[1].iov_len > SMALL_BYTES) {
        send_by_ring(stream);
        return;
    }
    stream->next = NULL;
    *uring->end = stream;
    uring->end = &stream->next;
}

/* Makes the small sends that are to be tried. Returns true where any has ended. */
static bool try_small_sends(struct kolo_engine *engine) {
    struct uring *uring = engine->moving;
    bool any = false;
    while (uring->small) { /* a stream that has sent may go on with its next message */
        struct kolo_stream *stream = uring->small;
        uring->small = stream->next;
        if (!uring->small)
            uring->end = &uring->small;
        engine->counts.system_calls++;
        KOLO_POINT("uring.sending");
        const ssize_t put = sendmsg(stream->fd, &stream->output_message, MSG_DONTWAIT | MSG_NOSIGNAL);
        KOLO_POINT("uring.sent");
        const int result = put < 0 ? -errno : (int)put;
        if (result == -EAGAIN || result == -EINTR) {
            send_by_ring(stream);
        } else {
            kolo_output_done(stream, result);
            any = true;
        }
    }
    return any;
}

/* Cancels an operation. The cancel's own completion says nothing: that of the operation does. Where the kernel takes
 * nothing for now, the caller tries again. */
static void cancel_one(struct kolo_engine *engine, uint64_t operation) {
    struct io_uring *ring = &((struct uring *)engine->moving)->ring;
    if (io_uring_sq_space_left(ring) <= operations_max(engine))
        (void)io_uring_submit(ring);
    if (io_uring_sq_space_left(ring) <= operations_max(engine))
        return;
    struct io_uring_sqe *entry = next_entry(engine);
    io_uring_prep_cancel64(entry, operation, 0);
    io_uring_sqe_set_data64(entry, make_data(OP_CANCEL, NULL, 0));
}

static void uring_cancel(struct kolo_stream *stream) {
    if (stream->receiving)
        cancel_one(stream->engine, make_data(OP_RECEIVE, stream, 0));
    if (stream->sending) {
        cancel_one(stream->engine, make_data(OP_SEND, stream, 0));
        cancel_one(stream->engine, make_data(OP_ZERO_COPY, stream, stream->message->index));
    }
}

static void listen_for_wakes(struct kolo_engine *engine) {
    struct uring *uring = engine->moving;
    struct io_uring_sqe *entry = take_entry(engine);
    io_uring_prep_read(entry, engine->wake_fd, &uring->wakes, sizeof uring->wakes, 0);
    io_uring_sqe_set_data64(entry, make_data(OP_WAKE, NULL, 0));
    uring->waking = true;
}

/* Opening. */

/* *cancels_well: the kernel is at least 6.1, which is also the first with IORING_OP_SENDMSG_ZC. */
static bool supports_all_needed(struct io_uring *ring, bool *cancels_well) {
    static const int needed[] = {IORING_OP_READ, IORING_OP_RECV, IORING_OP_SEND, IORING_OP_SENDMSG, IORING_OP_RECVMSG};
    struct io_uring_probe *probe = io_uring_get_probe_ring(ring);
    bool all = probe != NULL;
    for (size_t i = 0; all && i < sizeof needed / sizeof needed[0]; i++)
        all = io_uring_opcode_supported(probe, needed[i]);
    *cancels_well = all && io_uring_opcode_supported(probe, IORING_OP_SENDMSG_ZC);
    if (probe)
        io_uring_free_probe(probe);
    return all;
}

/* Rings of this process that have ended. A new one may be mapped where one of another thread was: only the kernel, and
 * this word, order their uses. */
static kolo_atomic_u64 ended_rings;

static void end_ring(struct io_uring *ring) {
    io_uring_queue_exit(ring);
    kolo_fetch_add(&ended_rings, 1);
}

/* The engine needs completions only when it asks for them, so the kernel is told not to interrupt its thread for them;
 * older kernels have no such flags. Threads use the ring in turn: it cannot be one's own
 * (IORING_SETUP_SINGLE_ISSUER). */
static int make_ring(struct io_uring *ring, unsigned entries) {
    const unsigned wanted = IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG | IORING_SETUP_SUBMIT_ALL;
    int rc = io_uring_queue_init(entries, ring, wanted);
    if (rc == -EINVAL)
        rc = io_uring_queue_init(entries, ring, 0);
    if (rc < 0)
        return rc;
    kolo_load_acquire(&ended_rings);
    ring->ring_fd = ring->enter_ring_fd = kolo_file_raise(ring->ring_fd);
    if (ring->ring_fd >= 0)
        return 0;
    rc = -errno;
    io_uring_queue_exit(ring);
    return rc;
}

/* Registers memory for zero-copy sends. Where memlock does not allow that, these sends pin their memory themselves. */
static void register_memory(struct kolo_engine *engine) {
    struct uring *uring = engine->moving;
    struct iovec parts[REGISTERED_MAX];
    size_t left_bytes = engine->options.memory_bytes;
    uint8_t *at = (uint8_t *)engine->options.memory;
    unsigned count = 0;
    for (; count < REGISTERED_MAX && left_bytes > 0; count++) {
        parts[count] = (struct iovec){at, left_bytes < REGISTERED_BYTES ? left_bytes : REGISTERED_BYTES};
        at += parts[count].iov_len;
        left_bytes -= parts[count].iov_len;
    }
    if (count > 0 && io_uring_register_buffers(&uring->ring, parts, count) == 0)
        uring->buffers = count;
}

static int uring_open(struct kolo_engine *engine) {
    const unsigned entries = operations_max(engine) + CANCELS_MAX;
    if (entries > ENTRIES_MAX)
        return -EINVAL;
    struct uring *uring = calloc(1, sizeof *uring);
    if (!uring)
        return -ENOMEM;
    uring->end = &uring->small;
    bool cancels_well = false;
    int rc = make_ring(&uring->ring, entries);
    if (rc == 0 && !supports_all_needed(&uring->ring, &cancels_well)) {
        io_uring_queue_exit(&uring->ring);
        rc = -ENOSYS;
    }
    if (rc < 0) {
        free(uring);
        return rc;
    }
    uring->whole = cancels_well ? MSG_WAITALL : 0;
    uring->zero_copy = cancels_well && engine->options.zero_copy;
    engine->moving = uring;
    if (uring->zero_copy)
        register_memory(engine);
    listen_for_wakes(engine);
    return 0;
}

static int uring_attach(struct kolo_stream *stream) {
    const int flags = fcntl(stream->fd, F_GETFL);
    /* A receive from a non-blocking socket would fail where there is nothing yet, and not wait in the ring. */
    if (flags < 0 || fcntl(stream->fd, F_SETFL, flags & ~O_NONBLOCK) < 0)
        return -errno;
    return 0;
}

/* Running. */

/* A lack of memory for now, a signal, a full completion queue and the end of the wait are no errors. */
static int checked(int rc) {
    return rc >= 0 || rc == -ETIME || rc == -EINTR || rc == -EAGAIN || rc == -EBUSY ? 0 : rc;
}

static int uring_submit(struct kolo_engine *engine) {
    struct uring *uring = engine->moving;
    try_small_sends(engine);
    if (!uring->sending)
        return 0;
    uring->sending = false;
    engine->counts.system_calls++;
    KOLO_POINT("uring.submitting");
    return checked(io_uring_submit_and_get_events(&uring->ring));
}

static int uring_wait(struct kolo_engine *engine, int64_t wait_ns) {
    struct uring *uring = engine->moving;
    struct io_uring *ring = &uring->ring;
    if (try_small_sends(engine))
        wait_ns = 0;
    uring->sending = false;
    if (wait_ns > 0 && !io_uring_cq_ready(ring)) {
        struct __kernel_timespec limit = {.tv_sec = wait_ns / 1000000000, .tv_nsec = wait_ns % 1000000000};
        struct io_uring_cqe *completion;
        engine->counts.system_calls++;
        KOLO_POINT("uring.waiting");
        return checked(io_uring_submit_and_wait_timeout(ring, &completion, 1, &limit, NULL));
    }
    const bool gather = IO_URING_READ_ONCE(*ring->sq.kflags) & (IORING_SQ_CQ_OVERFLOW | IORING_SQ_TASKRUN);
    if (!io_uring_sq_ready(ring) && !gather) /* and no completions gather */
        return 0;
    engine->counts.system_calls++;
    return checked(io_uring_submit_and_get_events(ring));
}

/* True where the kernel cannot send without a copy after all: such sockets, or too much memory that is pinned. */
static bool zero_copy_refused(int result) {
    return result == -EOPNOTSUPP || result == -ENOBUFS || result == -ENOMEM;
}

static void reap_zero_copy(struct kolo_engine *engine, struct kolo_stream *stream, uint32_t message, int result,
                           unsigned flags) {
    struct uring *uring = engine->moving;
    if (flags & IORING_CQE_F_NOTIF) {
        kolo_message_release(engine, engine->messages[message]);
        return;
    }
    if (flags & IORING_CQE_F_MORE)
        engine->messages[message]->holds++;
    if (zero_copy_refused(result)) {
        uring->zero_copy = false;
        result = -EAGAIN;
    }
    kolo_output_done(stream, result);
}

static void reap_one(struct kolo_engine *engine, uint64_t data, int result, unsigned flags) {
    struct uring *uring = engine->moving;
    const enum operation op = (enum operation)(data & 0xff);
    if (data == LIBURING_UDATA_TIMEOUT) /* of a kernel that knows no timeout of the wait itself */
        return;
    if (op == OP_WAKE) {
        uring->waking = false;
        if (!engine->closing)
            listen_for_wakes(engine);
        return;
    }
    struct kolo_stream *stream = engine->streams[data >> 8 & 0xffffff];
    KOLO_POINT("uring.reaping");
    engine->in_flight -= !(flags & IORING_CQE_F_MORE);
    if (result == -ECANCELED) /* its thread has ended */
        result = -EAGAIN;
    if (op == OP_RECEIVE)
        kolo_input_done(stream, result);
    else if (op == OP_SEND)
        kolo_output_done(stream, result);
    else if (op == OP_ZERO_COPY)
        reap_zero_copy(engine, stream, (uint32_t)(data >> 32), result, flags);
}

static void uring_reap(struct kolo_engine *engine) {
    struct uring *uring = engine->moving;
    struct io_uring_cqe *completion;
    unsigned head, count = 0;
    io_uring_for_each_cqe(&uring->ring, head, completion) {
        reap_one(engine, completion->user_data, completion->res, completion->flags);
        count++;
    }
    io_uring_cq_advance(&uring->ring, count);
}

static void uring_forget(struct kolo_engine *engine) {
    struct uring *uring = engine->moving;
    end_ring(&uring->ring);
    free(uring);
}

static void uring_close(struct kolo_engine *engine) {
    struct uring *uring = engine->moving;
    const uint64_t one = 1;
    engine->closing = true;
    KOLO_POINT("uring.closing");
    for (int tries = 0; uring->waking && tries < 100; tries++) { /* the eventfd is readable now */
        if (write(engine->wake_fd, &one, sizeof one) < 0 || uring_wait(engine, 10000000) < 0)
            break;
        uring_reap(engine);
    }
    end_ring(&uring->ring);
    if (!uring->waking) /* else the kernel may still write into it */
        free(uring);
}

const struct kolo_backend kolo_backend_uring = {
    .name = "uring",
    .open = uring_open,
    .attach = uring_attach,
    .receive = uring_receive,
    .send = uring_send,
    .cancel = uring_cancel,
    .submit = uring_submit,
    .wait = uring_wait,
    .reap = uring_reap,
    .close = uring_close,
    .forget = uring_forget,
};

int kolo_engine_probe_uring(void) {
    struct io_uring ring;
    const int rc = io_uring_queue_init(4, &ring, 0);
    if (rc == 0)
        io_uring_queue_exit(&ring);
    return rc;
}

#else

static int refuse(struct kolo_engine *engine) {
    (void)engine;
    return -ENOSYS;
}

const struct kolo_backend kolo_backend_uring = {.name = "uring", .open = refuse};

int kolo_engine_probe_uring(void) {
    return -ENOSYS;
}

#endif
