/* What follows from a topology, on machines of many kinds: the levels of a tree, and where threads beside ranks go. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "cpu/levels.h"
#include "cpu/spare.h"
#include "kolo.h"
#include "topology_fixture.h"

/* Ranks on a machine: rank r is bound to the rth allowed CPU, or to none. */
struct placement {
    const char *machine;
    const char *allowed;
    uint32_t ranks;
    int bound;
    const char *levels;
};

static const struct placement placements[] = {
    {"bare-vm", "0-1", 16, 0, ""},
    {"bare-vm", "0-7", 8, 1, ""},
    {"bare-vm", "0-7", 16, 0, ""},
    {"damaged", "0-7", 8, 1, ""},
    {"epyc-2s-nps1", "0-127", 128, 1, "8:64"},
    {"epyc-2s-nps1", "0-127", 64, 1, "8"},
    {"epyc-2s-nps1", "0-127", 8, 1, ""},
    {"epyc-2s-nps1", "0-127", 16, 1, "8"},
    {"epyc-2s-nps1", "0-127", 96, 1, "8:32"},
    {"epyc-2s-nps1", "0-127", 128, 0, "4:16:64"},
    {"epyc-2s-nps1", "0-3,64-67", 8, 1, "4"},
    {"epyc-2s-nps1", "0-5,8-13,16-21,24-29,32-37,40-45,48-53,56-61", 48, 1, "2:8"},
    {"epyc-2s-nps1", "3,40,127", 3, 1, ""},
    {"epyc-2s-nps4", "0-127", 128, 1, "8:64"},
    {"grace", "0-71", 72, 1, "8"},
    {"graviton3", "0-63", 64, 1, "8"},
    {"graviton4-2s", "0-191", 192, 1, "8:32"},
    {"hybrid-laptop", "0-19", 14, 1, ""},
    {"hybrid-laptop", "0-19", 20, 1, "4"},
    {"sapphire-rapids-snc4", "0-111", 112, 1, "8:32"},
    {"sapphire-rapids-snc4", "0-223", 224, 1, "8:32"},
    {"sapphire-rapids-snc4", "0-55", 56, 1, "8"},
};

static void format(const uint32_t *sizes, char *text, size_t text_bytes) {
    size_t used = 0;
    text[0] = '\0';
    for (int i = 0; i < KOLO_LEVELS_MAX && sizes[i]; i++)
        used += (size_t)snprintf(text + used, text_bytes - used, "%s%u", i ? ":" : "", (unsigned)sizes[i]);
}

/* Powers of two, ascending, below the number of ranks; zeros behind them. */
static void assert_valid(const uint32_t *sizes, uint32_t ranks) {
    uint32_t before = 1;
    bool ended = false;
    for (int i = 0; i < KOLO_LEVELS_MAX; i++) {
        ended = ended || sizes[i] == 0;
        assert_true(ended ? sizes[i] == 0 : sizes[i] > before && sizes[i] < ranks && !(sizes[i] & (sizes[i] - 1)));
        before = sizes[i];
    }
}

/* Binds rank r to the rth allowed CPU. */
static void choose_bound(uint32_t *sizes, const kolo_topology *topology, uint32_t ranks) {
    static kolo_cpu_set sets[KOLO_CPUS_MAX];
    const kolo_cpu_set *rank_cpus[KOLO_CPUS_MAX];
    uint32_t rank = 0;
    memset(sets, 0, sizeof sets);
    for (uint32_t cpu = 0; rank < ranks && cpu < KOLO_CPUS_MAX; cpu++)
        if (kolo_cpu_set_has(&topology->allowed, cpu)) {
            rank_cpus[rank] = &sets[rank];
            kolo_cpu_set_add(&sets[rank++], cpu);
        }
    assert_int_equal(rank, ranks);
    kolo_levels_choose(sizes, topology, rank_cpus, ranks);
}

static void test_machines(void **state) {
    (void)state;
    kolo_topology topology;
    for (size_t i = 0; i < sizeof placements / sizeof *placements; i++) {
        const struct placement *placement = &placements[i];
        uint32_t sizes[KOLO_LEVELS_MAX];
        char text[64];
        if (i == 0 || strcmp(placement->machine, placement[-1].machine) != 0 ||
            strcmp(placement->allowed, placement[-1].allowed) != 0)
            fixture_read(placement->machine, placement->allowed, &topology);
        if (placement->bound)
            choose_bound(sizes, &topology, placement->ranks);
        else
            kolo_levels_choose(sizes, &topology, NULL, placement->ranks);
        assert_valid(sizes, placement->ranks);
        format(sizes, text, sizeof text);
        if (strcmp(text, placement->levels) != 0)
            fail_msg("%u ranks on CPUs %s of %s, %s: levels \"%s\", not \"%s\"", (unsigned)placement->ranks,
                     placement->allowed, placement->machine, placement->bound ? "bound" : "unbound", text,
                     placement->levels);
    }
}

/* Whatever the ranks are bound to, however many there are: levels that a tree can have. */
static void test_any_binding(void **state) {
    (void)state;
    static kolo_cpu_set sets[KOLO_CPUS_MAX];
    const kolo_cpu_set *rank_cpus[KOLO_CPUS_MAX];
    kolo_topology topology;
    uint64_t random = 1;
    fixture_read("epyc-2s-nps4", "0-127", &topology);
    for (uint32_t ranks = 1; ranks <= 128; ranks += 1 + ranks / 8) {
        memset(sets, 0, sizeof sets);
        for (uint32_t rank = 0; rank < ranks; rank++) {
            rank_cpus[rank] = &sets[rank];
            for (uint32_t cpus = rank % 4; cpus > 0; cpus--) { /* none for some; from 128 on there are none to know */
                random = random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
                kolo_cpu_set_add(&sets[rank], (uint32_t)(random >> 33) % 140);
            }
        }
        uint32_t sizes[KOLO_LEVELS_MAX];
        kolo_levels_choose(sizes, &topology, rank_cpus, ranks);
        assert_valid(sizes, ranks);
    }
}

/* The most ranks there can be. */
static void test_largest(void **state) {
    (void)state;
    kolo_topology topology;
    uint32_t sizes[KOLO_LEVELS_MAX];
    const kolo_cpu_set cpus = fixture_cpus("0-1023");
    kolo_topology_read_at(&topology, &cpus, "/nowhere");
    choose_bound(sizes, &topology, KOLO_CPUS_MAX);
    assert_valid(sizes, KOLO_CPUS_MAX);
    assert_true(sizes[1] != 0);
}

static void test_parse(void **state) {
    (void)state;
    static const char *const readable[] = {"none", "2", "8:64", "2:4:8:512"};
    static const char *const unreadable[] = {"",     "1",    "3",    "8:8",    "64:8", "2:4:8:16:32",
                                             "1024", "8:",   ":8",   "8 :64",  " 8",   "+8",
                                             "-8",   "8,64", "NONE", "none:8", "0x8:", "99999999999999999999"};
    char text[64], value[32];
    for (size_t i = 0; i < sizeof readable / sizeof *readable; i++) {
        uint32_t sizes[KOLO_LEVELS_MAX] = {7, 7, 7, 7};
        snprintf(value, sizeof value, "tree:%s", readable[i]);
        assert_int_equal(kolo_levels_parse(sizes, "LEVELS", value), 0);
        format(sizes, text, sizeof text);
        assert_string_equal(text, i == 0 ? "" : readable[i]);
    }
    for (size_t i = 0; i < sizeof unreadable / sizeof *unreadable; i++) {
        uint32_t sizes[KOLO_LEVELS_MAX] = {7};
        snprintf(value, sizeof value, "tree:%s", unreadable[i]);
        assert_int_equal(kolo_levels_parse(sizes, "LEVELS", value), KOLO_ERR_ARG);
        assert_int_equal(sizes[0], 7);
        snprintf(text, sizeof text, "LEVELS=%s: ", value);
        assert_non_null(strstr(kolo_error_message(), text));
    }
}

/* Threads beside ranks. */

enum { RANKS_MAX = 8 };

/* Rank r may use the CPUs of cpus[r]; a thread of rank 0 then goes to those of `spare`. */
static const struct thread {
    const char *machine, *permitted, *cpus[RANKS_MAX], *spare;
} threads[] = {
    /* in the domain of the third cache, where there is room; else on the node; else anywhere */
    {"epyc-2s-nps1", "0-127", {"0", "1", "2", "3"}, "4-7"},
    {"epyc-2s-nps1", "0-127", {"0", "1", "2", "3", "4"}, "5-63"},
    {"epyc-2s-nps1", "0-127", {"64", "1", "2", "3"}, "65-71"},
    {"epyc-2s-nps1", "0-127", {"0-63", "64-127"}, ""},
    {"epyc-2s-nps1", "0-127", {"0-63"}, "64-127"},
    /* only where the control group allows it */
    {"epyc-2s-nps1", "0-3,8", {"0", "1", "2", "3"}, "8"},
    {"epyc-2s-nps1", "0-3", {"0", "1", "2"}, "3"},
    {"epyc-2s-nps1", "0-1", {"0", "1"}, ""},
    {"epyc-2s-nps1", "0-1", {"0-1", "0-1"}, ""},
    /* on a core of its own, even if that is further away; else beside a rank */
    {"sapphire-rapids-snc4", "0-223", {"0", "1"}, "2-55,114-167"},
    {"sapphire-rapids-snc4", "0-1,112-113,56", {"0", "1"}, "112-113"},
    {"sapphire-rapids-snc4", "0-1,112-113,56-57", {"0", "1"}, "56-57"},
    {"hybrid-laptop", "0-19", {"0", "2", "4", "6", "8", "10"}, "12-19"},
    {"bare-vm", "0-3", {"0", "1"}, "2-3"},
};

static void test_spare_cpus(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof threads / sizeof *threads; i++) {
        const struct thread *thread = &threads[i];
        kolo_cpu_set sets[RANKS_MAX], spare;
        const kolo_cpu_set *rank_cpus[RANKS_MAX];
        kolo_topology topology;
        uint32_t ranks = 0;
        const kolo_cpu_set permitted = fixture_cpus(thread->permitted);
        for (; ranks < RANKS_MAX && thread->cpus[ranks]; ranks++) {
            sets[ranks] = fixture_cpus(thread->cpus[ranks]);
            rank_cpus[ranks] = &sets[ranks];
        }
        fixture_read(thread->machine, "0-223", &topology);
        kolo_spare_choose(&spare, &topology, &permitted, rank_cpus, ranks, 0);
        const kolo_cpu_set wanted = fixture_cpus(thread->spare);
        if (memcmp(&spare, &wanted, sizeof spare) != 0)
            fail_msg("thread %zu on %s: %u CPUs, not %s", i, thread->machine, (unsigned)kolo_cpu_set_count(&spare),
                     thread->spare);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_machines), cmocka_unit_test(test_any_binding), cmocka_unit_test(test_largest),
        cmocka_unit_test(test_parse),    cmocka_unit_test(test_spare_cpus),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
