/* Which sums of a scan cross nodes: what a rank gets, with what its own node has, makes the tree of the ranks before
 * it, node by node or by ranks; a node gets each term once, those that it needs and no others. Trees are told apart by
 * a hash. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "hashed_tree.h"
#include "internode/partials.h"
#include "shm/layout.h"

enum { SMALL_MAX = 7, NODES = 4 };

/* Of ranks `first` to `last` of a node, by their places there. */
static uint64_t tree_of_locals(const struct kolo_nodes *nodes, uint32_t node, uint32_t first, uint32_t last) {
    uint64_t leaves[KOLO_RANKS_MAX];
    for (uint32_t local = first; local <= last; local++)
        leaves[local - first] = input_of(kolo_nodes_rank(nodes, node, local));
    return tree(leaves, last - first + 1);
}

/* The ranks up to `rank`: of each node, and then the nodes; or of all in their order. */
static uint64_t wanted(const struct kolo_nodes *nodes, uint32_t rank, bool by_rank) {
    uint64_t parts[KOLO_RANKS_MAX];
    uint32_t count = 0;
    for (uint32_t i = 0; by_rank && i <= rank; i++)
        parts[count++] = input_of(i);
    for (uint32_t node = 0; !by_rank && node < nodes->nodes; node++) {
        const uint32_t below = kolo_nodes_ranks_below(nodes, node, rank + 1);
        if (below)
            parts[count++] = tree_of_locals(nodes, node, 0, below - 1);
    }
    return tree(parts, count);
}

static uint64_t term_of(const struct kolo_nodes *nodes, const struct kolo_prefixes *prefixes, uint32_t term) {
    return tree_of_locals(nodes, nodes->node_of[term], prefixes->each[term].first, kolo_nodes_local_rank(nodes, term));
}

struct stack {
    uint64_t parts[KOLO_RANKS_MAX];
    uint32_t weights[KOLO_RANKS_MAX], height;
};

static void push(struct stack *stack, uint64_t part, uint32_t weight) {
    stack->parts[stack->height] = part;
    stack->weights[stack->height++] = weight;
    for (uint32_t top = stack->height - 1; top > 0 && stack->weights[top - 1] == stack->weights[top]; top--) {
        stack->parts[top - 1] = join(stack->parts[top - 1], stack->parts[top]);
        stack->weights[top - 1] *= 2;
        stack->height--;
    }
}

/* The same from terms, as partials.h says: `rank` takes those of other nodes that serve it. used: marks them. */
static uint64_t from_terms(const struct kolo_nodes *nodes, const struct kolo_prefixes *prefixes, uint32_t rank,
                           bool *used) {
    const uint32_t own = nodes->node_of[rank], first = prefixes->each[rank].first;
    struct stack stack = {.height = 0};
    /* By ranks the terms are in the order of ranks; node by node in that of the nodes. */
    for (uint32_t i = 0; i < (prefixes->by_rank ? rank : nodes->nodes * nodes->size); i++) {
        const uint32_t term = i % nodes->size, node = prefixes->by_rank ? nodes->node_of[term] : i / nodes->size;
        const bool is_own = !prefixes->by_rank && node == own && term == rank;
        if (is_own)
            push(&stack, tree_of_locals(nodes, own, 0, kolo_nodes_local_rank(nodes, rank)), 1);
        if (nodes->node_of[term] != node || term >= rank || prefixes->each[term].until <= rank ||
            (!prefixes->by_rank && node == own))
            continue;
        used[term] |= node != own;
        push(&stack, term_of(nodes, prefixes, term),
             prefixes->by_rank ? kolo_nodes_local_rank(nodes, term) - prefixes->each[term].first + 1 : 1);
    }
    if (prefixes->by_rank)
        push(&stack, tree_of_locals(nodes, own, first, kolo_nodes_local_rank(nodes, rank)), 0);
    while (stack.height > 1) {
        stack.height--;
        stack.parts[stack.height - 1] = join(stack.parts[stack.height - 1], stack.parts[stack.height]);
    }
    return stack.parts[0];
}

/* Checks what `node` gets; returns how many terms these are. */
static uint32_t check_places(const struct kolo_nodes *nodes, const struct kolo_prefixes *prefixes, uint32_t node) {
    bool used[KOLO_RANKS_MAX] = {false};
    uint32_t places = 0;
    for (uint32_t local = 0; local < kolo_nodes_local_size(nodes, node); local++) {
        const uint32_t rank = kolo_nodes_rank(nodes, node, local);
        assert_true(from_terms(nodes, prefixes, rank, used) == wanted(nodes, rank, prefixes->by_rank));
    }
    for (uint32_t term = 0; term < nodes->size; term++) {
        assert_int_equal(prefixes->each[term].place, used[term] ? places : KOLO_PREFIX_UNUSED);
        places += used[term];
        assert_true(!used[term] || kolo_prefix_is_used(prefixes, term));
    }
    return places;
}

static void check(const uint32_t *groups, uint32_t ranks) {
    struct kolo_nodes nodes;
    assert_int_equal(kolo_nodes_make(&nodes, groups, ranks), 0);
    for (int way = 0; way < KOLO_PREFIXES_KINDS; way++) {
        uint32_t most = 1, places_max = 0;
        for (uint32_t node = 0; node < nodes.nodes; node++) {
            struct kolo_prefixes *prefixes;
            assert_int_equal(kolo_prefixes_make(&prefixes, &nodes, node, way), 0);
            for (uint32_t rank = 0; way == KOLO_PREFIXES_SINGLE && rank < ranks; rank++)
                assert_int_equal(prefixes->each[rank].first, kolo_nodes_local_rank(&nodes, rank));
            const uint32_t places = check_places(&nodes, prefixes, node);
            most = places > most ? places : most;
            assert_true(node == 0 || prefixes->places_max == places_max); /* the same for all nodes */
            places_max = prefixes->places_max;
            free(prefixes);
        }
        assert_int_equal(places_max, most);
    }
    kolo_nodes_free(&nodes);
}

/* Up to 7 ranks on up to 4 nodes, in every way. */
static void test_all(void **state) {
    (void)state;
    for (uint32_t ranks = 2; ranks <= SMALL_MAX; ranks++)
        for (uint32_t code = 0; code < UINT32_C(1) << 2 * ranks; code++) {
            uint32_t groups[SMALL_MAX];
            for (uint32_t rank = 0; rank < ranks; rank++)
                groups[rank] = code >> 2 * rank & (NODES - 1);
            check(groups, ranks);
        }
}

/* More ranks: dealt out in turn, singly and by twos; a block a node, and with one rank more on the first. */
static void test_many(void **state) {
    (void)state;
    enum { RANKS = 61 };
    for (uint32_t nodes = 2; nodes <= RANKS; nodes = nodes * 2 + 1) {
        uint32_t groups[4][RANKS];
        const uint32_t block = RANKS / nodes + 1;
        for (uint32_t rank = 0; rank < RANKS; rank++) {
            groups[0][rank] = rank % nodes;
            groups[1][rank] = rank / 2 % nodes;
            groups[2][rank] = rank / block;
            groups[3][rank] = rank ? (rank - 1) / block : 0;
        }
        for (size_t way = 0; way < 4; way++)
            check(groups[way], RANKS);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_all), cmocka_unit_test(test_many)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
