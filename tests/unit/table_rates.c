/* Learning rates of a table on several nodes. A rank that ends while it sets one leaves all nodes with the same rate,
 * even where not all of them hear of its node any more. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "table/clocks.h"

enum { NODES = 3, LOCALS = 2, SETTER = 1 };

/* What the ranks of a node share; the header alone on its pages. */
struct shared {
    _Alignas(KOLO_PAGE_BYTES) struct kolo_shared_table_header header;
    _Alignas(KOLO_PAGE_BYTES) struct kolo_shared_table_rank members[LOCALS];
};

static struct shared *shared; /* [NODES] */
static struct kolo_nodes nodes;
static kolo_comm comms[NODES];
static struct kolo_table tables[NODES]; /* of the leaders, but of node 0 that of the rank that sets */

static uint64_t bits_of(double rate) {
    uint64_t bits;
    memcpy(&bits, &rate, sizeof bits);
    return bits;
}

static int set_up(void **state) {
    static uint32_t node_of[NODES * LOCALS] = {0, 0, 1, 1, 2, 2};
    (void)state;
    shared = mmap(NULL, NODES * sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return -1;
    nodes = (struct kolo_nodes){0};
    if (kolo_nodes_make(&nodes, node_of, NODES * LOCALS) < 0)
        return -1;
    for (uint32_t node = 0; node < NODES; node++) {
        const uint32_t rank = node == 0 ? SETTER : 0;
        comms[node] = (kolo_comm){.global_size = NODES * LOCALS, .global_rank = LOCALS * node + rank};
        tables[node] = (struct kolo_table){.comm = &comms[node],
                                           .nodes = &nodes,
                                           .node = node,
                                           .rank = rank,
                                           .workers = LOCALS,
                                           .header = &shared[node].header,
                                           .members = shared[node].members,
                                           .self = &shared[node].members[rank]};
    }
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    kolo_nodes_free(&nodes);
    return munmap(shared, NODES * sizeof *shared);
}

/* Each node tells the others its rate. Nodes from `hears_end` on hear nothing of node 0. */
static void pass_round(uint32_t hears_end) {
    uint64_t sets[NODES], rates[NODES];
    for (uint32_t node = 0; node < NODES; node++)
        rates[node] = kolo_rate_get(&tables[node], &sets[node]);
    for (uint32_t node = 0; node < NODES; node++)
        for (uint32_t from = node < hears_end ? 0 : 1; from < NODES; from++)
            kolo_rate_take(&tables[node], sets[from], rates[from]);
}

/* The rank ends before the first word of the header that it would write. */
static void set_and_end(double rate) {
    int status;
    const pid_t child = fork();
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL); /* the test's own handler would print */
        mprotect(&shared[0].header, KOLO_PAGE_BYTES, PROT_READ);
        kolo_rate_set(&tables[0], bits_of(rate));
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_not_equal(status, 0);
}

static void expect_rate(double rate, uint32_t first) {
    for (uint32_t node = first; node < NODES; node++)
        assert_true(kolo_table_learning_rate(&tables[node]) == rate);
}

/* Clocks end between some of the sets. */
static void test_ends_while_setting(void **state) {
    (void)state;
    for (int i = 0; i < 16; i++) {
        const double rate = 1.0 / (i + 2);
        tables[0].clock += (uint64_t)(i & 1);
        kolo_rate_set(&tables[0], bits_of(rate));
        pass_round(NODES);
        expect_rate(rate, 0);
        tables[0].clock += (uint64_t)(i >> 1 & 1);
        set_and_end(2);
        for (int round = 0; round < 3; round++) {
            pass_round(NODES);
            expect_rate(rate, 0);
        }
        for (int round = 0; round < 3; round++) {
            pass_round(round ? 0 : NODES - 1); /* node 0 ends, and has told only some */
            expect_rate(rate, 0);
        }
    }
}

/* Two ranks of a node set rates in turn. */
static void test_turns(void **state) {
    struct kolo_table other = tables[0];
    kolo_comm comm = comms[0];
    (void)state;
    comm.global_rank = other.rank = 0;
    other.comm = &comm;
    other.self = &shared[0].members[0];
    for (int i = 0; i < 12; i++) {
        struct kolo_table *setter = i % 3 ? &other : &tables[0];
        kolo_rate_set(setter, bits_of(i + 1));
        pass_round(NODES);
        expect_rate(i + 1, 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_ends_while_setting, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_turns, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
