/* Sets of ranks, which are KOLO_RANK_WORDS words with a bit a rank, and nodes: which rank runs on which node. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shm/layout.h"

static inline bool kolo_ranks_have(const uint64_t *set, uint32_t rank) {
    return set[rank / 64] >> rank % 64 & 1;
}

static inline void kolo_ranks_add(uint64_t *set, uint32_t rank) {
    set[rank / 64] |= UINT64_C(1) << rank % 64;
}

static inline void kolo_ranks_remove(uint64_t *set, uint32_t rank) {
    set[rank / 64] &= ~(UINT64_C(1) << rank % 64);
}

static inline uint32_t kolo_ranks_count_below(const uint64_t *set, uint32_t end) {
    uint32_t count = 0;
    for (uint32_t rank = 0; rank < end; rank++)
        count += kolo_ranks_have(set, rank);
    return count;
}

/* Returns the lowest rank of a set; `end` if none is below that. */
static inline uint32_t kolo_ranks_lowest(const uint64_t *set, uint32_t end) {
    uint32_t rank = 0;
    while (rank < end && !kolo_ranks_have(set, rank))
        rank++;
    return rank;
}

/* Writes "0, 3-7, 9" for messages, as much of it as fits text_bytes; "" for none. */
void kolo_ranks_list(const uint64_t *set, char *text, size_t text_bytes);

/* A node is a group of ranks that can reach each other's shared memory. Nodes are
 * numbered by their lowest rank, and the ranks of a node, its local ranks, in the order of their ranks. */

struct kolo_nodes {
    uint32_t size;      /* ranks of all nodes */
    uint32_t nodes;     /* at least 1 */
    uint32_t *node_of;  /* [size]: the node of each rank */
    uint32_t *ranks;    /* [size]: all ranks, node by node */
    uint32_t *first_of; /* [nodes + 1]: where those of each node begin in `ranks` */
};

/* Makes *nodes from groups[rank], any numbers that are equal for ranks of one node. KOLO_ERR_SYSTEM: out of memory. */
int kolo_nodes_make(struct kolo_nodes *nodes, const uint32_t *groups, uint32_t size);
void kolo_nodes_free(struct kolo_nodes *nodes);

static inline uint32_t kolo_nodes_local_size(const struct kolo_nodes *nodes, uint32_t node) {
    return nodes->first_of[node + 1] - nodes->first_of[node];
}

/* Returns the rank that is local rank `local` of `node`. */
static inline uint32_t kolo_nodes_rank(const struct kolo_nodes *nodes, uint32_t node, uint32_t local) {
    return nodes->ranks[nodes->first_of[node] + local];
}

/* Returns the local rank of `rank`: its place among those of its node. */
uint32_t kolo_nodes_local_rank(const struct kolo_nodes *nodes, uint32_t rank);

/* Returns how many ranks of `node` are below `rank`. */
uint32_t kolo_nodes_ranks_below(const struct kolo_nodes *nodes, uint32_t node, uint32_t rank);

/* Returns true if `rank` is the first one of its node behind `other`. */
static inline bool kolo_nodes_is_next(const struct kolo_nodes *nodes, uint32_t rank, uint32_t other) {
    const uint32_t place = kolo_nodes_local_rank(nodes, rank);
    return place == 0 || kolo_nodes_rank(nodes, nodes->node_of[rank], place - 1) <= other;
}
