/* Where the data of a ticket lies in the slots, for collectives whose exchange goes straight from slot to slot.
 *
 * Moves: the blocks of a gather, scatter or all-to-all. A block is what one rank has for another one. Blocks are
 * numbered so that in block b each rank sends to at most one other rank, and receives from at most one. In a gather b
 * is the rank that sends, in a scatter the rank that receives, and in an all-to-all rank r exchanges block b with rank
 * (b - r) modulo the number of ranks. What a rank keeps for itself does not count. A rank's slot has two halves of as
 * many regions, one for each block of the ticket: what the rank sends, and what comes for it from other nodes. Each
 * region begins with a head, kolo_moves_head: the number of elements of the block, according to the rank.
 *
 * Scans: a rank's slot has a chunk of its input and, behind that, its term (internode/partials.h) if others need the
 * term. The terms of other nodes lie in the slots of the node. */
#pragma once

#include <string.h>

#include "internode/internode.h"
#include "plan/plan.h"

/* The slot of a local rank. `ticket` is over all calls, as everywhere here. */
static inline uint8_t *kolo_ticket_slot(const kolo_comm *comm, uint64_t ticket, uint32_t local) {
    return comm->segment.slots + (local * (size_t)KOLO_SLOTS + ticket % KOLO_SLOTS) * comm->segment.slot_bytes;
}

#define KOLO_MOVES_NOBODY UINT32_MAX

enum { KOLO_MOVES_BLOCKS_MAX = 64, KOLO_MOVES_MAX = 4096 }; /* of a rank; of a node of several ranks, in one ticket */

struct kolo_moves {
    kolo_collective collective; /* GATHER, SCATTER or ALLTOALL */
    uint32_t root;
    uint32_t begin, end; /* blocks */
    size_t chunk;        /* of each of them */
    size_t chunk_count;  /* elements of a chunk */
    size_t region_bytes;
    uint32_t element_bytes;
};

enum kolo_moves_half { KOLO_MOVES_OUT, KOLO_MOVES_IN };

/* The rank to which `rank` sends block `block`, or from which it receives it. */
static inline uint32_t kolo_moves_peer(const struct kolo_moves *moves, uint32_t ranks, uint32_t rank, uint32_t block,
                                       enum kolo_moves_half half) {
    uint32_t peer = block >= rank ? block - rank : block + ranks - rank;
    if (moves->collective != KOLO_ALLTOALL && (moves->collective == KOLO_GATHER) == (half == KOLO_MOVES_OUT))
        peer = rank == block ? moves->root : rank;
    else if (moves->collective != KOLO_ALLTOALL)
        peer = rank == moves->root ? block : rank;
    return peer == rank ? KOLO_MOVES_NOBODY : peer;
}

/* Elements of the chunk in a block of `count` elements, and where it begins there. */
static inline size_t kolo_moves_chunk(const struct kolo_moves *moves, uint64_t count, size_t *first) {
    *first = moves->chunk * moves->chunk_count;
    const size_t left = count > *first ? count - *first : 0;
    return left < moves->chunk_count ? left : moves->chunk_count;
}

/* The region of a local rank for a block. */
static inline uint8_t *kolo_moves_region(const kolo_comm *comm, const struct kolo_moves *moves, uint64_t ticket,
                                         uint32_t local, uint32_t block, enum kolo_moves_half half) {
    return kolo_ticket_slot(comm, ticket, local) + (half == KOLO_MOVES_IN ? comm->segment.slot_bytes / 2 : 0) +
           (block - moves->begin) * moves->region_bytes;
}

/* Elements of the block, and of the whole one, of which it may be a lane's slice. */
struct kolo_moves_head {
    uint64_t count, whole;
};

static inline struct kolo_moves_head kolo_moves_head(const uint8_t *region) {
    struct kolo_moves_head head;
    memcpy(&head, region, sizeof head);
    return head;
}

struct kolo_scan_layout {
    const kolo_kernel *kernel;
    const struct kolo_prefixes *prefixes;
    size_t stride; /* elements of a chunk, but for the last one */
};

/* Of a rank's slot, and of what KOLO_RANKS_MAX terms take of the node's. */
static_assert(KOLO_RANKS_MAX * sizeof(uint64_t) <= 2 * KOLO_PAGE_BYTES, "a chunk has an element of each dtype");

/* Whether the term of `rank` is its input alone, as it is. */
static inline bool kolo_scan_is_input(const kolo_comm *comm, const struct kolo_scan_layout *layout, uint32_t rank) {
    return kolo_nodes_local_rank(&comm->internode->nodes, rank) == layout->prefixes->each[rank].first;
}

static inline size_t kolo_scan_term_bytes(const kolo_comm *comm, const struct kolo_scan_layout *layout, uint32_t rank) {
    return kolo_scan_is_input(comm, layout, rank) ? layout->kernel->element_bytes : layout->kernel->acc_bytes;
}

/* The term of a local rank. */
static inline uint8_t *kolo_scan_term(const kolo_comm *comm, const struct kolo_scan_layout *layout, uint64_t ticket,
                                      uint32_t local) {
    const uint32_t rank = kolo_nodes_rank(&comm->internode->nodes, comm->internode->node, local);
    return kolo_ticket_slot(comm, ticket, local) +
           (kolo_scan_is_input(comm, layout, rank) ? 0 : layout->stride * layout->kernel->element_bytes);
}

static inline uint8_t *kolo_scan_place(const kolo_comm *comm, const struct kolo_scan_layout *layout, uint64_t ticket,
                                       uint32_t place) {
    return kolo_internode_partial(comm, ticket) + place * layout->stride * layout->kernel->acc_bytes;
}
