/* Inputs whose result is exactly predictable, for every dtype, op and number of ranks.
 *
 * Values depend on the rank, on the position and on a seed. They stand in tables, which are repeated over a buffer of
 * any length: element i of a rank's input is that at i % PERF_TABLE_PERIOD in its table, and element i of the result is
 * that of the expected table. The period is a prime, so that data which lands some chunks, pages or lines away from
 * where it belongs meets other values there.
 *
 * Floating-point inputs are chosen such that every partial result, in whatever order, is exactly representable in the
 * dtype itself (averages of prefixes: in the type of accumulation): any correct reduction gives the same bits, whatever
 * it associates or keeps in between. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kolo.h"

enum { PERF_TABLE_PERIOD = 8191, PERF_VALUES_BYTES_MAX = PERF_TABLE_PERIOD * 8 };

/* What all elements of a table have in common. */
typedef struct perf_recipe {
    kolo_dtype dtype;
    kolo_op op;
    int ranks;
    uint64_t seed;
    bool prefixes; /* the inputs of the first ranks alone are reduced, too, for any number of them */
} perf_recipe;

/* What rank `rank` contributes: elements `first` to `first` + `count` of a message, and only those, at their places in
 * the table. `table` has room for PERF_VALUES_BYTES_MAX bytes, here and below. */
void perf_values_of(void *table, const perf_recipe *of, int rank, size_t first, size_t count);

/* The reduction of what the first `inputs` ranks contribute. */
void perf_values_reduced(void *table, const perf_recipe *of, int inputs);

/* Values that an in-place all-reduce maps to themselves, however often it is repeated: no overflow, no denormals. */
void perf_values_neutral(void *table, kolo_dtype dtype, kolo_op op);

/* Fills `count` elements from a table. */
void perf_table_fill(void *buffer, size_t count, size_t element_bytes, const void *table);

/* How many of `count` elements differ from those of the table from element `first` of the message on; *found is set to
 * the index of the first, if there is one. */
size_t perf_table_wrong(const void *buffer, size_t count, size_t element_bytes, const void *table, size_t first,
                        size_t *found);
