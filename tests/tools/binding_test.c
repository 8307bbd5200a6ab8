/* Which CPUs the ranks get, on machines of many kinds, and beside other jobs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "binding.h"
#include "splitmix64.h"
#include "topology_fixture.h"

enum { TEXT_BYTES = 4096, RANKS_MAX = 256 };

/* A machine without a description: so many packages, nodes in each, L3 domains in each, cores in each, threads of each
 * core, which have numbers side by side, or else those of each core's second thread follow all of the first ones. */
struct grid {
    uint32_t packages, nodes, l3s, cores, threads;
    bool side_by_side;
};

static void grid_make(kolo_topology *topology, const struct grid *grid) {
    const uint32_t domains = grid->packages * grid->nodes * grid->l3s, cores = domains * grid->cores;
    memset(topology, 0, sizeof *topology);
    memset(topology->l3_of, 0xff, sizeof topology->l3_of);
    memset(topology->node_of, 0xff, sizeof topology->node_of);
    memset(topology->package_of, 0xff, sizeof topology->package_of);
    memset(topology->core_of, 0xff, sizeof topology->core_of);
    memset(topology->kind_of, 0xff, sizeof topology->kind_of);
    for (uint32_t cpu = 0; cpu < cores * grid->threads; cpu++) {
        const uint32_t core = grid->side_by_side ? cpu / grid->threads : cpu % cores;
        kolo_cpu_set_add(&topology->allowed, cpu);
        topology->core_of[cpu] = (uint16_t)core;
        topology->l3_of[cpu] = (uint16_t)(core / grid->cores);
        topology->node_of[cpu] = (uint16_t)(core / grid->cores / grid->l3s);
        topology->package_of[cpu] = (uint16_t)(core / grid->cores / grid->l3s / grid->nodes);
        topology->kind_of[cpu] = 0;
    }
}

/* Writes a set as "0-3,8". */
static void format(char *text, const kolo_cpu_set *set) {
    size_t used = 0;
    text[0] = '\0';
    for (uint32_t cpu = 0, last; cpu < KOLO_CPUS_MAX; cpu = last + 1) {
        last = cpu;
        if (!kolo_cpu_set_has(set, cpu))
            continue;
        while (last + 1 < KOLO_CPUS_MAX && kolo_cpu_set_has(set, last + 1))
            last++;
        used += (size_t)snprintf(text + used, TEXT_BYTES - used, "%s%u", used > 0 ? "," : "", (unsigned)cpu);
        if (last > cpu)
            used += (size_t)snprintf(text + used, TEXT_BYTES - used, "-%u", (unsigned)last);
    }
}

enum { DIVIDED = false, SINGLE = true };

/* The ranks get what `expected` lists, "0-3 4-7" for two of them; "no": they are not placed. */
static void check(const kolo_topology *topology, bool single, const char *held, uint32_t ranks, const char *expected) {
    static kolo_cpu_set rank_cpus[RANKS_MAX];
    const kolo_cpu_set held_cpus = fixture_cpus(held);
    kolo_cpu_set open;
    char found[TEXT_BYTES] = "no", *at = found;
    placement_open(&open, topology, &held_cpus, ranks);
    if (placement_choose(rank_cpus, ranks, single, topology, &open)) {
        for (uint32_t rank = 0; rank < ranks; rank++) {
            if (rank > 0)
                *at++ = ' ';
            format(at, &rank_cpus[rank]);
            at += strlen(at);
        }
    }
    if (strcmp(found, expected) != 0)
        fail_msg("%u ranks, held %s: got %s, not %s", (unsigned)ranks, held, found, expected);
}

static void test_one_domain(void **state) {
    (void)state;
    kolo_topology topology;
    grid_make(&topology, &(struct grid){1, 1, 1, 8, 1, true});
    check(&topology, DIVIDED, "", 1, "0-7");
    check(&topology, DIVIDED, "", 2, "0-3 4-7");
    check(&topology, DIVIDED, "", 3, "0-2 3-5 6-7");
    check(&topology, DIVIDED, "", 5, "0-1 2-3 4-5 6 7");
    check(&topology, DIVIDED, "", 8, "0 1 2 3 4 5 6 7");
    check(&topology, DIVIDED, "", 9, "no");
    check(&topology, SINGLE, "", 1, "0");
    check(&topology, SINGLE, "", 3, "0 1 2");
    check(&topology, SINGLE, "", 9, "no");
}

static void test_whole_domains(void **state) {
    (void)state;
    kolo_topology topology;
    grid_make(&topology, &(struct grid){1, 1, 2, 4, 1, true});
    check(&topology, DIVIDED, "", 1, "0-7");
    check(&topology, DIVIDED, "", 2, "0-3 4-7");
    check(&topology, DIVIDED, "", 3, "0-1 2-3 4-7");
    check(&topology, DIVIDED, "", 5, "0-1 2 3 4-5 6-7");
    grid_make(&topology, &(struct grid){1, 1, 8, 8, 1, true});
    check(&topology, DIVIDED, "", 1, "0-63");
    check(&topology, DIVIDED, "", 2, "0-31 32-63");
    check(&topology, DIVIDED, "", 3, "0-23 24-47 48-63");
    check(&topology, DIVIDED, "", 4, "0-15 16-31 32-47 48-63");
    check(&topology, DIVIDED, "", 6, "0-7 8-15 16-31 32-39 40-55 56-63");
    check(&topology, DIVIDED, "", 7, "0-7 8-15 16-23 24-31 32-39 40-55 56-63");
    check(&topology, DIVIDED, "", 9, "0-3 4-7 8-15 16-23 24-31 32-39 40-47 48-55 56-63");
}

/* Two packages of two nodes of two L3 domains: no rank is on two nodes unless it has all of both. */
static void test_nodes(void **state) {
    (void)state;
    kolo_topology topology;
    grid_make(&topology, &(struct grid){2, 2, 2, 4, 1, true});
    check(&topology, DIVIDED, "", 1, "0-31");
    check(&topology, DIVIDED, "", 2, "0-15 16-31");
    check(&topology, DIVIDED, "", 3, "0-7 8-15 16-31");
    check(&topology, DIVIDED, "", 4, "0-7 8-15 16-23 24-31");
    check(&topology, DIVIDED, "", 5, "0-3 4-7 8-15 16-23 24-31");
    check(&topology, DIVIDED, "", 8, "0-3 4-7 8-11 12-15 16-19 20-23 24-27 28-31");
    check(&topology, SINGLE, "", 4, "0 1 2 3");
}

static void test_threads(void **state) {
    (void)state;
    kolo_topology topology;
    grid_make(&topology, &(struct grid){1, 1, 1, 4, 2, true});
    check(&topology, DIVIDED, "", 1, "0-7");
    check(&topology, DIVIDED, "", 2, "0-3 4-7");
    check(&topology, DIVIDED, "", 4, "0-1 2-3 4-5 6-7");
    check(&topology, DIVIDED, "", 6, "0 2 4 6 1 3"); /* a rank per core before second threads */
    check(&topology, DIVIDED, "", 8, "0 2 4 6 1 3 5 7");
    check(&topology, DIVIDED, "", 9, "no");
    check(&topology, SINGLE, "", 4, "0 2 4 6");
    check(&topology, SINGLE, "", 8, "0 2 4 6 1 3 5 7");
    grid_make(&topology, &(struct grid){1, 1, 2, 4, 2, false});
    check(&topology, DIVIDED, "", 1, "0-15");
    check(&topology, DIVIDED, "", 2, "0-3,8-11 4-7,12-15");
    check(&topology, DIVIDED, "", 8, "0,8 1,9 2,10 3,11 4,12 5,13 6,14 7,15");
    check(&topology, DIVIDED, "", 10, "0 1 2 3 4 5 6 7 8 9");
    grid_make(&topology, &(struct grid){1, 1, 1, 2, 4, true});
    check(&topology, DIVIDED, "", 2, "0-3 4-7");
    check(&topology, DIVIDED, "", 8, "0 4 1 5 2 6 3 7");
}

static void check_described(const char *machine, const char *allowed, uint32_t ranks, const char *expected) {
    kolo_topology topology;
    fixture_read(machine, allowed, &topology);
    check(&topology, DIVIDED, "", ranks, expected);
}

static void test_described_machines(void **state) {
    (void)state;
    check_described("epyc-2s-nps1", "0-127", 1, "0-127");
    check_described("epyc-2s-nps1", "0-127", 2, "0-63 64-127");
    check_described("epyc-2s-nps4", "0-127", 4, "0-31 32-63 64-95 96-127");
    check_described("epyc-2s-nps4", "0-127", 3, "0-31 32-63 64-127");
    check_described("epyc-2s-nps4", "5,70-72", 2, "5 70-72"); /* a container's cpuset */
    check_described("epyc-2s-nps4", "5,70-72", 3, "5 70-71 72");
    check_described("sapphire-rapids-snc4", "0-223", 2, "0-55,112-167 56-111,168-223");
    check_described("sapphire-rapids-snc4", "0-223", 4, "0-27,112-139 28-55,140-167 56-83,168-195 84-111,196-223");
    check_described("sapphire-rapids-snc4", "13,14,125", 2, "13,125 14"); /* second thread only of some cores */
    check_described("sapphire-rapids-snc4", "13,14,125", 3, "13 14 125");
    check_described("grace", "0-71", 2, "0-35 36-71");
    check_described("graviton4-2s", "0-191", 2, "0-95 96-191");
    check_described("bare-vm", "0-7", 2, "0-3 4-7");
    check_described("damaged", "0-7", 8, "0 1 2 3 4 5 6 7");
}

/* Of each kind of core every rank gets its share. */
static void test_hybrid(void **state) {
    (void)state;
    check_described("hybrid-laptop", "0-19", 1, "0-19");
    check_described("hybrid-laptop", "0-19", 2, "0-5,12-15 6-11,16-19");
    check_described("hybrid-laptop", "0-19", 4, "0-3,12-13 4-7,14-15 8-9,16-17 10-11,18-19");
    check_described("hybrid-laptop", "0-19", 14, "0-1 2-3 4-5 6-7 8-9 10-11 12 13 14 15 16 17 18 19");
    check_described("arm-hybrid", "0-7", 2, "0-1,4-5 2-3,6-7");
}

static void test_unequal_domains(void **state) {
    (void)state;
    kolo_topology topology;
    grid_make(&topology, &(struct grid){1, 1, 2, 8, 1, true});
    topology.allowed = fixture_cpus("0-7,8"); /* a large part, and one core of another */
    check(&topology, DIVIDED, "", 1, "0-8");
    check(&topology, DIVIDED, "", 2, "0-3 4-7"); /* nobody gets the lone one as all that it has */
    check(&topology, DIVIDED, "", 9, "0 1 2 3 4 5 6 7 8");
}

static void test_other_jobs(void **state) {
    (void)state;
    kolo_topology topology;
    grid_make(&topology, &(struct grid){1, 1, 1, 4, 1, true});
    check(&topology, SINGLE, "0", 1, "1");
    check(&topology, SINGLE, "0-1", 2, "2 3");
    check(&topology, SINGLE, "0-1", 3, "0 1 2"); /* no room: as if alone */
    check(&topology, SINGLE, "0-3", 1, "0");
    check(&topology, DIVIDED, "0-1", 1, "2-3");
    check(&topology, DIVIDED, "1", 3, "0 2 3");
    check(&topology, DIVIDED, "0-3", 2, "0-1 2-3");
    check(&topology, DIVIDED, "900", 2, "0-1 2-3"); /* elsewhere */
    grid_make(&topology, &(struct grid){1, 1, 2, 4, 2, false});
    check(&topology, SINGLE, "0-3", 2, "4 5"); /* the second threads of held cores are held too */
    check(&topology, SINGLE, "8", 8, "1 2 3 4 5 6 7 9");
    check(&topology, DIVIDED, "8-11", 1, "4-7,12-15");
    check(&topology, DIVIDED, "0", 2, "1-3,9-11 4-7,12-15");
}

/* True if every CPU of the group `number` that is open is in the set. */
static bool has_whole(const kolo_cpu_set *set, const kolo_cpu_set *open, const uint16_t *group_of, uint16_t number) {
    for (uint32_t cpu = 0; cpu < KOLO_CPUS_MAX; cpu++)
        if (kolo_cpu_set_has(open, cpu) && group_of[cpu] == number && !kolo_cpu_set_has(set, cpu))
            return false;
    return true;
}

/* A rank that has CPUs of several groups has all of each. */
static bool is_whole(const kolo_cpu_set *set, const kolo_cpu_set *open, const uint16_t *group_of) {
    uint16_t first = KOLO_CPU_NOWHERE;
    bool several = false;
    for (uint32_t cpu = 0; cpu < KOLO_CPUS_MAX; cpu++) {
        if (!kolo_cpu_set_has(set, cpu))
            continue;
        several = several || (first != KOLO_CPU_NOWHERE && first != group_of[cpu]);
        first = group_of[cpu];
    }
    for (uint32_t cpu = 0; several && cpu < KOLO_CPUS_MAX; cpu++)
        if (kolo_cpu_set_has(set, cpu) && !has_whole(set, open, group_of, group_of[cpu]))
            return false;
    return true;
}

static void assert_fair(const kolo_topology *topology, const kolo_cpu_set *rank_cpus, uint32_t ranks, uint32_t cores) {
    kolo_cpu_set all = {{0}};
    uint32_t total = 0;
    for (uint32_t rank = 0; rank < ranks; rank++) {
        const uint32_t count = kolo_cpu_set_count(&rank_cpus[rank]);
        assert_true(count > 0);
        total += count;
        kolo_cpu_set_merge(&all, &rank_cpus[rank]);
        if (ranks > cores)
            assert_int_equal(count, 1);
        else
            assert_true(is_whole(&rank_cpus[rank], &topology->allowed, topology->l3_of) &&
                        is_whole(&rank_cpus[rank], &topology->allowed, topology->node_of) &&
                        is_whole(&rank_cpus[rank], &topology->allowed, topology->package_of));
    }
    assert_int_equal(total, kolo_cpu_set_count(&all)); /* no CPU belongs to two */
    for (uint32_t cpu = 0; cpu < KOLO_CPUS_MAX; cpu++)
        assert_true(!kolo_cpu_set_has(&all, cpu) || kolo_cpu_set_has(&topology->allowed, cpu));
    for (uint32_t core = 0, owners = 0; ranks <= cores && core < KOLO_CPUS_MAX; core++, owners = 0) {
        for (uint32_t rank = 0; rank < ranks; rank++) {
            bool any = false;
            for (uint32_t cpu = 0; cpu < KOLO_CPUS_MAX; cpu++)
                any = any || (kolo_cpu_set_has(&rank_cpus[rank], cpu) && topology->core_of[cpu] == core);
            owners += any;
        }
        assert_true(owners <= 1);
    }
}

static uint32_t draw(uint64_t *random, uint32_t max) {
    return 1 + (uint32_t)random_below(random, max);
}

/* Machines and containers drawn at random: no rank without CPUs, none shared, nothing cut where it may not be. */
static void test_random_machines(void **state) {
    (void)state;
    static kolo_cpu_set rank_cpus[RANKS_MAX];
    uint64_t random = 20;
    for (int round = 0; round < 60; round++) {
        kolo_topology topology;
        const struct grid grid = {draw(&random, 2), draw(&random, 2), draw(&random, 3),
                                  draw(&random, 4), draw(&random, 2), random_below(&random, 2) == 0};
        grid_make(&topology, &grid);
        uint32_t cores = 0, cpus = 0;
        bool core_seen[KOLO_CPUS_MAX] = {false};
        const kolo_cpu_set all = topology.allowed;
        memset(&topology.allowed, 0, sizeof topology.allowed);
        for (uint32_t cpu = 0; cpu < KOLO_CPUS_MAX; cpu++)
            if (kolo_cpu_set_has(&all, cpu) && (cpu == 0 || random_below(&random, 4) > 0)) {
                kolo_cpu_set_add(&topology.allowed, cpu);
                cores += !core_seen[topology.core_of[cpu]];
                core_seen[topology.core_of[cpu]] = true;
                cpus++;
            }
        const uint32_t ranks = draw(&random, cpus);
        assert_true(placement_choose(rank_cpus, ranks, DIVIDED, &topology, &topology.allowed));
        assert_fair(&topology, rank_cpus, ranks, cores);
    }
}

/* Processes as /proc shows them. */

static void process_write(const char *root, int pid, int parent, const char *name, const char *state, const char *cpus,
                          const char *children) {
    char path[64], text[256];
    snprintf(path, sizeof path, "%d/comm", pid);
    snprintf(text, sizeof text, "%s\n", name);
    fixture_write(root, path, text, strlen(text));
    snprintf(path, sizeof path, "%d/status", pid);
    snprintf(text, sizeof text, "Name:\t%s\nState:\t%s\nPPid:\t%d\nCpus_allowed_list:\t%s\n", name, state, parent,
             cpus);
    fixture_write(root, path, text, strlen(text));
    snprintf(path, sizeof path, "%d/task/%d/children", pid, pid);
    fixture_write(root, path, children, strlen(children));
}

static void check_held(const char *root, const char *allowed, int self, const char *expected) {
    const kolo_cpu_set allowed_cpus = fixture_cpus(allowed);
    kolo_cpu_set held;
    char text[TEXT_BYTES];
    neighbours_cpus(&held, &allowed_cpus, root, self);
    format(text, &held);
    assert_string_equal(text, expected);
}

static void test_neighbours(void **state) {
    (void)state;
    char root[256];
    fixture_folder_create(root, sizeof root);
    check_held(root, "0-7", 100, "");
    process_write(root, 1, 0, "init", "S (sleeping)", "0-7", "10 20 100 ");
    process_write(root, 100, 1, "kolorun", "R (running)", "0-7", "101 ");
    process_write(root, 101, 100, "train", "R (running)", "7", "");
    check_held(root, "0-7", 100, ""); /* one's own ranks do not count */
    process_write(root, 10, 1, "kolorun", "S (sleeping)", "0-7", "11 12 13 14 99 ");
    process_write(root, 11, 10, "kolorun", "R (running)", "2", ""); /* a rank, whatever its name */
    process_write(root, 12, 10, "train", "T (stopped)", "4-5", "");
    process_write(root, 13, 10, "train", "Z (zombie)", "6", "");       /* has ended */
    process_write(root, 14, 10, "train", "R (running)", "0-1023", ""); /* is not bound */
    process_write(root, 20, 1, "other", "R (running)", "0-7", "21 ");
    process_write(root, 21, 20, "train", "R (running)", "3", ""); /* no rank */
    fixture_write(root, "30/comm", "kolorun\n", 8);               /* ended while we look */
    check_held(root, "0-7", 100, "2,4-5");
    check_held(root, "4-5", 100, "2"); /* whoever has all that we may use leaves no room anyway */
    check_held(root, "0-7", 12, "7");  /* within a rank, its job's other ranks do not count */
    check_held("/nowhere", "0-7", 100, "");
    fixture_folder_remove(root);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_domain), cmocka_unit_test(test_whole_domains),
        cmocka_unit_test(test_nodes),      cmocka_unit_test(test_threads),
        cmocka_unit_test(test_hybrid),     cmocka_unit_test(test_described_machines),
        cmocka_unit_test(test_other_jobs), cmocka_unit_test(test_unequal_domains),
        cmocka_unit_test(test_neighbours), cmocka_unit_test(test_random_machines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
