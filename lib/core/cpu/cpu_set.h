/* Sets of logical CPUs. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define KOLO_CPUS_MAX 1024

/* A set has no pointers, so that it can lie in a shared segment. CPUs from KOLO_CPUS_MAX on are left out. */
typedef struct kolo_cpu_set {
    uint64_t words[KOLO_CPUS_MAX / 64];
} kolo_cpu_set;

static inline bool kolo_cpu_set_has(const kolo_cpu_set *set, uint32_t cpu) {
    return set->words[cpu / 64] >> (cpu % 64) & 1;
}

static inline void kolo_cpu_set_add(kolo_cpu_set *set, uint32_t cpu) {
    set->words[cpu / 64] |= UINT64_C(1) << (cpu % 64);
}

uint32_t kolo_cpu_set_count(const kolo_cpu_set *set);

/* Adds the CPUs of `more` to `set`. */
void kolo_cpu_set_merge(kolo_cpu_set *set, const kolo_cpu_set *more);

/* Fills *set with the calling thread's affinity mask, within its control group's cpuset; empty if not known. */
void kolo_cpu_set_allowed(kolo_cpu_set *set);

/* Moves the calling thread to those CPUs of `set` that its control group allows. Returns false if there are none. */
bool kolo_cpu_set_bind(const kolo_cpu_set *set);
