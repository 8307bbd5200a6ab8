/* Subtrees by node: joined as they say, they are the canonical tree over all ranks, no two of a node could have been
 * one, and there are none where the tree over the nodes is the same one. Trees are told apart by a hash. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "hashed_tree.h"
#include "internode/partials.h"

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

static void check(const uint32_t *groups, uint32_t ranks) {
    uint64_t hashes[KOLO_RANKS_MAX];
    uint32_t places[KOLO_RANKS_MAX] = {0}, most = 0;
    struct kolo_nodes nodes;
    struct kolo_subtrees *subtrees;
    rank_hashes(hashes, ranks);
    assert_int_equal(kolo_nodes_make(&nodes, groups, ranks), 0);
    assert_int_equal(kolo_subtrees_make(&subtrees, &nodes), 0);
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
    assert_int_equal(kolo_subtrees_make_single(&subtrees, &nodes), 0);
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
static void test_all(void **state) {
    (void)state;
    for (uint32_t ranks = 2; ranks <= 8; ranks++)
        for (uint32_t code = 0; code < UINT32_C(1) << 2 * ranks; code++) {
            uint32_t groups[8];
            for (uint32_t rank = 0; rank < ranks; rank++)
                groups[rank] = code >> 2 * rank & 3;
            check(groups, ranks);
        }
}

/* Many ranks: dealt out in turn, singly and by twos; a block a node, of one size, and with one rank more on the first.
 */
static void test_many(void **state) {
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
                check(groups[way], sizes[i]);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_all), cmocka_unit_test(test_many)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
