/* Training with a parameter server, seen from one rank. A worker goes through clocks at its own pace, as far as the
 * mode allows: it pulls the rows that its share of a batch needs, computes their gradients, and pushes them. One
 * worker, the first that is not slowed down, also evaluates the loss now and then, of the rows as they are then. */
#pragma once

#include <stdbool.h>
#include <stdio.h>

#include "dataset.h"
#include "kolo.h"
#include "kolo_optimizer.h"
#include "kolo_table.h"
#include "problem.h"
#include "train_options.h"

typedef struct evaluation {
    double clocks;     /* of the worker that evaluates */
    double iterations; /* of all workers */
    double seconds;
    double loss;
} evaluation;

/* What one worker did; only numbers, so that ranks can tell each other. Seconds of all its clocks. */
typedef struct worker_times {
    double rank;
    double steps;  /* that it has computed */
    double clocks; /* that it has ended; with --backup-workers also those that it was left out of */
    double seconds;
    double compute_seconds; /* with what it slept for --slow and --step-ms */
    double pull_seconds, push_seconds;
    double clock_seconds;    /* ending clocks; with replicas all that all-reduce took */
    double waited_seconds;   /* of that for other workers */
    double evaluate_seconds; /* not in the others */
    double left_out;         /* rows that came too late with --backup-workers */
} worker_times;

typedef struct worker {
    kolo_comm *comm;
    const train_options *options;
    problem problem;
    int workers;   /* ranks below are */
    int evaluator; /* the rank that evaluates */
    train_rule rule;
    double rate;
    size_t clocks_of_epoch, clocks_planned, every;
    uint64_t steps;  /* that this worker has done */
    uint64_t clocks; /* that it has ended; with backup workers also those that it was left out of */
    bool stops;      /* it is time to stop */

    /* The rows: in a table or, to compare, in a replica of each rank, which are kept the same by an all-reduce of the
     * gradients. Beside the table is a board: another table, in which each worker notes how many steps it has done, and
     * one of them that it is time to stop. */
    kolo_table *table, *board; /* NULL: replicas */
    double *board_rows;        /* what was last pulled of it */
    kolo_optimizer *optimizer;
    float *replica, *replica_gradients; /* of one clock */

    size_t *order; /* of the examples, in this epoch */
    float *values, *gradients;
    float *all_values; /* of all rows, where it evaluates */
    float *losses;     /* [clocks_planned]: this worker's share of the mean loss of each clock's batch */
    evaluation *evaluations;
    size_t evaluations_count;
    size_t shown; /* clocks: from which on the next evaluation is printed */
    double begin_s;
    worker_times times;
    worker_times *times_of_all; /* [ranks]; after the training; all 0 for servers */
    size_t test_correct;        /* of the digits */
    int ranks_lost;
} worker;

/* Trains, and reports. Collective. train and test: the digits, else empty. Rank 0 writes *json where that is not NULL,
 * and closes it. Returns the exit code. */
int worker_run(kolo_comm **comm, const train_options *options, const dataset *train, const dataset *test, FILE **json);

/* What it prints (rank 0, and the worker that evaluates) and writes as JSON. */
void worker_report_heading(const worker *w);
void worker_report_evaluation(const evaluation *now);
void worker_report_end(const worker *w, FILE **json);
