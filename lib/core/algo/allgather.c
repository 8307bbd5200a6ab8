/* All-gather: every rank shows its block to all others, and copies all blocks to their places. Small blocks go through
 * lines, larger ones through slots (phases.h).
 *
 * Lines are for short blocks.
 *
 * Slots are for larger blocks, chunk by chunk. Step c + 1 says that chunk c is there. A rank shows chunk c + 1 before
 * it copies the others' chunk c, so that its peers need not wait for that copy. At step c + 3 it has copied chunk c.
 *
 * Where all blocks to send are in buffers of kolo_alloc, or can be read, each rank copies from those
 * (direct_buffers.h). Where all ranks' `recv` are the same memory, each rank copies its own block there.
 *
 * In place (`send` is this rank's block of `recv`) works: no other rank's data goes into that block. */
#include "algo/phases.h"
#include "algo/direct_buffers.h"
#include "algo/lines.h"

static void copy_own(uint8_t *block, const void *send, size_t bytes) {
    if (bytes > 0 && block != send)
        kolo_copy(block, send, bytes);
}

int kolo_allgather_lines(kolo_comm *comm, const void *send, void *recv, size_t count, const kolo_kernel *kernel,
                         uint32_t root) {
    (void)root;
    const size_t bytes = count * kernel->element_bytes;
    const struct kolo_round round = kolo_lines_round(comm);
    kolo_lines_show(comm, &round, send, bytes);
    copy_own((uint8_t *)recv + comm->rank * bytes, send, bytes);
    for (uint32_t peer = kolo_rank_after(comm, comm->rank); peer != comm->rank; peer = kolo_rank_after(comm, peer)) {
        const void *block = NULL;
        const int rc = kolo_lines_read(comm, peer, 0, bytes, &round, &block);
        if (rc < 0)
            return rc;
        if (bytes > 0) /* otherwise recv may be NULL */
            memcpy((uint8_t *)recv + peer * bytes, block, bytes);
        KOLO_POINT("allgather.copied_lines");
    }
    kolo_lines_recall(comm, &round, bytes);
    comm->stats.sent_bytes += bytes;
    comm->stats.received_bytes += bytes * (comm->size - 1);
    return 0;
}

/* Copies the own chunk to where all can read it, and to its place. A chunk of several pieces is copied to both piece by
 * piece, and so read once; with a single piece the peers would wait for the second copy. */
static int show(kolo_comm *comm, const struct kolo_message *message, size_t chunk) {
    const size_t element_bytes = message->kernel->element_bytes;
    size_t begin, first;
    const size_t bytes = kolo_chunk(message, chunk, &first) * element_bytes;
    kolo_block(message, &message->recv_blocks, comm->rank, &begin);
    const uint8_t *from = message->send + first * element_bytes;
    uint8_t *own = message->recv + (begin + first) * element_bytes;
    const bool is_long = bytes > KOLO_PIECE_BYTES, in_place = own == from;
    const int rc = kolo_slot_claim(comm, chunk);
    if (rc < 0)
        return rc;
    KOLO_POINT("allgather.claimed");
    kolo_call_stage(comm, KOLO_TRACE_STAGE_COPY_IN);
    uint8_t *shown = kolo_phase_shown_at(comm, comm->rank, chunk);
    for (size_t at = 0; at < bytes; at += KOLO_PIECE_BYTES) {
        const size_t part = bytes - at < KOLO_PIECE_BYTES ? bytes - at : KOLO_PIECE_BYTES;
        kolo_copy(shown + at, from + at, part);
        if (is_long && !in_place)
            kolo_result_store(message, own + at, from + at, part);
    }
    KOLO_POINT("allgather.shown");
    kolo_step_publish(comm, chunk + 1);
    if (!is_long && !in_place)
        kolo_result_store(message, own, from, bytes);
    return 0;
}

/* Copies each peer's chunk as soon as it is there. Each begins with the next one: not all read one slot at once. */
static int copy_chunk(kolo_comm *comm, const struct kolo_message *message, size_t chunk) {
    const size_t element_bytes = message->kernel->element_bytes;
    for (uint32_t peer = kolo_rank_after(comm, comm->rank); peer != comm->rank; peer = kolo_rank_after(comm, peer)) {
        const int rc = kolo_step_await(comm, peer, chunk + 1);
        if (rc < 0)
            return rc;
        size_t first, count = kolo_block_chunk(message, &message->recv_blocks, peer, chunk, &first);
        uint8_t *to = message->recv + first * element_bytes;
        kolo_call_stage(comm, KOLO_TRACE_STAGE_COPY_OUT);
        uint8_t *from = kolo_phase_shown_at(comm, peer, chunk);
        if (message->plan.takes)
            kolo_result_take(message, to, from, count * element_bytes);
        else
            kolo_result_store(message, to, from, count * element_bytes);
        comm->stats.received_bytes += count * element_bytes;
        KOLO_POINT("allgather.copied");
    }
    return 0;
}

int kolo_allgather_run(kolo_comm *comm, const struct kolo_message *message) {
    const size_t element_bytes = message->kernel->element_bytes;
    const int rc = kolo_phases_show_ahead(comm, message, message->plan.chunks, show, copy_chunk);
    if (comm->size > 2)
        kolo_slot_recall(comm, message->count * element_bytes);
    comm->stats.sent_bytes += message->count * element_bytes;
    kolo_result_end(message);
    return rc;
}

int kolo_allgather_direct(kolo_comm *comm, const struct kolo_message *message) {
    const size_t bytes = message->count * message->kernel->element_bytes;
    const struct kolo_direct use = {.send = KOLO_OF_ALL,
                                    .send_bytes = bytes,
                                    .recv_bytes = kolo_blocks_bytes(comm, message),
                                    .same_result = true,
                                    .own_send = true};
    int rc = kolo_direct_begin(comm, message, &use);
    if (rc != 0)
        return rc;
    const size_t stride = kolo_block_stride(message);
    copy_own(message->recv + comm->rank * stride, message->send, bytes);
    for (uint32_t peer = kolo_rank_after(comm, comm->rank); !comm->call.one_target && peer != comm->rank;
         peer = kolo_rank_after(comm, peer))
        kolo_direct_copy(comm, peer, 0, message->recv + peer * stride, bytes);
    rc = kolo_direct_end(comm);
    if (rc == 0)
        kolo_traffic(comm, bytes, 1, comm->size - 1);
    return rc;
}
