/* The reader of the topology: caches, NUMA nodes and cores of the CPUs that the ranks may use. */
#include "cpu/topology.h"

#include <stdio.h>
#include <string.h>

#include "cpu/features.h"
#include "cpu/sysfs.h"

#define CACHE_BYTES_MAX (UINT64_C(1) << 36) /* a larger one is none */

enum { CACHES_MAX = 16, PATH_BYTES = 128 };

/* Groups. A CPU is in the first group that claims it, however files contradict each other. */

/* Returns true if `cpu` is allowed and has no group yet. */
static bool is_open(const kolo_topology *topology, const uint16_t *group_of, uint32_t cpu) {
    return kolo_cpu_set_has(&topology->allowed, cpu) && group_of[cpu] == KOLO_CPU_NOWHERE;
}

/* Makes a group of those members that are allowed and have no group yet, if there are any. */
static void add_group(const kolo_topology *topology, uint16_t *group_of, uint32_t *groups,
                      const kolo_cpu_set *members) {
    bool any = false;
    for (uint32_t cpu = 0; cpu < KOLO_CPUS_MAX; cpu++) {
        if (!kolo_cpu_set_has(members, cpu) || !is_open(topology, group_of, cpu))
            continue;
        group_of[cpu] = (uint16_t)*groups;
        any = true;
    }
    *groups += any;
}

/* Reads the list of CPUs that share something with `cpu`. Returns false unless `cpu` itself is in it. */
static bool read_sharers(const char *root, uint32_t cpu, const char *name, kolo_cpu_set *sharers) {
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "devices/system/cpu/cpu%u/%s", cpu, name);
    return kolo_sysfs_list(root, path, sharers, NULL) && kolo_cpu_set_has(sharers, cpu);
}

static void read_nodes(kolo_topology *topology, const char *root) {
    kolo_cpu_set nodes, cpus;
    if (!kolo_sysfs_list(root, "devices/system/node/online", &nodes, &topology->numa_nodes))
        topology->numa_nodes = 1;
    for (uint32_t node = 0; node < KOLO_CPUS_MAX; node++) {
        char path[PATH_BYTES];
        snprintf(path, sizeof path, "devices/system/node/node%u/cpulist", node);
        if (kolo_cpu_set_has(&nodes, node) && kolo_sysfs_list(root, path, &cpus, NULL))
            add_group(topology, topology->node_of, &topology->nodes, &cpus);
    }
    add_group(topology, topology->node_of, &topology->nodes, &topology->allowed); /* allowed CPUs that no node names */
}

static void read_packages(kolo_topology *topology, const char *root) {
    kolo_cpu_set cpus;
    for (uint32_t cpu = 0; cpu < KOLO_CPUS_MAX; cpu++) {
        if (is_open(topology, topology->package_of, cpu) &&
            (read_sharers(root, cpu, "topology/package_cpus_list", &cpus) ||
             read_sharers(root, cpu, "topology/core_siblings_list", &cpus))) /* its name before Linux 5.3 */
            add_group(topology, topology->package_of, &topology->packages, &cpus);
    }
    add_group(topology, topology->package_of, &topology->packages, &topology->allowed);
}

static void read_cores(kolo_topology *topology, const char *root) {
    uint64_t threads = 1;
    const bool single = kolo_sysfs_number(root, "devices/system/cpu/smt/active", &threads) && threads == 0;
    for (uint32_t cpu = 0; cpu < KOLO_CPUS_MAX; cpu++) {
        kolo_cpu_set siblings = {{0}};
        if (!is_open(topology, topology->core_of, cpu))
            continue;
        if (single || !read_sharers(root, cpu, "topology/thread_siblings_list", &siblings))
            kolo_cpu_set_add(&siblings, cpu);
        add_group(topology, topology->core_of, &topology->cores, &siblings);
    }
}

/* Kinds of cores. */

/* Finds the largest cpu_capacity below `limit` of an allowed CPU, and the CPUs with it. Returns false if there is
 * none. */
static bool find_capacity(const kolo_topology *topology, const uint64_t *capacity_of, uint64_t limit,
                          uint64_t *capacity, kolo_cpu_set *cpus) {
    *capacity = 0;
    for (uint32_t cpu = 0; cpu < KOLO_CPUS_MAX; cpu++)
        if (kolo_cpu_set_has(&topology->allowed, cpu) && capacity_of[cpu] < limit && capacity_of[cpu] > *capacity)
            *capacity = capacity_of[cpu];
    memset(cpus, 0, sizeof *cpus);
    for (uint32_t cpu = 0; cpu < KOLO_CPUS_MAX; cpu++)
        if (kolo_cpu_set_has(&topology->allowed, cpu) && capacity_of[cpu] == *capacity)
            kolo_cpu_set_add(cpus, cpu);
    return *capacity > 0;
}

/* arm64 gives each CPU a capacity, 1024 for the most capable. */
static void read_capacities(kolo_topology *topology, const char *root) {
    uint64_t capacity_of[KOLO_CPUS_MAX] = {0}, capacity = UINT64_MAX;
    for (uint32_t cpu = 0; cpu < KOLO_CPUS_MAX; cpu++) {
        char path[PATH_BYTES];
        snprintf(path, sizeof path, "devices/system/cpu/cpu%u/cpu_capacity", cpu);
        if (kolo_cpu_set_has(&topology->allowed, cpu) && !kolo_sysfs_number(root, path, &capacity_of[cpu]))
            return; /* other machines have no such file, and few have it for some CPUs only */
    }
    kolo_cpu_set cpus;
    while (topology->kinds + 1 < KOLO_CORE_KINDS_MAX &&
           find_capacity(topology, capacity_of, capacity, &capacity, &cpus))
        add_group(topology, topology->kind_of, &topology->kinds, &cpus);
}

static void read_kinds(kolo_topology *topology, const char *root) {
    static const char *const hybrid[] = {"devices/cpu_core/cpus", "devices/cpu_atom/cpus", "devices/cpu_lowpower/cpus"};
    kolo_cpu_set cpus;
    for (size_t i = 0; i < sizeof hybrid / sizeof *hybrid; i++)
        if (kolo_sysfs_list(root, hybrid[i], &cpus, NULL))
            add_group(topology, topology->kind_of, &topology->kinds, &cpus);
    if (topology->kinds == 0)
        read_capacities(topology, root);
    add_group(topology, topology->kind_of, &topology->kinds, &topology->allowed); /* all of one kind, or the rest */
}

/* Caches. */

static uint64_t smallest_known(uint64_t a, uint64_t b) {
    return a == 0 || (b != 0 && b < a) ? b : a;
}

/* Reads cache `index` of `cpu`. Returns false past the last one; level 0: an instruction cache, or damaged files. */
static bool read_cache(const char *root, uint32_t cpu, unsigned index, uint64_t *level, uint64_t *bytes,
                       kolo_cpu_set *sharers) {
    char path[PATH_BYTES], type[32];
    const int length = snprintf(path, sizeof path, "devices/system/cpu/cpu%u/cache/index%u/type", cpu, index) - 4;
    const size_t room = sizeof path - (size_t)length;
    *level = *bytes = 0;
    if (!kolo_sysfs_line(root, path, type, sizeof type))
        return false;
    if (strcmp(type, "Instruction") == 0)
        return true;
    snprintf(path + length, room, "level");
    if (!kolo_sysfs_number(root, path, level))
        *level = 0;
    snprintf(path + length, room, "size");
    if (!kolo_sysfs_number(root, path, bytes) || *bytes > CACHE_BYTES_MAX)
        *bytes = 0;
    snprintf(path + length, room, "shared_cpu_list");
    if (!kolo_sysfs_list(root, path, sharers, NULL) || !kolo_cpu_set_has(sharers, cpu))
        memset(sharers, 0, sizeof *sharers);
    return true;
}

/* Reads the caches of `cpu`: those of its kind, and the domain of its L3. */
static void read_caches(kolo_topology *topology, const char *root, uint32_t cpu) {
    kolo_core_kind *kind = &topology->kind[topology->kind_of[cpu]];
    uint64_t level, bytes;
    kolo_cpu_set sharers;
    for (unsigned index = 0; index < CACHES_MAX && read_cache(root, cpu, index, &level, &bytes, &sharers); index++) {
        if (level == 1) {
            kind->l1d_bytes = smallest_known(kind->l1d_bytes, bytes);
        } else if (level == 2) {
            kind->l2_bytes = smallest_known(kind->l2_bytes, bytes);
        } else if (level == 3) {
            topology->l3_bytes = smallest_known(topology->l3_bytes, bytes);
            add_group(topology, topology->l3_of, &topology->l3_domains, &sharers);
        }
    }
}

/* Fills *near with the CPUs that share package and node with `cpu`. */
static void near_cpus(const kolo_topology *topology, uint32_t cpu, kolo_cpu_set *near) {
    memset(near, 0, sizeof *near);
    for (uint32_t other = 0; other < KOLO_CPUS_MAX; other++)
        if (kolo_cpu_set_has(&topology->allowed, other) && topology->package_of[other] == topology->package_of[cpu] &&
            topology->node_of[other] == topology->node_of[cpu])
            kolo_cpu_set_add(near, other);
}

static void read_all_caches(kolo_topology *topology, const char *root) {
    bool kind_known[KOLO_CORE_KINDS_MAX] = {false};
    for (uint32_t cpu = 0; cpu < KOLO_CPUS_MAX; cpu++) {
        if (!kolo_cpu_set_has(&topology->allowed, cpu) ||
            (topology->l3_of[cpu] != KOLO_CPU_NOWHERE && kind_known[topology->kind_of[cpu]]))
            continue;
        read_caches(topology, root, cpu);
        kind_known[topology->kind_of[cpu]] = true;
    }
    for (uint32_t cpu = 0; cpu < KOLO_CPUS_MAX; cpu++) {
        kolo_cpu_set near;
        if (!is_open(topology, topology->l3_of, cpu))
            continue;
        near_cpus(topology, cpu, &near);
        add_group(topology, topology->l3_of, &topology->l3_domains, &near);
    }
    for (uint32_t kind = 0; kind < topology->kinds; kind++) {
        topology->l1d_bytes = smallest_known(topology->l1d_bytes, topology->kind[kind].l1d_bytes);
        topology->l2_bytes = smallest_known(topology->l2_bytes, topology->kind[kind].l2_bytes);
    }
}

static void clear(kolo_topology *topology, const kolo_cpu_set *allowed) {
    memset(topology, 0, sizeof *topology);
    topology->allowed = *allowed;
    for (uint32_t cpu = 0; cpu < KOLO_CPUS_MAX; cpu++)
        topology->l3_of[cpu] = topology->node_of[cpu] = topology->package_of[cpu] = topology->core_of[cpu] =
            topology->kind_of[cpu] = KOLO_CPU_NOWHERE;
}

void kolo_topology_read_at(kolo_topology *topology, const kolo_cpu_set *allowed, const char *root) {
    kolo_cpu_set online;
    clear(topology, allowed);
    if (!kolo_sysfs_list(root, "devices/system/cpu/online", &online, &topology->cpus_online))
        topology->cpus_online = kolo_cpu_set_count(allowed);
    read_nodes(topology, root);
    read_packages(topology, root);
    read_cores(topology, root);
    read_kinds(topology, root);
    read_all_caches(topology, root);
    if (topology->l3_domains == 0)
        topology->l3_domains = 1; /* no allowed CPUs at all */
}

void kolo_topology_read(kolo_topology *topology, const kolo_cpu_set *allowed) {
    kolo_topology_read_at(topology, allowed, "/sys");
    topology->is_intel = kolo_cpu_is_intel();
}
