/* The CPUs that this process may use and the caches and memory nodes behind them, read from sysfs. */
#ifndef KOLO_CPU_TOPOLOGY_H
#define KOLO_CPU_TOPOLOGY_H

#include <stdint.h>

#define KOLO_CPUS_MAX 1024

/* A set of logical CPUs, fit to be kept in a shared segment. CPUs from KOLO_CPUS_MAX on are left out. */
typedef struct kolo_cpu_set {
    uint64_t words[KOLO_CPUS_MAX / 64];
} kolo_cpu_set;

uint32_t kolo_cpu_set_count(const kolo_cpu_set *set);

/* Adds the CPUs of `more` to `set`. */
void kolo_cpu_set_merge(kolo_cpu_set *set, const kolo_cpu_set *more);

/* The calling thread's affinity mask; empty where the kernel does not tell. */
void kolo_cpu_set_allowed(kolo_cpu_set *set);

typedef struct kolo_topology {
    uint32_t cpus_online;
    uint32_t numa_nodes; /* at least 1 */
    uint32_t l3_domains; /* of the allowed CPUs; at least 1 */
    uint64_t l1d_bytes;  /* of the first allowed CPU; 0: unknown, here and below */
    uint64_t l2_bytes;
    uint64_t l3_bytes; /* of one domain */
} kolo_topology;

/* Fills *topology for the CPUs in `allowed`. What cannot be read is 0, or 1 where at least 1. */
void kolo_topology_read(kolo_topology *topology, const kolo_cpu_set *allowed);

#endif
