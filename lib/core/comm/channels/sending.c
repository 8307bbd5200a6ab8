/* The sender's part: it takes sends in flight as far as possible. */
#include <string.h>

#include "comm/channels/transfer.h"
#include "comm/channels/rings.h"

int kolo_sending_prepare(kolo_comm *comm, const struct kolo_sending *sending) {
    struct kolo_channels *channels = &comm->channels;
    struct kolo_shared_ring *ring = kolo_ring(comm, comm->global_rank, sending->to);
    struct kolo_pair *pair = &channels->pairs[sending->to];
    int rc = pair->has_ring ? 0 : kolo_segment_provide(ring, sizeof *ring);
    if (rc == 0 && !channels->has_stream && !kolo_fits_cell(sending->dtype, sending->count)) {
        rc = kolo_segment_provide(&comm->segment.streams[comm->global_rank], sizeof *comm->segment.streams);
        channels->has_stream = rc == 0;
    }
    if (rc == 0 && !pair->has_ring) {
        KOLO_POINT("transfer.provided");
        /* This release pairs with look_for or, for another node's rank, with the relay's look. */
        const bool is_near = kolo_is_near(comm, sending->to);
        const uint32_t which = is_near ? comm->global_rank : sending->to;
        kolo_atomic_u64 *bits = is_near ? comm->segment.mailboxes[kolo_local_of(comm, sending->to)].senders
                                        : comm->segment.mailboxes[comm->rank].rings;
        kolo_set_bits(&bits[which / 64], UINT64_C(1) << which % 64);
        pair->has_ring = true;
        KOLO_POINT("transfer.introduced");
    }
    return rc;
}

static void begin_stream(kolo_comm *comm, struct kolo_sending *sending) {
    comm->channels.streaming = sending;
    sending->is_streamed = true;
}

/* Returns whether a large message may go into the stream unasked: none of this rank can want the stream before it. */
static bool may_stream_at_once(const kolo_comm *comm, const struct kolo_sending *sending) {
    return sending->is_blocking && comm->channels.sends == sending && !sending->next;
}

/* Puts the message, or only its envelope if it is large, into a cell. Returns false if no cell is free. */
static bool post(kolo_comm *comm, struct kolo_sending *sending) {
    struct kolo_pair *pair = &comm->channels.pairs[sending->to];
    struct kolo_shared_ring *ring = kolo_ring(comm, comm->global_rank, sending->to);
    const uint64_t number = pair->sent + 1;
    if (pair->blocked && pair->blocked != sending)
        return false;
    if (number > pair->taken + KOLO_CELLS)
        pair->taken = kolo_load_acquire(&ring->taken); /* pairs with kolo_publish_to */
    if (number > pair->taken + KOLO_CELLS) {
        pair->blocked = sending;
        sending->obstacle = (struct kolo_obstacle){&ring->taken, number - KOLO_CELLS, sending->to};
        return false;
    }
    const bool is_small = kolo_fits_cell(sending->dtype, sending->count);
    struct kolo_shared_cell *cell = &ring->cells[number % KOLO_CELLS];
    KOLO_POINT("transfer.writing");
    cell->tag = sending->tag;
    cell->dtype = sending->dtype;
    cell->count = sending->count;
    if (!is_small && may_stream_at_once(comm, sending))
        begin_stream(comm, sending);
    cell->chunks_before = sending->is_streamed ? comm->channels.chunks : KOLO_NOT_STREAMED;
    if (is_small && sending->count)
        memcpy(cell->payload, sending->data, kolo_elements_bytes(sending->dtype, sending->count));
    KOLO_POINT("transfer.written");
    kolo_publish_to(comm, &cell->sequence, number, sending->to);
    sending->number = pair->sent = number;
    sending->is_done = is_small;
    pair->blocked = NULL;
    return true;
}

/* Gives the stream to a message that its receiver has asked for. */
static bool serve(kolo_comm *comm, struct kolo_sending *sending) {
    struct kolo_pair *pair = &comm->channels.pairs[sending->to];
    struct kolo_shared_ring *ring = kolo_ring(comm, comm->global_rank, sending->to);
    if (comm->channels.streaming || kolo_load_acquire(&ring->asked) == pair->served || /* pairs with ask */
        ring->asked_number != sending->number)
        return false;
    ring->served_chunks_before = comm->channels.chunks;
    ring->served_bytes = kolo_elements_bytes(sending->dtype, sending->count);
    kolo_publish_to(comm, &ring->served, ++pair->served, sending->to); /* pairs with receive_chunks */
    begin_stream(comm, sending);
    return true;
}

/* Fills chunks, as far as they are free. */
static void send_chunks(kolo_comm *comm, struct kolo_sending *sending) {
    struct kolo_shared_stream *stream = &comm->segment.streams[comm->global_rank];
    const size_t bytes = kolo_elements_bytes(sending->dtype, sending->count);
    const uint64_t before = comm->channels.chunks, chunks = kolo_chunks_of(bytes);
    for (;;) {
        /* is_last: all chunks are filled, and the last one has to be taken. */
        const bool is_last = sending->filled == chunks;
        const uint64_t needed = is_last ? before + chunks : before + sending->filled + 1 - KOLO_CHUNKS;
        if ((is_last || before + sending->filled >= KOLO_CHUNKS) && kolo_load_acquire(&stream->taken) < needed) {
            sending->obstacle = (struct kolo_obstacle){&stream->taken, needed, sending->to};
            return;
        }
        if (is_last)
            break;
        KOLO_POINT("transfer.filling");
        memcpy(stream->chunks[(before + sending->filled) % KOLO_CHUNKS],
               sending->data + sending->filled * KOLO_CHUNK_BYTES, kolo_chunk_bytes(bytes, sending->filled));
        sending->filled++;
        kolo_publish_to(comm, &stream->filled, before + sending->filled, sending->to);
    }
    comm->channels.chunks += chunks;
    comm->channels.streaming = NULL;
    sending->is_done = true;
}

static void look_at_all(kolo_comm *comm) {
    for (struct kolo_sending **place = &comm->channels.sends, *sending; (sending = *place);) {
        sending->obstacle.flag = NULL;
        if (sending->number || post(comm, sending)) {
            if (!sending->is_done && (sending->is_streamed || serve(comm, sending)))
                send_chunks(comm, sending);
        }
        if (!sending->is_done) {
            place = &sending->next;
            continue;
        }
        *place = sending->next;
        sending->over(sending->owner);
    }
}

/* A message that was looked at before may have the stream once that is free: only this loop looks again. */
void kolo_sends_advance(kolo_comm *comm) {
    const struct kolo_sending *streaming;
    do {
        streaming = comm->channels.streaming;
        look_at_all(comm);
    } while (streaming && !comm->channels.streaming && comm->channels.sends);
}
