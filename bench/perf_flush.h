/* Dropping a buffer from the caches: of kolo-perf, and of the drivers in comparison/, which know nothing of kolo.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef PERF_FLUSH_H
#define PERF_FLUSH_H

#include <stdbool.h>
#include <stddef.h>

/* Writes the first `bytes` bytes of a buffer back to memory and drops them from the caches of all cores. */
void perf_flush(const void *buffer, size_t bytes);

/* Whether this machine lets a program flush. */
bool perf_can_flush(void);

#endif
