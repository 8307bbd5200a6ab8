/* The model in place of sync/. */
#include "sim_sync.h"

#include "sim_check.h"
#include "sim_engine.h"
#include "sim_lines.h"
#include "sim_run.h"

/* One thread runs all ranks: the words need no memory order here, and are plain to sim_lines.h. */
static uint64_t value_of(const kolo_atomic_u64 *word) {
    return atomic_load_explicit(word, memory_order_relaxed);
}

static const uint64_t *plain(const kolo_atomic_u64 *word) {
    return (const uint64_t *)(const void *)word;
}

uint64_t sim_load_relaxed(const kolo_atomic_u64 *word) {
    if (sim_lines_holds(word))
        sim_line_look(word, false);
    return value_of(word);
}

uint64_t sim_load_acquire(const kolo_atomic_u64 *word) {
    const uint64_t value = sim_load_relaxed(word);
    sim_check_acquired(word);
    return value;
}

void sim_store_relaxed(kolo_atomic_u64 *word, uint64_t value) {
    if (sim_lines_holds(word)) { /* else it is this rank's own, or there are no ranks yet */
        sim_line_settle();
        sim_spend(sim_run_asked()->machine->store_ns);
    }
    atomic_store_explicit(word, value, memory_order_relaxed);
}

void sim_store_release(kolo_atomic_u64 *word, uint64_t value) {
    sim_pause();
    sim_line_settle();
    sim_spend(sim_run_asked()->machine->store_ns);
    sim_turn();
    atomic_store_explicit(word, value, memory_order_relaxed);
    sim_check_released(word);
    if (sim_lines_holds(word))
        sim_line_stored(word);
}

int sim_wait_at_least(const kolo_atomic_u64 *flag, uint64_t target) {
    sim_pause();
    if (value_of(flag) >= target)
        sim_line_look(flag, true);
    else if (sim_run_skips_wait())
        return 0;
    else
        sim_line_poll(plain(flag), target);
    sim_check_acquired(flag);
    return 0;
}

void sim_ring(void) {
    sim_spend(sim_run_asked()->machine->load_ns);
}

/* What the real headers' inline functions would call. Nobody sleeps here, so nobody is woken. */

int kolo_wait_slowly(kolo_waiter *waiter, const kolo_atomic_u64 *flag, uint64_t target, kolo_bell *bell,
                     uint32_t peer) {
    (void)waiter;
    (void)bell;
    (void)peer;
    return sim_wait_at_least(flag, target);
}

void kolo_wait_idly(kolo_waiter *waiter, const kolo_atomic_u64 *flag, uint64_t target, kolo_bell *bell) {
    kolo_wait_slowly(waiter, flag, target, bell, 0);
}

bool kolo_wait_briefly(const kolo_atomic_u64 *flag, uint64_t target, kolo_bell *bell, int64_t ns) {
    (void)ns;
    return kolo_wait_slowly(NULL, flag, target, bell, 0) == 0;
}

void kolo_bell_ring_slowly(kolo_bell *bell) {
    (void)bell;
}

int64_t kolo_wait_work(kolo_waiter *waiter) {
    (void)waiter;
    return KOLO_SLICE_NS;
}
