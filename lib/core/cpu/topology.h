/* The CPUs that ranks may use, and the caches and memory nodes behind them, read from sysfs.
 *
 * The contents of sysfs are not trusted: where a file is missing, damaged or contradicts another, the topology lacks
 * the distinction that the file would have made. In the worst case the machine looks like one domain. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "cpu/cpu_set.h"

#define KOLO_CORE_KINDS_MAX 4
#define KOLO_CPU_NOWHERE    UINT16_MAX /* no group, see kolo_topology */

/* Cores of one kind on a hybrid machine. */
typedef struct kolo_core_kind {
    uint64_t l1d_bytes; /* of one core; 0: unknown, here and below */
    uint64_t l2_bytes;  /* of one L2 */
} kolo_core_kind;

typedef struct kolo_topology {
    uint32_t cpus_online; /* of the machine */
    uint32_t numa_nodes;  /* of the machine; at least 1 */
    bool is_intel;        /* this machine's CPUs, not those of a sysfs elsewhere: see kolo_cpu_is_intel */

    /* The groups of the allowed CPUs; at least 1 of each unless there are none. */
    uint32_t l3_domains;
    uint32_t nodes;
    uint32_t packages;
    uint32_t cores;
    uint32_t kinds; /* most capable first */
    kolo_core_kind kind[KOLO_CORE_KINDS_MAX];

    /* The sizes of the smallest cache of each level; 0: unknown. */
    uint64_t l1d_bytes;
    uint64_t l2_bytes;
    uint64_t l3_bytes;

    /* The group of each allowed CPU, counted from 0; KOLO_CPU_NOWHERE for the others. CPUs without an L3 are one domain
     * where they share package and node. */
    kolo_cpu_set allowed;
    uint16_t l3_of[KOLO_CPUS_MAX];
    uint16_t node_of[KOLO_CPUS_MAX];
    uint16_t package_of[KOLO_CPUS_MAX];
    uint16_t core_of[KOLO_CPUS_MAX]; /* SMT siblings share one */
    uint16_t kind_of[KOLO_CPUS_MAX];
} kolo_topology;

/* Fills *topology for the CPUs in `allowed` from the sysfs at `root`. Reads about 20 files for each L3 domain and one
 * for each core with SMT: some milliseconds on the largest machines, so one rank does it for all. */
void kolo_topology_read_at(kolo_topology *topology, const kolo_cpu_set *allowed, const char *root);

/* Like kolo_topology_read_at, from /sys. */
void kolo_topology_read(kolo_topology *topology, const kolo_cpu_set *allowed);
