/* Finds which ranks of a node are whole subtrees of the canonical order. */
#include "internode/assembly/subtrees.h"

#include <stdbool.h>
#include <stdlib.h>

#include "base/status.h"

/* A tree of 2^k ranks leaves at most one left half of each of k sizes on the stack, and the last rank. */
_Static_assert(1 << (KOLO_SUBTREES_STACK_MAX - 1) == KOLO_RANKS_MAX, "the stack is high enough");

static bool is_on_one_node(const struct kolo_nodes *nodes, uint32_t first, uint32_t ranks) {
    for (uint32_t rank = first + 1; rank < first + ranks; rank++)
        if (nodes->node_of[rank] != nodes->node_of[first])
            return false;
    return true;
}

/* Adds the largest subtrees of `ranks` ranks from `first` on. Those ranks are a subtree themselves. */
static void add(struct kolo_subtrees *subtrees, const struct kolo_nodes *nodes, uint32_t *places, uint32_t first,
                uint32_t ranks) {
    uint32_t left = 1;
    if (is_on_one_node(nodes, first, ranks)) {
        const uint32_t node = nodes->node_of[first], place = places[node]++;
        subtrees->each[subtrees->count++] = (struct kolo_subtree){
            .node = node, .place = place, .local = kolo_nodes_local_rank(nodes, first), .ranks = ranks};
        if (subtrees->count_max < place + 1)
            subtrees->count_max = place + 1;
        return;
    }
    while (left < ranks - left)
        left *= 2;
    add(subtrees, nodes, places, first, left);
    add(subtrees, nodes, places, first + left, ranks - left);
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

int kolo_subtrees_make(struct kolo_subtrees **result, const struct kolo_nodes *nodes) {
    struct kolo_subtrees *subtrees = calloc(1, sizeof *subtrees + nodes->size * sizeof *subtrees->each);
    uint32_t *places = calloc(nodes->nodes, sizeof *places);
    *result = NULL;
    if (!subtrees || !places) {
        free(subtrees);
        free(places);
        return kolo_fail(KOLO_ERR_SYSTEM, "out of memory for %u ranks", nodes->size);
    }
    add(subtrees, nodes, places, 0, nodes->size);
    free(places);
    if (is_tree_of_nodes(subtrees))
        free(subtrees);
    else
        *result = subtrees;
    return 0;
}

int kolo_subtrees_make_single(struct kolo_subtrees **result, const struct kolo_nodes *nodes) {
    struct kolo_subtrees *subtrees = calloc(1, sizeof *subtrees + nodes->size * sizeof *subtrees->each);
    if (!subtrees)
        return kolo_fail(KOLO_ERR_SYSTEM, "out of memory for %u ranks", nodes->size);
    subtrees->count = nodes->size;
    for (uint32_t rank = 0; rank < nodes->size; rank++) {
        const uint32_t local = kolo_nodes_local_rank(nodes, rank);
        subtrees->each[rank] =
            (struct kolo_subtree){.node = nodes->node_of[rank], .place = local, .local = local, .ranks = 1};
        if (subtrees->count_max < local + 1)
            subtrees->count_max = local + 1;
    }
    *result = subtrees;
    return 0;
}
