/* A job: its ranks from start to end.
 */
#ifndef KOLORUN_JOB_H
#define KOLORUN_JOB_H

#include <stddef.h>

#include "launch_options.h"

/* Starts the ranks, watches over them until the last has ended, and returns the exit code of kolorun. Rank r
 * is bound to cpus[r]; NULL: to nothing. Prints what goes wrong. */
int job_run(const struct launch_options *options, const int *cpus);

#endif
