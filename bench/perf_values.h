/* Inputs whose result is exactly predictable, for every dtype, op and number of ranks.
 *
 * Element i of a rank's input is that of its table as perf_table.h repeats it, and element i of the result is that of
 * the expected table. Values depend on the rank, on the position and on a seed.
 *
 * Floating-point inputs are chosen such that every partial result, in whatever order, is exactly representable in the
 * dtype itself: any correct all-reduce gives the same bits, whatever it associates or keeps in between.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef PERF_VALUES_H
#define PERF_VALUES_H

#include <stddef.h>
#include <stdint.h>

#include "kolo.h"
#include "perf_table.h"

enum { PERF_VALUES_BYTES_MAX = PERF_TABLE_PERIOD * 8 };

/* `table` has room for PERF_VALUES_BYTES_MAX bytes, in all four. */

/* What rank `rank` of `ranks` contributes. */
void perf_values_input(void *table, kolo_dtype dtype, kolo_op op, int ranks, int rank, uint64_t seed);

/* The reduction of all ranks' inputs. */
void perf_values_expected(void *table, kolo_dtype dtype, kolo_op op, int ranks, uint64_t seed);

/* Values that an in-place all-reduce maps to themselves, however often it is repeated: no overflow, no denormals. */
void perf_values_neutral(void *table, kolo_dtype dtype, kolo_op op);

#endif
