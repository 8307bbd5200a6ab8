/* A comparison of ways to take a step (--ways). Each is a training of its own, from the same first weights, with a
 * communicator of its own. They take turns, an epoch each, so that whatever else the machine does meets all of them. */
#ifndef KOLO_TRAIN_WAYS_H
#define KOLO_TRAIN_WAYS_H

#include <stdio.h>

#include "dataset.h"
#include "kolo.h"
#include "train_options.h"
#include "trainer.h"

typedef struct way_run {
    unsigned way;
    train_options options; /* with the settings of that way */
    kolo_comm *comm;
    trainer trainer;
    int identical;     /* whether all ranks ended with the same parameters */
    double sent_bytes; /* of a step: what this rank put into shared memory for others to read */
    double net_bytes;  /* of a step: what this machine sent to others */
} way_run;

typedef struct ways {
    kolo_comm *comm;
    int count;
    way_run runs[TRAIN_WAYS]; /* the plain one first */
} ways;

/* Where the step of a run spends its time, in seconds: of the epoch whose steps took the median time, mean over its
 * steps and over the ranks. */
typedef struct way_times {
    double step;
    double compute; /* the gradients; with overlap, whatever communication takes of the processor then */
    double wait;    /* for the sums when the gradients are there; with --fused also the update */
    double update;
    double hidden; /* by how much less it waits than the same way without overlap; below 0: it has none */
} way_times;

way_times ways_times(const ways *all, const way_run *run);

/* Trains in all ways that the options name, prints and, where *json is not NULL, writes what came of it, and closes
 * that. Collective; the data are the same on all ranks. Returns the exit code: EXIT_FAILURE if ranks differ, or a way
 * that must keep the plain one's bits does not; or -1 having said why. */
int ways_run(kolo_comm *comm, const train_options *options, const dataset *train, const dataset *test, FILE **json);

#endif
