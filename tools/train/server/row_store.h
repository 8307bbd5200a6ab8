/* Where the rows of a problem are, as one worker sees them: in a table (kolo_table), or, to compare, in a replica of
 * each rank, which are kept the same by an all-reduce of the gradients (kolo_optimizer). What fails ends the process.
 *
 * Beside the table is a board: another table, in which each worker notes how many steps it has done, and one of them
 * that it is time to stop. */
#ifndef KOLO_TRAIN_ROW_STORE_H
#define KOLO_TRAIN_ROW_STORE_H

#include <stdbool.h>

#include "kolo.h"
#include "problem.h"
#include "train_options.h"

typedef struct row_store {
    kolo_comm *comm;
    const problem *problem;
    int workers;        /* ranks below are */
    kolo_table *table;  /* NULL: replicas */
    kolo_table *board;  /* with a table */
    double *board_rows; /* what was last pulled of it */
    kolo_optimizer *optimizer;
    float *values;    /* the replica */
    float *gradients; /* of one clock */
    uint64_t steps;   /* that this worker has done */
    uint64_t clocks;  /* that it has ended; with backup workers also those that it was left out of */
    bool stops;       /* it is time to stop */
} row_store;

/* Collective, as are all with replicas. */
void row_store_create(row_store *store, kolo_comm *comm, const problem *p, train_rule rule, double rate);
void row_store_destroy(row_store *store);

/* The rows that were chosen, or all of a problem without choice, one behind the other; and all rows. */
void row_store_pull(row_store *store, float *values);
void row_store_pull_all(row_store *store, float *values);
void row_store_push(row_store *store, const float *gradients);

/* Ends this worker's clock. */
void row_store_clock(row_store *store);

/* Notes on the board how far this worker is, and whether all are to stop; and reads there the steps that all workers
 * together have done, and, in store->stops, whether to stop. With replicas that is known at the end of each
 * clock. */
void row_store_note(row_store *store, bool stops);
uint64_t row_store_look(row_store *store);

/* Waits, where workers may be at different clocks, until the others have left or ended: then all that they pushed is
 * there. They need not wait for this worker meanwhile. */
void row_store_outlast(row_store *store);

/* A server's part. */
void row_store_serve(row_store *store);

#endif
