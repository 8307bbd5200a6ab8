/* What ranks share, as the processors and the language see it.
 *
 * Store buffers. On x86-64 a store may become visible to others later than a load that follows it. So an atomic store
 * goes into its rank's buffer, and from there into memory, oldest first, when the scheduler chooses so, or when the
 * rank fences, does a read-modify-write or enters the kernel; or when another rank's membarrier makes it. The rank's
 * own loads find it there before. Plain stores are visible at once: who may see them is a question of the order below.
 *
 * Order. Plain accesses that race (races.h) are a problem, also where this run's order happens to make them go well:
 * C11's data race, on any processor.
 *
 * One arena holds all that is shared: the segment, and the users' buffers. Other addresses are nobody else's. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SCHED_ARENA_BYTES = 512 << 10 };

/* The arena, which begins zeroed at program start only. */
uint8_t *sched_memory_arena(void);

/* Forgets earlier runs. is_given_up: see races.h. */
void sched_memory_begin(uint32_t ranks, bool (*is_given_up)(const void *address, bool is_read));

static inline bool sched_memory_is_shared(const void *address) {
    extern uint8_t sched_arena[];
    return (uintptr_t)address - (uintptr_t)sched_arena < SCHED_ARENA_BYTES;
}

/* By the running rank, if any; plain. */
void sched_memory_read(const void *address, size_t bytes);
void sched_memory_write(const void *address, size_t bytes);

/* By the running rank, atomic; of 1, 4 or 8 bytes. */
uint64_t sched_memory_load(const void *address, uint32_t bytes, bool acquires);
void sched_memory_store(void *address, uint32_t bytes, uint64_t value, bool releases);

/* Adds `addend` after the rank's buffer is drained; returns the value before. */
uint64_t sched_memory_add(void *address, uint32_t bytes, uint64_t addend, bool acquires, bool releases);

/* Stores `value` if the word holds `expected`, or always if `blindly`; returns the value before. */
uint64_t sched_memory_swap(void *address, uint32_t bytes, uint64_t expected, uint64_t value, bool blindly);

/* The running rank learns that `ended` has ended. */
void sched_memory_learn_end(uint32_t ended);

/* What memory holds, whatever is in buffers. */
uint64_t sched_memory_peek(const void *address, uint32_t bytes);

/* Store buffers. */
uint32_t sched_memory_pending(uint32_t rank);
void sched_memory_drain_one(uint32_t rank);
void sched_memory_drain(uint32_t rank);
void sched_memory_drain_all(void);
