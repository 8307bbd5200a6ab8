/* Nodes by their ranks: how they are numbered, and who is where on them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "comm/ranks.h"

static void test_mixed(void **state) {
    (void)state;
    static const uint32_t groups[] = {7, 3, 7, 900, 3, 3, 1};
    struct kolo_nodes nodes;
    assert_int_equal(kolo_nodes_make(&nodes, groups, 7), 0);
    static const uint32_t node_of[] = {0, 1, 0, 2, 1, 1, 3}, ranks[] = {0, 2, 1, 4, 5, 3, 6};
    static const uint32_t first_of[] = {0, 2, 5, 6, 7}, local[] = {0, 0, 1, 0, 1, 2, 0};
    assert_int_equal(nodes.size, 7);
    assert_int_equal(nodes.nodes, 4);
    assert_memory_equal(nodes.node_of, node_of, sizeof node_of);
    assert_memory_equal(nodes.ranks, ranks, sizeof ranks);
    assert_memory_equal(nodes.first_of, first_of, sizeof first_of);
    for (uint32_t rank = 0; rank < 7; rank++)
        assert_int_equal(kolo_nodes_local_rank(&nodes, rank), local[rank]);
    assert_int_equal(kolo_nodes_local_size(&nodes, 1), 3);
    assert_int_equal(kolo_nodes_rank(&nodes, 1, 2), 5);
    kolo_nodes_free(&nodes);
    assert_null(nodes.ranks);
    kolo_nodes_free(&nodes);
}

/* 1024 ranks, of one node, of a node each, and dealt out in turn. */
static void test_many(void **state) {
    (void)state;
    static const uint32_t counts[] = {1, 1024, 7};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        uint32_t groups[1024];
        struct kolo_nodes nodes;
        for (uint32_t rank = 0; rank < 1024; rank++)
            groups[rank] = 1023 - rank % counts[i];
        assert_int_equal(kolo_nodes_make(&nodes, groups, 1024), 0);
        assert_int_equal(nodes.nodes, counts[i]);
        assert_int_equal(nodes.first_of[nodes.nodes], 1024);
        for (uint32_t rank = 0; rank < 1024; rank++) {
            const uint32_t node = rank % counts[i];
            assert_int_equal(nodes.node_of[rank], node);
            assert_int_equal(kolo_nodes_rank(&nodes, node, kolo_nodes_local_rank(&nodes, rank)), rank);
        }
        kolo_nodes_free(&nodes);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_mixed), cmocka_unit_test(test_many)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
