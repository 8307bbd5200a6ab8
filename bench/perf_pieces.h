/* The pieces of work that perf_limits.h names, each as a function for the workers of a team, whose argument is the
 * perf_workshop that they share; worker 0 leaves the result in its limits. */
#ifndef PERF_PIECES_H
#define PERF_PIECES_H

#include "perf_rounds.h"

typedef struct perf_piece_row {
    const char *name; /* of a curve, and what it is; NULL: it has none */
    const char *meaning;
    perf_worker_function measure;
    int cpus_min;
    /* Of a curve: */
    void (*try_ways)(perf_task *task); /* all of them, at the present point */
    size_t bytes_min;                  /* of the first point */
    enum {
        BLOCKS_PRIVATE,   /* each worker by itself */
        BLOCKS_EXCHANGED, /* with its neighbour */
        BLOCKS_FETCHED    /* from the next one */
    } blocks;
    int private_blocks;            /* that a worker has */
    void (*work)(perf_task *task); /* NULL: try_ways chooses it */
} perf_piece_row;

extern const perf_piece_row perf_piece_rows[PERF_PIECES];

/* As try_ways (perf_sendrecv.c). */
void perf_try_sendrecv(perf_task *task);

#endif
