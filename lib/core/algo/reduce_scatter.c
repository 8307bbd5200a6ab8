/* Reduce-scatter: every rank shows each other rank the block that is for it, and folds its own block from its `send`
 * and all others' in one pass into `recv`.
 *
 * Lines are for short inputs, all blocks together; every rank reads all of them.
 *
 * Slots are for larger inputs, with a region for each block (regions.h), which two ranks swap. Step t + 1 says that a
 * rank has shown what ticket t carries. A rank shows ticket t + 1 before it folds ticket t, so that its peers need not
 * wait for that fold. When it publishes step t + 3 it has folded ticket t.
 *
 * Where all inputs are in buffers of kolo_alloc, each rank folds its block from those (direct_buffers.h).
 *
 * In place (`recv` is this rank's block of `send`) works: that block is shown to no other rank. */
#include "algo/phases.h"
#include "algo/regions.h"
#include "algo/direct_buffers.h"
#include "algo/lines.h"

int kolo_reduce_scatter_lines(kolo_comm *comm, const void *send, void *recv, size_t count, const kolo_kernel *kernel,
                              uint32_t root) {
    (void)root;
    const size_t bytes = count * kernel->element_bytes;
    const struct kolo_round round = kolo_lines_round(comm);
    kolo_lines_show(comm, &round, send, comm->size * bytes);
    for (uint32_t peer = 0; peer < comm->size; peer++) {
        const void *blocks = send;
        const int rc = peer == comm->rank ? 0 : kolo_lines_read(comm, peer, 0, comm->size * bytes, &round, &blocks);
        if (rc < 0)
            return rc;
        comm->call.sources[peer] = (const uint8_t *)blocks + comm->rank * bytes;
    }
    KOLO_POINT("reduce_scatter.read_lines");
    kolo_lines_recall(comm, &round, comm->size * bytes);
    if (count)
        kernel->fold(recv, comm->call.sources, comm->size, count, comm->size);
    comm->stats.sent_bytes += bytes * (comm->size - 1);
    comm->stats.received_bytes += bytes * (comm->size - 1);
    return 0;
}

static int show(kolo_comm *comm, const struct kolo_message *message, size_t ticket) {
    const size_t element_bytes = message->kernel->element_bytes;
    const struct kolo_turn turn = kolo_turn(comm, message, ticket);
    const int rc = kolo_slot_claim_all(comm, ticket);
    if (rc < 0)
        return rc;
    KOLO_POINT("reduce_scatter.claimed");
    kolo_call_stage(comm, KOLO_TRACE_STAGE_COPY_IN);
    for (uint32_t owner = turn.begin; owner < turn.end; owner++) {
        size_t first, count = kolo_block_chunk(message, &message->send_blocks, owner, turn.chunk, &first);
        if (owner == comm->rank)
            continue;
        kolo_copy(kolo_region_between(comm, message, comm->rank, owner, ticket, &turn, owner, comm->rank),
                  message->send + first * element_bytes, count * element_bytes);
        comm->stats.sent_bytes += count * element_bytes;
    }
    KOLO_POINT("reduce_scatter.shown");
    kolo_step_publish(comm, ticket + 1);
    return 0;
}

static int fold(kolo_comm *comm, const struct kolo_message *message, size_t ticket) {
    const size_t element_bytes = message->kernel->element_bytes;
    const struct kolo_turn turn = kolo_turn(comm, message, ticket);
    const int rc = kolo_step_await_all(comm, ticket + 1);
    if (rc < 0 || comm->rank < turn.begin || comm->rank >= turn.end)
        return rc;
    size_t first, count = kolo_block_chunk(message, &message->send_blocks, comm->rank, turn.chunk, &first);
    for (uint32_t rank = 0; rank < comm->size; rank++)
        comm->call.sources[rank] =
            kolo_region_between(comm, message, rank, comm->rank, ticket, &turn, comm->rank, rank);
    comm->call.sources[comm->rank] = message->send + first * element_bytes;
    kolo_phase_fold(comm, message->kernel, message->recv + turn.chunk * message->plan.chunk_count * element_bytes,
                    count, message->plan.stream ? KOLO_FOLD_STREAM : 0);
    KOLO_POINT("reduce_scatter.folded");
    comm->stats.received_bytes += count * element_bytes * (comm->size - 1);
    return 0;
}

int kolo_reduce_scatter_run(kolo_comm *comm, const struct kolo_message *message) {
    const size_t tickets = message->plan.chunks * kolo_turns(comm, message);
    const int rc = kolo_phases_show_ahead(comm, message, tickets, show, fold);
    comm->call.swap_calls++;
    kolo_result_end(message);
    return rc;
}

int kolo_reduce_scatter_direct(kolo_comm *comm, const struct kolo_message *message) {
    const size_t bytes = message->count * message->kernel->element_bytes;
    const struct kolo_direct use = {
        .send = KOLO_OF_ALL, .send_bytes = kolo_blocks_bytes(comm, message), .recv_bytes = bytes};
    const int rc = kolo_direct_begin(comm, message, &use);
    if (rc != 0)
        return rc;
    for (uint32_t rank = 0; rank < comm->size; rank++)
        comm->call.sources[rank] = (const uint8_t *)comm->call.sources[rank] + comm->rank * kolo_block_stride(message);
    message->kernel->fold(message->recv, comm->call.sources, comm->size, message->count, comm->size);
    kolo_traffic(comm, bytes, comm->size - 1, comm->size - 1);
    return kolo_direct_end(comm);
}
