/* Puts sends and receives in flight, and ends them. */
#include "api/requests/transfers.h"

#include "base/sized.h"

/* Counts a transfer that is done, for this rank and for observers. */
static void count(kolo_comm *comm, kolo_collective kind, size_t bytes) {
    comm->stats.calls_by_collective[kind]++;
    comm->stats.payload_bytes += bytes;
    *(kind == KOLO_SEND ? &comm->stats.sent_bytes : &comm->stats.received_bytes) += bytes;
    if (!comm->segment.header)
        return;
    kolo_show_relaxed(&comm->signal->payload_bytes, comm->stats.payload_bytes);
    kolo_show_relaxed(&comm->signal->sent_bytes, comm->stats.sent_bytes);
    kolo_show_relaxed(&comm->signal->received_bytes, comm->stats.received_bytes);
}

static void end(struct kolo_transfer *transfer) {
    static const struct kolo_sized sized = KOLO_SIZED(kolo_received, received_bytes, count);
    const struct kolo_sending *sending = &transfer->sending;
    const struct kolo_receiving *receiving = &transfer->receiving;
    if (transfer->sends)
        count(transfer->comm, KOLO_SEND, sending->count * kolo_dtype_bytes(sending->dtype));
    if (transfer->receives && transfer->status == 0)
        count(transfer->comm, KOLO_RECV, receiving->message.count * kolo_dtype_bytes(receiving->dtype));
    if (transfer->received && transfer->status == 0)
        kolo_sized_fill(&sized, transfer->received,
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
    return rc;
}

bool kolo_transfer_give_up(struct kolo_transfer *transfer, const char *function) {
    kolo_comm *comm = transfer->comm;
    struct kolo_receiving *receiving = &transfer->receiving;
    if (!transfer->receives || receiving->is_matched || receiving->from != comm->global_rank)
        return false;
    receiving->is_done = true;
    receiving->status = kolo_fail(KOLO_ERR_ARG, "rank %u: %s: from itself, tag %d: it has sent itself no such message",
                                  comm->global_rank, function, receiving->tag);
    return true;
}
