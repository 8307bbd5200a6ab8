/* The writer role of a shard, and the queues of updates to the shard. */
#include "table/shard.h"

#include "cpu/fpenv.h"
#include "shm/region.h"
#include "sync/point.h"
#include "table/nodes/outbox.h"
#include "table/rows/versions.h"
#include "table/waits.h"

enum { PIECES_AHEAD = 4, SHORT_ELEMENTS = 4 };

#define ALWAYS_INLINE inline __attribute__((always_inline))

#define PLACE_BITS 48 /* of a position in a queue; above it the worker, plus one */

static uint64_t place_of(uint32_t worker, uint64_t taken) {
    return (uint64_t)(worker + 1) << PLACE_BITS | (taken & ((UINT64_C(1) << PLACE_BITS) - 1));
}

static inline struct kolo_shared_update *entry_at(const struct kolo_table *table, const uint8_t *ring,
                                                  uint64_t position) {
    return (struct kolo_shared_update *)(void *)(ring + position % table->queue_bytes);
}

static inline size_t elements_of(const struct kolo_pieces *pieces, uint64_t piece) {
    return kolo_piece_at(pieces, piece).count;
}

/* Bytes that an update of a piece takes in a queue. */
static inline size_t entry_bytes(const struct kolo_table *table, uint64_t piece) {
    const size_t bytes = elements_of(&table->pieces, piece) * table->rule.element_bytes;
    return sizeof(struct kolo_shared_update) + (bytes + 7) / 8 * 8;
}

/* Bytes up to the next entry of a queue: `entry` is at `position`. */
static uint64_t step_of(const struct kolo_table *table, const struct kolo_shared_update *entry, uint64_t position) {
    return entry->piece == KOLO_QUEUE_WRAP ? table->queue_bytes - position % table->queue_bytes
                                           : entry_bytes(table, entry->piece);
}

/* Completes what a holder that has ended was doing with a queue: see shard.h. */
static void recover(struct kolo_table *table, uint32_t shard) {
    struct kolo_shared_shard *shared = &table->shard[shard];
    for (uint32_t worker = 0; worker < table->workers; worker++)
        kolo_set_bits(&shared->pending[worker / 64], UINT64_C(1) << worker % 64);
    const uint64_t place = kolo_load_acquire(&shared->place);
    const uint32_t worker = (uint32_t)(place >> PLACE_BITS);
    if (worker > 0 && worker <= table->workers) {
        struct kolo_shared_queue *queue = kolo_table_queue(table, worker - 1, shard);
        const uint64_t taken = kolo_load_acquire(&queue->taken), piece = kolo_load_relaxed(&shared->piece);
        if (place == place_of(worker - 1, taken) && piece < table->pieces.pieces &&
            taken < kolo_load_acquire(&queue->filled) &&
            kolo_load_acquire(kolo_piece_sequence(table, piece)) == kolo_load_relaxed(&shared->sequence) + 1)
            kolo_publish(&table->waiter, &queue->taken, taken + entry_bytes(table, piece), &shared->bell);
    }
    /* The next entry that is noted may be of another queue, and this rank may end then. Its piece must not be taken for
     * one of this place. */
    KOLO_POINT("shard.recovering");
    kolo_store_release(&shared->place, 0);
}

static bool may_write(const struct kolo_table *table, uint32_t shard) {
    if (!table->servers || table->is_service || !kolo_table_is_native(table, shard))
        return true;
    const uint32_t owner = kolo_table_shard_owner(table, shard);
    return owner == table->rank || kolo_load_acquire(&table->members[owner].state) != KOLO_TABLE_PRESENT;
}

bool kolo_shard_take(struct kolo_table *table, uint32_t shard) {
    kolo_atomic_u64 *writer = &table->shard[shard].writer;
    const uint64_t holder = kolo_load_acquire(writer);
    if (!may_write(table, shard))
        return false;
    if (holder == 0) {
        if (!kolo_compare_and_swap(writer, 0, table->rank + 1))
            return false;
        table->callers_fpenv = kolo_fpenv_enter();
        return true;
    }
    if (holder == table->rank + 1 || holder > table->ranks || !kolo_waits_has_ended(table, (uint32_t)holder - 1))
        return false;
    KOLO_POINT("shard.taking_over");
    if (!kolo_compare_and_swap(writer, holder, table->rank + 1))
        return false;
    KOLO_POINT("shard.taken_over");
    table->callers_fpenv = kolo_fpenv_enter();
    if (!kolo_table_is_synchronous(table))
        recover(table, shard);
    return true;
}

static inline bool is_short_sum(const struct kolo_table *table, size_t count) {
    return table->rule.is_plain_sum && count <= SHORT_ELEMENTS;
}

static ALWAYS_INLINE void make_version(const struct kolo_table *table, double learning_rate,
                                       const struct kolo_writing *writing, const void *update, bool is_short) {
    const size_t state = (writing->what.count * table->rule.element_bytes + 7) / 8 * 8;
    const struct kolo_version from = {.values = writing->old, .state = writing->old + state};
    const struct kolo_version to = {.values = writing->made, .state = writing->made + state};
    KOLO_POINT("piece.writing");
    if (is_short)
        kolo_rule_add_short(&from, &to, update, writing->what.count);
    else
        kolo_rule_apply(&table->rule, learning_rate, &writing->what, update, &from, &to);
}

void kolo_shard_write(struct kolo_table *table, uint64_t piece, const void *update) {
    const struct kolo_writing writing = kolo_writing_begin(table, piece);
    make_version(table, kolo_table_learning_rate(table), &writing, update, is_short_sum(table, writing.what.count));
    if (__builtin_expect(table->nodes != NULL, 0))
        kolo_outbox_note(table, &writing, update);
    kolo_writing_commit(&writing);
}

static uint64_t drain_queue(struct kolo_table *table, uint32_t shard, uint32_t worker) {
    struct kolo_shared_shard *shared = &table->shard[shard];
    struct kolo_shared_queue *queue = kolo_table_queue(table, worker, shard);
    const uint8_t *ring = kolo_table_ring(table, worker, shard);
    uint64_t taken = kolo_load_relaxed(&queue->taken), filled, applied = 0;
    while (taken < (filled = kolo_load_acquire(&queue->filled))) { /* pairs with fill */
        for (; taken < filled;) {
            const struct kolo_shared_update *entry = entry_at(table, ring, taken);
            if (entry->piece >= table->pieces.pieces && entry->piece != KOLO_QUEUE_WRAP) { /* memory is damaged */
                taken = filled;
                kolo_store_release(&queue->taken, taken);
                break;
            }
            const uint64_t step = step_of(table, entry, taken);
            if (entry->piece != KOLO_QUEUE_WRAP) {
                kolo_store_release(&shared->piece, entry->piece);
                KOLO_POINT("shard.noting_sequence");
                kolo_store_release(&shared->sequence, kolo_load_relaxed(kolo_piece_sequence(table, entry->piece)));
                KOLO_POINT("shard.noting");
                kolo_store_release(&shared->place, place_of(worker, taken));
                KOLO_POINT("shard.noted");
                kolo_shard_write(table, entry->piece, entry + 1);
                applied++;
            }
            taken += step;
            kolo_store_release(&queue->taken, taken); /* pairs with fill, kolo_wait_shard and kolo_shard_settle */
            KOLO_POINT("shard.taken");
        }
        kolo_bell_ring(&table->waiter, &shared->bell);
    }
    return applied;
}

void kolo_shard_drain(struct kolo_table *table, uint32_t shard) {
    struct kolo_shared_shard *shared = &table->shard[shard];
    uint64_t applied = 0;
    for (uint32_t word = 0; word * 64 < table->workers; word++) {
        if (kolo_load_relaxed(&shared->pending[word]) == 0)
            continue;
        uint64_t bits = kolo_take_bits(&shared->pending[word]);
        KOLO_POINT("shard.draining");
        for (; bits; bits &= bits - 1)
            applied += drain_queue(table, shard, word * 64 + (uint32_t)__builtin_ctzll(bits));
    }
    if (applied)
        kolo_table_count(&table->self->applied, applied);
}

static bool is_pending(const struct kolo_table *table, uint32_t shard) {
    for (uint32_t word = 0; word * 64 < table->workers; word++)
        if (kolo_load_acquire(&table->shard[shard].pending[word]))
            return true;
    return false;
}

void kolo_shard_give(struct kolo_table *table, uint32_t shard) {
    do {
        kolo_fpenv_leave(table->callers_fpenv);
        KOLO_POINT("shard.giving");
        kolo_store_release(&table->shard[shard].writer, 0);
        KOLO_POINT("shard.given");
        kolo_fence_full(); /* pairs with those in kolo_shard_push and kolo_synchronous_help */
        if (!is_pending(table, shard) || !kolo_shard_take(table, shard))
            return;
        kolo_shard_drain(table, shard);
    } while (true);
}

void kolo_shard_help(struct kolo_table *table, uint32_t shard) {
    if (!kolo_shard_take(table, shard))
        return;
    kolo_shard_drain(table, shard);
    kolo_shard_give(table, shard);
}

/* Sets *listed to the next of the updates; false: there is none. */
static inline bool next_update(const struct kolo_table *table, uint32_t shard, struct kolo_updates *updates,
                               struct kolo_listed *listed) {
    const struct kolo_pieces *pieces = &table->pieces;
    if (updates->list) {
        if (updates->listed == 0)
            return false;
        *listed = *updates->list;
        return true;
    }
    while (updates->piece < updates->end && !updates->has_all && kolo_piece_shard(pieces, updates->piece) != shard)
        updates->piece++;
    if (updates->piece == updates->end)
        return false;
    const struct kolo_piece piece = kolo_piece_at(pieces, updates->piece);
    const uint64_t element = kolo_piece_element(pieces, &piece) - updates->first_element;
    *listed = (struct kolo_listed){updates->piece, updates->values + element * table->rule.element_bytes};
    return true;
}

static inline void skip_update(struct kolo_updates *updates) {
    if (updates->list) {
        updates->list++;
        updates->listed--;
    } else
        updates->piece++;
}

/* Reserves the memory of this worker's ring, before the ring is used first. */
static int reserve_ring(struct kolo_table *table, uint32_t shard, uint8_t *ring) {
    uint64_t *word = &table->reserved[shard / 64], bit = UINT64_C(1) << shard % 64;
    const int rc = *word & bit ? 0 : kolo_region_populate("kolo_table_push", ring, table->queue_bytes);
    *word |= rc == 0 ? bit : 0;
    return rc;
}

/* Puts as many updates into this worker's queue as there is room for. Returns 1: all; 0; or a status. */
static int fill(struct kolo_table *table, uint32_t shard, struct kolo_updates *updates, uint64_t *room_at) {
    struct kolo_shared_queue *queue = kolo_table_queue(table, table->rank, shard);
    uint8_t *ring = kolo_table_ring(table, table->rank, shard);
    const int rc = reserve_ring(table, shard, ring);
    if (rc < 0)
        return rc;
    const uint64_t taken = kolo_load_acquire(&queue->taken); /* pairs with drain_queue */
    const uint64_t before = kolo_load_relaxed(&queue->filled);
    uint64_t filled = before;
    bool has_room = true;
    struct kolo_listed listed;
    while (has_room && next_update(table, shard, updates, &listed)) {
        const uint64_t bytes = entry_bytes(table, listed.piece),
                       left = table->queue_bytes - filled % table->queue_bytes;
        const uint64_t wrap = bytes > left ? left : 0;
        has_room = filled + wrap + bytes - taken <= table->queue_bytes;
        if (!has_room) {
            *room_at = filled + wrap + bytes - table->queue_bytes;
            break;
        }
        if (wrap)
            entry_at(table, ring, filled)->piece = KOLO_QUEUE_WRAP;
        filled += wrap;
        struct kolo_shared_update *entry = entry_at(table, ring, filled);
        entry->piece = listed.piece;
        memcpy(entry + 1, listed.update, elements_of(&table->pieces, listed.piece) * table->rule.element_bytes);
        filled += bytes;
        skip_update(updates);
    }
    if (filled != before) {
        KOLO_POINT("shard.filling");
        kolo_store_release(&queue->filled, filled); /* pairs with drain_queue */
        KOLO_POINT("shard.filled");
        kolo_fetch_add(&table->shard[shard].fillings, 1); /* pairs with kolo_shard_settle */
        KOLO_POINT("shard.counted");
        kolo_set_bits(&table->shard[shard].pending[table->rank / 64], UINT64_C(1) << table->rank % 64);
        KOLO_POINT("shard.pending");
        table->has_queued = true;
        kolo_waits_call_server(table, shard);
    }
    return has_room;
}

/* Writes rows that are one piece each, of `columns` elements, in order. Where columns, version_bytes and is_short are
 * constants, a row takes a few instructions. */
static ALWAYS_INLINE void write_rows(struct kolo_table *table, uint64_t first, uint64_t end, const uint8_t *update,
                                     size_t columns, size_t version_bytes, bool is_short) {
    const double learning_rate = kolo_table_learning_rate(table);
    const size_t stride = kolo_piece_bytes(version_bytes);
    const size_t bytes = columns * (is_short ? sizeof(float) : table->rule.element_bytes);
    uint8_t *memory = table->piece + first * stride;
    for (uint64_t row = first; row < end; row++, update += bytes, memory += stride) {
        const struct kolo_piece what = {.row = row, .count = columns};
        const struct kolo_writing writing = kolo_writing_begin_at(table, row, what, memory, version_bytes);
        make_version(table, learning_rate, &writing, update, is_short);
        kolo_writing_commit(&writing);
    }
}

/* Writes pieces in order, all of the shard's: rows of one piece each, of the same length. */
static uint64_t write_in_order(struct kolo_table *table, const struct kolo_updates *updates) {
    const uint64_t first = updates->piece, end = updates->end;
    const size_t columns = table->pieces.columns;
    const uint8_t *update = updates->values + (first * columns - updates->first_element) * table->rule.element_bytes;
    switch (table->rule.is_plain_sum ? columns : 0) {
    case 1:
        write_rows(table, first, end, update, 1, 1 * sizeof(float), true);
        break;
    case 2:
        write_rows(table, first, end, update, 2, 2 * sizeof(float), true);
        break;
    case 4:
        write_rows(table, first, end, update, 4, 4 * sizeof(float), true);
        break;
    case 8:
        write_rows(table, first, end, update, 8, 8 * sizeof(float), true);
        break;
    default:
        write_rows(table, first, end, update, columns, table->version_bytes, is_short_sum(table, columns));
    }
    return end - first;
}

/* Writes such rows from a list. */
static uint64_t write_listed(struct kolo_table *table, const struct kolo_updates *updates) {
    const double learning_rate = kolo_table_learning_rate(table);
    const size_t stride = table->stride, version_bytes = table->version_bytes;
    const bool is_short = is_short_sum(table, table->pieces.columns);
    for (size_t i = 1; i < updates->listed && i < PIECES_AHEAD; i++)
        kolo_versions_fetch(table->piece + updates->list[i].piece * stride, stride);
    for (size_t i = 0; i < updates->listed; i++) {
        const struct kolo_piece what = {.row = updates->list[i].piece, .count = table->pieces.columns};
        if (i + PIECES_AHEAD < updates->listed)
            kolo_versions_fetch(table->piece + updates->list[i + PIECES_AHEAD].piece * stride, stride);
        const struct kolo_writing writing =
            kolo_writing_begin_at(table, what.row, what, table->piece + what.row * stride, version_bytes);
        make_version(table, learning_rate, &writing, updates->list[i].update, is_short);
        kolo_writing_commit(&writing);
    }
    return updates->listed;
}

/* Writes all updates; the caller holds the role. Returns how many there were. */
static uint64_t write_updates(struct kolo_table *table, uint32_t shard, struct kolo_updates *updates) {
    const bool is_even = table->even_rows > 0 && !table->nodes;
    if (is_even && updates->list)
        return write_listed(table, updates);
    if (is_even && updates->has_all)
        return write_in_order(table, updates);
    struct kolo_listed listed;
    uint64_t applied = 0;
    for (; next_update(table, shard, updates, &listed); skip_update(updates), applied++)
        kolo_shard_write(table, listed.piece, listed.update);
    return applied;
}

int kolo_shard_push(struct kolo_table *table, uint32_t shard, struct kolo_updates *updates) {
    for (;;) {
        if (kolo_shard_take(table, shard)) {
            kolo_shard_drain(table, shard);
            kolo_table_count(&table->self->applied, write_updates(table, shard, updates));
            kolo_shard_give(table, shard);
            return 0;
        }
        uint64_t room_at = 0;
        const int done = fill(table, shard, updates, &room_at);
        if (done < 0)
            return done;
        kolo_fence_full(); /* pairs with the one in kolo_shard_give */
        kolo_shard_help(table, shard);
        if (done)
            return 0;
        struct kolo_shared_queue *queue = kolo_table_queue(table, table->rank, shard);
        const int rc = kolo_wait_shard(table, shard, &queue->taken, room_at);
        if (rc < 0)
            return rc;
    }
}

int kolo_shard_settle(struct kolo_table *table, uint32_t shard, bool own) {
    const uint32_t first = own ? table->rank : 0, end = own ? table->rank + 1 : table->workers;
    const uint64_t fillings = kolo_load_acquire(&table->shard[shard].fillings); /* pairs with fill */
    if (!own && table->settled[shard] == fillings + 1)
        return 0;
    for (uint32_t worker = first; worker < end; worker++) {
        struct kolo_shared_queue *queue = kolo_table_queue(table, worker, shard);
        const uint64_t filled = kolo_load_acquire(&queue->filled); /* pairs with fill */
        if (kolo_load_acquire(&queue->taken) >= filled)
            continue;
        if (worker != table->rank) { /* the worker may have ended before it set its bit */
            kolo_set_bits(&table->shard[shard].pending[worker / 64], UINT64_C(1) << worker % 64);
            kolo_waits_call_server(table, shard);
        }
        const int rc = kolo_wait_shard(table, shard, &queue->taken, filled);
        if (rc < 0)
            return rc;
    }
    if (!own)
        table->settled[shard] = fillings + 1;
    return 0;
}

int kolo_shards_settle_own(struct kolo_table *table) {
    int rc = 0;
    for (uint32_t shard = 0; shard < table->shards && rc == 0 && table->has_queued; shard++)
        rc = kolo_shard_settle(table, shard, true);
    table->has_queued = table->has_queued && rc < 0;
    return rc;
}
