/* What the compiler's instrumentation calls (sched_seam.h). The names and types are gcc's and clang's: Source: LLVM,
 * compiler-rt/include/sanitizer/tsan_interface_atomic.h. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sched_control.h"
#include "sched_engine.h"
#include "sched_memory.h"
#include "sched_seam.h"
#include "sched_table.h"
#include "sched_team.h"

enum order { RELAXED, CONSUME, ACQUIRE, RELEASE, ACQ_REL, SEQ_CST };

static bool acquires(int order) {
    return order == ACQUIRE || order == ACQ_REL || order == SEQ_CST;
}

static bool releases(int order) {
    return order == RELEASE || order == ACQ_REL || order == SEQ_CST;
}

/* True if the access is a running rank's to what is shared: then the scheduler has chosen. */
static bool begin(const volatile void *address) {
    if (sched_self() == SCHED_NOBODY || !sched_memory_is_shared((const void *)address))
        return false;
    sched_step();
    return true;
}

/* The stamp in `word`'s place as the running rank has it, of its present call or an earlier one. */
static uint64_t own_stamp(const void *word) {
    const struct kolo_call_state *call = &team_comm(sched_self())->call;
    team_place place = {.offset = 0};
    team_find(word, &place);
    const bool is_near = place.offset < offsetof(struct kolo_shared_signal, all_stamps);
    const uint64_t places = is_near ? KOLO_STAMPS_NEAR : KOLO_STAMPS,
                   begin = is_near ? offsetof(struct kolo_shared_signal, stamps)
                                   : offsetof(struct kolo_shared_signal, all_stamps),
                   stamp = (place.offset - begin) / sizeof(uint64_t);
    uint64_t schedule = call->schedule;
    for (; schedule % places != stamp; schedule--)
        if (schedule == 0)
            return 0; /* as nobody has written it yet */
    return schedule == call->schedule ? call->stamp : call->past[schedule % KOLO_STAMPS].stamp;
}

/* The word of the running rank's own history in the place of `word` in another one's. */
static uint64_t own_key_word(const void *word, uint32_t bytes) {
    team_place place = {.offset = 0};
    team_find(word, &place);
    return sched_memory_peek((const uint8_t *)team_comm(sched_self())->history + place.offset, bytes);
}

/* In a claim, what a rank has published by the time that its stamp was read. */
static uint64_t load_progress_once(const void *word, uint32_t bytes, bool is_acquire) {
    static struct {
        const void *word;
        uint64_t value;
        bool is_stamp_read;
    } seen[SCHED_RANKS_MAX];
    const uint32_t rank = sched_self();
    const uint64_t value = sched_memory_load(word, bytes, is_acquire);
    if (sched_team_word(word) == SCHED_WORD_STAMP && sched_seam_claims(rank)) {
        seen[rank].is_stamp_read = true;
    } else if (sched_team_word(word) == SCHED_WORD_PROGRESS) {
        const bool again = seen[rank].is_stamp_read && seen[rank].word == word && sched_seam_claims(rank);
        seen[rank].is_stamp_read = false;
        seen[rank].word = word;
        seen[rank].value = again ? seen[rank].value : value;
        return seen[rank].value;
    }
    return value;
}

/* Of a piece that has been copied, the sequence as it was before. */
static uint64_t load_sequence_once(const void *word, uint64_t value, bool is_acquire) {
    static struct {
        const void *word;
        uint64_t value;
    } seen[SCHED_RANKS_MAX];
    const uint32_t rank = sched_self();
    if (is_acquire) {
        seen[rank].word = word;
        seen[rank].value = value;
    }
    return seen[rank].word == word ? seen[rank].value : value;
}

/* What a rank that a control deceives sees in a word of a table. */
static uint64_t load_of_table(const void *word, uint64_t value, bool is_acquire) {
    const sched_word kind = sched_table_word(word);
    if (sched_breaks(SCHED_SEQUENCE_ONCE) && kind == SCHED_WORD_SEQUENCE && !sched_table_writes())
        return load_sequence_once(word, value, is_acquire);
    if (sched_breaks(SCHED_PENDING_UNSEEN) && kind == SCHED_WORD_PENDING && is_acquire)
        return 0;
    if (sched_breaks(SCHED_ROOM_UNSEEN) && kind == SCHED_WORD_TAKEN && sched_table_queue_worker(word) == sched_self())
        return UINT64_MAX / 2;
    if (sched_breaks(SCHED_PLACE_UNSEEN) && kind == SCHED_WORD_PLACE)
        return 0;
    return value;
}

static uint64_t load(const volatile void *address, uint32_t bytes, int order) {
    if (!begin(address))
        return sched_memory_peek((const void *)address, bytes);
    if (sched_breaks(SCHED_BELL_UNSEEN) && sched_team_word((const void *)address) == SCHED_WORD_SLEEPERS)
        return 0;
    if (sched_breaks(SCHED_FAILURE_UNSEEN) && sched_team_word((const void *)address) == SCHED_WORD_FAILURE &&
        sched_seam_works(sched_self()))
        return 0;
    if (sched_breaks(SCHED_STEP_STAMP_UNSEEN) && sched_team_word((const void *)address) == SCHED_WORD_STAMP)
        return team_comm(sched_self())->call.stamp;
    if (sched_breaks(SCHED_CLAIM_STAMP_UNSEEN) && sched_team_word((const void *)address) == SCHED_WORD_STAMP &&
        sched_seam_claims(sched_self()))
        return own_stamp((const void *)address);
    if (sched_breaks(SCHED_CLAIM_LOOKS_ONCE))
        return load_progress_once((const void *)address, bytes, acquires(order));
    if (sched_breaks(SCHED_KEY_UNSEEN) && sched_team_word((const void *)address) == SCHED_WORD_KEY)
        return own_key_word((const void *)address, bytes);
    const uint64_t value = sched_memory_load((const void *)address, bytes, acquires(order));
    return sched_control_now == SCHED_SOUND ? value : load_of_table((const void *)address, value, acquires(order));
}

static bool has_release(const void *address, int order) {
    if ((sched_breaks(SCHED_STEP_RELAXED) && sched_team_word(address) == SCHED_WORD_PROGRESS) ||
        (sched_breaks(SCHED_LINE_RELAXED) && sched_team_word(address) == SCHED_WORD_ROUND) ||
        (sched_breaks(SCHED_FILLED_RELAXED) && sched_team_word(address) == SCHED_WORD_FILLED) ||
        (sched_breaks(SCHED_TAKEN_RELAXED) && sched_team_word(address) == SCHED_WORD_TAKEN))
        return false;
    return releases(order);
}

/* Holds the stores of a history's key back until that of its call's number is done. */
static bool store_late(void *word, uint32_t bytes, uint64_t value) {
    static struct {
        void *words[3];
        uint64_t values[3];
        int count;
    } held[SCHED_RANKS_MAX], *own = held;
    own += sched_self();
    if (sched_team_word(word) == SCHED_WORD_KEY) {
        own->words[own->count % 3] = word;
        own->values[own->count++ % 3] = value;
        return true;
    }
    if (sched_team_word(word) != SCHED_WORD_CALLS)
        return false;
    sched_memory_store(word, bytes, value, true);
    sched_step();
    for (; own->count > 0; own->count--)
        sched_memory_store(own->words[own->count - 1], bytes, own->values[own->count - 1], true);
    return true;
}

static bool store(volatile void *address, uint32_t bytes, uint64_t value, int order) {
    void *word = (void *)address;
    if (!begin(address))
        return false;
    if (sched_breaks(SCHED_KEY_LATE) && store_late(word, bytes, value))
        return true;
    if (sched_breaks(SCHED_STEP_EARLY) && sched_team_word(word) == SCHED_WORD_PROGRESS)
        value++;
    if (sched_breaks(SCHED_REACHED_EARLY) && sched_team_word(word) == SCHED_WORD_REACHED && value != UINT64_MAX)
        value++;
    sched_memory_store(word, bytes, value, has_release(word, order));
    return true;
}

static uint64_t add(volatile void *address, uint32_t bytes, uint64_t addend, int order) {
    if (sched_breaks(SCHED_RINGS_STILL) && sched_team_word((const void *)address) == SCHED_WORD_RINGS)
        addend = 0;
    return sched_memory_add((void *)address, bytes, addend, acquires(order), releases(order));
}

uint8_t __tsan_atomic8_load(const volatile uint8_t *address, int order) {
    if (!begin(address))
        return __atomic_load_n(address, __ATOMIC_RELAXED);
    return (uint8_t)sched_memory_load((const void *)address, sizeof *address, acquires(order));
}

void __tsan_atomic8_store(volatile uint8_t *address, uint8_t value, int order) {
    if (!begin(address))
        __atomic_store_n(address, value, __ATOMIC_RELAXED);
    else
        sched_memory_store((void *)address, sizeof *address, value, releases(order));
}

uint32_t __tsan_atomic32_load(const volatile uint32_t *address, int order) {
    return (uint32_t)load(address, sizeof *address, order);
}

uint64_t __tsan_atomic64_load(const volatile uint64_t *address, int order) {
    return load(address, sizeof *address, order);
}

void __tsan_atomic32_store(volatile uint32_t *address, uint32_t value, int order) {
    if (!store(address, sizeof *address, value, order))
        __atomic_store_n(address, value, __ATOMIC_SEQ_CST);
}

void __tsan_atomic64_store(volatile uint64_t *address, uint64_t value, int order) {
    if (!store(address, sizeof *address, value, order))
        __atomic_store_n(address, value, __ATOMIC_SEQ_CST);
}

uint32_t __tsan_atomic32_fetch_add(volatile uint32_t *address, uint32_t addend, int order) {
    return begin(address) ? (uint32_t)add(address, sizeof *address, addend, order)
                          : __atomic_fetch_add(address, addend, __ATOMIC_SEQ_CST);
}

uint64_t __tsan_atomic64_fetch_add(volatile uint64_t *address, uint64_t addend, int order) {
    return begin(address) ? add(address, sizeof *address, addend, order)
                          : __atomic_fetch_add(address, addend, __ATOMIC_SEQ_CST);
}

uint32_t __tsan_atomic32_fetch_sub(volatile uint32_t *address, uint32_t addend, int order) {
    return __tsan_atomic32_fetch_add(address, 0 - addend, order);
}

uint64_t __tsan_atomic64_fetch_sub(volatile uint64_t *address, uint64_t addend, int order) {
    return __tsan_atomic64_fetch_add(address, 0 - addend, order);
}

/* Of words that nothing else changes. */
uint64_t __tsan_atomic64_fetch_or(volatile uint64_t *address, uint64_t bits, int order) {
    return begin(address) ? add(address, sizeof *address, bits & ~sched_memory_peek((const void *)address, 8), order)
                          : __atomic_fetch_or(address, bits, __ATOMIC_SEQ_CST);
}

uint64_t __tsan_atomic64_fetch_and(volatile uint64_t *address, uint64_t bits, int order) {
    return begin(address)
               ? add(address, sizeof *address, 0 - (sched_memory_peek((const void *)address, 8) & ~bits), order)
               : __atomic_fetch_and(address, bits, __ATOMIC_SEQ_CST);
}

uint64_t __tsan_atomic64_exchange(volatile uint64_t *address, uint64_t value, int order) {
    (void)order;
    return begin(address) ? sched_memory_swap((void *)address, sizeof *address, 0, value, true)
                          : __atomic_exchange_n(address, value, __ATOMIC_SEQ_CST);
}

uint64_t __tsan_atomic64_compare_exchange_val(volatile uint64_t *address, uint64_t expected, uint64_t value, int order,
                                              int failure_order) {
    (void)order;
    (void)failure_order;
    void *word = (void *)address;
    if (begin(address))
        return sched_memory_swap(word, sizeof *address, expected, value,
                                 sched_breaks(SCHED_FAILURE_OVERWRITTEN) &&
                                     sched_team_word(word) == SCHED_WORD_FAILURE);
    __atomic_compare_exchange_n(address, &expected, value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    return expected;
}

int __tsan_atomic64_compare_exchange_strong(volatile uint64_t *address, uint64_t *expected, uint64_t value, int order,
                                            int failure_order) {
    const uint64_t found = __tsan_atomic64_compare_exchange_val(address, *expected, value, order, failure_order);
    const bool swapped = found == *expected;
    *expected = found;
    return swapped;
}

/* Of sums of floats in place, which no schedule has: rows that they are in promise nothing. */
int __tsan_atomic32_compare_exchange_weak(volatile uint32_t *address, uint32_t *expected, uint32_t value, int order,
                                          int failure_order) {
    (void)order;
    (void)failure_order;
    return __atomic_compare_exchange_n(address, expected, value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

int __tsan_atomic64_compare_exchange_weak(volatile uint64_t *address, uint64_t *expected, uint64_t value, int order,
                                          int failure_order) {
    return __tsan_atomic64_compare_exchange_strong(address, expected, value, order, failure_order);
}

void __tsan_atomic_thread_fence(int order) {
    if (sched_self() == SCHED_NOBODY)
        return;
    sched_step();
    if (order == SEQ_CST && !sched_breaks(SCHED_NO_FULL_FENCE))
        sched_memory_drain(sched_self());
}

/* Keeps the compiler from moving accesses; the processor is free to. */
void __tsan_atomic_signal_fence(int order) {
    (void)order;
}

/* Plain accesses. */

static void reads(const void *address, size_t bytes) {
    if (sched_memory_is_shared(address))
        sched_memory_read(address, bytes);
}

static void writes(const void *address, size_t bytes) {
    if (sched_memory_is_shared(address))
        sched_memory_write(address, bytes);
}

void __tsan_init(void) {}

void __tsan_func_entry(void *caller) {
    (void)caller;
}

void __tsan_func_exit(void) {}

void __tsan_read1(void *address) {
    reads(address, 1);
}

void __tsan_read2(void *address) {
    reads(address, 2);
}

void __tsan_read4(void *address) {
    reads(address, 4);
}

void __tsan_read8(void *address) {
    reads(address, 8);
}

void __tsan_read16(void *address) {
    reads(address, 16);
}

void __tsan_write1(void *address) {
    writes(address, 1);
}

void __tsan_write2(void *address) {
    writes(address, 2);
}

void __tsan_write4(void *address) {
    writes(address, 4);
}

void __tsan_write8(void *address) {
    writes(address, 8);
}

void __tsan_write16(void *address) {
    writes(address, 16);
}

void __tsan_read_range(void *address, size_t bytes) {
    reads(address, bytes);
}

void __tsan_write_range(void *address, size_t bytes) {
    writes(address, bytes);
}

void __tsan_unaligned_read2(void *address) __attribute__((alias("__tsan_read2")));
void __tsan_unaligned_read4(void *address) __attribute__((alias("__tsan_read4")));
void __tsan_unaligned_read8(void *address) __attribute__((alias("__tsan_read8")));
void __tsan_unaligned_read16(void *address) __attribute__((alias("__tsan_read16")));
void __tsan_unaligned_write2(void *address) __attribute__((alias("__tsan_write2")));
void __tsan_unaligned_write4(void *address) __attribute__((alias("__tsan_write4")));
void __tsan_unaligned_write8(void *address) __attribute__((alias("__tsan_write8")));
void __tsan_unaligned_write16(void *address) __attribute__((alias("__tsan_write16")));
