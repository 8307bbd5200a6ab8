/* Regions are the parts of a slot that holds a block for each of several ranks: what reduce-scatter, scatter and
 * all-to-all send. A slot is cut into plan.blocks regions of the same size, one for each block of which the ticket
 * carries a chunk. Where a slot is too small to have a region for every rank, the blocks take turns: ticket t carries
 * chunk t / turns of blocks (t % turns) * plan.blocks and those after it. */
#pragma once

#include <string.h>

#include "algo/algo.h"
#include "comm/step/progress.h"

/* The turn of a ticket: the blocks that it carries. */
struct kolo_turn {
    size_t chunk;
    uint32_t begin, end; /* blocks, by number */
};

static inline uint32_t kolo_turns(const kolo_comm *comm, const struct kolo_message *message) {
    return (comm->size + message->plan.blocks - 1) / message->plan.blocks;
}

static inline struct kolo_turn kolo_turn(const kolo_comm *comm, const struct kolo_message *message, size_t ticket) {
    const uint32_t turns = kolo_turns(comm, message), begin = (uint32_t)(ticket % turns) * message->plan.blocks;
    const uint32_t left = comm->size - begin;
    return (struct kolo_turn){ticket / turns, begin,
                              begin + (left < message->plan.blocks ? left : message->plan.blocks)};
}

/* Of a region for `count` elements. */
static inline size_t kolo_region_bytes(const struct kolo_message *message, size_t count) {
    const size_t bytes = message->plan.head_bytes + count * message->kernel->element_bytes;
    return (bytes + KOLO_LINE_BYTES - 1) / KOLO_LINE_BYTES * KOLO_LINE_BYTES;
}

/* Returns where `rank` has block `block` of a turn. The region's head, if there is one, comes first. */
static inline uint8_t *kolo_region(const kolo_comm *comm, const struct kolo_message *message, uint32_t rank,
                                   size_t ticket, const struct kolo_turn *turn, uint32_t block) {
    const size_t bytes = kolo_region_bytes(message, comm->call.is_small ? message->count : message->plan.chunk_count);
    return kolo_slot(comm, rank, ticket) + (block - turn->begin) * bytes;
}

/* Returns where `from` leaves what it has for `to` in block `block` of a turn; block `back` is the one in the other
 * direction. Two ranks swap these two regions from one use to the next, so that the rank that has read a line is the
 * next to write it (allreduce/mesh.c says what that gains). The ticket must be claimed by kolo_slot_claim_all. The two
 * do not swap their regions if the turn lacks one of the blocks. Nor do they where the peer might make another call,
 * and show something else there to a rank that does not compare stamps with all. That is over once the two have
 * compared stamps in this call: in ticket 2 and the second chunk, since each rank shows ticket t + 1 before it takes t.
 * And after two exchanges it is ruled out until the next kolo_swaps_stop. */
static inline uint8_t *kolo_region_between(const kolo_comm *comm, const struct kolo_message *message, uint32_t from,
                                           uint32_t to, size_t ticket, const struct kolo_turn *turn, uint32_t block,
                                           uint32_t back) {
    const bool may_swap =
        comm->size == 2 || comm->call.swap_calls >= KOLO_SWAP_CALLS || (ticket >= 2 && turn->chunk > 0);
    const bool swaps =
        may_swap && (comm->call.ticket + ticket) / KOLO_SLOTS & 1 && turn->begin <= back && back < turn->end;
    return kolo_region(comm, message, swaps ? to : from, ticket, turn, swaps ? back : block);
}

/* Heads: the count of the whole block for `peer`, where the plan has heads. */
static inline void kolo_region_set_count(const struct kolo_message *message, uint8_t *region, uint32_t peer) {
    if (message->plan.head_bytes)
        memcpy(region, &(uint64_t){kolo_block_whole(message, &message->send_blocks, peer)}, sizeof(uint64_t));
}

/* Checks that `peer` sends a block of the count that this rank expects; otherwise MISMATCH. A rank that makes another
 * call may have written there, so first all compare, at `step`, which each publishes before it checks a count. 0: no
 * other rank writes there. */
static inline int kolo_region_check_count(kolo_comm *comm, const struct kolo_message *message, const uint8_t *region,
                                          uint32_t peer, uint64_t step) {
    if (!message->plan.head_bytes)
        return 0;
    const uint64_t expected = kolo_block_whole(message, &message->recv_blocks, peer);
    uint64_t count;
    memcpy(&count, region, sizeof count);
    if (count == expected)
        return 0;
    const int rc = step ? kolo_step_await_all(comm, step) : 0;
    return rc < 0 ? rc : kolo_failure_publish_counts(comm, peer, count, expected);
}

/* Claims this rank's slot, copies the chunk of its own block there, behind a head, and publishes step 2 * chunk + 1. */
static inline int kolo_region_show(kolo_comm *comm, const struct kolo_message *message, size_t chunk) {
    const size_t element_bytes = message->kernel->element_bytes;
    size_t first, count = kolo_chunk(message, chunk, &first);
    const int rc = kolo_slot_claim(comm, chunk);
    if (rc < 0)
        return rc;
    KOLO_POINT("region.claimed");
    kolo_call_stage(comm, KOLO_TRACE_STAGE_COPY_IN);
    uint8_t *slot = kolo_slot(comm, comm->rank, chunk);
    kolo_region_set_count(message, slot, message->root);
    kolo_copy(slot + message->plan.head_bytes, message->send + first * element_bytes, count * element_bytes);
    KOLO_POINT("region.shown");
    comm->stats.sent_bytes += count * element_bytes;
    kolo_step_publish(comm, 2 * chunk + 1);
    return 0;
}
