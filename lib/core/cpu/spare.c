/* The choice of spare CPUs for a thread beside a rank, from near to far, and the move there. */
#include "cpu/spare.h"

#include <string.h>

#include "cpu/limits.h"

/* Returns whether two CPUs are in one group of `group_of`; NULL: the machine is the only group. */
static bool are_near(const uint16_t *group_of, uint32_t a, uint32_t b) {
    return !group_of || group_of[a] == group_of[b];
}

/* The CPUs that are near to one of `own`. */
static kolo_cpu_set near_cpus(const kolo_topology *topology, const uint16_t *group_of, const kolo_cpu_set *own) {
    kolo_cpu_set near = {{0}};
    for (uint32_t cpu = 0; cpu < KOLO_CPUS_MAX; cpu++)
        for (uint32_t mine = 0; kolo_cpu_set_has(&topology->allowed, cpu) && mine < KOLO_CPUS_MAX; mine++)
            if (kolo_cpu_set_has(own, mine) && are_near(group_of, cpu, mine)) {
                kolo_cpu_set_add(&near, cpu);
                break;
            }
    return near;
}

static kolo_cpu_set intersection(const kolo_cpu_set *a, const kolo_cpu_set *b) {
    kolo_cpu_set both;
    for (unsigned i = 0; i < KOLO_CPUS_MAX / 64; i++)
        both.words[i] = a->words[i] & b->words[i];
    return both;
}

static kolo_cpu_set without(const kolo_cpu_set *a, const kolo_cpu_set *b) {
    kolo_cpu_set left;
    for (unsigned i = 0; i < KOLO_CPUS_MAX / 64; i++)
        left.words[i] = a->words[i] & ~b->words[i];
    return left;
}

/* Returns how many ranks run on the CPUs of `near`. */
static uint32_t count_ranks(const kolo_cpu_set *near, const kolo_cpu_set *const *rank_cpus, uint32_t ranks) {
    uint32_t count = 0;
    for (uint32_t rank = 0; rank < ranks; rank++) {
        const kolo_cpu_set there = intersection(near, rank_cpus[rank]);
        count += kolo_cpu_set_count(&there) > 0;
    }
    return count;
}

void kolo_spare_choose(kolo_cpu_set *spare, const kolo_topology *topology, const kolo_cpu_set *permitted,
                       const kolo_cpu_set *const *rank_cpus, uint32_t ranks, uint32_t rank) {
    const uint16_t *const levels[] = {topology->l3_of, topology->node_of, NULL};
    enum { LEVELS = sizeof levels / sizeof *levels };
    kolo_cpu_set used = {{0}};
    for (uint32_t i = 0; i < ranks; i++)
        kolo_cpu_set_merge(&used, rank_cpus[i]);
    const kolo_cpu_set used_cores = near_cpus(topology, topology->core_of, &used);
    const kolo_cpu_set unused = without(permitted, &used), unused_cores = without(permitted, &used_cores);
    for (int shares_cores = 0; shares_cores < 2; shares_cores++)
        for (int level = 0; level < LEVELS; level++) {
            const kolo_cpu_set near = near_cpus(topology, levels[level], rank_cpus[rank]);
            *spare = intersection(&near, shares_cores ? &unused : &unused_cores);
            if (kolo_cpu_set_count(spare) >= count_ranks(&near, rank_cpus, ranks))
                return;
        }
    *spare = unused;
}

/* A quota for no more processors than there are ranks leaves nothing for their threads. */
static bool has_quota_left(uint32_t ranks) {
    const uint32_t millicpus = kolo_quota_read();
    return millicpus == 0 || millicpus > 1000 * ranks;
}

bool kolo_spare_take(const kolo_cpu_set *own, const kolo_cpu_set *const *rank_cpus, uint32_t ranks, uint32_t rank) {
    kolo_cpu_set permitted, spare, all;
    kolo_topology topology;
    memset(&all, 0xff, sizeof all);
    if (!kolo_cpu_set_bind(&all))
        return false;
    kolo_cpu_set_allowed(&permitted);
    all = permitted;
    for (uint32_t i = 0; i < ranks; i++)
        kolo_cpu_set_merge(&all, rank_cpus[i]);
    kolo_topology_read(&topology, &all);
    kolo_spare_choose(&spare, &topology, &permitted, rank_cpus, ranks, rank);
    if (kolo_cpu_set_count(&spare) > 0 && kolo_cpu_set_bind(&spare))
        return has_quota_left(ranks);
    kolo_cpu_set_bind(own);
    return kolo_cpu_set_count(&all) > ranks && has_quota_left(ranks);
}
