/* What each node can fold by itself of the canonical tree over all ranks (KOLO_NET_ORDER=rank).
 *
 * The canonical tree (reduce/reducer.h) is over ranks, wherever these run. A node can fold those of its subtrees whose
 * ranks are all on it; it sends a partial result of each largest one to the others. A node that has the partial results
 * of all nodes joins them as the rest of the tree says, and gets the bits that one machine would give. Consecutive
 * ranks make few subtrees: at most two of each size. If neighbours are always on different nodes, each rank is a
 * subtree of its own. */
#ifndef KOLO_INTERNODE_ASSEMBLY_SUBTREES_H
#define KOLO_INTERNODE_ASSEMBLY_SUBTREES_H

#include "kolo.h"
#include "comm/nodes.h"

struct kolo_subtree {
    uint32_t node;
    uint32_t place; /* among the subtrees of its node */
    uint32_t local; /* its first rank, among those of the node; the others follow it there, too */
    uint32_t ranks;
    uint32_t joins; /* see below */
};

struct kolo_subtrees {
    uint32_t count;
    uint32_t count_max; /* of one node */
    /* In the order of their ranks. The rest of the tree: put one after another on a stack, and after each one join the
     * two topmost as often as its `joins` says. What is left is the whole. */
    struct kolo_subtree each[];
};

#define KOLO_SUBTREES_STACK_MAX 11 /* that stack never holds more */
/* Each pair of neighbours is a subtree, so it adds one at most. */
#define KOLO_SUBTREES_OF_NODE_MAX (KOLO_RANKS_MAX / 2)

/* The caller frees *subtrees, which is NULL where there is nothing to do: each node's ranks are one subtree, and the
 * canonical tree over the nodes joins these in the same way. KOLO_ERR_SYSTEM: out of memory. */
int kolo_subtrees_make(struct kolo_subtrees **subtrees, const struct kolo_nodes *nodes);

/* Each rank as a subtree of its own, in their order, without `joins`: for an op that needs all inputs at once (is_whole
 * in reduce/reducer.h). The caller frees *subtrees, which is never NULL. KOLO_ERR_SYSTEM: out of memory. */
int kolo_subtrees_make_single(struct kolo_subtrees **subtrees, const struct kolo_nodes *nodes);

#endif
