/* Where threads beside ranks go, on machines of many kinds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "cpu/spare.h"
#include "kolo.h"
#include "topology_fixture.h"

enum { RANKS_MAX = 8 };

/* Rank r may use the CPUs of cpus[r]; a thread of rank 0 then goes to those of `spare`. */
static const struct placement {
    const char *machine, *permitted, *cpus[RANKS_MAX], *spare;
} placements[] = {
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

static void test_placements(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof placements / sizeof *placements; i++) {
        const struct placement *placement = &placements[i];
        kolo_cpu_set sets[RANKS_MAX], spare;
        const kolo_cpu_set *rank_cpus[RANKS_MAX];
        kolo_topology topology;
        uint32_t ranks = 0;
        const kolo_cpu_set permitted = fixture_cpus(placement->permitted);
        for (; ranks < RANKS_MAX && placement->cpus[ranks]; ranks++) {
            sets[ranks] = fixture_cpus(placement->cpus[ranks]);
            rank_cpus[ranks] = &sets[ranks];
        }
        fixture_read(placement->machine, "0-223", &topology);
        kolo_spare_choose(&spare, &topology, &permitted, rank_cpus, ranks, 0);
        const kolo_cpu_set wanted = fixture_cpus(placement->spare);
        if (memcmp(&spare, &wanted, sizeof spare) != 0)
            fail_msg("placement %zu on %s: %u CPUs, not %s", i, placement->machine,
                     (unsigned)kolo_cpu_set_count(&spare), placement->spare);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_placements)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
