/* What is read of machines of many kinds, and of files that are damaged. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "cpu/sysfs.h"
#include "topology_fixture.h"

/* What a machine must read as, for the CPUs of `allowed`. */
struct expected {
    const char *name;
    const char *allowed;
    uint32_t cpus_online, numa_nodes;
    uint32_t l3_domains, nodes, packages, cores, kinds;
    uint32_t l1d_kib, l2_kib, l3_kib;
};

static const struct expected machines[] = {
    {"epyc-2s-nps1", "0-127", 128, 2, 16, 2, 2, 128, 1, 32, 1024, 32768},
    {"epyc-2s-nps4", "0-127", 128, 8, 16, 8, 2, 128, 1, 32, 1024, 32768},
    {"epyc-2s-nps4", "5,70-72", 128, 8, 3, 2, 2, 4, 1, 32, 1024, 32768}, /* a container */
    {"sapphire-rapids-snc4", "0-223", 224, 8, 2, 8, 2, 112, 1, 48, 2048, 107520},
    {"sapphire-rapids-snc4", "13,14,125", 224, 8, 1, 2, 1, 2, 1, 48, 2048, 107520},
    {"graviton3", "0-63", 64, 1, 1, 1, 1, 64, 1, 64, 1024, 32768},
    {"graviton4-2s", "0-191", 192, 2, 2, 2, 2, 192, 1, 64, 2048, 0},
    {"grace", "0-71", 72, 2, 1, 1, 1, 72, 1, 64, 1024, 116736},
    {"hybrid-laptop", "0-19", 20, 1, 1, 1, 1, 14, 2, 32, 1280, 24576},
    {"hybrid-laptop", "12-19", 20, 1, 1, 1, 1, 8, 1, 32, 2048, 24576},
    {"arm-hybrid", "0-7", 8, 1, 1, 1, 1, 8, 2, 32, 512, 0},
    {"bare-vm", "0-7", 8, 1, 1, 1, 1, 8, 1, 0, 0, 0},
};

static void check_machine(const struct expected *expected) {
    kolo_topology topology;
    fixture_read(expected->name, expected->allowed, &topology);
    const uint64_t read[] = {topology.cpus_online, topology.numa_nodes,    topology.l3_domains, topology.nodes,
                             topology.packages,    topology.cores,         topology.kinds,      topology.l1d_bytes,
                             topology.l2_bytes,    topology.l3_bytes >> 10};
    const uint64_t wanted[] = {expected->cpus_online,
                               expected->numa_nodes,
                               expected->l3_domains,
                               expected->nodes,
                               expected->packages,
                               expected->cores,
                               expected->kinds,
                               (uint64_t)expected->l1d_kib << 10,
                               (uint64_t)expected->l2_kib << 10,
                               expected->l3_kib};
    for (size_t i = 0; i < sizeof read / sizeof *read; i++)
        if (read[i] != wanted[i])
            fail_msg("%s for %s: figure %zu is %llu, not %llu", expected->name, expected->allowed, i,
                     (unsigned long long)read[i], (unsigned long long)wanted[i]);
}

static void test_machines(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof machines / sizeof *machines; i++)
        check_machine(&machines[i]);
}

/* CPUs from `first` on, `size` at a time, share a group, each another one. */
static void assert_blocks(const uint16_t *group_of, uint32_t first, uint32_t end, uint32_t size) {
    for (uint32_t cpu = first; cpu < end; cpu++) {
        assert_true(group_of[cpu] != KOLO_CPU_NOWHERE);
        assert_int_equal(group_of[cpu], group_of[first] + (cpu - first) / size);
    }
}

static void test_epyc_groups(void **state) {
    (void)state;
    kolo_topology topology;
    fixture_read("epyc-2s-nps4", "0-127", &topology);
    assert_blocks(topology.l3_of, 0, 128, 8);
    assert_blocks(topology.node_of, 0, 128, 16);
    assert_blocks(topology.package_of, 0, 128, 64);
    assert_blocks(topology.core_of, 0, 128, 1);
    assert_blocks(topology.kind_of, 0, 128, 128);
    assert_int_equal(topology.l3_of[128], KOLO_CPU_NOWHERE);
}

/* Three CPUs far apart, and nothing is said of the others. */
static void test_container_groups(void **state) {
    (void)state;
    kolo_topology topology;
    fixture_read("epyc-2s-nps1", "3,40,127", &topology);
    assert_int_equal(topology.l3_domains, 3);
    assert_int_equal(topology.l3_of[3], 0);
    assert_int_equal(topology.l3_of[40], 1);
    assert_int_equal(topology.l3_of[127], 2);
    assert_int_equal(topology.l3_of[4], KOLO_CPU_NOWHERE);
    assert_int_equal(topology.package_of[40], 0);
    assert_int_equal(topology.package_of[127], 1);
}

static void test_smt_siblings(void **state) {
    (void)state;
    kolo_topology topology;
    fixture_read("sapphire-rapids-snc4", "0-223", &topology);
    for (uint32_t core = 0; core < 112; core++) {
        assert_int_equal(topology.core_of[core], core);
        assert_int_equal(topology.core_of[core + 112], core);
        assert_int_equal(topology.node_of[core + 112], topology.node_of[core]);
    }
    assert_blocks(topology.node_of, 0, 112, 14);
    assert_blocks(topology.l3_of, 0, 112, 56);
}

static void test_hybrid_kinds(void **state) {
    (void)state;
    kolo_topology topology;
    fixture_read("hybrid-laptop", "0-19", &topology);
    assert_blocks(topology.kind_of, 0, 12, 12);
    assert_blocks(topology.kind_of, 12, 20, 8);
    assert_int_equal(topology.kind_of[12], 1);
    assert_int_equal(topology.kind[0].l1d_bytes, 48 << 10);
    assert_int_equal(topology.kind[0].l2_bytes, 1280 << 10);
    assert_int_equal(topology.kind[1].l1d_bytes, 32 << 10);
    assert_int_equal(topology.kind[1].l2_bytes, 2048 << 10);
    fixture_read("arm-hybrid", "0-7", &topology); /* the most capable first, whatever their numbers */
    assert_int_equal(topology.kind_of[0], 1);
    assert_int_equal(topology.kind_of[7], 0);
    assert_int_equal(topology.kind[0].l2_bytes, 1024 << 10);
}

/* Whatever the files say, every allowed CPU is in one group of each sort, and nothing is made up. */
static void assert_sane(const kolo_topology *topology) {
    for (uint32_t cpu = 0; cpu < KOLO_CPUS_MAX; cpu++) {
        const bool allowed = kolo_cpu_set_has(&topology->allowed, cpu);
        assert_true(allowed ? topology->l3_of[cpu] < topology->l3_domains : topology->l3_of[cpu] == KOLO_CPU_NOWHERE);
        assert_true(allowed ? topology->node_of[cpu] < topology->nodes : topology->node_of[cpu] == KOLO_CPU_NOWHERE);
        assert_true(allowed ? topology->core_of[cpu] < topology->cores : topology->core_of[cpu] == KOLO_CPU_NOWHERE);
        assert_true(!allowed || topology->package_of[cpu] < topology->packages);
        assert_true(!allowed || topology->kind_of[cpu] < topology->kinds);
    }
    assert_true(topology->kinds <= KOLO_CORE_KINDS_MAX);
    assert_true(topology->numa_nodes >= 1 && topology->l3_domains >= 1 && topology->cpus_online >= 1);
}

static void test_damaged(void **state) {
    (void)state;
    kolo_topology topology;
    fixture_read("damaged", "0-7", &topology);
    assert_sane(&topology);
    assert_int_equal(topology.cpus_online, 8);
    assert_int_equal(topology.nodes, 1);
    assert_int_equal(topology.packages, 1);
    assert_int_equal(topology.l3_domains, 1);
    assert_int_equal(topology.cores, 8);
    assert_int_equal(topology.kinds, 1);
    assert_int_equal(topology.l2_bytes, 0);
}

static void test_nothing_there(void **state) {
    (void)state;
    kolo_topology topology;
    const kolo_cpu_set cpus = fixture_cpus("0-3,1023"), none = {{0}};
    kolo_topology_read_at(&topology, &cpus, "/nowhere");
    assert_sane(&topology);
    assert_int_equal(topology.cpus_online, 5);
    assert_int_equal(topology.l3_domains, 1);
    kolo_topology_read_at(&topology, &none, "/nowhere");
    assert_int_equal(topology.l3_domains, 1);
}

/* Any bytes in any file: what is read is sane. */
static void test_random_bytes(void **state) {
    (void)state;
    static const char *const paths[] = {
        "devices/system/cpu/online",
        "devices/system/node/online",
        "devices/system/node/node0/cpulist",
        "devices/cpu_core/cpus",
        "devices/system/cpu/cpu0/cpu_capacity",
        "devices/system/cpu/cpu0/topology/package_cpus_list",
        "devices/system/cpu/cpu0/topology/thread_siblings_list",
        "devices/system/cpu/cpu0/cache/index0/type",
        "devices/system/cpu/cpu0/cache/index0/level",
        "devices/system/cpu/cpu0/cache/index0/size",
        "devices/system/cpu/cpu0/cache/index0/shared_cpu_list",
    };
    static const char alphabet[] = "0123456789,,--\n KDU\xff";
    uint64_t random = 12345;
    char root[256], text[40];
    const kolo_cpu_set cpus = fixture_cpus("0-2");
    fixture_folder_create(root, sizeof root);
    for (int round = 0; round < 300; round++) {
        for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
            size_t bytes = 0;
            random = random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
            for (uint64_t bits = random >> 4; bytes < (random >> 59); bits = bits * 31 + 7)
                text[bytes++] = alphabet[(bits >> 13) % sizeof alphabet];
            fixture_write(root, paths[i], text, bytes);
        }
        kolo_topology topology;
        kolo_topology_read_at(&topology, &cpus, root);
        assert_sane(&topology);
    }
    fixture_folder_remove(root);
}

static void assert_list(const char *root, const char *text, size_t bytes, int readable, uint32_t wanted_count) {
    kolo_cpu_set set;
    uint32_t count;
    fixture_write(root, "list", text, bytes);
    assert_int_equal(kolo_sysfs_list(root, "list", &set, &count), readable);
    assert_int_equal(count, wanted_count);
    assert_true(readable || kolo_cpu_set_count(&set) == 0);
}

static void test_lists(void **state) {
    (void)state;
    static const char *const unreadable[] = {"",     "\n",    "-1",  "1-",    "3-1",   "1,",       ",1",
                                             "1,,2", "1 2\n", "0x1", "1-2-3", "65536", "99999999", "1-4294967297"};
    char root[256], path[300], full[8192];
    fixture_folder_create(root, sizeof root);
    assert_list(root, "5\n", 2, 1, 1);
    assert_list(root, "0-3,8,10-11 \n", 13, 1, 7);
    assert_list(root, "1020-2047\n", 10, 1, 1028); /* counted, though not all kept */
    for (size_t i = 0; i < sizeof unreadable / sizeof *unreadable; i++)
        assert_list(root, unreadable[i], strlen(unreadable[i]), 0, 0);
    assert_list(root, "1\0002", 3, 1, 1); /* what is behind a zero byte is no text */
    memset(full, '1', sizeof full);
    assert_list(root, full, sizeof full, 0, 0);
    snprintf(path, sizeof path, "%s/pipe", root);
    assert_int_equal(mkfifo(path, 0600), 0);
    kolo_cpu_set set;
    assert_int_equal(kolo_sysfs_list(root, "pipe", &set, NULL), 0); /* does not block */
    assert_int_equal(kolo_sysfs_list(root, ".", &set, NULL), 0);
    fixture_folder_remove(root);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_machines),
        cmocka_unit_test(test_epyc_groups),
        cmocka_unit_test(test_container_groups),
        cmocka_unit_test(test_smt_siblings),
        cmocka_unit_test(test_hybrid_kinds),
        cmocka_unit_test(test_damaged),
        cmocka_unit_test(test_nothing_there),
        cmocka_unit_test(test_random_bytes),
        cmocka_unit_test(test_lists),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
