/* Scatter: the root shows every other rank the block that is for it, and each copies its own.
 *
 * Lines are for short blocks, counted together. The root waits for nobody, and the others only for the root's lines,
 * except in rounds (lines.h).
 *
 * Slots are for more, with a region for each block (regions.h). Steps:
 *   - 2t + 1: the root has shown what ticket t carries.
 *   - 2t + 2: the rank has copied its part of it. The root has nothing to copy and publishes both at once.
 * The root waits for others only to reuse its slots, and after exchanges (kolo_swaps_stop): it may be ahead by
 * KOLO_SLOTS tickets, also in its next calls, or by KOLO_PARTS small calls.
 *
 * Where the root's `send` is in a buffer of kolo_alloc, or can be read, the others read it (direct_buffers.h).
 *
 * In place (`recv` is the root's block of `send`) works: the root copies nothing there.
 *
 * Where blocks have counts of their own, a region's head has it, and a rank that expects another finds out. */
#include "algo/regions.h"
#include "algo/direct_buffers.h"
#include "algo/lines.h"

int kolo_scatter_lines(kolo_comm *comm, const void *send, void *recv, size_t count, const kolo_kernel *kernel,
                       uint32_t root) {
    const size_t bytes = count * kernel->element_bytes;
    const bool is_root = comm->rank == root;
    const struct kolo_round round = kolo_lines_pass(comm, comm->size * bytes);
    kolo_lines_show_if(comm, &round, is_root, send, comm->size * bytes);
    if (is_root && bytes > 0 && (const uint8_t *)send + comm->rank * bytes != recv)
        memcpy(recv, (const uint8_t *)send + comm->rank * bytes, bytes);
    for (uint32_t peer = kolo_rank_after(comm, comm->rank); peer != comm->rank; peer = kolo_rank_after(comm, peer)) {
        const void *blocks = NULL;
        if (peer != root && round.is_pass)
            continue;
        const int rc = kolo_lines_read(comm, peer, 0, peer == root ? comm->size * bytes : 0, &round, &blocks);
        if (rc < 0)
            return rc;
        if (peer == root && bytes > 0) /* otherwise recv may be NULL */
            memcpy(recv, (const uint8_t *)blocks + comm->rank * bytes, bytes);
        KOLO_POINT("scatter.copied_lines");
    }
    *(is_root ? &comm->stats.sent_bytes : &comm->stats.received_bytes) += is_root ? bytes * (comm->size - 1) : bytes;
    return 0;
}

static int show(kolo_comm *comm, const struct kolo_message *message, size_t ticket) {
    const size_t element_bytes = message->kernel->element_bytes;
    const struct kolo_turn turn = kolo_turn(comm, message, ticket);
    const int rc = kolo_slot_claim(comm, ticket);
    if (rc < 0)
        return rc;
    KOLO_POINT("scatter.claimed");
    kolo_call_stage(comm, KOLO_TRACE_STAGE_COPY_IN);
    for (uint32_t peer = turn.begin; peer < turn.end; peer++) {
        size_t first, count = kolo_block_chunk(message, &message->send_blocks, peer, turn.chunk, &first);
        uint8_t *region = kolo_region(comm, message, comm->rank, ticket, &turn, peer);
        if (peer == comm->rank)
            continue;
        kolo_region_set_count(message, region, peer);
        kolo_copy(region + message->plan.head_bytes, message->send + first * element_bytes, count * element_bytes);
        comm->stats.sent_bytes += count * element_bytes;
    }
    KOLO_POINT("scatter.shown");
    kolo_step_publish(comm, 2 * ticket + 2);
    return 0;
}

static int take(kolo_comm *comm, const struct kolo_message *message, size_t ticket) {
    const size_t element_bytes = message->kernel->element_bytes;
    const struct kolo_turn turn = kolo_turn(comm, message, ticket);
    int rc = kolo_step_await(comm, message->root, 2 * ticket + 1);
    if (rc == 0 && turn.begin <= comm->rank && comm->rank < turn.end) {
        kolo_call_stage(comm, KOLO_TRACE_STAGE_COPY_OUT);
        size_t first, count = kolo_chunk(message, turn.chunk, &first);
        uint8_t *region = kolo_region(comm, message, message->root, ticket, &turn, comm->rank);
        rc = kolo_region_check_count(comm, message, region, message->root, 0);
        if (rc == 0)
            kolo_result_take(message, message->recv + first * element_bytes, region + message->plan.head_bytes,
                             count * element_bytes);
        KOLO_POINT("scatter.copied");
        comm->stats.received_bytes += count * element_bytes;
    }
    if (rc == 0)
        kolo_step_publish(comm, 2 * ticket + 2);
    return rc;
}

/* Recalls the regions that the next call fills first. */
static void recall(const kolo_comm *comm, const struct kolo_message *message) {
    const struct kolo_turn turn = kolo_turn(comm, message, 0);
    for (uint32_t peer = turn.begin; peer < turn.end; peer++) {
        size_t first, count = kolo_block_chunk(message, &message->send_blocks, peer, 0, &first);
        if (peer != comm->rank)
            kolo_recall(kolo_region(comm, message, comm->rank, 0, &turn, peer),
                        message->plan.head_bytes + count * message->kernel->element_bytes);
    }
}

int kolo_scatter_run(kolo_comm *comm, const struct kolo_message *message) {
    const size_t tickets = message->plan.chunks * kolo_turns(comm, message);
    const size_t element_bytes = message->kernel->element_bytes;
    const bool is_root = comm->rank == message->root;
    int rc = kolo_swaps_stop(comm);
    kolo_schedule_begin_rooted(
        comm, tickets, message->plan.head_bytes ? SIZE_MAX : comm->size * kolo_region_bytes(message, message->count));
    for (size_t ticket = 0; rc == 0 && ticket < tickets; ticket++) {
        rc = is_root ? show(comm, message, ticket) : take(comm, message, ticket);
        kolo_slot_retire(comm, ticket, 2 * ticket + 2);
    }
    kolo_schedule_end(comm);
    if (is_root && kolo_slot_is_recalled(comm))
        recall(comm, message);
    if (is_root && rc == 0) {
        size_t own, count = kolo_block(message, &message->send_blocks, comm->rank, &own);
        if (count > 0 && message->send + own * element_bytes != message->recv)
            kolo_result_store(message, message->recv, message->send + own * element_bytes, count * element_bytes);
    }
    kolo_result_end(message);
    return rc;
}

int kolo_scatter_direct(kolo_comm *comm, const struct kolo_message *message) {
    const size_t bytes = message->count * message->kernel->element_bytes;
    const struct kolo_direct use = {
        .send = KOLO_OF_ROOT, .send_bytes = kolo_blocks_bytes(comm, message), .recv_bytes = bytes};
    int rc = kolo_direct_begin(comm, message, &use);
    if (rc != 0)
        return rc;
    kolo_direct_copy(comm, message->root, comm->rank * kolo_block_stride(message), message->recv, bytes);
    rc = kolo_direct_end(comm);
    const bool is_root = comm->rank == message->root;
    if (rc == 0)
        kolo_traffic(comm, bytes, is_root ? comm->size - 1 : 0, !is_root);
    return rc;
}
