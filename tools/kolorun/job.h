/* A job: its ranks from start to end. */
#ifndef KOLORUN_JOB_H
#define KOLORUN_JOB_H

#include "binding.h"
#include "launch_options.h"

/* Starts the ranks, bound as chosen and sharing the file `segment_fd`, watches over them until the last has ended, and
 * returns the exit code of kolorun. Prints what goes wrong. */
int job_run(const struct launch_options *options, struct binding *binding, int segment_fd);

#endif
