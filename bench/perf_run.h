/* The sampler of kolo-perf: kolo's collectives, and what kolo's counters say of them.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef PERF_RUN_H
#define PERF_RUN_H

#include "kolo.h"
#include "perf_sampler.h"

/* Allocates what all rows need. Returns 0, or 1 after saying on stderr what this rank lacks; perf_sampler_free either
 * way. */
int perf_run_prepare(perf_sampler *sampler, const perf_options *options, kolo_comm *comm);

/* Measures messages of `bytes` bytes; collective over all ranks. Returns 0 with *row filled, the same on every rank, or
 * a negative KOLO_ERR_*. */
int perf_run_row(perf_sampler *sampler, size_t bytes, perf_row *row);

#endif
