/* From single pieces of work (perf_limits.h) to the time below which no all-reduce can fall. README.md derives each
 * term. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "perf_limits.h"
#include "perf_options.h"

/* The job whose all-reduces are bounded. */
typedef struct perf_job {
    int ranks;
    bool in_place;
    bool alloc; /* every rank has mapped all buffers */
    bool cold;  /* inputs and outputs are in no cache */
} perf_job;

perf_job perf_job_of(const perf_options *options, int ranks);

/* Every term is a lower bound by itself, in microseconds; 0 where it does not apply. */
typedef struct perf_bound {
    double exchange_us; /* each rank learns something of another that is written after the call began */
    double handover_us; /* ranks that share a CPU have to take turns */
    double transfer_us; /* contributions and results go from core to core */
    double memory_us;   /* every input byte is read once, every output byte written once */
    double bound_us;    /* the largest of these */
    const char *term;   /* its name; NULL where all are 0 */
} perf_bound;

/* What perf_limits_measure has to be asked for, for messages of up to `bytes_max` bytes over `cpus` CPUs. */
perf_limits_request perf_bound_request(const perf_job *job, int cpus, size_t bytes_max);

perf_bound perf_bound_of(const perf_limits *limits, const perf_job *job, size_t bytes);

/* Bytes in a nanosecond, so GB/s. */
double perf_curve_gbps(const perf_curve *curve, int point);
