/* Timing one message size after the other.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef PERF_RUN_H
#define PERF_RUN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kolo.h"
#include "perf_buffers.h"
#include "perf_options.h"
#include "perf_statistics.h"
#include "perf_values.h"

/* Calls back to back that make one sample of a small message: one call can be shorter than reading the clock. */
enum { PERF_BATCH_CALLS = 50, PERF_BATCH_BYTES_MAX = 4096 };

typedef struct perf_row {
    size_t bytes;
    size_t count;
    bool in_place;
    const char *algorithm; /* that ran; NULL for other collectives than all-reduce */
    int samples;
    int calls_per_sample;
    perf_statistics time_us; /* of one call: in every sample the slowest rank's */
    double algbw_gbps;
    double busbw_gbps;
    double link_bytes; /* of one call, that the busiest node sent or received; 0 with one node */
    double link_gbps;  /* in the median time */
    int64_t wrong;     /* elements and guard bytes of all ranks; -1: not checked */
} perf_row;

/* Values of one rank (perf_values.h). Verified calls and timed ones use different seeds, so that a result which a call
 * did not write is not taken for one that it did. */
enum { PERF_SEED_VERIFIED, PERF_SEED_TIMED, PERF_SEEDS };

typedef struct perf_tables {
    char input[PERF_SEEDS][PERF_VALUES_BYTES_MAX];
    char expected[PERF_SEEDS][PERF_VALUES_BYTES_MAX];
    char neutral[PERF_VALUES_BYTES_MAX];
} perf_tables;

typedef struct perf_run {
    const perf_options *options;
    kolo_comm *comm;
    int rank;
    int ranks;
    int nodes;
    bool in_place; /* the calls are; set before each row where the options ask for both places */
    perf_buffer send;
    perf_buffer recv; /* not allocated where all calls are in place */
    perf_tables *tables;
    double *samples_us;
    size_t samples_capacity;
} perf_run;

/* Allocates what all rows need. Returns 0, or 1 after saying on stderr what this rank lacks; perf_run_free either way.
 */
int perf_run_prepare(perf_run *run, const perf_options *options, kolo_comm *comm);

/* Measures messages of `bytes` bytes; collective over all ranks. Returns 0 with *row filled, the same on every rank, or
 * a negative KOLO_ERR_*, or 1 after saying on stderr what this rank lacks. */
int perf_run_row(perf_run *run, size_t bytes, perf_row *row);

void perf_run_free(perf_run *run);

/* One call of the collective on the run's buffers. Returns what kolo returns. */
int perf_run_call(perf_run *run, size_t count);

/* Where a call leaves its result. */
const perf_buffer *perf_run_result(const perf_run *run);

#endif
