/* Calls whose results are known beforehand, compared element by element.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef PERF_CHECK_H
#define PERF_CHECK_H

#include "perf_sampler.h"

/* Before a verified call: fresh inputs (PERF_SEED_VERIFIED), a result buffer that holds something else, guard bytes. */
void perf_check_begin(perf_sampler *sampler, size_t count);

/* Compares the buffers, as the last call left them, with that seed's values: every element of the result, of `send`
 * where it must not change, and the guard bytes. Returns how many are wrong on this rank, and says on stderr where the
 * first one is. */
uint64_t perf_check_result(const perf_sampler *sampler, size_t count, int seed);

#endif
