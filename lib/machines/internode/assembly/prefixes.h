/* Prefixes: the partial sums of a scan that cross nodes.
 *
 * In a scan rank r needs the sum of the inputs of the ranks up to r. The part of that sum that another node contributes
 * consists of terms. A term is the partial result of some consecutive ranks of a node, and has the number of the last
 * of them. Term e serves all ranks r of other nodes with e < r < until, and each node that has such a rank gets it
 * once.
 *
 * Where the sum is folded node by node, term e has the inputs of all ranks of its node up to e, and serves until the
 * next rank of that node. With KOLO_NET_ORDER=rank the terms are the largest subtrees (of 2^k ranks that begin at a
 * multiple of 2^k) whose ranks are all on one node, in the infinite tree of ranks whose first n ranks form the
 * canonical tree of n ranks (reduce/reducer.h). These terms serve all later ranks, also those of the same node. */
#ifndef KOLO_INTERNODE_ASSEMBLY_PREFIXES_H
#define KOLO_INTERNODE_ASSEMBLY_PREFIXES_H

#include <stdbool.h>

#include "comm/ranks.h"

#define KOLO_PREFIX_UNUSED UINT32_MAX

struct kolo_prefix {
    uint32_t until;
    uint32_t first; /* first rank of the term, or of that to which this rank belongs, among those of its node */
    uint32_t place; /* among the terms that this node gets, in their order; KOLO_PREFIX_UNUSED: it does not */
};

struct kolo_prefixes {
    bool by_rank;
    uint32_t places_max; /* terms that a node gets, of all nodes; at least 1 */
    struct kolo_prefix each[];
};

/* True if the term of `rank` is of any use to others. */
static inline bool kolo_prefix_is_used(const struct kolo_prefixes *prefixes, uint32_t rank) {
    return prefixes->each[rank].until > rank + 1;
}

/* The caller frees *prefixes, those of node `node`. KOLO_ERR_SYSTEM: out of memory. */
int kolo_prefixes_make(struct kolo_prefixes **prefixes, const struct kolo_nodes *nodes, uint32_t node, bool by_rank);

/* The same where each term is one rank's input, for an op that needs all inputs at once (is_whole in reduce/reducer.h).
 */
int kolo_prefixes_make_single(struct kolo_prefixes **prefixes, const struct kolo_nodes *nodes, uint32_t node);

#endif
