/* Nodes: which rank runs on which node. A node is a group of ranks that can reach each other's shared memory. Nodes are
 * numbered by their lowest rank, and the ranks of a node, its local ranks, in the order of their ranks. */
#ifndef KOLO_COMM_NODES_H
#define KOLO_COMM_NODES_H

#include <stdbool.h>
#include <stdint.h>

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

#endif
