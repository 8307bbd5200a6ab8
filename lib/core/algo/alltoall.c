/* All-to-all: every rank shows each other rank the block that is for it, and copies what the others show it.
 *
 * Lines are for short blocks, counted together; every rank reads all of them.
 *
 * Slots are for more, with a region for each block (regions.h). Blocks go in pairs: block s of rank r is for rank s -
 * r, modulo the number of ranks, whose block s is for r. So in each of its steps a rank reads from another one, no two
 * from the same, and a ticket carries a pair's blocks in both directions. Step t + 1 says that a rank has shown what
 * ticket t carries. A rank shows ticket t + 1 before it copies the others' ticket t. At step t + 3 it has done that.
 *
 * In place (`send` == `recv`) works: a chunk from a rank is stored where that for the rank was, shown in the same
 * ticket.
 *
 * Where all `send` are in buffers of kolo_alloc, or can be read, and none is in place: direct_buffers.h.
 *
 * Where blocks have counts of their own, a region's head has it, and a receiver that expects another finds out. */
#include "algo/phases.h"
#include "algo/regions.h"
#include "algo/direct_buffers.h"
#include "algo/lines.h"

/* Returns the rank with which this rank exchanges block `block`. */
static uint32_t partner(const kolo_comm *comm, uint32_t block) {
    return block >= comm->rank ? block - comm->rank : block + comm->size - comm->rank;
}

int kolo_alltoall_lines(kolo_comm *comm, const void *send, void *recv, size_t count, const kolo_kernel *kernel,
                        uint32_t root) {
    (void)root;
    const size_t bytes = count * kernel->element_bytes;
    const struct kolo_round round = kolo_lines_round(comm);
    kolo_lines_show(comm, &round, send, comm->size * bytes);
    if (send != recv && bytes > 0)
        memcpy((uint8_t *)recv + comm->rank * bytes, (const uint8_t *)send + comm->rank * bytes, bytes);
    for (uint32_t peer = kolo_rank_after(comm, comm->rank); peer != comm->rank; peer = kolo_rank_after(comm, peer)) {
        const void *blocks = NULL;
        const int rc = kolo_lines_read(comm, peer, 0, comm->size * bytes, &round, &blocks);
        if (rc < 0)
            return rc;
        if (bytes > 0) /* otherwise recv may be NULL */
            memcpy((uint8_t *)recv + peer * bytes, (const uint8_t *)blocks + comm->rank * bytes, bytes);
        KOLO_POINT("alltoall.copied_lines");
    }
    kolo_lines_recall(comm, &round, comm->size * bytes);
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
    KOLO_POINT("alltoall.claimed");
    kolo_call_stage(comm, KOLO_TRACE_STAGE_COPY_IN);
    for (uint32_t block = turn.begin; block < turn.end; block++) {
        const uint32_t peer = partner(comm, block);
        if (peer == comm->rank)
            continue;
        size_t first, count = kolo_block_chunk(message, &message->send_blocks, peer, turn.chunk, &first);
        uint8_t *region = kolo_region_between(comm, message, comm->rank, peer, ticket, &turn, block, block);
        kolo_region_set_count(message, region, peer);
        kolo_copy(region + message->plan.head_bytes, message->send + first * element_bytes, count * element_bytes);
        comm->stats.sent_bytes += count * element_bytes;
    }
    KOLO_POINT("alltoall.shown");
    kolo_step_publish(comm, ticket + 1);
    return 0;
}

static void copy_own(const kolo_comm *comm, const struct kolo_message *message) {
    const size_t element_bytes = message->kernel->element_bytes;
    size_t to, from, count = kolo_block(message, &message->recv_blocks, comm->rank, &to);
    kolo_block(message, &message->send_blocks, comm->rank, &from);
    if (message->send != message->recv)
        kolo_result_store(message, message->recv + to * element_bytes, message->send + from * element_bytes,
                          count * element_bytes);
}

static int take(kolo_comm *comm, const struct kolo_message *message, size_t ticket) {
    const size_t element_bytes = message->kernel->element_bytes;
    const struct kolo_turn turn = kolo_turn(comm, message, ticket);
    if (ticket == 0)
        copy_own(comm, message);
    for (uint32_t block = turn.begin; block < turn.end; block++) {
        const uint32_t peer = partner(comm, block);
        if (peer == comm->rank)
            continue;
        size_t begin, first, whole = kolo_block(message, &message->recv_blocks, peer, &begin);
        const size_t count = kolo_chunk_of(message, whole, turn.chunk, &first);
        int rc = kolo_step_await(comm, peer, ticket + 1);
        if (rc < 0)
            return rc;
        const uint8_t *region = kolo_region_between(comm, message, peer, comm->rank, ticket, &turn, block, block);
        rc = kolo_region_check_count(comm, message, region, peer, 1);
        if (rc < 0)
            return rc;
        kolo_call_stage(comm, KOLO_TRACE_STAGE_COPY_OUT);
        kolo_result_store(message, message->recv + (begin + first) * element_bytes, region + message->plan.head_bytes,
                          count * element_bytes);
        KOLO_POINT("alltoall.copied");
        comm->stats.received_bytes += count * element_bytes;
    }
    return 0;
}

int kolo_alltoall_run(kolo_comm *comm, const struct kolo_message *message) {
    const size_t tickets = message->plan.chunks * kolo_turns(comm, message);
    const int rc = kolo_phases_show_ahead(comm, message, tickets, show, take);
    comm->call.swap_calls++;
    kolo_result_end(message);
    return rc;
}

int kolo_alltoall_direct(kolo_comm *comm, const struct kolo_message *message) {
    const size_t bytes = message->count * message->kernel->element_bytes, stride = kolo_block_stride(message),
                 all_bytes = kolo_blocks_bytes(comm, message);
    const struct kolo_direct use = {
        .send = KOLO_OF_ALL, .send_bytes = all_bytes, .recv_bytes = all_bytes, .apart = true};
    int rc = kolo_direct_begin(comm, message, &use);
    if (rc != 0)
        return rc;
    for (uint32_t block = 0; block < comm->size; block++) {
        const uint32_t peer = partner(comm, block);
        kolo_direct_copy(comm, peer, comm->rank * stride, message->recv + peer * stride, bytes);
    }
    rc = kolo_direct_end(comm);
    if (rc == 0)
        kolo_traffic(comm, bytes, comm->size - 1, comm->size - 1);
    return rc;
}
