/* --check: calls whose results are known beforehand, compared element by element.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef PERF_CHECK_H
#define PERF_CHECK_H

#include <stddef.h>
#include <stdint.h>

#include "perf_run.h"

/* One call on fresh inputs (PERF_SEED_VERIFIED), into a result buffer that holds something else, between guard bytes.
 * Collective. Adds to *wrong what perf_check_result finds. Returns what kolo returns. */
int perf_check_call(perf_run *run, size_t count, uint64_t *wrong);

/* Compares the buffers, as the last call left them, with that seed's values: every element of the result, of `send`
 * where it must not change, and the guard bytes. Returns how many are wrong on this rank, and says on stderr where the
 * first one is. */
uint64_t perf_check_result(const perf_run *run, size_t count, int seed);

#endif
