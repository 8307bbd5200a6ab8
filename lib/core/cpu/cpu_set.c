/* Sets of CPUs, and the CPUs that this process may use. */
#include "cpu/cpu_set.h"

#include <sched.h>
#include <string.h>

uint32_t kolo_cpu_set_count(const kolo_cpu_set *set) {
    uint32_t count = 0;
    for (unsigned i = 0; i < KOLO_CPUS_MAX / 64; i++)
        count += (uint32_t)__builtin_popcountll(set->words[i]);
    return count;
}

void kolo_cpu_set_merge(kolo_cpu_set *set, const kolo_cpu_set *more) {
    for (unsigned i = 0; i < KOLO_CPUS_MAX / 64; i++)
        set->words[i] |= more->words[i];
}

void kolo_cpu_set_allowed(kolo_cpu_set *set) {
    memset(set, 0, sizeof *set);
    cpu_set_t mask[8]; /* 8192 CPUs: the kernel refuses a mask smaller than its own */
    CPU_ZERO_S(sizeof mask, mask);
    if (sched_getaffinity(0, sizeof mask, mask) < 0)
        return;
    for (uint32_t cpu = 0; cpu < KOLO_CPUS_MAX; cpu++)
        if (CPU_ISSET_S(cpu, sizeof mask, mask))
            kolo_cpu_set_add(set, cpu);
}

bool kolo_cpu_set_bind(const kolo_cpu_set *set) {
    cpu_set_t mask[8]; /* 8192 CPUs, as above */
    CPU_ZERO_S(sizeof mask, mask);
    for (uint32_t cpu = 0; cpu < KOLO_CPUS_MAX; cpu++)
        if (kolo_cpu_set_has(set, cpu))
            CPU_SET_S(cpu, sizeof mask, mask);
    return sched_setaffinity(0, sizeof mask, mask) == 0;
}
