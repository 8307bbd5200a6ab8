/* Messages between two ranks: checks the arguments, begins and ends transfers, and waits or leaves a request. */
#include <limits.h>

#include "api/requests/queue.h"
#include "base/sized.h"
#include "comm/step/progress.h"

static_assert(KOLO_SEND_SMALL_BYTES == KOLO_CELL_PAYLOAD && KOLO_SEND_SMALL_MAX == KOLO_CELLS,
              "what kolo_messages.h says");

static const struct kolo_sized sized_received = KOLO_SIZED(kolo_received, received_bytes, count);

/* One half of a call, as the caller passes it. */
struct half {
    const char *peer_name, *buffer_name;
    const void *buffer;
    size_t count;
    int peer, tag;
    int peer_min, tag_min; /* that are legal */
};

static int check_half(const char *function, const kolo_comm *comm, const struct half *half, kolo_dtype dtype) {
    if (half->peer < half->peer_min || half->peer >= (int)comm->global_size)
        return KOLO_REFUSE(comm, function, "%s %d: must be from 0 to %u%s", half->peer_name, half->peer,
                           comm->global_size - 1, half->peer_min < 0 ? ", or KOLO_ANY_RANK" : "");
    if (half->tag < half->tag_min)
        return KOLO_REFUSE(comm, function, "tag %d: must be from 0 to %d%s", half->tag, INT_MAX,
                           half->tag_min < 0 ? ", or KOLO_ANY_TAG" : "");
    if (half->count > KOLO_COUNT_MAX)
        return KOLO_REFUSE(comm, function, "count %zu: more %s than memory can hold", half->count,
                           kolo_name(KOLO_NAME_DTYPE, dtype));
    if (half->count && !half->buffer)
        return KOLO_REFUSE(comm, function, "%s is NULL with count %zu", half->buffer_name, half->count);
    return 0;
}

static int check(const char *function, const kolo_comm *comm, const struct half *send, const struct half *recv,
                 kolo_dtype dtype) {
    if ((unsigned)dtype >= KOLO_DTYPES)
        return KOLO_REFUSE(comm, function, "dtype %d: there is no such dtype", (int)dtype);
    int rc = send ? check_half(function, comm, send, dtype) : 0;
    if (rc == 0 && recv)
        rc = check_half(function, comm, recv, dtype);
    if (rc == 0 && send && recv && send->count && recv->count) {
        const uintptr_t s = (uintptr_t)send->buffer, r = (uintptr_t)recv->buffer;
        const size_t element_bytes = kolo_dtype_bytes(dtype);
        if (s < r + recv->count * element_bytes && r < s + send->count * element_bytes)
            return KOLO_REFUSE(comm, function, "the %zu elements at send %p and the %zu at recv %p overlap",
                               send->count, send->buffer, recv->count, recv->buffer);
    }
    return rc;
}

/* Checks a call's arguments and fills in the transfer; either half may be NULL. */
static int prepare(const char *function, kolo_comm *comm, const struct half *send, const struct half *recv,
                   kolo_dtype dtype, kolo_received *received, struct kolo_transfer *transfer) {
    int rc = check(function, comm, send, recv, dtype);
    if (rc == 0 && received)
        rc = kolo_sized_check(&sized_received, function, received);
    if (rc < 0)
        return rc;
    if (comm->global_size > 1 && !comm->segment.rings)
        return KOLO_FAIL_IN(comm, function, KOLO_ERR_NO_SPACE,
                            "no address space, or length of a file, was left for messages when the communicator was "
                            "made: raise that limit (ulimit -v, ulimit -f)");
    transfer->comm = comm;
    transfer->request = NULL;
    transfer->parts = 0;
    transfer->status = 0;
    transfer->sends = send;
    transfer->receives = recv;
    transfer->received = received;
    if (send)
        transfer->sending = (struct kolo_sending){
            .data = send->buffer, .count = send->count, .dtype = dtype, .to = (uint32_t)send->peer, .tag = send->tag};
    if (recv) {
        const bool any = recv->peer == KOLO_ANY_RANK && comm->global_size > 1;
        transfer->receiving = (struct kolo_receiving){.data = (uint8_t *)recv->buffer,
                                                      .count = recv->count,
                                                      .dtype = dtype,
                                                      .from = any                           ? KOLO_RANKS_MAX
                                                              : recv->peer == KOLO_ANY_RANK ? comm->global_rank
                                                                                            : (uint32_t)recv->peer,
                                                      .tag = recv->tag};
    }
    return 0;
}

/* Counts a transfer that is done, for this rank and for observers. */
static void count(kolo_comm *comm, kolo_collective kind, size_t bytes) {
    comm->stats.calls_by_collective[kind]++;
    comm->stats.payload_bytes += bytes;
    *(kind == KOLO_SEND ? &comm->stats.sent_bytes : &comm->stats.received_bytes) += bytes;
    if (comm->segment.header)
        kolo_totals_show(comm, kind, bytes);
}

/* Says why a receive from the own rank is refused. Others may have been refused since. */
static void say_refused(const struct kolo_transfer *transfer) {
    const struct kolo_receiving *receiving = &transfer->receiving;
    if (!receiving->is_matched)
        KOLO_REFUSE(transfer->comm, transfer->function, "from itself, tag %d: it has sent itself no such message",
                    receiving->tag);
    else
        kolo_fail(KOLO_ERR_ARG,
                  "rank %u: a receive of %zu %s from itself, tag %d: the message that it has sent itself is of %zu %s",
                  transfer->comm->global_rank, (size_t)receiving->count, kolo_name(KOLO_NAME_DTYPE, receiving->dtype),
                  receiving->message.tag, (size_t)receiving->message.count,
                  kolo_name(KOLO_NAME_DTYPE, (int)receiving->message.dtype));
}

static void end(struct kolo_transfer *transfer) {
    const struct kolo_sending *sending = &transfer->sending;
    const struct kolo_receiving *receiving = &transfer->receiving;
    if (transfer->sends)
        count(transfer->comm, KOLO_SEND, sending->count * kolo_dtype_bytes(sending->dtype));
    if (transfer->status < 0)
        say_refused(transfer);
    else if (transfer->receives)
        count(transfer->comm, KOLO_RECV, receiving->message.count * kolo_dtype_bytes(receiving->dtype));
    if (transfer->received && transfer->status == 0)
        kolo_sized_fill(&sized_received, transfer->received,
                        &(kolo_received){.rank = (int)receiving->message.from,
                                         .tag = receiving->message.tag,
                                         .count = (size_t)receiving->message.count});
    if (transfer->request)
        transfer->complete(transfer->request, transfer->status);
}

/* A kolo_transfer_over_fn. */
static void end_part(void *owner) {
    struct kolo_transfer *transfer = owner;
    if (transfer->receives && transfer->receiving.status < 0)
        transfer->status = transfer->receiving.status;
    if (--transfer->parts == 0)
        end(transfer);
}

int kolo_transfer_begin(struct kolo_transfer *transfer) {
    kolo_comm *comm = transfer->comm;
    const bool sends_self = transfer->sends && transfer->sending.to == comm->global_rank;
    const bool sends_others = transfer->sends && !sends_self;
    transfer->is_begun = true;
    int rc = kolo_channels_prepare(&comm->channels, comm->global_size);
    if (rc == 0 && sends_others)
        rc = kolo_sending_prepare(comm, &transfer->sending);
    if (rc == 0 && sends_self && !kolo_send_to_self(comm, &transfer->sending))
        rc = kolo_fail(KOLO_ERR_NO_SPACE, "rank %u: out of memory for a copy of the %zu elements that it sends itself",
                       comm->global_rank, (size_t)transfer->sending.count);
    if (rc < 0)
        return rc;
    transfer->parts = sends_others + transfer->receives;
    transfer->sending.over = transfer->receiving.over = end_part;
    transfer->sending.owner = transfer->receiving.owner = transfer;
    if (transfer->receives)
        rc = kolo_receiving_begin(comm, &transfer->receiving);
    if (sends_others)
        kolo_sending_begin(comm, &transfer->sending);
    if (transfer->parts == 0)
        end(transfer);
    if (rc == 0) /* also those of other transfers, for which nobody may look again */
        kolo_receives_end(comm);
    return rc;
}

bool kolo_transfer_give_up(struct kolo_transfer *transfer, const char *function) {
    kolo_comm *comm = transfer->comm;
    struct kolo_receiving *receiving = &transfer->receiving;
    if (!transfer->receives || receiving->is_matched || receiving->is_done || receiving->from != comm->global_rank)
        return false;
    receiving->is_done = true;
    receiving->status = KOLO_ERR_ARG;
    transfer->function = function;
    return true;
}

/* A kolo_transfer_until_fn. */
static bool is_over(void *argument) {
    const struct kolo_transfer *transfer = argument;
    return transfer->parts == 0;
}

/* Makes a call whose arguments are legal. */
static int run(const char *function, struct kolo_transfer *transfer) {
    kolo_comm *comm = transfer->comm;
    transfer->sending.is_blocking = true;
    transfer->function = function;
    if (transfer->receives &&
        kolo_receiving_is_wrong(comm, &transfer->receiving, transfer->sends ? &transfer->sending : NULL)) {
        say_refused(transfer);
        return KOLO_ERR_ARG;
    }
    int rc = kolo_transfer_begin(transfer);
    if (rc < 0 || transfer->parts == 0)
        return rc < 0 ? rc : transfer->status;
    rc = comm->segment.header ? kolo_transfer_run(comm, is_over, transfer, false) : kolo_transfer_advance(comm);
    return rc < 0 ? rc : transfer->status;
}

/* Runs a call, and puts it into the trace. */
static int run_traced(const char *function, struct kolo_transfer *transfer) {
    if (!kolo_traces())
        return run(function, transfer);
    const struct kolo_sending *sending = &transfer->sending;
    const struct kolo_receiving *receiving = &transfer->receiving;
    const kolo_trace_span span = transfer->sends ? KOLO_TRACE_SEND : KOLO_TRACE_RECV;
    const kolo_dtype dtype = transfer->sends ? sending->dtype : receiving->dtype;
    const uint64_t count = transfer->sends ? sending->count : receiving->count;
    const int peer = transfer->sends ? (int)sending->to : receiving->from < KOLO_RANKS_MAX ? (int)receiving->from : -1;
    kolo_trace_span_begin(span, transfer->comm->waiter.trace, peer, count * kolo_dtype_bytes(dtype),
                          (uint64_t)(transfer->sends ? sending->tag : receiving->tag));
    const int rc = run(function, transfer);
    kolo_trace_span_end(span, rc);
    return rc;
}

/* The path of every call that is not in the background. */
static int call(const char *function, kolo_comm *comm, const struct half *send, const struct half *recv,
                kolo_dtype dtype, kolo_received *received) {
    struct kolo_transfer transfer;
    const bool was_ready = kolo_is_ready(comm);
    int rc = was_ready ? 0 : kolo_queue_claim(function, comm, false);
    if (rc < 0)
        return rc;
    rc = kolo_enter(function, comm);
    if (rc == 0) {
        rc = prepare(function, comm, send, recv, dtype, received, &transfer);
        if (rc == 0)
            rc = run_traced(function, &transfer);
        kolo_leave(comm);
    }
    if (!was_ready)
        kolo_queue_release(comm, rc);
    return rc;
}

/* The path of calls in the background. */
static int background(const char *function, kolo_comm *comm, const struct half *send, const struct half *recv,
                      kolo_dtype dtype, kolo_received *received, kolo_request **request) {
    kolo_request *made;
    if (!request)
        return kolo_fail(KOLO_ERR_ARG, "%s: request is NULL", function);
    int rc = kolo_enter(function, comm);
    if (rc < 0)
        return rc;
    rc = kolo_request_create_transfer(&made, function, comm);
    if (rc == 0) {
        rc = prepare(function, comm, send, recv, dtype, received, made->transfer);
        if (rc < 0)
            kolo_request_free(made);
        else
            rc = kolo_request_issue_transfer(made, function);
    }
    if (rc == 0)
        *request = made;
    kolo_leave(comm);
    return rc;
}

/* The halves of a call, as callers pass them. */
#define SEND(name, buffer, count, to, tag) (&(const struct half){"to", (name), (buffer), (count), (to), (tag), 0, 0})
#define RECV(name, buffer, count, from, tag)                                                                           \
    (&(const struct half){"from", (name), (buffer), (count), (from), (tag), KOLO_ANY_RANK, KOLO_ANY_TAG})

int kolo_send(kolo_comm *comm, const void *buffer, size_t count, kolo_dtype dtype, int to, int tag) {
    return call("kolo_send", comm, SEND("buffer", buffer, count, to, tag), NULL, dtype, NULL);
}

int kolo_isend(kolo_comm *comm, const void *buffer, size_t count, kolo_dtype dtype, int to, int tag,
               kolo_request **request) {
    return background("kolo_isend", comm, SEND("buffer", buffer, count, to, tag), NULL, dtype, NULL, request);
}

int kolo_recv(kolo_comm *comm, void *buffer, size_t count, kolo_dtype dtype, int from, int tag,
              kolo_received *received) {
    return call("kolo_recv", comm, NULL, RECV("buffer", buffer, count, from, tag), dtype, received);
}

int kolo_irecv(kolo_comm *comm, void *buffer, size_t count, kolo_dtype dtype, int from, int tag,
               kolo_received *received, kolo_request **request) {
    return background("kolo_irecv", comm, NULL, RECV("buffer", buffer, count, from, tag), dtype, received, request);
}

int kolo_sendrecv(kolo_comm *comm, const void *send, size_t send_count, int to, int send_tag, void *recv,
                  size_t recv_count, int from, int recv_tag, kolo_dtype dtype, kolo_received *received) {
    return call("kolo_sendrecv", comm, SEND("send", send, send_count, to, send_tag),
                RECV("recv", recv, recv_count, from, recv_tag), dtype, received);
}

int kolo_isendrecv(kolo_comm *comm, const void *send, size_t send_count, int to, int send_tag, void *recv,
                   size_t recv_count, int from, int recv_tag, kolo_dtype dtype, kolo_received *received,
                   kolo_request **request) {
    return background("kolo_isendrecv", comm, SEND("send", send, send_count, to, send_tag),
                      RECV("recv", recv, recv_count, from, recv_tag), dtype, received, request);
}
