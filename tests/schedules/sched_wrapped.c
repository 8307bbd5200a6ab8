/* Calls that the linker leads here instead of where they go (sched_seam.h). */
#include <errno.h>
#include <inttypes.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>

#include "kolo_table.h"
#include "comm/comm.h"
#include "comm/step/progress.h"
#include "sched_control.h"
#include "sched_engine.h"
#include "sched_memory.h"
#include "sched_seam.h"
#include "sched_table.h"
#include "sched_team.h"
#include "splitmix64.h"

enum {
    SKIPPED_ODDS = 4,   /* one wait in so many, where a negative control skips some */
    REFUSED_ODDS = 100, /* one read in so many */
    PREEMPTED_ODDS = 2, /* one copy in so many */
    PREEMPTED_NS = 1000
};

sched_control sched_control_now = SCHED_SOUND;

static struct {
    uint64_t random;
    bool preempts, preempted[SCHED_RANKS_MAX];
    struct kolo_wait waits[SCHED_RANKS_MAX]; /* what each rank waits for; flag NULL: nothing */
    bool claims[SCHED_RANKS_MAX], calls[SCHED_RANKS_MAX];
} seam;

void sched_seam_begin(uint64_t seed, bool preempts) {
    memset(&seam, 0, sizeof seam);
    seam.preempts = preempts;
    seam.random = seed;
}

/* Memory. */

void *__real_memcpy(void *to, const void *from, size_t bytes);
int __real_memcmp(const void *a, const void *b, size_t bytes);

/* The others go on until all sleep. */
static void preempt(void) {
    const uint32_t rank = sched_self();
    seam.preempted[rank] = true;
    sched_sleep(&seam.preempted[rank], PREEMPTED_NS);
    seam.preempted[rank] = false;
}

void *__wrap_memcpy(void *to, const void *from, size_t bytes) {
    if (seam.preempts && sched_self() != SCHED_NOBODY && sched_memory_is_shared(to) &&
        random_below(&seam.random, PREEMPTED_ODDS) == 0)
        preempt();
    sched_memory_read(from, bytes);
    sched_memory_write(to, bytes);
    return __real_memcpy(to, from, bytes);
}

int __wrap_memcmp(const void *a, const void *b, size_t bytes) {
    sched_memory_read(a, bytes);
    sched_memory_read(b, bytes);
    return __real_memcmp(a, b, bytes);
}

/* Its stores are of a kind that is not instrumented. */
void __wrap_kolo_copy_stream(void *to, const void *from, size_t bytes, const void *next) {
    (void)next;
    __wrap_memcpy(to, from, bytes);
}

/* Out of another process, where the kernel refuses it now and then. */
bool __wrap_kolo_peer_memory_read(const kolo_comm *comm, uint32_t peer, void *to, const void *from, size_t bytes) {
    (void)comm;
    (void)peer;
    sched_step();
    if (random_below(&seam.random, REFUSED_ODDS) == 0)
        return false;
    __wrap_memcpy(to, from, bytes);
    return true;
}

/* The system. */

long __real_syscall(long number, ...);
uint64_t __real_kolo_common_lock(void);
void __real_kolo_common_unlock(void);
int64_t __real_kolo_clock_ns(void);

/* One lock a process: ranks here are in one, but never hold it against each other. */
uint64_t __wrap_kolo_common_lock(void) {
    return sched_self() == SCHED_NOBODY ? __real_kolo_common_lock() : 0;
}

void __wrap_kolo_common_unlock(void) {
    if (sched_self() == SCHED_NOBODY)
        __real_kolo_common_unlock();
}

/* As the kernel does it, the look at the word and falling asleep are one. */
static long sleep_on(const uint32_t *word, uint32_t expected, const struct timespec *limit) {
    sched_memory_drain(sched_self());
    if (sched_memory_peek(word, sizeof *word) != expected && !sched_breaks(SCHED_FUTEX_UNCHECKED)) {
        errno = EAGAIN;
        return -1;
    }
    sched_trace("rank %" PRIu32 " sleeps", sched_self());
    sched_sleep(word, (int64_t)limit->tv_sec * 1000000000 + limit->tv_nsec);
    return 0;
}

long __wrap_syscall(long number, ...) {
    long arguments[6];
    va_list list;
    va_start(list, number);
    for (int i = 0; i < 6; i++)
        arguments[i] = va_arg(list, long);
    va_end(list);
    if (sched_self() == SCHED_NOBODY)
        return __real_syscall(number, arguments[0], arguments[1], arguments[2], arguments[3], arguments[4],
                              arguments[5]);
    sched_step();
    if (number == SYS_membarrier) {
        const kolo_comm *comm = team_comm(sched_self());
        if (!comm->waiter.publisher_fences && !sched_breaks(SCHED_NO_MEMBARRIER))
            sched_memory_drain_all();
        return 0;
    }
    if (number != SYS_futex)
        sched_fail("rank %" PRIu32 " makes system call %ld, which the seam does not know", sched_self(), number);
    const void *word = (const void *)arguments[0];
    if ((int)arguments[1] == FUTEX_WAIT)
        return sleep_on(word, (uint32_t)arguments[2], (const struct timespec *)arguments[3]);
    sched_memory_drain(sched_self());
    sched_wake(word);
    return 0;
}

int __wrap_sched_yield(void) {
    sched_give_way();
    sched_step();
    return 0;
}

int64_t __wrap_kolo_clock_ns(void) {
    return sched_self() == SCHED_NOBODY ? __real_kolo_clock_ns() : sched_now_ns();
}

/* The library. */

int __real_kolo_wait_slowly(kolo_waiter *waiter, const kolo_atomic_u64 *flag, uint64_t target, kolo_bell *bell,
                            uint32_t peer);
int __real_kolo_slot_claim(kolo_comm *comm, uint64_t ticket);
void __real_kolo_comm_free(kolo_comm *comm);

static bool skips_wait(const kolo_atomic_u64 *flag) {
    const sched_word word = sched_team_word(flag);
    if (sched_breaks(SCHED_STEP_WAIT_SKIPPED) && word == SCHED_WORD_PROGRESS && !seam.claims[sched_self()])
        return random_below(&seam.random, SKIPPED_ODDS) == 0;
    if (sched_breaks(SCHED_LINE_WAIT_SKIPPED) && word == SCHED_WORD_ROUND)
        return random_below(&seam.random, SKIPPED_ODDS) == 0;
    return false;
}

int __wrap_kolo_wait_slowly(kolo_waiter *waiter, const kolo_atomic_u64 *flag, uint64_t target, kolo_bell *bell,
                            uint32_t peer) {
    if (skips_wait(flag))
        return 0;
    struct kolo_wait *wait = &seam.waits[sched_self()];
    *wait = (struct kolo_wait){.flag = flag, .target = target, .bell = bell, .peer = peer};
    const int rc = __real_kolo_wait_slowly(waiter, flag, target, bell, peer);
    wait->flag = NULL;
    return rc;
}

void sched_seam_describe_wait(uint32_t rank, char *text, unsigned text_bytes) {
    const struct kolo_wait *wait = &seam.waits[rank];
    char where[96];
    text[0] = '\0';
    if (!wait->flag)
        return;
    sched_describe(wait->flag, sizeof *wait->flag, where, sizeof where);
    snprintf(text, text_bytes, "%s to reach %" PRIu64 ", which is %" PRIu64, where, wait->target,
             sched_memory_peek(wait->flag, sizeof *wait->flag));
}

void sched_seam_quiet(void) {
    char what[200];
    for (uint32_t rank = 0; rank < SCHED_RANKS_MAX; rank++) {
        const struct kolo_wait *wait = &seam.waits[rank];
        if (wait->flag && sched_has_died(wait->peer))
            continue; /* between its store and the bell, perhaps: a slice later its death is found */
        if (sched_death_ns() >= 0 && sched_table_has_allocated(wait->flag))
            continue; /* the same: any rank stores some of a table's words */
        if (!wait->flag || !sched_sleeps(rank) || sched_memory_peek(wait->flag, sizeof *wait->flag) < wait->target)
            continue;
        sched_seam_describe_wait(rank, what, sizeof what);
        sched_fail("a wake-up was lost: rank %" PRIu32 " sleeps for %s", rank, what);
    }
}

bool sched_seam_preempts(void) {
    for (uint32_t rank = 0; rank < SCHED_RANKS_MAX; rank++)
        if (seam.preempted[rank])
            return true;
    return false;
}

/* True for the first step of the present call or of one of the last. */
static bool begins_call(const kolo_comm *comm, uint64_t step) {
    bool begins = step == comm->call.step + 1;
    for (int i = 0; i < KOLO_STAMPS; i++)
        begins |= step == comm->call.past[i].step + 1;
    return begins;
}

/* Lets a claim wait for a step less. */
static void claim_early(kolo_comm *comm, uint64_t ticket) {
    struct kolo_call_state *call = &comm->call;
    const uint64_t slot = kolo_slot_index(comm, ticket);
    uint64_t *last = call->is_small ? &call->parts[kolo_part_index(comm)].free : &call->parts_free[slot];
    if (call->slots[slot].free >= *last)
        last = &call->slots[slot].free;
    if (*last > 0 &&
        (sched_breaks(SCHED_RETIRE_EARLY) || (sched_breaks(SCHED_SUCCESSION_EARLY) && begins_call(comm, *last))))
        --*last;
}

int __wrap_kolo_slot_claim(kolo_comm *comm, uint64_t ticket) {
    if (sched_breaks(SCHED_CLAIM_AT_ONCE))
        return 0;
    claim_early(comm, ticket);
    seam.claims[comm->rank] = true;
    const int rc = __real_kolo_slot_claim(comm, ticket);
    seam.claims[comm->rank] = false;
    return rc;
}

int __real_kolo_swaps_stop(kolo_comm *comm);

int __wrap_kolo_swaps_stop(kolo_comm *comm) {
    if (sched_breaks(SCHED_SWAPS_GO_ON))
        comm->call.swap_calls = 0;
    return __real_kolo_swaps_stop(comm);
}

bool sched_seam_works(uint32_t rank) {
    return seam.calls[rank] && !seam.waits[rank].flag;
}

void sched_seam_calls(bool begins) {
    seam.calls[sched_self()] = begins;
}

bool __real_kolo_wait_briefly(const kolo_atomic_u64 *flag, uint64_t target, kolo_bell *bell, int64_t ns);

bool __wrap_kolo_wait_briefly(const kolo_atomic_u64 *flag, uint64_t target, kolo_bell *bell, int64_t ns) {
    if (sched_breaks(SCHED_LEAVING_UNAWAITED))
        return true;
    struct kolo_wait *wait = &seam.waits[sched_self()];
    const struct kolo_wait outer = *wait; /* whose check this one may be in */
    wait->flag = NULL;                    /* nobody need ring for it */
    const bool is_reached = __real_kolo_wait_briefly(flag, target, bell, ns);
    *wait = outer;
    return is_reached;
}

bool sched_seam_claims(uint32_t rank) {
    return seam.claims[rank];
}

bool __wrap_kolo_liveness_look_at(struct kolo_liveness *liveness, uint32_t first, uint32_t count) {
    sched_step();
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t rank = (first + i) % liveness->ranks;
        if (rank == liveness->self || !sched_has_died(rank) || sched_breaks(SCHED_DEATH_UNSEEN))
            continue;
        liveness->watched[rank].ending.cause = KOLO_CAUSE_ENDED;
        sched_memory_learn_end(rank);
    }
    return true;
}

/* The team keeps what it has made until the run is over: others may look at it still. */
void __wrap_kolo_comm_free(kolo_comm *comm) {
    if (sched_self() == SCHED_NOBODY)
        __real_kolo_comm_free(comm);
}

/* Tables. Their memory lies in the arena. */

int __real_kolo_shard_settle(struct kolo_table *table, uint32_t shard, bool own);
int __real_kolo_wait_shard(struct kolo_table *table, uint32_t shard, const kolo_atomic_u64 *flag, uint64_t target);

/* No base: nothing is to be unmapped. */
int __wrap_kolo_buffer_create(const char *function, kolo_comm *comm, size_t bytes, bool lazily,
                              struct kolo_region *region, int *fd) {
    (void)function;
    (void)lazily;
    region->own = sched_table_allocate(comm->rank, bytes);
    if (fd)
        *fd = -1;
    return 0;
}

int __wrap_kolo_region_populate(const char *function, uint8_t *memory, size_t bytes) {
    (void)function;
    (void)memory;
    (void)bytes;
    return 0;
}

int __wrap_kolo_shard_settle(struct kolo_table *table, uint32_t shard, bool own) {
    return sched_breaks(SCHED_UNSETTLED) ? 0 : __real_kolo_shard_settle(table, shard, own);
}

int __wrap_kolo_wait_shard(struct kolo_table *table, uint32_t shard, const kolo_atomic_u64 *flag, uint64_t target) {
    return sched_breaks(SCHED_FOLD_UNAWAITED) ? 0 : __real_kolo_wait_shard(table, shard, flag, target);
}
