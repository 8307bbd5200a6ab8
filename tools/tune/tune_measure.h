/* What each rank does: it measures all candidates at all sizes, together with the other ranks. */
#ifndef KOLO_TUNE_MEASURE_H
#define KOLO_TUNE_MEASURE_H

#include "tune_space.h"

typedef struct tune_job {
    const tune_space *space;
    tune_times *times; /* in memory that the ranks' parent shares; rank 0 writes it */
    int shm_fd;        /* an empty file through which the ranks meet */
    double seconds;    /* to spend, about */
    bool quick;
    int steps_before; /* sizes of rank counts that have been measured, for the progress shown */
    int steps_total;
    double begin_s; /* when the first of them began */
} tune_job;

/* Returns an exit status; after a complaint if it is not 0. */
int tune_measure(const tune_job *job, int rank);

#endif
