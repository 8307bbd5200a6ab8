/* Gather: every rank but the root shows its block, and the root copies all blocks to their places.
 *
 * Lines are for short blocks. Except in rounds (lines.h) only the root waits for others.
 *
 * Slots are for larger blocks, chunk by chunk. Steps:
 *   - 2c + 1: the rank has shown chunk c.
 *   - 2c + 2: the root has copied chunk c of all.
 * A rank that is not the root waits only for the root, and only to reuse its slots: it may be ahead by KOLO_SLOTS
 * chunks, also in its next calls, or by KOLO_PARTS small calls.
 *
 * Where blocks have counts of their own, each chunk comes behind a head with the block's count (regions.h), and a root
 * that expects another one finds the mismatch.
 *
 * Where the root's `recv` is in a buffer of kolo_alloc, the others write to it side by side (direct_buffers.h).
 *
 * In place (`send` is the root's block of `recv`) works: nobody else's data goes there. */
#include "algo/regions.h"
#include "algo/direct_buffers.h"
#include "algo/lines.h"

int kolo_gather_lines(kolo_comm *comm, const void *send, void *recv, size_t count, const kolo_kernel *kernel,
                      uint32_t root) {
    const size_t bytes = count * kernel->element_bytes;
    const bool is_root = comm->rank == root;
    const struct kolo_round round = kolo_lines_pass(comm, bytes);
    kolo_lines_show_if(comm, &round, !is_root, send, bytes);
    if (is_root && bytes > 0 && (uint8_t *)recv + comm->rank * bytes != send)
        memcpy((uint8_t *)recv + comm->rank * bytes, send, bytes);
    for (uint32_t peer = kolo_rank_after(comm, comm->rank); peer != comm->rank && (is_root || !round.is_pass);
         peer = kolo_rank_after(comm, peer)) {
        const void *block = NULL;
        const int rc = kolo_lines_read(comm, peer, 0, is_root ? bytes : 0, &round, &block);
        if (rc < 0)
            return rc;
        if (is_root && bytes > 0) /* otherwise recv may be NULL */
            memcpy((uint8_t *)recv + peer * bytes, block, bytes);
        KOLO_POINT("gather.copied_lines");
    }
    *(is_root ? &comm->stats.received_bytes : &comm->stats.sent_bytes) += is_root ? bytes * (comm->size - 1) : bytes;
    return 0;
}

static void copy_own(const kolo_comm *comm, const struct kolo_message *message) {
    const size_t element_bytes = message->kernel->element_bytes;
    size_t begin, count = kolo_block(message, &message->recv_blocks, comm->rank, &begin);
    uint8_t *to = message->recv + begin * element_bytes;
    if (count > 0 && to != message->send)
        kolo_result_store(message, to, message->send, count * element_bytes);
}

static int take(kolo_comm *comm, const struct kolo_message *message, size_t chunk) {
    const size_t element_bytes = message->kernel->element_bytes;
    for (uint32_t peer = kolo_rank_after(comm, comm->rank); peer != comm->rank; peer = kolo_rank_after(comm, peer)) {
        uint8_t *slot = kolo_slot(comm, peer, chunk);
        size_t begin, first, whole = kolo_block(message, &message->recv_blocks, peer, &begin);
        const size_t count = kolo_chunk_of(message, whole, chunk, &first);
        int rc = kolo_step_await(comm, peer, 2 * chunk + 1);
        if (rc == 0)
            rc = kolo_region_check_count(comm, message, slot, peer, 1);
        if (rc < 0)
            return rc;
        kolo_call_stage(comm, KOLO_TRACE_STAGE_COPY_OUT);
        kolo_result_take(message, message->recv + (begin + first) * element_bytes, slot + message->plan.head_bytes,
                         count * element_bytes);
        KOLO_POINT("gather.copied");
        comm->stats.received_bytes += count * element_bytes;
    }
    kolo_step_publish(comm, 2 * chunk + 2);
    return 0;
}

int kolo_gather_run(kolo_comm *comm, const struct kolo_message *message) {
    const size_t chunks = message->plan.chunks;
    const bool is_root = comm->rank == message->root;
    int rc = 0;
    kolo_schedule_begin_rooted(comm, chunks,
                               message->plan.head_bytes ? SIZE_MAX : message->count * message->kernel->element_bytes);
    if (is_root)
        copy_own(comm, message);
    for (size_t chunk = 0; rc == 0 && chunk < chunks; chunk++) {
        rc = is_root ? take(comm, message, chunk) : kolo_region_show(comm, message, chunk);
        kolo_slot_retire_by(comm, chunk, 2 * chunk + 2, is_root ? KOLO_RANKS_MAX : message->root);
    }
    kolo_result_end(message);
    kolo_schedule_end(comm);
    if (!is_root)
        kolo_slot_recall(comm, message->count * message->kernel->element_bytes);
    return rc;
}

int kolo_gather_direct(kolo_comm *comm, const struct kolo_message *message) {
    const size_t bytes = message->count * message->kernel->element_bytes;
    const struct kolo_direct use = {
        .recv = KOLO_OF_ROOT, .send_bytes = bytes, .recv_bytes = kolo_blocks_bytes(comm, message), .in_block = true};
    const int rc = kolo_direct_begin(comm, message, &use);
    if (rc != 0)
        return rc;
    uint8_t *block = comm->call.targets[message->root] + comm->rank * kolo_block_stride(message);
    for (size_t at = 0, part; block != message->send && at < bytes && !kolo_direct_has_failed(comm); at += part) {
        part = bytes - at < KOLO_STREAMED_PIECE_BYTES ? bytes - at : KOLO_STREAMED_PIECE_BYTES;
        kolo_copy(block + at, message->send + at, part);
    }
    const bool is_root = comm->rank == message->root;
    kolo_traffic(comm, bytes, !is_root, is_root ? comm->size - 1 : 0);
    return kolo_direct_end(comm);
}
