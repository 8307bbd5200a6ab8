/* The atomics of the library. A memory order, which only this folder names, is part of a helper's name.
 *
 * Pairs: a rank whose kolo_load_acquire(x) returns the value of another rank's kolo_store_release(x), or a later value
 * of x, sees all that the other rank wrote before that store. A relaxed access orders nothing. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

typedef _Atomic uint64_t kolo_atomic_u64;
typedef _Atomic uint32_t kolo_atomic_u32;

_Static_assert(sizeof(kolo_atomic_u64) == 8 && sizeof(kolo_atomic_u32) == 4, "atomics are shared between processes");
_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2 && ATOMIC_INT_LOCK_FREE == 2, "a lock could be held by a dead process");

static inline uint64_t kolo_load_acquire(const kolo_atomic_u64 *word) {
    return atomic_load_explicit(word, memory_order_acquire);
}

static inline uint64_t kolo_load_relaxed(const kolo_atomic_u64 *word) {
    return atomic_load_explicit(word, memory_order_relaxed);
}

static inline void kolo_store_release(kolo_atomic_u64 *word, uint64_t value) {
    atomic_store_explicit(word, value, memory_order_release);
}

static inline void kolo_store_relaxed(kolo_atomic_u64 *word, uint64_t value) {
    atomic_store_explicit(word, value, memory_order_relaxed);
}

/* These two stores are for words that only observers read: no rank acts on them. bench/simulate, which replaces the
 * other helpers by a model, leaves these two as they are. */
static inline void kolo_show_release(kolo_atomic_u64 *word, uint64_t value) {
    atomic_store_explicit(word, value, memory_order_release);
}

static inline void kolo_show_relaxed(kolo_atomic_u64 *word, uint64_t value) {
    atomic_store_explicit(word, value, memory_order_relaxed);
}

/* Fetches a cache line that is to be written. */
static inline void kolo_fetch_line(const void *line) {
#if defined(__x86_64__)
    __asm__ __volatile__("prefetchw %0" : : "m"(*(const char *)line)); /* a builtin would need a compiler's option */
#else
    __builtin_prefetch(line, 1);
#endif
}

/* Returns the value before the addition. */
static inline uint64_t kolo_fetch_add(kolo_atomic_u64 *word, uint64_t addend) {
    return atomic_fetch_add_explicit(word, addend, memory_order_acq_rel);
}

/* Sets bits of *word. */
static inline void kolo_set_bits(kolo_atomic_u64 *word, uint64_t bits) {
    atomic_fetch_or_explicit(word, bits, memory_order_acq_rel);
}

/* Clears bits of *word. */
static inline void kolo_clear_bits(kolo_atomic_u64 *word, uint64_t bits) {
    atomic_fetch_and_explicit(word, ~bits, memory_order_acq_rel);
}

/* Clears *word, and returns what it held. */
static inline uint64_t kolo_take_bits(kolo_atomic_u64 *word) {
    return atomic_exchange_explicit(word, 0, memory_order_acq_rel);
}

/* Sets *word to `value` if it holds `expected`; true if it did. Releases on success, acquires either way. */
static inline bool kolo_compare_and_swap(kolo_atomic_u64 *word, uint64_t expected, uint64_t value) {
    return atomic_compare_exchange_strong_explicit(word, &expected, value, memory_order_acq_rel, memory_order_acquire);
}
