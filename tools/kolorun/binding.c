/* Affinity masks and the order in which ranks take CPUs.
 */
#include "binding.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#define CPU_LIMIT_FIRST 1024
#define CPU_LIMIT_MAX   (1 << 20)

struct cpu_place {
    int cpu;
    int core;   /* lowest CPU among the core's threads */
    int thread; /* how many listed CPUs of the same core come before this one */
};

/* The kernel refuses with EINVAL a mask smaller than its own, whose size it does not tell: try larger ones. */
static int affinity_mask_get(cpu_set_t **mask, int *limit) {
    for (*limit = CPU_LIMIT_FIRST; *limit <= CPU_LIMIT_MAX; *limit *= 2) {
        *mask = CPU_ALLOC(*limit);
        if (*mask == NULL)
            return -ENOMEM;
        if (sched_getaffinity(0, CPU_ALLOC_SIZE(*limit), *mask) == 0)
            return 0;
        int error = errno;
        CPU_FREE(*mask);
        if (error != EINVAL)
            return -error;
    }
    return -EINVAL;
}

int binding_allowed_cpus(int **cpus, size_t *count) {
    cpu_set_t *mask;
    int limit;
    int rc = affinity_mask_get(&mask, &limit);
    if (rc < 0)
        return rc;
    size_t mask_bytes = CPU_ALLOC_SIZE(limit);
    *count = 0;
    *cpus = calloc((size_t)CPU_COUNT_S(mask_bytes, mask) + 1, sizeof **cpus);
    if (*cpus == NULL) {
        CPU_FREE(mask);
        return -ENOMEM;
    }
    for (int cpu = 0; cpu < limit; cpu++)
        if (CPU_ISSET_S(cpu, mask_bytes, mask))
            (*cpus)[(*count)++] = cpu;
    CPU_FREE(mask);
    return 0;
}

static int core_of_cpu(int cpu, const char *sysfs) {
    char path[512];
    int length = snprintf(path, sizeof path, "%s/cpu%d/topology/thread_siblings_list", sysfs, cpu);
    if (length < 0 || (size_t)length >= sizeof path)
        return cpu;
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return cpu;
    int core; /* the list is ascending, so that its first number names the core */
    if (fscanf(file, "%d", &core) != 1 || core < 0)
        core = cpu;
    fclose(file);
    return core;
}

static int compare(int a, int b) {
    return (a > b) - (a < b);
}

static int compare_by_core(const void *left, const void *right) {
    const struct cpu_place *a = left, *b = right;
    return a->core != b->core ? compare(a->core, b->core) : compare(a->cpu, b->cpu);
}

static int compare_by_thread(const void *left, const void *right) {
    const struct cpu_place *a = left, *b = right;
    return a->thread != b->thread ? compare(a->thread, b->thread) : compare_by_core(a, b);
}

int binding_order_by_core(int *cpus, size_t count, const char *sysfs) {
    struct cpu_place *places = calloc(count + 1, sizeof *places);
    if (places == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < count; i++)
        places[i] = (struct cpu_place){.cpu = cpus[i], .core = core_of_cpu(cpus[i], sysfs)};
    qsort(places, count, sizeof *places, compare_by_core);
    for (size_t i = 1; i < count; i++)
        if (places[i].core == places[i - 1].core)
            places[i].thread = places[i - 1].thread + 1;
    qsort(places, count, sizeof *places, compare_by_thread);
    for (size_t i = 0; i < count; i++)
        cpus[i] = places[i].cpu;
    free(places);
    return 0;
}

int binding_apply(int cpu) {
    int limit = cpu + 1;
    cpu_set_t *mask = CPU_ALLOC(limit);
    if (mask == NULL)
        return -ENOMEM;
    size_t mask_bytes = CPU_ALLOC_SIZE(limit);
    CPU_ZERO_S(mask_bytes, mask);
    CPU_SET_S(cpu, mask_bytes, mask);
    int rc = sched_setaffinity(0, mask_bytes, mask) == 0 ? 0 : -errno;
    CPU_FREE(mask);
    return rc;
}
