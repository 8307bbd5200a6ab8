/* Compiled in front of each of the library's sources (-include): the real types of sync/, but what algorithms and
 * communicators call for loading, storing, publishing and waiting goes to the model. Whatever is not named here works
 * as it always does. */
#pragma once

#include "sync/atomic.h"
#include "sync/wait.h"

uint64_t sim_load_acquire(const kolo_atomic_u64 *word);
uint64_t sim_load_relaxed(const kolo_atomic_u64 *word);
void sim_store_release(kolo_atomic_u64 *word, uint64_t value);
void sim_store_relaxed(kolo_atomic_u64 *word, uint64_t value);
int sim_wait_at_least(const kolo_atomic_u64 *flag, uint64_t target);
void sim_ring(void);

#define kolo_load_acquire(word)         sim_load_acquire(word)
#define kolo_load_relaxed(word)         sim_load_relaxed(word)
#define kolo_store_release(word, value) sim_store_release(word, value)
#define kolo_store_relaxed(word, value) sim_store_relaxed(word, value)
#define kolo_wait_at_least(waiter, flag, target, bell, peer)                                                           \
    ((void)(bell), (void)(peer), sim_wait_at_least(flag, target))
#define kolo_bell_ring(waiter, own_bell) ((void)(own_bell), sim_ring())
#define kolo_publish(waiter, own_flag, value, own_bell)                                                                \
    ((void)(own_bell), sim_store_release(own_flag, value), sim_ring())
