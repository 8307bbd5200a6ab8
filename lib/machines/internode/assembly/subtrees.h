/* Subtrees: the parts of the canonical tree over all ranks that a node can fold by itself (KOLO_NET_ORDER=rank).
 *
 * The canonical tree (reduce/reducer.h) is over ranks, on whichever node they run. A node can fold those subtrees whose
 * ranks are all on it, and sends the other nodes a partial result of each largest one. A node that has the partial
 * results of all nodes joins them as the rest of the tree says, and gets the bits that one machine would give.
 * Consecutive ranks make few subtrees: at most two of each size. If neighbours are always on different nodes, each rank
 * is a subtree of its own. */
#ifndef KOLO_INTERNODE_ASSEMBLY_SUBTREES_H
#define KOLO_INTERNODE_ASSEMBLY_SUBTREES_H

#include "kolo.h"
#include "comm/ranks.h"

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
    /* The subtrees in the order of their ranks, and with them the rest of the tree: a node pushes one after another
     * onto a stack, and after each one joins the two topmost as often as its `joins` says. The last one left is the
     * whole. */
    struct kolo_subtree each[];
};

#define KOLO_SUBTREES_STACK_MAX 11 /* that stack never holds more */
/* Two neighbouring ranks, 2i and 2i + 1, are a subtree, so that a node has at most one largest subtree of each two. */
#define KOLO_SUBTREES_OF_NODE_MAX (KOLO_RANKS_MAX / 2)

/* The caller frees *subtrees, which is NULL where none are needed: each node's ranks are one subtree, and the canonical
 * tree over the nodes joins these in the same way. KOLO_ERR_SYSTEM: out of memory. */
int kolo_subtrees_make(struct kolo_subtrees **subtrees, const struct kolo_nodes *nodes);

/* Each rank as a subtree of its own, in their order, without `joins`: for an op that needs all inputs at once (is_whole
 * in reduce/reducer.h). The caller frees *subtrees, which is never NULL. KOLO_ERR_SYSTEM: out of memory. */
int kolo_subtrees_make_single(struct kolo_subtrees **subtrees, const struct kolo_nodes *nodes);

#endif
