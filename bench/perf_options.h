/* What the command line asks for. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "kolo.h"
#include "kolo_table.h"
#include "perf_collectives.h"

/* Which rows a worker names, one after the other: all alike often, or a few much more often than the others. */

typedef enum perf_keys { PERF_KEYS_UNIFORM, PERF_KEYS_ZIPF } perf_keys;

/* NULL past the last. */
static inline const char *perf_keys_name(unsigned keys) {
    static const char *const names[] = {[PERF_KEYS_UNIFORM] = "uniform", [PERF_KEYS_ZIPF] = "zipf", NULL};
    return names[keys];
}

/* ids[0 .. count-1] of rows 0 .. rows - 1, the same from the same seed. ZIPF: the k-th most frequent row is named in
 * proportion to k to the power of -exponent, which is above 0; frequent rows lie all over the table. */
void perf_keys_fill(uint64_t *ids, size_t count, uint64_t rows, perf_keys keys, double exponent, uint64_t seed);

enum { PERF_COLLECTIVES_MAX = KOLO_COLLECTIVES };

/* What is in the caches when a call begins; README.md tells when each is the right question. */
typedef enum perf_buffers { PERF_WARM, PERF_DIRTY, PERF_COLD } perf_buffers;

/* NULL past the last. */
static inline const char *perf_buffers_name(unsigned buffers) {
    static const char *const names[] = {[PERF_WARM] = "warm", [PERF_DIRTY] = "dirty", [PERF_COLD] = "cold", NULL};
    return names[buffers];
}

/* Whether a progress thread carries out calls in the background. */
typedef enum perf_progress {
    PERF_PROGRESS_ENVIRONMENT,
    PERF_PROGRESS_NO,
    PERF_PROGRESS_YES,
    PERF_PROGRESS_BOTH
} perf_progress;

enum { PERF_IN_FLIGHT_MAX = 64 };

/* Of a parameter server's table. */
typedef struct perf_table_options {
    size_t bytes;      /* of its rows */
    int batch;         /* rows of a call */
    perf_keys keys;    /* which ones */
    double zipf;       /* the exponent of PERF_KEYS_ZIPF */
    double reads;      /* pulls of all calls, where both are made: from 0 to 1 */
    int64_t staleness; /* or KOLO_STALENESS_UNBOUNDED */
    int clock;         /* calls of a clock */
    kolo_placement placement;
    kolo_table_rule rule;
    int servers;
} perf_table_options;

struct perf_options;
struct perf_report;

/* What is measured by all ranks beside collectives. Returns 0, a KOLO_ERR_*, or 1 after a complaint. *wrong grows by
 * what was wrong; the report is rank 0's. */
typedef int perf_mode(const struct perf_options *options, kolo_comm *comm, struct perf_report *report, int64_t *wrong);

/* What is measured without communication, by rank 0 of so many. Returns the exit status. */
typedef int perf_mode_alone(const struct perf_options *options, int ranks);

typedef struct perf_options {
    const char *what;                                         /* the first word */
    perf_mode *mode;                                          /* NULL: the collectives */
    perf_mode_alone *alone;                                   /* NULL: with communication */
    const perf_collective *collectives[PERF_COLLECTIVES_MAX]; /* to measure, in this order */
    int collectives_count;
    int wait_us_max;                 /* the last one */
    bool pairs;                      /* of ranks, all at once */
    const perf_table_options *table; /* NULL: none */
    size_t min_bytes;                /* first message size */
    size_t max_bytes;                /* last message size */
    size_t factor;                   /* from one size to the next */
    kolo_dtype dtype;
    kolo_op op;
    int root;
    int iters;        /* timed samples a row; 0: by the time that a call takes */
    int warmup;       /* untimed samples a row; -1: by size */
    bool in_place;    /* send is recv, where the collective has that */
    bool both_places; /* out of place and in place; in_place is false then */
    kolo_algorithm algorithm;
    int check; /* not 0: verify the results */
    perf_buffers buffers;
    bool alloc;             /* buffers of kolo_alloc */
    int offset;             /* bytes by which buffers lie behind the beginning of a page */
    const char *json_path;  /* NULL: no JSON; "-": standard output */
    const char *csv_path;   /* likewise */
    bool overlap;           /* measure how much of the calls hides behind computing */
    int in_flight;          /* calls in the background at a time; 0: calls are blocking */
    perf_progress progress; /* of calls in the background */
    int threads;            /* with which each rank moves its data; 0: by KOLO_THREADS */
    bool lanes;             /* these are the program's, and each calls in a lane */
    bool trace;             /* every other sample of a blocking call is traced */
    bool limits;            /* measure the hardware first, and show each row's share of its bound */
    int ranks;              /* for limits; 0: as many as CPUs or as the launcher says */
    bool quick;             /* limits: a first look */
} perf_options;

/* Reads the command line. Ends the program at --help, at --version and at a mistake. Only the rank that `speaks`
 * prints, so that a job of many ranks gives its help or its complaint once. */
const perf_options *perf_options_read(int argc, char **argv, bool speaks);

/* What --json or --csv names: a file, or this. NULL: nothing. */
static inline bool perf_is_standard_output(const char *path) {
    return path != NULL && strcmp(path, "-") == 0;
}

/* A walk over the message sizes of a run: min, min * factor, ... and then max itself, in whole units and each once; a
 * size above 0 is at least one unit, and 0 is followed by one. Begins with unit_bytes alone. */
typedef struct perf_sizes {
    size_t unit_bytes; /* 0: the only size is 0 */
    size_t bytes;      /* the present size; valid after perf_sizes_next returned true */
    size_t exact_bytes;
    bool begun;
} perf_sizes;

/* Goes to the next size; false: there is none. */
bool perf_sizes_next(perf_sizes *sizes, const perf_options *options);

/* Bytes of the largest message of a run. */
size_t perf_sizes_max_bytes(const perf_options *options, size_t unit_bytes);

/* Untimed samples of a row: --warmup, or else `usual`; at least one whose time tells how many timed ones there will be,
 * unless --iters does. */
int perf_options_warmup(const perf_options *options, int usual);

/* Timed samples of a row: --iters, or else as many as fit into row_us, from `least` to `most`. */
int perf_options_samples(const perf_options *options, double row_us, double sample_us, int least, int most);
