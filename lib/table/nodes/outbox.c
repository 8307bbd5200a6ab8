/* The updates that are pending in copies of other nodes' pieces, and the pieces that come for these copies. */
#include "table/nodes/outbox.h"

#include "sync/point.h"

static inline size_t count_of(const struct kolo_table *table, uint64_t piece) {
    return kolo_piece_at(&table->pieces, piece).count;
}

/* The pending word, with the update behind it. */
static inline uint8_t *pending_of(const struct kolo_table *table, const struct kolo_writing *writing,
                                  const uint8_t *version) {
    return (uint8_t *)version + kolo_version_pending(&table->rule, writing->what.count);
}

static inline uint64_t word_at(const uint8_t *pending) {
    uint64_t word;
    memcpy(&word, pending, sizeof word);
    return word;
}

static void set(uint8_t *pending, uint64_t word, const void *update, size_t bytes) {
    memcpy(pending, &word, sizeof word);
    if (word)
        memcpy(pending + sizeof word, update, bytes);
}

void kolo_outbox_tell(struct kolo_table *table, uint64_t piece) {
    KOLO_POINT("outbox.marking");
    kolo_set_bits(&table->changed[piece / 64], UINT64_C(1) << piece % 64);
}

void kolo_outbox_note(struct kolo_table *table, const struct kolo_writing *writing, const void *update) {
    uint8_t *made = pending_of(table, writing, writing->made);
    const uint8_t *old = pending_of(table, writing, writing->old);
    const size_t count = writing->what.count, bytes = count * table->rule.pending_bytes;
    kolo_outbox_tell(table, writing->piece);
    const bool is_foreign = kolo_table_is_foreign(table, kolo_piece_shard(&table->pieces, writing->piece));
    const bool has_pending = word_at(old);
    set(made, is_foreign, has_pending ? old + sizeof(uint64_t) : update, bytes);
    if (is_foreign && has_pending)
        kolo_rule_combine(&table->rule, made + sizeof(uint64_t), update, count);
}

/* Begins a version with values and state as they are. */
static struct kolo_writing begin_copy(struct kolo_table *table, uint64_t piece) {
    const struct kolo_writing writing = kolo_writing_begin(table, piece);
    memcpy(writing.made, writing.old, kolo_version_pending(&table->rule, writing.what.count));
    return writing;
}

void kolo_outbox_hold(struct kolo_table *table, uint64_t piece, const void *partial, uint64_t word) {
    kolo_outbox_tell(table, piece);
    const struct kolo_writing writing = begin_copy(table, piece);
    set(pending_of(table, &writing, writing.made), word, partial, writing.what.count * table->rule.pending_bytes);
    KOLO_POINT("outbox.holding");
    kolo_writing_commit(&writing);
}

uint64_t kolo_outbox_pending(const struct kolo_table *table, uint64_t piece, const void **update) {
    const size_t count = count_of(table, piece), bytes = kolo_version_bytes(&table->rule, count);
    const uint8_t *pending = kolo_version_current(table, piece, bytes) + kolo_version_pending(&table->rule, count);
    *update = pending + sizeof(uint64_t);
    return word_at(pending);
}

void kolo_outbox_clear(struct kolo_table *table, uint64_t piece) {
    const struct kolo_writing writing = begin_copy(table, piece);
    set(pending_of(table, &writing, writing.made), 0, NULL, 0);
    KOLO_POINT("outbox.clearing");
    kolo_writing_commit(&writing);
}

void kolo_outbox_receive(struct kolo_table *table, uint64_t piece, const void *from) {
    const struct kolo_writing writing = kolo_writing_begin(table, piece);
    const size_t values = writing.what.count * table->rule.element_bytes, aligned = (values + 7) / 8 * 8;
    const size_t state = kolo_rule_state_bytes(&table->rule, writing.what.count);
    const uint8_t *old = pending_of(table, &writing, writing.old);
    const uint64_t word = word_at(old);
    /* The rule reads one version and makes another, so that the piece that has come is laid out as a version. */
    uint8_t *made = writing.made, *came = word ? table->came : made;
    memcpy(came, from, values);
    memcpy(came + aligned, (const uint8_t *)from + values, state);
    if (word) {
        const struct kolo_version old_version = {.values = came, .state = came + aligned};
        const struct kolo_version new_version = {.values = made, .state = made + aligned};
        kolo_rule_apply(&table->rule, kolo_table_learning_rate(table), &writing.what, old + sizeof word, &old_version,
                        &new_version);
    }
    set(pending_of(table, &writing, made), word, old + sizeof word, writing.what.count * table->rule.pending_bytes);
    KOLO_POINT("outbox.receiving");
    kolo_writing_commit(&writing);
}

void kolo_outbox_copy(const struct kolo_table *table, uint64_t piece, void *to) {
    const size_t count = count_of(table, piece), bytes = kolo_version_bytes(&table->rule, count);
    const size_t values = count * table->rule.element_bytes;
    const uint8_t *version = kolo_version_current(table, piece, bytes);
    memcpy(to, version, values);
    memcpy((uint8_t *)to + values, version + (values + 7) / 8 * 8, kolo_rule_state_bytes(&table->rule, count));
}

size_t kolo_outbox_version_bytes(const struct kolo_table *table, uint64_t piece) {
    const size_t count = count_of(table, piece);
    return count * table->rule.element_bytes + kolo_rule_state_bytes(&table->rule, count);
}

size_t kolo_outbox_update_bytes(const struct kolo_table *table, uint64_t piece) {
    return count_of(table, piece) * table->rule.pending_bytes;
}

uint64_t kolo_outbox_next(const struct kolo_table *table, uint32_t shard, uint64_t piece) {
    uint64_t begin, end;
    const bool is_range = kolo_pieces_shard_range(&table->pieces, shard, &begin, &end);
    for (uint64_t next = piece > begin ? piece : begin; next < end; next = (next / 64 + 1) * 64) {
        uint64_t bits = kolo_load_acquire(&table->changed[next / 64]) >> next % 64 << next % 64;
        for (; bits; bits &= bits - 1) {
            const uint64_t found = next / 64 * 64 + (uint64_t)__builtin_ctzll(bits);
            if (found >= end)
                return KOLO_NO_PIECE;
            if (is_range || kolo_piece_shard(&table->pieces, found) == shard)
                return found;
        }
    }
    return KOLO_NO_PIECE;
}

void kolo_outbox_forget(struct kolo_table *table, uint64_t piece) {
    kolo_clear_bits(&table->changed[piece / 64], UINT64_C(1) << piece % 64);
    KOLO_POINT("outbox.forgotten");
}
