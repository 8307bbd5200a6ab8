/* Where this process stands before there is a communicator: its rank as the launcher says it, and the CPUs of the job.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef PERF_PLACE_H
#define PERF_PLACE_H

#include <sched.h>
#include <stdbool.h>

enum { PERF_CPUS_MAX = CPU_SETSIZE };

/* A guess, good enough to choose who speaks and who measures the hardware; kolo_comm_create has the last word. */
typedef struct perf_place {
    int rank; /* 0 where no launcher says otherwise */
    int size; /* 1 where no launcher says otherwise */
} perf_place;

perf_place perf_place_guess(void);

/* The CPUs that a job of `ranks` ranks runs on, as seen by one of them: its own. Where those are fewer than the ranks,
 * and a launcher started this process, also the launcher's, which may have bound each rank to a core. Cores come before
 * their second hardware threads. Writes at most `ranks` and at most PERF_CPUS_MAX numbers, only of CPUs that this
 * process may be bound to, and returns how many (at least 1), or -1 with errno set. */
int perf_place_cpus(int ranks, bool launched, int cpus[PERF_CPUS_MAX]);

/* The CPUs that this process may run on now. Returns 0, or -1 with errno set. */
int perf_place_affinity(cpu_set_t *set);

#endif
