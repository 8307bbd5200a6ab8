/* Pulls and pushes: how rows go from the pieces to a worker, and back. The callers have checked the arguments. */
#pragma once

#include "table/table.h"
#include "table/rows/versions.h"

/* Sets `values` to rows ids[0 .. count-1] or, without ids, to those from `first` on. Returns 0, or the status of a wait
 * for this worker's own pushes. */
int kolo_access_pull(struct kolo_table *table, const uint64_t *ids, uint64_t first, size_t count, void *values);

/* Pulls one row that is one piece, the commonest pull. False: it is not one piece, or was being written. */
static inline bool kolo_access_pull_one(struct kolo_table *table, uint64_t row, void *values) {
    if (__builtin_expect(row >= table->even_rows || table->has_queued || !values, 0))
        return false;
    uint8_t *memory = table->piece + row * table->stride;
    const uint8_t *versions = memory + table->stride - 2 * table->version_bytes;
    if (!kolo_versions_try((kolo_atomic_u64 *)(void *)memory, versions, table->version_bytes, values, table->row_bytes,
                           table->version_bytes >= KOLO_CACHE_LINE_BYTES))
        return false;
    kolo_table_count(&table->self->pulled, 1);
    return true;
}

/* Pushes updates of those rows. */
int kolo_access_push(struct kolo_table *table, const uint64_t *ids, uint64_t first, size_t count, const void *updates);

/* Sets rows, with state of zeros. No other rank uses the table meanwhile. */
void kolo_access_set(struct kolo_table *table, uint64_t first, uint64_t rows, const void *values);

/* The memory of the version that is current; *version says which one it is. */
const void *kolo_access_view(const struct kolo_table *table, uint64_t piece, uint64_t *version);
