/* An asymmetric fence: the rank that goes to sleep pays for it, so that the rank that publishes a flag need not.
 *
 * Publisher: store flag; load sleepers.      Sleeper: add to sleepers; load flag; sleep.
 *
 * At least one of the two ranks must see the other's store (Dekker). That takes a full fence between the two accesses
 * on both sides. membarrier() by the sleeper makes every running thread of a registered process execute one. A
 * publisher whose load of `sleepers` came before that point has its flag's store before it too, so the sleeper's load
 * of the flag sees it; a publisher whose load comes after sees the sleeper. All that the publisher must do is keep the
 * compiler from swapping the two. Source: Dice, Huang, Yang: "Asymmetric Dekker Synchronization", 2001. */
#pragma once

#include <stdatomic.h>

/* Registers this process for kolo_fence_sleeper(). Returns 0 or -errno: then publishers must use kolo_fence_full(). */
int kolo_fence_register(void);

/* The sleeper's side: it stands between counting itself as a sleeper and looking at the flag again. */
void kolo_fence_sleeper(void);

/* The publisher's side where every process has registered. */
static inline void kolo_fence_publisher(void) {
    atomic_signal_fence(memory_order_seq_cst);
}

/* The publisher's side where some process has not registered. */
static inline void kolo_fence_full(void) {
    atomic_thread_fence(memory_order_seq_cst);
}

/* This fence stands between stores that went past the caches (reduce/copy.h) and the release store by which others
 * learn of them: on x86-64 such stores are not ordered with those that follow. */
static inline void kolo_fence_stream(void) {
#if defined(__x86_64__)
    __builtin_ia32_sfence();
#endif
}

/* This fence is for memory that is read while others may write to it (sync/racing.h). Loads before the fence come
 * before all loads after it, and stores after the fence come after all stores before it. */
static inline void kolo_fence_loads(void) {
    atomic_thread_fence(memory_order_acquire);
}

static inline void kolo_fence_stores(void) {
    atomic_thread_fence(memory_order_release);
}

/* This fence orders the threads of this process that pass it, one after another. The job file already tells them when
 * to go on, but each rank maps it at an address of its own: to thread checkers, and to C, those are different words. */
void kolo_fence_threads(void);
