/* Finds which ranks of a node are whole subtrees of the canonical order, and which node gets which term of a scan. */
#include "internode/partials.h"

#include <stdbool.h>
#include <stdlib.h>

#include "base/status.h"
#include "reduce/reducer.h"

/* A tree of 2^k ranks leaves at most one left half of each of k sizes on the stack, and the last rank. */
_Static_assert(1 << (KOLO_SUBTREES_STACK_MAX - 1) == KOLO_RANKS_MAX, "the stack is high enough");

static bool is_on_one_node(const struct kolo_nodes *nodes, uint32_t first, uint32_t ranks) {
    for (uint32_t rank = first; rank < first + ranks; rank++)
        if (rank >= nodes->size || nodes->node_of[rank] != nodes->node_of[first])
            return false;
    return true;
}

/* Adds the largest subtrees, of `most` ranks at most, of `ranks` ranks from `first` on, which are a subtree. */
static void add(struct kolo_subtrees *subtrees, const struct kolo_nodes *nodes, uint32_t *places, uint32_t first,
                uint32_t ranks, uint32_t most) {
    if (ranks <= most && is_on_one_node(nodes, first, ranks)) {
        const uint32_t node = nodes->node_of[first], place = places[node]++;
        subtrees->each[subtrees->count++] = (struct kolo_subtree){
            .node = node, .place = place, .local = kolo_nodes_local_rank(nodes, first), .ranks = ranks};
        if (subtrees->count_max < place + 1)
            subtrees->count_max = place + 1;
        return;
    }
    const uint32_t left = kolo_tree_left(ranks);
    add(subtrees, nodes, places, first, left, most);
    add(subtrees, nodes, places, first + left, ranks - left, most);
    subtrees->each[subtrees->count - 1].joins++;
}

/* Nodes are numbered by their lowest rank: where each has one subtree, these are in the order of the nodes. */
static bool is_tree_of_nodes(const struct kolo_subtrees *subtrees) {
    if (subtrees->count_max > 1)
        return false;
    for (uint32_t i = 0; i < subtrees->count; i++) {
        /* A whole subtree of 2^k leaves ends with every 2^k-th leaf. After the last leaf all subtrees that are left are
         * joined. */
        const uint32_t leaves = i + 1, wholes = (uint32_t)__builtin_popcount(leaves);
        const uint32_t joins = (uint32_t)__builtin_ctz(leaves) + (leaves == subtrees->count ? wholes - 1 : 0);
        if (subtrees->each[i].joins != joins)
            return false;
    }
    return true;
}

static int out_of_memory(const struct kolo_nodes *nodes) {
    return kolo_fail(KOLO_ERR_SYSTEM, "out of memory for %u ranks", nodes->size);
}

int kolo_subtrees_make(struct kolo_subtrees **result, const struct kolo_nodes *nodes, uint32_t most) {
    struct kolo_subtrees *subtrees = calloc(1, sizeof *subtrees + nodes->size * sizeof *subtrees->each);
    uint32_t *places = calloc(nodes->nodes, sizeof *places);
    *result = NULL;
    if (!subtrees || !places) {
        free(subtrees);
        free(places);
        return out_of_memory(nodes);
    }
    add(subtrees, nodes, places, 0, nodes->size, most);
    free(places);
    if (most > 1 && is_tree_of_nodes(subtrees))
        free(subtrees);
    else
        *result = subtrees;
    return 0;
}

/* Prefixes. */

static void set_by_nodes(struct kolo_prefixes *prefixes, const struct kolo_nodes *nodes) {
    for (uint32_t node = 0; node < nodes->nodes; node++)
        for (uint32_t local = 0, size = kolo_nodes_local_size(nodes, node); local < size; local++) {
            const uint32_t until = local + 1 < size ? kolo_nodes_rank(nodes, node, local + 1) : nodes->size;
            prefixes->each[kolo_nodes_rank(nodes, node, local)] = (struct kolo_prefix){.until = until};
        }
}

/* Finds the terms among `ranks` ranks from `first` on, a power of two; none has more ranks than `most`. */
static void set_by_ranks(struct kolo_prefixes *prefixes, const struct kolo_nodes *nodes, uint32_t first, uint32_t ranks,
                         uint32_t most) {
    if (first >= nodes->size)
        return;
    if (ranks > most || !is_on_one_node(nodes, first, ranks)) {
        set_by_ranks(prefixes, nodes, first, ranks / 2, most);
        set_by_ranks(prefixes, nodes, first + ranks / 2, ranks / 2, most);
        return;
    }
    const uint32_t last = first + ranks - 1;
    for (uint32_t rank = first; rank <= last; rank++)
        prefixes->each[rank] = (struct kolo_prefix){.until = rank == last ? nodes->size : rank + 1,
                                                    .first = kolo_nodes_local_rank(nodes, first)};
}

/* Numbers the terms that `node` gets, and counts those of the node that gets most. `got`: terms of each node so far. */
static void place(struct kolo_prefixes *prefixes, const struct kolo_nodes *nodes, uint32_t node, uint32_t *got) {
    for (uint32_t term = 0; term < nodes->size; term++) {
        const uint32_t until = prefixes->each[term].until;
        prefixes->each[term].place = KOLO_PREFIX_UNUSED;
        for (uint32_t taker = 0; until > term + 1 && taker < nodes->nodes; taker++) {
            if (taker == nodes->node_of[term] ||
                kolo_nodes_ranks_below(nodes, taker, until) == kolo_nodes_ranks_below(nodes, taker, term))
                continue;
            if (taker == node)
                prefixes->each[term].place = got[taker];
            if (++got[taker] > prefixes->places_max)
                prefixes->places_max = got[taker];
        }
    }
}

int kolo_prefixes_make(struct kolo_prefixes **result, const struct kolo_nodes *nodes, uint32_t node, int kind) {
    struct kolo_prefixes *prefixes = calloc(1, sizeof *prefixes + nodes->size * sizeof *prefixes->each);
    uint32_t *got = calloc(nodes->nodes, sizeof *got);
    uint32_t ranks = 1;
    *result = prefixes;
    if (!prefixes || !got) {
        free(got);
        return out_of_memory(nodes);
    }
    while (ranks < nodes->size)
        ranks *= 2;
    prefixes->by_rank = kind != KOLO_PREFIXES_BY_NODE;
    prefixes->places_max = 1;
    if (prefixes->by_rank)
        set_by_ranks(prefixes, nodes, 0, ranks, kind == KOLO_PREFIXES_SINGLE ? 1 : ranks);
    else
        set_by_nodes(prefixes, nodes);
    place(prefixes, nodes, node, got);
    free(got);
    return 0;
}
