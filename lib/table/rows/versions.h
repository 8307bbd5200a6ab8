/* Pieces in memory: [sequence | version | version], like a seqlock with two copies. The current version is number
 * sequence % 2. Bytes that rounding a piece up leaves free lie behind the sequence, so that versions of whole lines
 * begin lines.
 *
 * One rank at a time writes a piece, the holder of its shard's role (shard.h). It writes the version that is not
 * current, and then stores sequence + 1. A reader copies the current version, and looks at the sequence again. If the
 * sequence is the same, no rank has begun to write the copied version, which is written next only after the sequence
 * has changed. Otherwise the reader copies again, which costs it nothing but time: a piece has been written meanwhile.
 *
 * A writer that ends in the middle leaves the piece as it was. Memory order: the writer stores version, then sequence
 * (release); the reader loads sequence (acquire), version, and after a fence the sequence again. The writer has a fence
 * between its store of the sequence and the next version. */
#pragma once

#include "sync/point.h"
#include "table/table.h"

enum { KOLO_CACHE_LINE_BYTES = 64, KOLO_FETCHED_BYTES_MAX = 640 };

static inline uint8_t *kolo_piece_memory(const struct kolo_table *table, uint64_t piece) {
    return table->piece + (table->places ? table->places[piece] : piece * table->stride);
}

static inline kolo_atomic_u64 *kolo_piece_sequence(const struct kolo_table *table, uint64_t piece) {
    return (kolo_atomic_u64 *)(void *)kolo_piece_memory(table, piece);
}

/* Where the pending update is in a version of a piece of `count` elements: behind values and state. */
static inline size_t kolo_version_pending(const struct kolo_rule *rule, size_t count) {
    return (count * rule->element_bytes + 7) / 8 * 8 + kolo_rule_state_bytes(rule, count);
}

/* Bytes of a version of a piece of `count` elements. */
static inline size_t kolo_version_bytes(const struct kolo_rule *rule, size_t count) {
    const size_t state = kolo_rule_state_bytes(rule, count), values = count * rule->element_bytes;
    if (rule->pending_bytes)
        return kolo_version_pending(rule, count) + sizeof(uint64_t) + (count * rule->pending_bytes + 7) / 8 * 8;
    return state ? (values + 7) / 8 * 8 + state : values;
}

/* Bytes of the whole piece. Pieces of more than a line begin a line. */
static inline size_t kolo_piece_bytes(size_t version_bytes) {
    const size_t bytes = sizeof(kolo_atomic_u64) + 2 * version_bytes;
    const size_t unit = bytes > KOLO_CACHE_LINE_BYTES ? KOLO_CACHE_LINE_BYTES : sizeof(kolo_atomic_u64);
    return (bytes + unit - 1) & ~(unit - 1);
}

/* Version `sequence` % 2 of a piece with versions of `bytes` bytes. */
static inline uint8_t *kolo_version_memory(uint8_t *piece, uint64_t sequence, size_t bytes) {
    return piece + kolo_piece_bytes(bytes) - (2 - sequence % 2) * bytes;
}

/* The current version of a piece, for who holds its shard's role. */
static inline uint8_t *kolo_version_current(const struct kolo_table *table, uint64_t piece, size_t bytes) {
    const uint64_t sequence = kolo_load_relaxed(kolo_piece_sequence(table, piece));
    return kolo_version_memory(kolo_piece_memory(table, piece), sequence, bytes);
}

/* A piece that its shard's holder is about to write: from `old`, the current version, to `made`. */
struct kolo_writing {
    uint64_t piece, sequence;
    struct kolo_piece what;
    size_t bytes; /* of a version */
    kolo_atomic_u64 *word;
    uint8_t *old, *made, *new;
};

/* Begins to write the piece at `memory`, whose versions have `bytes` bytes. */
static inline struct kolo_writing kolo_writing_begin_at(const struct kolo_table *table, uint64_t piece,
                                                        struct kolo_piece what, uint8_t *memory, size_t bytes) {
    struct kolo_writing writing = {.piece = piece, .what = what, .bytes = bytes};
    writing.word = (kolo_atomic_u64 *)(void *)memory;
    writing.sequence = kolo_load_relaxed(writing.word);
    writing.old = kolo_version_memory(memory, writing.sequence, bytes);
    writing.new = kolo_version_memory(memory, writing.sequence + 1, bytes);
    kolo_fence_stores(); /* the sequence before, which made the old version current, and what is stored now */
#if KOLO_THREAD_CHECKER
    writing.made = table->made;
#else
    (void)table;
    writing.made = writing.new;
#endif
    return writing;
}

static inline struct kolo_writing kolo_writing_begin(const struct kolo_table *table, uint64_t piece) {
    const struct kolo_piece what = kolo_piece_at(&table->pieces, piece);
    const size_t bytes = table->places || what.count != table->pieces.piece_columns
                             ? kolo_version_bytes(&table->rule, what.count)
                             : table->version_bytes;
    return kolo_writing_begin_at(table, piece, what, kolo_piece_memory(table, piece), bytes);
}

/* Makes the new version current. */
static inline void kolo_writing_commit(const struct kolo_writing *writing) {
    if (writing->made != writing->new)
        kolo_store_racing(writing->new, writing->made, writing->bytes);
    KOLO_POINT("piece.written");
    kolo_store_release(writing->word, writing->sequence + 1); /* pairs with kolo_versions_read */
    KOLO_POINT("piece.current");
}

/* The one of two versions that the sequence says is current. guess: by a branch, so that the processor loads a version
 * while the sequence is still on its way. A wrong guess costs more than the choice. */
static inline const uint8_t *kolo_versions_current(const uint8_t *versions, uint64_t sequence, size_t version_bytes,
                                                   bool guess) {
    if (!guess)
        return versions + (-(sequence % 2) & version_bytes);
    if (sequence % 2) {
        __asm__(""); /* so that it stays a branch */
        return versions + version_bytes;
    }
    return versions;
}

/* Copies the first `bytes` bytes of the current one of the versions at `versions`, which have version_bytes. False: the
 * piece was written to meanwhile. */
static inline bool kolo_versions_try(const kolo_atomic_u64 *sequence, const uint8_t *versions, size_t version_bytes,
                                     void *to, size_t bytes, bool guess) {
    const uint64_t before = kolo_load_acquire(sequence); /* pairs with kolo_writing_commit */
    kolo_copy_racing(to, kolo_versions_current(versions, before, version_bytes, guess), bytes);
    kolo_fence_loads();
    return __builtin_expect(kolo_load_relaxed(sequence) == before, 1);
}

/* Does the same for the piece at `memory`, until it has succeeded. */
static inline void kolo_versions_read(struct kolo_table *table, uint8_t *memory, size_t version_bytes, void *to,
                                      size_t bytes) {
    const uint8_t *versions = kolo_version_memory(memory, 0, version_bytes);
    /* The loop ends unless the piece is written again and again, and each time while it is copied. */
    while (!kolo_versions_try((kolo_atomic_u64 *)(void *)memory, versions, version_bytes, to, bytes, false))
        table->pulled_again++;
}

/* Makes the processor fetch bytes that will be read, or written: the first lines of long ones, after which it goes on
 * by itself. */
static inline void kolo_versions_fetch(const uint8_t *memory, size_t bytes) {
    const uint8_t *const end = memory + (bytes < KOLO_FETCHED_BYTES_MAX ? bytes : KOLO_FETCHED_BYTES_MAX);
    for (; memory < end; memory += KOLO_CACHE_LINE_BYTES)
        __builtin_prefetch(memory);
}
