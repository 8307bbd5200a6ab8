/* SPDX-License-Identifier: Apache-2.0
 */
#include "perf_table.h"

#include <string.h>

void perf_table_fill(void *buffer, size_t count, size_t element_bytes, const void *table) {
    size_t bytes = count * element_bytes;
    size_t period_bytes = PERF_TABLE_PERIOD * element_bytes;
    for (size_t at = 0; at < bytes; at += period_bytes)
        memcpy((char *)buffer + at, table, bytes - at < period_bytes ? bytes - at : period_bytes);
}

size_t perf_table_wrong(const void *buffer, size_t count, size_t element_bytes, const void *table, size_t *first) {
    size_t wrong = 0;
    for (size_t at = 0; at < count; at += PERF_TABLE_PERIOD) {
        const char *block = (const char *)buffer + at * element_bytes;
        size_t block_count = count - at < PERF_TABLE_PERIOD ? count - at : PERF_TABLE_PERIOD;
        if (memcmp(block, table, block_count * element_bytes) == 0)
            continue;
        for (size_t i = 0; i < block_count; i++) {
            const char *want = (const char *)table + i * element_bytes;
            if (memcmp(block + i * element_bytes, want, element_bytes) != 0 && wrong++ == 0 && first != NULL)
                *first = at + i;
        }
    }
    return wrong;
}
