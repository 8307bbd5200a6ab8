/* Data-parallel training, seen from one rank. Every rank holds the whole model. In each step all take their share of
 * the same batch, kolo_allreduce sums their gradients, and each applies the sum to its own copy: since the sum has the
 * same bits everywhere, the copies stay the same.
 *
 * Gradients get from rank to rank in one all-reduce after the backward pass, or layer by layer, in buckets or as
 * segments of the optimizer's step, in part while the backward pass goes on (--overlap), and compressed (--compress).
 * An optimizer of kolo turns them into new parameters, either over all ranks (--fused), by which each keeps 1/ranks of
 * the state and does 1/ranks of the work, or a whole one in each rank. */
#pragma once

#include <stdio.h>

#include "dataset.h"
#include "kolo.h"
#include "kolo_optimizer.h"
#include "mlp.h"
#include "train_options.h"

/* What one pass over the training rows came to; the same on every rank. */
typedef struct epoch_result {
    size_t steps; /* done so far, in all epochs */
    size_t samples;
    double loss;              /* mean over the samples, each taken as its step came to it */
    size_t test_correct;      /* of the testing rows */
    double seconds;           /* of training, without the test; mean over the ranks, like the next */
    double allreduce_seconds; /* of that in all-reduce, waiting for slower ranks included; with --fused also updating */
    double update_seconds;    /* of that in updating the parameters, where that is not a part of the all-reduce */
} epoch_result;

/* How many ranks there have been. */
typedef struct headcount {
    int at_first;
    int lost;
    int joined;
    int now;
} headcount;

typedef struct trainer {
    kolo_comm *comm;
    const train_options *options;
    const train_settings *settings; /* of them */
    const dataset *train;
    const dataset *test;

    mlp model;
    void *shared;    /* the model's parameters, with --shared-parameters; else NULL */
    float *gradient; /* of the parameters, and then one more number: the loss */
    kolo_optimizer *optimizer;
    kolo_comm *alone;      /* the optimizer's, of this rank; NULL: it is fused */
    kolo_buckets *buckets; /* of gradients, a tensor for each layer; NULL: none are used */
    int layers_rc;         /* of the layers of this step that went out: 0, or LOST */

    size_t *order; /* in which this epoch takes the training rows */
    dataset batch; /* this rank's share of it */

    size_t steps_of_epoch, steps_planned, epochs_planned;
    size_t steps, epochs;  /* done so far */
    float *losses;         /* of each step: the batch's mean before the step */
    epoch_result *results; /* of each epoch; of the present one, what has come together so far */
    headcount ranks;
    double compute_seconds; /* of this rank, for gradients, and of these */
    double starved_seconds; /* those in which it had no processor */
} trainer;

/* Prepares a run: without weights yet. Returns 0 or LOST (complain.h), as all of these. */
int trainer_create(trainer *t, kolo_comm *comm, const train_options *options, const dataset *train,
                   const dataset *test);
void trainer_destroy(trainer *t);

/* Gives every rank rank 0's first weights. Who joins a training begins with trainer_move instead. */
int trainer_begin(trainer *t);

/* Trains for one epoch, or what is left of it or of the steps planned, and tests. Whatever fails, the trainer is left
 * as it was after the last whole step. */
int trainer_run_epoch(trainer *t);

/* Goes on with `comm`, which has fewer ranks than before or also new ones. What the ranks then have in common is
 * checkpoint_continue's to say. */
void trainer_move(trainer *t, kolo_comm *comm);

/* Bytes of the optimizer's state that this rank holds. */
size_t trainer_state_bytes(const trainer *t);

/* This rank with nobody else; where that cannot be, the process ends. */
kolo_comm *comm_of_one_rank(const char *cannot);

/* 1: all ranks have the same bits in values[0 .. count-1]; 0: they have not, as every rank is told; or LOST. */
int replicas_identical(kolo_comm *comm, const float *values, size_t count);

/* Saving (checkpoint.c). All return 0 or LOST. */

/* Whether `path` can be written, found out before the training; else the process ends. */
void checkpoint_try(const char *path);

/* Between two epochs: rank 0 writes what the training has come to, into a new file that then takes the place of the one
 * at `path`. So whenever a process or the machine stops, there is a whole file. Collective; only rank 0's path counts.
 */
int checkpoint_save(const trainer *t, const char *path);

/* After trainer_begin: goes on from the file that rank 0 reads at `path`. Refuses one that is damaged or of another
 * training. Collective. */
int checkpoint_resume(trainer *t, const char *path);

/* Goes on with `comm`, which has fewer ranks than before or also new ones, from where the one of them is that has got
 * furthest: all take over what it has. Where that fails, each rank has what it had. */
int checkpoint_continue(trainer *t, kolo_comm *comm);

/* New processes (elastic.c). */

/* Opens the training to others under the name options->job: *listener becomes, on ranks on which it is -1, the socket
 * at which they wait (kolo_comm_listen). Collective. Returns 0 or LOST. */
int elastic_open(int *listener, kolo_comm *comm, const train_options *options);

/* Between two epochs: looks whether somebody wants to join, without waiting for one. Collective. Returns how many have
 * joined: then *comm is another communicator, with its old ranks first and then the new ones, who know nothing yet.
 * LOST: the communicator broke; the new ones are not in. */
int elastic_admit(int listener, kolo_comm **comm, train_settings *training);

/* After the last epoch: tells those who still wait. */
void elastic_close(int *listener, const kolo_comm *comm);

/* A new process's part: asks the training options->join_job to be taken in, waits for the end of its epoch, and creates
 * the communicator together with its ranks. Should that communicator break before all else is known, it may ask again.
 */
kolo_comm *elastic_join(const train_options *options);

/* Other trainings, from their heading to their report. Collective; the data are the same on all ranks. Rank 0 writes
 * *json where that is not NULL, and closes it. They return the exit code. */

/* In all ways that the options name (ways.c): EXIT_FAILURE if ranks differ, or a way that must keep the plain one's
 * bits does not. */
int ways_run(kolo_comm *comm, const train_options *options, const dataset *train, const dataset *test, FILE **json);

/* With a parameter server (server/worker.c). The data are the digits, or empty. */
int worker_run(kolo_comm **comm, const train_options *options, const dataset *train, const dataset *test, FILE **json);
