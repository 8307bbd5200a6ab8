/* The ranks: processes of our own, bound to cores, that end with us and measure together. */
#ifndef KOLO_TUNE_TEAM_H
#define KOLO_TUNE_TEAM_H

#include <stdbool.h>

#include "tune_space.h"

typedef struct tune_job {
    const tune_space *space;
    tune_times *times; /* in memory that the ranks' parent shares; rank 0 writes it */
    int shm_fd;        /* an empty file through which the ranks meet */
    double seconds;    /* to spend, about */
    bool quick;
    int steps_before; /* sizes of spaces that have been measured, for the progress shown */
    int steps_total;
    double begin_s; /* when the first of them began */
} tune_job;

/* Measures all candidates at all sizes, with job->space->ranks processes, which are bound to a core each if *bound says
 * so and there are enough; then it says whether they are. Returns 0 when all have done their part, or -1 after a
 * complaint. No process is left in any case. */
int tune_team_run(const tune_job *job, bool *bound);

#endif
