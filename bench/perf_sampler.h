/* Timing a collective, one message size after the other, and verifying what it gives: the same for kolo-perf and for
 * the drivers of compare/, which differ in how a call is made.
 *
 * A row is one message size. It is verified, warmed up, timed and verified again. The time of a sample is that of the
 * slowest rank; all ranks wait for each other before every sample, by kolo_barrier of the sampler's communicator. How
 * many samples there are follows from times that all ranks have agreed on. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kolo.h"
#include "perf_message.h"
#include "perf_options.h"
#include "perf_statistics.h"

/* Calls back to back that make one sample of a small message: one call can be shorter than reading the clock. */
enum { PERF_BATCH_CALLS = 50, PERF_BATCH_BYTES_MAX = 4096 };

/* Where such calls take longer than this, as where ranks share CPUs, there are fewer. */
enum { PERF_SLOW_BATCH_CALL_US = 1000, PERF_SLOW_BATCH_CALLS = 5 };

/* Without options->iters no row has more. */
enum { PERF_SAMPLES_MAX = 1000 };

typedef struct perf_row {
    size_t bytes;
    size_t count; /* elements of the message, or of rank 0's block */
    bool in_place;
    int samples;
    int calls_per_sample;
    perf_statistics time_us; /* of one call: in every sample the slowest rank's */
    double turned_us;        /* the median with `turn` on; 0: there is none */
    int64_t wrong;           /* elements and guard bytes of all ranks; -1: not checked */
    /* What the program fills in. */
    const char *algorithm; /* that ran, or "none" */
    double algbw_gbps;
    double busbw_gbps;
    double link_bytes;     /* of one call, that the busiest node sent or received; 0 with one node */
    double link_gbps;      /* in the median time */
    double bound_us;       /* the hardware's; 0: none */
    double bound_sum_us;   /* of its terms, the largest of which it is */
    double exchange_ns[2]; /* of a cache line between two ranks, before and after the samples; 0: not known */
} perf_row;

typedef struct perf_sampler {
    /* Set by the program. Both functions are collective, and return 0 or what perf_sampler_row shall return. */
    int (*call)(const struct perf_sampler *sampler, const perf_call *call);
    int (*watch)(struct perf_sampler *sampler, perf_row *row, bool ended); /* right before and after timed samples */
    void (*turn)(bool on);       /* NULL: none. Else samples with it off and on take turns; it is off otherwise */
    const char *program;         /* as its messages begin */
    const char *smaller;         /* its option for smaller messages */
    const perf_options *options; /* dtype, op, root, iters, warmup, check, buffers, alloc */
    const perf_collective *collective;
    kolo_comm *comm;     /* by which the ranks wait and agree */
    double budget_us;    /* about what the timed samples of a row take, without options->iters */
    int samples_min;     /* likewise */
    int at_once;         /* messages that `call` works on, each with buffers of its own; 0: one */
    double slow_call_us; /* a call that takes longer is not warmed up for, and sampled once */
    /* Its own. */
    perf_message *messages; /* at_once of them; `call` is given the first one's */
    double *samples_us;
    double *turned_us; /* behind them, of as many samples */
} perf_sampler;

/* The steps of a row, for who takes samples by themselves: begins the messages; fills in their inputs. */
void perf_sampler_begin(perf_sampler *sampler, size_t bytes, bool in_place);
void perf_sampler_fill(const perf_sampler *sampler);

/* Allocates what rows of up to `bytes` bytes need, where all are in place no more. Returns 0, or 1 after saying on
 * stderr what this rank lacks; perf_sampler_free either way. */
int perf_sampler_prepare(perf_sampler *sampler, size_t bytes, bool always_in_place);

/* Measures messages of `bytes` bytes; collective. Returns 0 with *row filled, the same on every rank (but see
 * perf_wrong_join), or a negative KOLO_ERR_* of its communicator, or what one of the functions has returned. */
int perf_sampler_row(perf_sampler *sampler, size_t bytes, bool in_place, perf_row *row);

void perf_sampler_free(perf_sampler *sampler);

/* Each value becomes the ranks' KOLO_MAX. Returns what kolo returns. */
int perf_sampler_join(perf_sampler *sampler, double *values, size_t count);

/* What this rank found wrong becomes what all have found, and never less than its own: the sum may be of the calls that
 * give wrong results. Collective. Returns what kolo returns. */
int perf_wrong_join(kolo_comm *comm, int64_t *wrong);
