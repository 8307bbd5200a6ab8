/* Inputs whose result is exactly predictable, for every dtype, op and number of ranks.
 *
 * Values depend on the rank, on the position and on a seed. They stand in tables, which are repeated over a buffer of
 * any length: element i of a rank's input is that at i % PERF_TABLE_PERIOD in its table, and element i of the result is
 * that of the expected table. The period is a prime, so that data which lands some chunks, pages or lines away from
 * where it belongs meets other values there.
 *
 * Floating-point inputs are chosen such that every partial result, in whatever order, is exactly representable in the
 * dtype itself: any correct all-reduce gives the same bits, whatever it associates or keeps in between. */
#ifndef PERF_VALUES_H
#define PERF_VALUES_H

#include <stddef.h>
#include <stdint.h>

#include "kolo.h"

enum { PERF_TABLE_PERIOD = 8191, PERF_VALUES_BYTES_MAX = PERF_TABLE_PERIOD * 8 };

enum { PERF_ALL_RANKS = -1 };

/* What rank `rank` of `ranks` contributes, or PERF_ALL_RANKS: the reduction of all that. `table` has room for
 * PERF_VALUES_BYTES_MAX bytes, here and below. */
void perf_values_of(void *table, kolo_dtype dtype, kolo_op op, int ranks, int rank, uint64_t seed);

/* Values that an in-place all-reduce maps to themselves, however often it is repeated: no overflow, no denormals. */
void perf_values_neutral(void *table, kolo_dtype dtype, kolo_op op);

/* Fills `count` elements from a table. */
void perf_table_fill(void *buffer, size_t count, size_t element_bytes, const void *table);

/* How many of `count` elements differ from the table; *first, unless NULL, is set to the index of the first,
 * if there is one. */
size_t perf_table_wrong(const void *buffer, size_t count, size_t element_bytes, const void *table, size_t *first);

#endif
