/* From single pieces of work (perf_limits.h) to the time below which no call of a collective can fall. README.md
 * derives each term. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "perf_limits.h"
#include "perf_options.h"

/* The job whose calls are bounded. */
typedef struct perf_job {
    const perf_collective *collective;
    int ranks;
    bool in_place;
    bool alloc; /* every rank has mapped all buffers */
    perf_buffers buffers;
} perf_job;

perf_job perf_job_of(const perf_options *options, const perf_collective *collective, int ranks);

/* Every term is a lower bound by itself, in microseconds; 0 where it does not apply. */
typedef struct perf_bound {
    double exchange_us; /* ranks learn something of others that is written after the call began */
    double handover_us; /* ranks that share a CPU have to take turns */
    double transfer_us; /* inputs or results go from core to core: where they need not, of the sum alone */
    double memory_us;   /* every input byte is read once, every output byte written once */
    double bound_us;    /* the largest of these */
    double sum_us;      /* all together: what a call takes that does one after the other */
    const char *term;   /* its name; NULL where all are 0 */
} perf_bound;

/* Adds what perf_limits_measure has to be asked for, for messages of up to `bytes_max` bytes over `cpus` CPUs. */
void perf_bound_request(perf_limits_request *request, const perf_job *job, int cpus, size_t bytes_max);

perf_bound perf_bound_of(const perf_limits *limits, const perf_job *job, size_t bytes);

/* Bytes in a nanosecond, so GB/s. */
double perf_curve_gbps(const perf_curve *curve, int point);
