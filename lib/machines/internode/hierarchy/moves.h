/* Moves: the data of a gather, scatter or all-to-all that goes from rank to rank in one ticket, and where it lies.
 *
 * A block is what one rank has for another one. Blocks are numbered so that in block b each rank sends to at most one
 * other rank, and receives from at most one. In a gather b is the rank that sends, in a scatter the rank that receives,
 * and in an all-to-all rank r exchanges block b with rank (b - r) modulo the number of ranks. What a rank keeps for
 * itself does not count.
 *
 * A rank's slot has two halves of as many regions, one for each block of the ticket: what the rank sends, and what
 * comes for it from other nodes. Each region begins with a head: the number of elements of the whole block, according
 * to the rank. */
#ifndef KOLO_INTERNODE_HIERARCHY_MOVES_H
#define KOLO_INTERNODE_HIERARCHY_MOVES_H

#include <string.h>

#include "internode/internode.h"
#include "plan/plan.h"

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

/* The rank to which `rank` sends block `block`. */
static inline uint32_t kolo_moves_to(const struct kolo_moves *moves, uint32_t ranks, uint32_t rank, uint32_t block) {
    uint32_t peer = block >= rank ? block - rank : block + ranks - rank;
    if (moves->collective == KOLO_GATHER)
        peer = rank == block ? moves->root : rank;
    else if (moves->collective == KOLO_SCATTER)
        peer = rank == moves->root ? block : rank;
    return peer == rank ? KOLO_MOVES_NOBODY : peer;
}

/* The rank from which `rank` receives it. */
static inline uint32_t kolo_moves_from(const struct kolo_moves *moves, uint32_t ranks, uint32_t rank, uint32_t block) {
    uint32_t peer = block >= rank ? block - rank : block + ranks - rank;
    if (moves->collective == KOLO_GATHER)
        peer = rank == moves->root ? block : rank;
    else if (moves->collective == KOLO_SCATTER)
        peer = rank == block ? moves->root : rank;
    return peer == rank ? KOLO_MOVES_NOBODY : peer;
}

/* Elements of the chunk in a block of `whole` elements, and where it begins there. */
static inline size_t kolo_moves_chunk(const struct kolo_moves *moves, uint64_t whole, size_t *first) {
    *first = moves->chunk * moves->chunk_count;
    const size_t left = whole > *first ? whole - *first : 0;
    return left < moves->chunk_count ? left : moves->chunk_count;
}

enum kolo_moves_half { KOLO_MOVES_OUT, KOLO_MOVES_IN };

/* The region of a local rank for a block. `ticket` is over all calls. */
static inline uint8_t *kolo_moves_region(const kolo_comm *comm, const struct kolo_moves *moves, uint64_t ticket,
                                         uint32_t local, uint32_t block, enum kolo_moves_half half) {
    const size_t slot_bytes = comm->segment.slot_bytes;
    uint8_t *slot = comm->segment.slots + (local * (size_t)KOLO_SLOTS + ticket % KOLO_SLOTS) * slot_bytes;
    return slot + (half == KOLO_MOVES_IN ? slot_bytes / 2 : 0) + (block - moves->begin) * moves->region_bytes;
}

static inline uint64_t kolo_moves_head(const uint8_t *region) {
    uint64_t whole;
    memcpy(&whole, region, sizeof whole);
    return whole;
}

#endif
