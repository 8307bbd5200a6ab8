/* A table of values, repeated over a buffer of any length: in kolo-perf, and in the drivers in comparison/, which know
 * nothing of kolo.
 *
 * Element i of the buffer is the table's at i % PERF_TABLE_PERIOD. The period is a prime, so that data which lands some
 * chunks, pages or lines away from where it belongs meets other values there.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef PERF_TABLE_H
#define PERF_TABLE_H

#include <stddef.h>

enum { PERF_TABLE_PERIOD = 8191 };

/* Fills `count` elements from a table. */
void perf_table_fill(void *buffer, size_t count, size_t element_bytes, const void *table);

/* How many of `count` elements differ from the table; *first, unless NULL, is set to the index of the first,
 * if there is one. */
size_t perf_table_wrong(const void *buffer, size_t count, size_t element_bytes, const void *table, size_t *first);

#endif
