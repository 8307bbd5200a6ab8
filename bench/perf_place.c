/* SPDX-License-Identifier: Apache-2.0
 */
#include "perf_place.h"

#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

int perf_place_affinity(cpu_set_t *set) {
    CPU_ZERO(set);
    return sched_getaffinity(0, sizeof(*set), set);
}

/* The number of the first CPU that shares `cpu`'s core; `cpu` itself where the kernel does not tell. */
static int first_sibling(int cpu) {
    char path[96];
    snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return cpu;
    int first;
    int fields = fscanf(file, "%d", &first);
    fclose(file);
    return fields == 1 && first >= 0 && first < PERF_CPUS_MAX ? first : cpu;
}

/* Whether a process may be bound to `cpu`: a cpuset forbids what an affinity mask of another process may show. */
static bool may_bind(int cpu) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    return sched_setaffinity(0, sizeof(one), &one) == 0;
}

/* A job whose ranks are bound to a core each is seen whole by its launcher only. */
static int job_affinity(int ranks, bool launched, cpu_set_t *set) {
    if (perf_place_affinity(set) != 0)
        return -1;
    cpu_set_t launcher;
    CPU_ZERO(&launcher);
    if (launched && CPU_COUNT(set) < ranks && sched_getaffinity(getppid(), sizeof(launcher), &launcher) == 0)
        CPU_OR(set, set, &launcher);
    return 0;
}

int perf_place_cpus(int ranks, bool launched, int cpus[PERF_CPUS_MAX]) {
    cpu_set_t own;
    cpu_set_t job;
    if (perf_place_affinity(&own) != 0 || job_affinity(ranks, launched, &job) != 0)
        return -1;
    cpu_set_t cores;
    CPU_ZERO(&cores);
    int count = 0;
    for (int second_threads = 0; second_threads <= 1; second_threads++) {
        for (int cpu = 0; cpu < PERF_CPUS_MAX && count < ranks; cpu++) {
            if (!CPU_ISSET(cpu, &job))
                continue;
            int core = first_sibling(cpu);
            if ((!second_threads && CPU_ISSET(core, &cores)) || !may_bind(cpu))
                continue;
            CPU_SET(core, &cores);
            CPU_CLR(cpu, &job);
            cpus[count++] = cpu;
        }
    }
    if (sched_setaffinity(0, sizeof(own), &own) != 0 || count == 0)
        return -1;
    return count;
}
