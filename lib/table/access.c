/* Pulls copy the current versions of pieces. Pushes go to the shards, into the staging area, or to pieces in place. */
#include "table/access.h"

#include <assert.h>
#include <stdlib.h>

#include "base/status.h"
#include "cpu/fpenv.h"
#include "table/clocks.h"
#include "table/shard.h"

/* How many rows ahead memory is requested: the sequence, and then the version that it says is current. */
enum { SEQUENCES_AHEAD = 16, VERSIONS_AHEAD = 6 };

#define ALWAYS_INLINE inline __attribute__((always_inline))

/* Copies a row of one piece or more. */
static void pull_row(struct kolo_table *table, uint64_t row, uint8_t *to) {
    for (struct kolo_walk walk = kolo_walk_rows(&table->pieces, row, 1); kolo_walk_next(&walk);) {
        const size_t bytes = walk.count * table->rule.element_bytes;
        kolo_versions_read(table, kolo_piece_memory(table, walk.piece), kolo_version_bytes(&table->rule, walk.count),
                           to, bytes);
        to += bytes;
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

int kolo_access_pull(struct kolo_table *table, const uint64_t *ids, uint64_t first, size_t count, void *values) {
    const int rc = __builtin_expect(table->has_queued, 0) ? kolo_shards_settle_own(table) : 0;
    if (rc < 0)
        return rc;
    if (table->even_rows > 0) {
        pull_short(table, ids, first, count, values);
        kolo_table_count(&table->self->pulled, count);
        return 0;
    }
    const struct kolo_pieces *pieces = &table->pieces;
    uint8_t *to = values;
    uint64_t pulled = 0;
    for (size_t i = 0; i < count; i++) {
        const uint64_t row = ids ? ids[i] : first + i;
        pull_row(table, row, to);
        to += kolo_pieces_row_columns(pieces, row) * table->rule.element_bytes;
        pulled += kolo_pieces_of_row(pieces, row + 1) - kolo_pieces_of_row(pieces, row);
    }
    kolo_table_count(&table->self->pulled, pulled);
    return 0;
}

const void *kolo_access_view(const struct kolo_table *table, uint64_t piece, uint64_t *version) {
    uint8_t *memory = kolo_piece_memory(table, piece);
    const size_t count = kolo_piece_at(&table->pieces, piece).count;
    *version = kolo_load_acquire((kolo_atomic_u64 *)(void *)memory); /* pairs with kolo_shard_write */
    return kolo_version_memory(memory, *version, kolo_version_bytes(&table->rule, count));
}

void kolo_access_set(struct kolo_table *table, uint64_t first, uint64_t rows, const void *values) {
    const uint8_t *from = values;
    for (struct kolo_walk walk = kolo_walk_rows(&table->pieces, first, rows); kolo_walk_next(&walk);) {
        const size_t bytes = walk.count * table->rule.element_bytes, all = kolo_version_bytes(&table->rule, walk.count);
        uint8_t *version = kolo_version_current(table, walk.piece, all);
        memset(version, 0, all);
        memcpy(version, from, bytes);
        from += bytes;
    }
}

/* Pushes. */

enum { NAMED_AHEAD = 16 }; /* rows whose entries below are asked for before they are needed */

/* The push of several rows in which a row was last named, and its place there: one word, as there may be many rows. */
enum { NAMING_BITS = 21, PLACE_BITS = 64 - NAMING_BITS };

struct kolo_table_named {
    uint64_t naming : NAMING_BITS; /* which push it was, from 1 on, again and again */
    uint64_t at : PLACE_BITS;      /* the row's first piece, among those that are pushed */
};

static_assert(sizeof(struct kolo_table_named) == sizeof(uint64_t), "one word");
/* A piece has a sequence and two versions, in whole words, and a process can address 2^47 bytes. */
static_assert((UINT64_C(1) << PLACE_BITS) * 2 * sizeof(uint64_t) >= UINT64_C(1) << 47, "each piece has its place");

static int refuse_memory(const struct kolo_table *table) {
    return KOLO_FAIL_IN(table->comm, "kolo_table_push", KOLO_ERR_SYSTEM, "out of memory");
}

/* Makes room of at least `bytes` bytes at *room, which has *has bytes. */
static bool make_room(void *room, size_t *has, size_t bytes) {
    uint8_t **place = room;
    if (bytes <= *has)
        return true;
    uint8_t *grown = realloc(*place, bytes + bytes / 2);
    if (!grown)
        return false;
    *place = grown;
    *has = bytes + bytes / 2;
    return true;
}

/* Adds to a piece in place. kolo_table.h says which updates rows lose by it. */
static void add_in_place(const struct kolo_table *table, uint64_t piece, const void *update) {
    const size_t count = kolo_piece_at(&table->pieces, piece).count;
    uint8_t *values = kolo_version_memory(kolo_piece_memory(table, piece), 0, kolo_version_bytes(&table->rule, count));
    const double factor = table->rule.kind == KOLO_TABLE_SGD ? -kolo_table_learning_rate(table) : 1;
    for (size_t i = 0; i < count; i++)
        if (table->rule.dtype == KOLO_F32) {
            float addend;
            memcpy(&addend, (const uint8_t *)update + i * sizeof addend, sizeof addend);
            kolo_add_f32(values + i * sizeof addend, (float)factor * addend);
        } else {
            double addend;
            memcpy(&addend, (const uint8_t *)update + i * sizeof addend, sizeof addend);
            kolo_add_f64(values + i * sizeof addend, factor * addend);
        }
}

static bool needs_shard(const struct kolo_table *table) {
    return !kolo_table_is_synchronous(table) && !table->options.hogwild;
}

/* Pushes consecutive rows that need no shard's role. `update` is that of the first piece. */
static void push_pieces(struct kolo_table *table, uint64_t first, uint64_t rows, const uint8_t *update) {
    for (struct kolo_walk walk = kolo_walk_rows(&table->pieces, first, rows); kolo_walk_next(&walk);) {
        if (table->options.hogwild)
            add_in_place(table, walk.piece, update);
        else
            kolo_synchronous_stage(table, walk.piece, update);
        update += walk.count * table->rule.element_bytes;
    }
}

/* Reserves memory for updates of those rows, which are kept there until the clock ends. */
static int reserve(struct kolo_table *table, uint64_t first, uint64_t rows) {
    const struct kolo_pieces *pieces = &table->pieces;
    return kolo_table_is_synchronous(table) ? kolo_synchronous_reserve(table, kolo_pieces_row_element(pieces, first),
                                                                       kolo_pieces_row_element(pieces, first + rows))
                                            : 0;
}

static int push(struct kolo_table *table, uint64_t first, uint64_t rows, const void *updates) {
    const struct kolo_pieces *pieces = &table->pieces;
    const uint64_t begin = kolo_pieces_of_row(pieces, first), end = kolo_pieces_of_row(pieces, first + rows);
    int rc = reserve(table, first, rows);
    if (rc < 0)
        return rc;
    kolo_table_count(&table->self->pushed, end - begin);
    if (!needs_shard(table)) {
        push_pieces(table, first, rows, updates);
        return 0;
    }
    for (uint32_t i = 0; i < table->shards && rc == 0; i++) { /* each worker begins with another shard */
        const uint32_t shard = (table->rank + i) % table->shards;
        struct kolo_updates to = {
            .piece = begin, .end = end, .values = updates, .first_element = kolo_pieces_row_element(pieces, first)};
        uint64_t from, to_end;
        to.has_all = kolo_pieces_shard_range(pieces, shard, &from, &to_end);
        to.piece = from > begin ? from : begin;
        to.end = to_end < end ? to_end : end;
        if (to.piece < to.end)
            rc = kolo_shard_push(table, shard, &to);
    }
    return rc;
}

/* Lists the pieces of rows ids[0 .. count-1], with the updates of rows that are named several times summed. Returns how
 * many pieces there are, or a status. */
static int64_t list_updates(struct kolo_table *table, const uint64_t *ids, size_t count, const uint8_t *updates) {
    const struct kolo_pieces *pieces = &table->pieces;
    const size_t element_bytes = table->rule.element_bytes;
    size_t listed = 0, summed = 0, pieces_named = 0, bytes = 0;
    for (size_t i = 0; i < count; i++) {
        pieces_named += kolo_pieces_of_row(pieces, ids[i] + 1) - kolo_pieces_of_row(pieces, ids[i]);
        bytes += kolo_pieces_row_columns(pieces, ids[i]) * element_bytes;
    }
    if (!table->named && !(table->named = calloc(table->pieces.rows, sizeof *table->named)))
        return refuse_memory(table);
    if (!make_room(&table->list, &table->list_bytes, 2 * pieces_named * sizeof *table->list))
        return refuse_memory(table);
    if (++table->naming == 1u << NAMING_BITS) {
        memset(table->named, 0, table->pieces.rows * sizeof *table->named);
        table->naming = 1;
    }
    for (size_t i = 0; i < count; i++) {
        if (i + NAMED_AHEAD < count)
            __builtin_prefetch(&table->named[ids[i + NAMED_AHEAD]], 1);
        struct kolo_table_named *named = &table->named[ids[i]];
        const bool is_again = named->naming == table->naming;
        size_t at = is_again ? named->at : listed;
        *named = (struct kolo_table_named){.naming = table->naming, .at = at};
        for (struct kolo_walk walk = kolo_walk_rows(pieces, ids[i], 1); kolo_walk_next(&walk); at++) {
            const size_t elements = walk.count;
            if (!is_again)
                table->list[listed++] = (struct kolo_listed){.piece = walk.piece, .update = updates};
            else {
                /* Sums are made in memory that is reserved at the first row that is named again. It has as many bytes
                 * as all updates take at most, so that it does not move. */
                if (summed == 0 && !make_room(&table->sums, &table->sums_bytes, bytes))
                    return refuse_memory(table);
                const uint8_t *sum = table->list[at].update;
                if (sum < table->sums || sum >= table->sums + summed) {
                    memcpy(table->sums + summed, sum, elements * element_bytes);
                    table->list[at].update = table->sums + summed;
                    summed += elements * element_bytes;
                }
                kolo_rule_combine(&table->rule, (uint8_t *)(uintptr_t)table->list[at].update, updates, elements);
            }
            updates += elements * element_bytes;
        }
    }
    return (int64_t)listed;
}

/* Sorts list[0 .. listed-1] by shard, into list[listed ..], and keeps their order otherwise. ends[s]: shard s's end. */
static void sort_by_shard(struct kolo_table *table, size_t listed) {
    size_t *ends = table->shard_ends;
    memset(ends, 0, table->shards * sizeof *ends);
    for (size_t i = 0; i < listed; i++)
        ends[kolo_piece_shard(&table->pieces, table->list[i].piece)]++;
    for (size_t shard = 0, begin = 0; shard < table->shards; shard++) {
        const size_t count = ends[shard];
        ends[shard] = begin;
        begin += count;
    }
    for (size_t i = 0; i < listed; i++)
        table->list[listed + ends[kolo_piece_shard(&table->pieces, table->list[i].piece)]++] = table->list[i];
}

static int push_rows(struct kolo_table *table, const uint64_t *ids, size_t count, const void *updates) {
    const uint8_t *update = updates;
    if (!needs_shard(table)) { /* both ways add up what is named several times */
        const struct kolo_pieces *pieces = &table->pieces;
        uint64_t pushed = 0;
        for (size_t i = 0; i < count; i++) {
            const int rc = reserve(table, ids[i], 1);
            if (rc < 0)
                return rc;
        }
        for (size_t i = 0; i < count; i++) {
            push_pieces(table, ids[i], 1, update);
            update += kolo_pieces_row_columns(pieces, ids[i]) * table->rule.element_bytes;
            pushed += kolo_pieces_of_row(pieces, ids[i] + 1) - kolo_pieces_of_row(pieces, ids[i]);
        }
        kolo_table_count(&table->self->pushed, pushed);
        return 0;
    }
    if (count == 1 && table->pieces.per_row == 1) {
        const struct kolo_listed one = {.piece = ids[0], .update = update};
        struct kolo_updates to = {.list = &one, .listed = 1};
        kolo_versions_fetch(kolo_piece_memory(table, ids[0]), table->stride);
        kolo_table_count(&table->self->pushed, 1);
        return kolo_shard_push(table, kolo_piece_shard(&table->pieces, ids[0]), &to);
    }
    const int64_t listed = list_updates(table, ids, count, update);
    if (listed < 0)
        return (int)listed;
    const struct kolo_listed *list = table->list;
    if (table->shards > 1) {
        sort_by_shard(table, (size_t)listed);
        list += listed;
    } else
        table->shard_ends[0] = (size_t)listed;
    kolo_table_count(&table->self->pushed, (uint64_t)listed);
    int rc = 0;
    for (uint32_t i = 0; i < table->shards && rc == 0; i++) {
        const uint32_t shard = (table->rank + i) % table->shards;
        const size_t begin = shard ? table->shard_ends[shard - 1] : 0, end = table->shard_ends[shard];
        struct kolo_updates to = {.list = list + begin, .listed = end - begin};
        if (begin < end)
            rc = kolo_shard_push(table, shard, &to);
    }
    return rc;
}

int kolo_access_push(struct kolo_table *table, const uint64_t *ids, uint64_t first, size_t count, const void *updates) {
    const uint32_t callers_fpenv = kolo_fpenv_enter();
    const int rc = ids ? push_rows(table, ids, count, updates) : push(table, first, count, updates);
    kolo_fpenv_leave(callers_fpenv);
    return rc;
}
