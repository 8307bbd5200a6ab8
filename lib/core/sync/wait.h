/* Flags: how a rank publishes one, and the one function that waits for one.
 *
 * A flag is a 64-bit word in the segment. One rank writes it, in increasing order, and never resets it; others read it.
 * The writer publishes with a release store; a waiter that sees the value has acquired what was written before.
 *
 * A waiter spins, then yields the processor, then sleeps in the kernel in slices. Only the last stage costs anything:
 * there the caller's check looks at aborts, dead peers and the deadline. All flags of a rank share that rank's bell. A
 * sleeper counts itself in the bell of the rank that it waits for. The writer looks at its own bell's count after
 * publishing, on a line that nobody else touches unless somebody sleeps, and makes a system call only if somebody does.
 * fence.h says why no wake-up is lost; a lost one would cost one slice, not a hang. A sleeper that dies leaves a count
 * behind, which costs its writer needless wake-ups in a communicator that is broken anyway. */
#pragma once

#include "sync/atomic.h"
#include "sync/fence.h"
#include "sync/point.h"
#include "sync/trace.h"

#define KOLO_SPINS_MIN 4
#define KOLO_SLICE_NS  INT64_C(10000000) /* longest sleep before the check is made again */
#define KOLO_WORK_NS   INT64_C(100000)   /* longest where the rank has other work; ten times that if it may get some */

/* A yield that takes longer has cost a time slice of a process that computes: the processor is contended. */
#define KOLO_CONTENDED_NS INT64_C(500000)

typedef struct kolo_bell {
    kolo_atomic_u32 sleepers; /* ranks that sleep, or are about to, until this bell's owner publishes */
    kolo_atomic_u32 rings;    /* the futex word: changes with each wake-up */
} kolo_bell;

typedef struct kolo_waiter kolo_waiter;

/* One wait: until `peer`, which owns flag and bell, has published `target` or more. */
struct kolo_wait {
    const kolo_atomic_u64 *flag;
    uint64_t target;
    kolo_bell *bell;
    uint32_t peer;
    int64_t start_ns;  /* the end of spinning */
    uint64_t spun_ns;  /* of the waiter's, then */
    int64_t waited_ns; /* in check: time asleep so far, in awake time; in note: all time beyond spinning */
};

static inline bool kolo_wait_reached(const struct kolo_wait *wait) {
    return kolo_load_acquire(wait->flag) >= wait->target; /* pairs with kolo_publish */
}

/* What other ranks on a waiter's processor do. */
enum kolo_neighbours {
    KOLO_NEIGHBOURS_WAIT, /* all of them, all the time; or there are none */
    KOLO_NEIGHBOUR_RUNS,  /* one does not wait, but none is behind */
    KOLO_NEIGHBOUR_BEHIND /* spinning keeps it from running */
};

struct kolo_waiter {
    uint32_t spins;        /* looks at the flag, a pause between two, before yielding: KOLO_SPINS_MIN .. spins_max */
    uint32_t spins_max;    /* see wait.c for how spins moves */
    uint32_t yields;       /* looks at the flag, a sched_yield between two, before sleeping */
    uint32_t in_vain;      /* evidence that yields let no other rank run: see wait.c */
    uint32_t sleeps_left;  /* waits that do not yield, since the processor is contended */
    int64_t contended_ns;  /* when it last was */
    bool publisher_fences; /* a rank could not register with membarrier: publishers fence themselves */
    kolo_atomic_u64 timeout_ns; /* longest time in one wait; KOLO_NEVER_NS: none. Any thread of the rank sets it */

    /* Called before each sleep; a negative result ends the wait with it. check must fail once waited_ns has reached
     * timeout_ns, or soon after. Before it fails for any other reason it must look at kolo_wait_reached once more: what
     * a peer published before it died still counts. */
    int (*check)(kolo_waiter *waiter, const struct kolo_wait *wait);
    /* Called when a wait has gone beyond spinning, and when such a wait is over; may be NULL. */
    void (*note)(kolo_waiter *waiter, const struct kolo_wait *wait, bool over);
    /* What the other ranks on this processor have done since since_ns, or do now (INT64_MAX), while this one waits for
     * `awaited` (UINT32_MAX: for none of them); NULL: not known. */
    enum kolo_neighbours (*neighbours)(kolo_waiter *waiter, uint32_t awaited, int64_t since_ns);
    enum kolo_neighbours seen; /* what it told last */
    /* Does other work of the rank between two looks at the flag. Returns whether there is any. NULL: none. */
    bool (*work)(kolo_waiter *waiter);
    /* Does the rank's work in other communicators before each sleep; returns how long that sleep may be. NULL: none. */
    int64_t (*elsewhere)(kolo_waiter *waiter);
    void *owner; /* for the five */
    /* The program's own work (kolo_hooks.idle), done at each yield and before each sleep; NULL: none. */
    void (*idle)(void *context);
    void *idle_context;
    uint16_t trace;              /* the communicator's id in the trace */
    struct kolo_trace_call call; /* the communicator's present one, for the trace */

    uint64_t slept;              /* waits that reached the kernel */
    uint64_t waited_ns;          /* time in waits beyond spinning */
    uint64_t spun_ns;            /* time of waits in which the thread did not sleep, without spins that end soon */
    int64_t since_ns;            /* of a wait beyond spinning: not counted in it yet */
    kolo_atomic_u64 *spun_shown; /* where others see it; NULL: nowhere */
};

/* A wait that is under way sees a change at its next look. */
static inline int64_t kolo_waiter_timeout_ns(const kolo_waiter *waiter) {
    return (int64_t)kolo_load_relaxed(&waiter->timeout_ns);
}

/* Pauses between two looks at a flag. */
static inline void kolo_pause(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ __volatile__("isb" ::
                             : "memory"); /* on Arm, yield is a no-op on most cores; isb takes about as long as pause */
#endif
}

static inline enum kolo_neighbours kolo_wait_neighbours(kolo_waiter *waiter, uint32_t awaited, int64_t since_ns) {
    return waiter->neighbours ? (waiter->seen = waiter->neighbours(waiter, awaited, since_ns)) : KOLO_NEIGHBOURS_WAIT;
}

/* The part of a wait beyond the first look. */
int kolo_wait_slowly(kolo_waiter *waiter, const kolo_atomic_u64 *flag, uint64_t target, kolo_bell *bell, uint32_t peer);

/* Returns 0 once the flag has reached the target; else what check returned. */
static inline int kolo_wait_at_least(kolo_waiter *waiter, const kolo_atomic_u64 *flag, uint64_t target, kolo_bell *bell,
                                     uint32_t peer) {
    if (__builtin_expect(kolo_load_acquire(flag) >= target, 1)) /* pairs with kolo_publish */
        return 0;
    return kolo_wait_slowly(waiter, flag, target, bell, peer);
}

/* The begin and the end of a wait beyond spinning, for the trace, the probes and the rank's history. A thread that
 * waits elsewhere, as in io_uring, calls them too. `began`: its begin as the trace has it; 0: now. */
void kolo_wait_begin(kolo_waiter *waiter, struct kolo_wait *wait, uint64_t began);
void kolo_wait_end(kolo_waiter *waiter, struct kolo_wait *wait, int status);

/* Counts the time of such a wait until now as time in which the thread did not sleep. Whoever calls it before a sleep
 * sets since_ns after it. */
void kolo_wait_count_spun(kolo_waiter *waiter);

/* For a rank whose call has failed: waits, for `ns` at most, for a flag that its owner changes without ringing the
 * bell. Returns whether the flag has reached the target. Nothing is checked meanwhile. */
bool kolo_wait_briefly(const kolo_atomic_u64 *flag, uint64_t target, kolo_bell *bell, int64_t ns);

/* Does the rank's other work, and returns for how long its thread may sleep then. */
int64_t kolo_wait_work(kolo_waiter *waiter);

/* Where processes that compute want the processor, each yield lets all of them use up a time slice, while a sleeper
 * that is woken comes before them. So some waits after a yield that took so long sleep without yielding, more of them
 * each time that it takes so long again, and many at once where neighbours tell that none of them ran. A wait asks
 * whether it may yield; kolo_wait_yield returns how long a yield took. */
bool kolo_wait_may_yield(kolo_waiter *waiter);
int64_t kolo_wait_yield(kolo_waiter *waiter);

/* For a thread that waits for work: spins, then sleeps until the flag has reached the target. Nothing is checked. */
void kolo_wait_idly(kolo_waiter *waiter, const kolo_atomic_u64 *flag, uint64_t target, kolo_bell *bell);

void kolo_bell_ring_slowly(kolo_bell *bell);

/* Returns the futex word. A thread reads it before it looks at whatever the bell is rung for. */
static inline uint32_t kolo_bell_rings(const kolo_bell *bell) {
    return atomic_load_explicit(&bell->rings, memory_order_acquire);
}

/* A thread that sleeps at a bell by itself calls these two: between them it counts as a sleeper. It reads
 * kolo_bell_rings first, and looks once more at what it waits for after it has entered. */
static inline void kolo_bell_enter(kolo_bell *bell) {
    atomic_fetch_add_explicit(&bell->sleepers, 1, memory_order_relaxed);
    kolo_fence_sleeper();
}

static inline void kolo_bell_leave(kolo_bell *bell) {
    atomic_fetch_sub_explicit(&bell->sleepers, 1, memory_order_relaxed);
}

/* Wakes the ranks that sleep until the caller publishes. The caller publishes first. */
static inline void kolo_bell_ring(const kolo_waiter *waiter, kolo_bell *own_bell) {
    if (__builtin_expect(waiter->publisher_fences, 0))
        kolo_fence_full();
    else
        kolo_fence_publisher();
    if (__builtin_expect(atomic_load_explicit(&own_bell->sleepers, memory_order_relaxed) != 0, 0))
        kolo_bell_ring_slowly(own_bell);
}

/* Publishes `value` in the caller's own flag and wakes the ranks that sleep until then. */
static inline void kolo_publish(const kolo_waiter *waiter, kolo_atomic_u64 *own_flag, uint64_t value,
                                kolo_bell *own_bell) {
    KOLO_POINT("flag.storing");
    kolo_store_release(own_flag, value); /* pairs with kolo_wait_at_least */
    KOLO_POINT("flag.stored");
    kolo_bell_ring(waiter, own_bell);
}
