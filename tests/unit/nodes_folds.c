/* What nodes send each other so that results are those of canonical trees over ranks, which are told apart by a hash:
 * the sums of a scan, and the subtrees of a reduction. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "internode/partials.h"
#include "shm/layout.h"

/* Hashes of trees. */

/* Of a tree of these two: as in a sum of floats, a + b is b + a, and (a + b) + c is not a + (b + c). */
static uint64_t join(uint64_t a, uint64_t b) {
    const uint64_t sum = a + b + UINT64_C(0x9e3779b97f4a7c15);
    return (sum ^ sum >> 29) * UINT64_C(0xbf58476d1ce4e5b9);
}

static uint64_t tree(const uint64_t *leaves, uint32_t count) {
    uint32_t left = 1;
    if (count == 1)
        return leaves[0];
    while (left < count - left)
        left *= 2;
    return join(tree(leaves, left), tree(leaves + left, count - left));
}

static uint64_t input_of(uint32_t rank) {
    return join(rank, UINT64_C(1) << 40);
}

/* Which sums of a scan cross nodes: what a rank gets, with what its own node has, makes the tree of the ranks before
 * it, node by node or by ranks; a node gets each term once, those that it needs and no others. Trees are told apart by
 * a hash. */

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

static void check_prefixes(const uint32_t *groups, uint32_t ranks) {
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
static void test_prefixes(void **state) {
    (void)state;
    for (uint32_t ranks = 2; ranks <= SMALL_MAX; ranks++)
        for (uint32_t code = 0; code < UINT32_C(1) << 2 * ranks; code++) {
            uint32_t groups[SMALL_MAX];
            for (uint32_t rank = 0; rank < ranks; rank++)
                groups[rank] = code >> 2 * rank & (NODES - 1);
            check_prefixes(groups, ranks);
        }
}

/* More ranks: dealt out in turn, singly and by twos; a block a node, and with one rank more on the first. */
static void test_many_prefixes(void **state) {
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
            check_prefixes(groups[way], RANKS);
    }
}

/* Subtrees by node: joined as they say, they are the canonical tree over all ranks, no two of a node could have been
 * one, and there are none where the tree over the nodes is the same one. Trees are told apart by a hash. */

static void rank_hashes(uint64_t *hashes, uint32_t ranks) {
    for (uint32_t rank = 0; rank < ranks; rank++)
        hashes[rank] = input_of(rank);
}

/* As without subtrees: each node's ranks, then the nodes. */
static uint64_t tree_by_nodes(const struct kolo_nodes *nodes, const uint64_t *hashes) {
    uint64_t partials[KOLO_RANKS_MAX], own[KOLO_RANKS_MAX];
    for (uint32_t node = 0; node < nodes->nodes; node++) {
        const uint32_t ranks = kolo_nodes_local_size(nodes, node);
        for (uint32_t i = 0; i < ranks; i++)
            own[i] = hashes[kolo_nodes_rank(nodes, node, i)];
        partials[node] = tree(own, ranks);
    }
    return tree(partials, nodes->nodes);
}

static uint64_t tree_by_subtrees(const struct kolo_subtrees *subtrees, const struct kolo_nodes *nodes,
                                 const uint64_t *hashes) {
    uint64_t stack[KOLO_SUBTREES_STACK_MAX];
    uint32_t height = 0, rank = 0;
    for (uint32_t i = 0; i < subtrees->count; i++) {
        const struct kolo_subtree *subtree = &subtrees->each[i];
        assert_int_equal(rank, kolo_nodes_rank(nodes, subtree->node, subtree->local));
        for (uint32_t local = 0; local < subtree->ranks; local++)
            assert_int_equal(rank + local, kolo_nodes_rank(nodes, subtree->node, subtree->local + local));
        assert_true(height < KOLO_SUBTREES_STACK_MAX);
        stack[height++] = tree(&hashes[rank], subtree->ranks);
        rank += subtree->ranks;
        assert_true(subtree->joins < height);
        for (uint32_t joins = 0; joins < subtree->joins; joins++, height--)
            stack[height - 2] = join(stack[height - 2], stack[height - 1]);
    }
    assert_int_equal(rank, nodes->size);
    assert_int_equal(height, 1);
    return stack[0];
}

/* How many subtrees there must be of those ranks, which are a subtree. */
static uint32_t count_wholes(const uint32_t *node_of, uint32_t ranks) {
    uint32_t same = 1, left = 1;
    while (same < ranks && node_of[same] == node_of[0])
        same++;
    if (same == ranks)
        return 1;
    while (left < ranks - left)
        left *= 2;
    return count_wholes(node_of, left) + count_wholes(node_of + left, ranks - left);
}

static void check_subtrees(const uint32_t *groups, uint32_t ranks) {
    uint64_t hashes[KOLO_RANKS_MAX];
    uint32_t places[KOLO_RANKS_MAX] = {0}, most = 0;
    struct kolo_nodes nodes;
    struct kolo_subtrees *subtrees;
    rank_hashes(hashes, ranks);
    assert_int_equal(kolo_nodes_make(&nodes, groups, ranks), 0);
    assert_int_equal(kolo_subtrees_make(&subtrees, &nodes, KOLO_RANKS_MAX), 0);
    const bool is_same = tree_by_nodes(&nodes, hashes) == tree(hashes, ranks);
    assert_int_equal(subtrees == NULL, is_same);
    if (subtrees) {
        assert_true(tree_by_subtrees(subtrees, &nodes, hashes) == tree(hashes, ranks));
        assert_int_equal(subtrees->count, count_wholes(nodes.node_of, ranks));
        for (uint32_t i = 0; i < subtrees->count; i++) {
            assert_int_equal(subtrees->each[i].place, places[subtrees->each[i].node]++);
            most = subtrees->each[i].place >= most ? subtrees->each[i].place + 1 : most;
        }
        assert_int_equal(subtrees->count_max, most);
        assert_true(most <= KOLO_SUBTREES_OF_NODE_MAX);
    }
    free(subtrees);
    assert_int_equal(kolo_subtrees_make(&subtrees, &nodes, 1), 0);
    assert_int_equal(subtrees->count, ranks);
    for (uint32_t rank = 0; rank < ranks; rank++) {
        const struct kolo_subtree *each = &subtrees->each[rank];
        assert_true(each->node == nodes.node_of[rank] && each->ranks == 1 && each->place == each->local &&
                    each->place < subtrees->count_max);
        assert_int_equal(kolo_nodes_rank(&nodes, each->node, each->local), rank);
    }
    free(subtrees);
    kolo_nodes_free(&nodes);
}

/* Up to 8 ranks on up to 4 nodes, in every way. */
static void test_subtrees(void **state) {
    (void)state;
    for (uint32_t ranks = 2; ranks <= 8; ranks++)
        for (uint32_t code = 0; code < UINT32_C(1) << 2 * ranks; code++) {
            uint32_t groups[8];
            for (uint32_t rank = 0; rank < ranks; rank++)
                groups[rank] = code >> 2 * rank & 3;
            check_subtrees(groups, ranks);
        }
}

/* Many ranks: dealt out in turn, singly and by twos; a block a node, of one size, and with one rank more on the first.
 */
static void test_many_subtrees(void **state) {
    (void)state;
    static const uint32_t sizes[] = {KOLO_RANKS_MAX, KOLO_RANKS_MAX - 1, 777};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (uint32_t nodes = 2; nodes <= KOLO_RANKS_MAX; nodes = nodes * 3 / 2) {
            uint32_t groups[4][KOLO_RANKS_MAX];
            const uint32_t block = sizes[i] / nodes + 1;
            for (uint32_t rank = 0; rank < sizes[i]; rank++) {
                groups[0][rank] = rank % nodes;
                groups[1][rank] = rank / 2 % nodes;
                groups[2][rank] = rank / block;
                groups[3][rank] = rank ? (rank - 1) / block : 0;
            }
            for (size_t way = 0; way < 4; way++)
                check_subtrees(groups[way], sizes[i]);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_prefixes), cmocka_unit_test(test_many_prefixes),
                                       cmocka_unit_test(test_subtrees), cmocka_unit_test(test_many_subtrees)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
