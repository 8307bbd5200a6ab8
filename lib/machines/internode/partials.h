/* Which partial results of its ranks a node makes for others: subtrees, for a reduction; prefixes, for a scan.
 *
 * Subtrees: the parts of the canonical tree over all ranks that a node can fold by itself (KOLO_NET_ORDER=rank). That
 * tree (reduce/reducer.h) is over ranks, on whichever node they run. A node can fold those subtrees whose ranks are all
 * on it, and sends the other nodes a partial result of each largest one. A node that has the partial results of all
 * nodes joins them as the rest of the tree says, and gets the bits that one machine would give. Consecutive ranks make
 * few subtrees: at most two of each size. If neighbours are always on different nodes, each rank is a subtree.
 *
 * Prefixes: the partial sums of a scan that cross nodes. In a scan rank r needs the sum of the inputs of the ranks up
 * to r. The part of that sum that another node contributes consists of terms. A term is the partial result of some
 * consecutive ranks of a node, and has the number of the last of them. Term e serves all ranks r of other nodes with e
 * < r < until, and each node that has such a rank gets it once. Where the sum is folded node by node, term e has the
 * inputs of all ranks of its node up to e, and serves until the next rank of that node. With KOLO_NET_ORDER=rank the
 * terms are the largest subtrees (of 2^k ranks that begin at a multiple of 2^k) whose ranks are all on one node, in the
 * infinite tree of ranks whose first n ranks form the canonical tree of n ranks. These terms serve all later ranks,
 * also those of the same node. */
#pragma once

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
     * onto a stack, and after each one joins the two topmost `joins` times. */
    struct kolo_subtree each[];
};

#define KOLO_SUBTREES_STACK_MAX 11 /* that stack never holds more */
/* Two neighbouring ranks, 2i and 2i + 1, are a subtree, so that a node has at most one largest subtree of each two. */
#define KOLO_SUBTREES_OF_NODE_MAX (KOLO_RANKS_MAX / 2)

/* The caller frees *subtrees, which is NULL where none are needed: each node's ranks are one subtree, and the canonical
 * tree over the nodes joins these in the same way. A subtree has `most` ranks at most. With 1 each rank is one, for an
 * op that needs all inputs at once (is_whole in reduce/reducer.h), and *subtrees is not NULL. KOLO_ERR_SYSTEM: out of
 * memory. */
int kolo_subtrees_make(struct kolo_subtrees **subtrees, const struct kolo_nodes *nodes, uint32_t most);

/* SINGLE: each term is one rank's input, for an op that needs all inputs at once. */
enum { KOLO_PREFIXES_BY_NODE, KOLO_PREFIXES_BY_RANK, KOLO_PREFIXES_SINGLE, KOLO_PREFIXES_KINDS };

#define KOLO_PREFIX_UNUSED UINT32_MAX

struct kolo_prefix {
    uint32_t until;
    uint32_t first; /* first rank of the term, or of that to which this rank belongs, among those of its node */
    uint32_t place; /* among the terms that this node gets, in their order; KOLO_PREFIX_UNUSED: it does not */
};

struct kolo_prefixes {
    bool by_rank;        /* or SINGLE */
    uint32_t places_max; /* terms that a node gets, of all nodes; at least 1 */
    struct kolo_prefix each[];
};

/* True if the term of `rank` is of any use to others. */
static inline bool kolo_prefix_is_used(const struct kolo_prefixes *prefixes, uint32_t rank) {
    return prefixes->each[rank].until > rank + 1;
}

/* The caller frees *prefixes, those of node `node`. KOLO_ERR_SYSTEM: out of memory. */
int kolo_prefixes_make(struct kolo_prefixes **prefixes, const struct kolo_nodes *nodes, uint32_t node, int kind);
