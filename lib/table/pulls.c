/* Pulls: copy the current versions of pieces. */
#include "table/access.h"
#include "table/shard.h"
#include "table/rows/versions.h"

/* The numbers of rows by which memory is requested before it is needed: the sequence, and then the version that it says
 * is current. */
enum { SEQUENCES_AHEAD = 16, VERSIONS_AHEAD = 6 };

#define ALWAYS_INLINE inline __attribute__((always_inline))

/* Copies a row of one piece or more. */
static void pull_row(struct kolo_table *table, uint64_t row, uint8_t *to) {
    const struct kolo_pieces *pieces = &table->pieces;
    const uint64_t first = kolo_pieces_of_row(pieces, row), end = kolo_pieces_of_row(pieces, row + 1);
    size_t left = kolo_pieces_row_columns(pieces, row);
    for (uint64_t piece = first; piece < end; piece++) {
        const size_t count = left < pieces->piece_columns ? left : pieces->piece_columns;
        const size_t bytes = count * table->rule.element_bytes;
        kolo_versions_read(table, kolo_piece_memory(table, piece), kolo_version_bytes(&table->rule, count), to, bytes);
        to += bytes;
        left -= count;
    }
}

/* Pulls rows of one piece each, of the same length: rows ids[0 .. count-1] or, without ids, those from `first` on.
 * Where `bytes` is constant the copy is no call. */
static ALWAYS_INLINE void pull_even(struct kolo_table *table, const uint64_t *ids, uint64_t first, size_t count,
                                    uint8_t *to, size_t bytes) {
    uint8_t *const pieces = table->piece;
    const size_t stride = table->stride, version_bytes = table->version_bytes;
    for (size_t i = 0; ids && i < count && i < VERSIONS_AHEAD; i++)
        kolo_versions_fetch(pieces + ids[i] * stride, stride);
    for (size_t i = VERSIONS_AHEAD; ids && i < count && i < SEQUENCES_AHEAD; i++)
        __builtin_prefetch(pieces + ids[i] * stride);
    for (size_t i = 0; i < count; i++, to += bytes) {
        if (ids && i + SEQUENCES_AHEAD < count)
            __builtin_prefetch(pieces + ids[i + SEQUENCES_AHEAD] * stride);
        if (ids && i + VERSIONS_AHEAD < count) {
            uint8_t *ahead = pieces + ids[i + VERSIONS_AHEAD] * stride;
            const uint64_t sequence = kolo_load_relaxed((kolo_atomic_u64 *)(void *)ahead);
            kolo_versions_fetch(kolo_version_memory(ahead, sequence, version_bytes), bytes);
        }
        kolo_versions_read(table, pieces + (ids ? ids[i] : first + i) * stride, version_bytes, to, bytes);
    }
}

static void pull_short(struct kolo_table *table, const uint64_t *ids, uint64_t first, size_t count, uint8_t *to) {
    const size_t bytes = table->row_bytes;
    if (bytes == 4)
        ids ? pull_even(table, ids, 0, count, to, 4) : pull_even(table, NULL, first, count, to, 4);
    else if (bytes == 8)
        ids ? pull_even(table, ids, 0, count, to, 8) : pull_even(table, NULL, first, count, to, 8);
    else
        ids ? pull_even(table, ids, 0, count, to, bytes) : pull_even(table, NULL, first, count, to, bytes);
}

int kolo_access_pull(struct kolo_table *table, uint64_t first, uint64_t rows, void *values) {
    const int rc = __builtin_expect(table->has_queued, 0) ? kolo_shards_settle_own(table) : 0;
    if (rc < 0)
        return rc;
    const struct kolo_pieces *pieces = &table->pieces;
    if (table->even_rows > 0) {
        pull_short(table, NULL, first, rows, values);
        kolo_table_count(&table->self->pulled, rows);
        return 0;
    }
    uint8_t *to = values;
    for (uint64_t row = first; row < first + rows; row++) {
        pull_row(table, row, to);
        to += kolo_pieces_row_columns(pieces, row) * table->rule.element_bytes;
    }
    kolo_table_count(&table->self->pulled,
                     kolo_pieces_of_row(pieces, first + rows) - kolo_pieces_of_row(pieces, first));
    return 0;
}

int kolo_access_pull_rows(struct kolo_table *table, const uint64_t *ids, size_t count, void *values) {
    const int rc = __builtin_expect(table->has_queued, 0) ? kolo_shards_settle_own(table) : 0;
    if (rc < 0)
        return rc;
    const struct kolo_pieces *pieces = &table->pieces;
    if (table->even_rows > 0) {
        pull_short(table, ids, 0, count, values);
        kolo_table_count(&table->self->pulled, count);
        return 0;
    }
    uint8_t *to = values;
    uint64_t pulled = 0;
    for (size_t i = 0; i < count; i++) {
        pull_row(table, ids[i], to);
        to += kolo_pieces_row_columns(pieces, ids[i]) * table->rule.element_bytes;
        pulled += kolo_pieces_of_row(pieces, ids[i] + 1) - kolo_pieces_of_row(pieces, ids[i]);
    }
    kolo_table_count(&table->self->pulled, pulled);
    return 0;
}

const void *kolo_access_view(const struct kolo_table *table, uint64_t piece, uint64_t *version) {
    uint8_t *memory = kolo_piece_memory(table, piece);
    const size_t count =
        table->pieces.per_row == 1 ? table->pieces.columns : kolo_piece_at(&table->pieces, piece).count;
    *version = kolo_load_acquire((kolo_atomic_u64 *)(void *)memory); /* pairs with kolo_shard_write */
    return kolo_version_memory(memory, *version, kolo_version_bytes(&table->rule, count));
}

void kolo_access_set(struct kolo_table *table, uint64_t first, uint64_t rows, const void *values) {
    const struct kolo_pieces *pieces = &table->pieces;
    const uint8_t *from = values;
    for (uint64_t row = first; row < first + rows; row++) {
        size_t left = kolo_pieces_row_columns(pieces, row);
        for (uint64_t piece = kolo_pieces_of_row(pieces, row); left > 0; piece++) {
            const size_t count = left < pieces->piece_columns ? left : pieces->piece_columns;
            const size_t bytes = count * table->rule.element_bytes, all = kolo_version_bytes(&table->rule, count);
            uint8_t *memory = kolo_piece_memory(table, piece);
            const uint64_t sequence = kolo_load_relaxed((kolo_atomic_u64 *)(void *)memory);
            uint8_t *version = kolo_version_memory(memory, sequence, all);
            memset(version, 0, all);
            memcpy(version, from, bytes);
            from += bytes;
            left -= count;
        }
    }
}
