/* Calls by several threads of a rank: kolo_*_lane by all of them at once, as in a parallel region of a program's own.
 *
 * The rank's first thread is in lane 0, and one thread for each other lane waits for its next call. For a while they
 * spin, as OpenMP's threads do; so a sample has little in it of what it costs to wake them. */
#ifndef PERF_LANES_H
#define PERF_LANES_H

#include "perf_sampler.h"

/* Starts the threads. Returns 0, or 1 after saying on stderr why it cannot; perf_lanes_end either way. */
int perf_lanes_begin(int lanes);
void perf_lanes_end(void);

/* The `call` of a sampler: returns when all lanes have. */
int perf_lanes_call(const perf_sampler *sampler, const perf_call *call);

#endif
