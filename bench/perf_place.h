/* The CPUs of the job, before there is a communicator.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef PERF_PLACE_H
#define PERF_PLACE_H

#include <sched.h>
#include <stdbool.h>

enum { PERF_CPUS_MAX = CPU_SETSIZE };

/* The CPUs that a job of `ranks` ranks runs on, as seen by one of them: its own. Where those are fewer than the ranks,
 * and a launcher started this process, also the launcher's, which may have bound each rank to a core. Cores come before
 * their second hardware threads. Writes at most `ranks` and at most PERF_CPUS_MAX numbers, only of CPUs that this
 * process may be bound to, and returns how many (at least 1), or -1 with errno set. */
int perf_place_cpus(int ranks, bool launched, int cpus[PERF_CPUS_MAX]);

/* The CPUs that this process may run on now. Returns 0, or -1 with errno set. */
int perf_place_affinity(cpu_set_t *set);

#endif
