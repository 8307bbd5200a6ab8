/* Racing accesses: copies from memory that others may be writing to meanwhile, where the reader finds out afterwards
 * whether the copy is valid; and sums of floats to which several threads or processes add at once. */
#pragma once

#include <string.h>

#include "sync/atomic.h"

#ifndef __has_feature
#define __has_feature(feature) 0
#endif

#if defined(__SANITIZE_THREAD__) || __has_feature(thread_sanitizer)
#define KOLO_THREAD_CHECKER 1
#else
#define KOLO_THREAD_CHECKER 0
#endif

/* Copies `bytes` bytes, at least one unit, in units; the last two units may overlap. */
static inline __attribute__((always_inline)) void kolo_copy_units(uint8_t *to, const uint8_t *from, size_t bytes,
                                                                  size_t unit) {
    for (size_t at = 0; at < bytes - unit; at += unit)
        memcpy(to + at, from + at, unit);
    memcpy(to + bytes - unit, from + bytes - unit, unit);
}

/* memcpy is called only from 128 bytes on: below, its own choice by length would take longer than the copy. */
static inline __attribute__((always_inline)) void kolo_copy_any(uint8_t *to, const uint8_t *from, size_t bytes) {
    if (bytes >= 128)
        memcpy(to, from, bytes);
    else if (bytes >= 16)
        kolo_copy_units(to, from, bytes, 16);
    else if (bytes >= 4)
        kolo_copy_units(to, from, bytes, 4);
    else
        for (size_t i = 0; i < bytes; i++)
            to[i] = from[i];
}

/* to[0 .. bytes-1] = from[...], of which some bytes may be old and others new. Compilers copy by instructions of any
 * width. A thread checker, which does not know the reader's check that follows, sees single atomic loads. */
static inline void kolo_copy_racing(void *to, const void *from, size_t bytes) {
#if KOLO_THREAD_CHECKER
    for (size_t i = 0; i < bytes; i++)
        ((uint8_t *)to)[i] = atomic_load_explicit((const _Atomic uint8_t *)from + i, memory_order_relaxed);
#else
    kolo_copy_any(to, from, bytes);
#endif
}

/* The writer's side: stores to memory that others may be reading. */
static inline void kolo_store_racing(void *to, const void *from, size_t bytes) {
#if KOLO_THREAD_CHECKER
    for (size_t i = 0; i < bytes; i++)
        atomic_store_explicit((_Atomic uint8_t *)to + i, ((const uint8_t *)from)[i], memory_order_relaxed);
#else
    memcpy(to, from, bytes);
#endif
}

/* Adds atomically: *sum += addend. The addition orders nothing else. The sum is aligned to its size. */
static inline void kolo_add_f32(void *sum, float addend) {
    _Atomic uint32_t *word = sum;
    uint32_t old = atomic_load_explicit(word, memory_order_relaxed), new;
    do {
        float value;
        memcpy(&value, &old, sizeof value);
        value += addend;
        memcpy(&new, &value, sizeof new);
    } while (!atomic_compare_exchange_weak_explicit(word, &old, new, memory_order_relaxed, memory_order_relaxed));
}

static inline void kolo_add_f64(void *sum, double addend) {
    _Atomic uint64_t *word = sum;
    uint64_t old = atomic_load_explicit(word, memory_order_relaxed), new;
    do {
        double value;
        memcpy(&value, &old, sizeof value);
        value += addend;
        memcpy(&new, &value, sizeof new);
    } while (!atomic_compare_exchange_weak_explicit(word, &old, new, memory_order_relaxed, memory_order_relaxed));
}
