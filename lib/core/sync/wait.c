/* Waiting: spinning, then yielding, then sleeping. */
#include "sync/wait.h"

#include <sched.h>

#include "base/clock.h"
#include "base/probes.h"
#include "sync/thread.h"

enum {
    GIVEN_WAY_NS = 1000, /* a sched_yield that takes longer has let another process run */
    SLEEPS_ONCE = 64,    /* waits that do not yield after one by which the processor is contended */
    SLEEPS_AGAIN = 1024, /* the same after another one within AGAIN_NS */
    AGAIN_NS = 1000000000,
    SPINS_CONTENDED = 1000,
    YIELDS_ASKED = 8, /* between two checks whether yields are in vain */
    VAIN_ENOUGH = 6,  /* yields that came back at once, before they are taken to be in vain */
    VAIN_MAX = 16,
    IDLE_NS = 1000000000, /* the most that a lost wake-up could cost a thread without work */
    UNRUNG_NS = 50000,    /* between two looks at a flag that comes without a bell */
    SPINS_TIMED = 1000,   /* looks after which a spin is timed: two looks at the clock are nothing beside it */
    SPINS_ASKED = 4,      /* looks between two checks whether another rank needs the processor */
    SPINS_UNTRACED = 16   /* looks of a wait that is not in the trace: it lasts less than a microsecond */
};

/* Puts a wait of a communicator into the trace. */
static void trace_wait(kolo_trace_kind kind, kolo_waiter *waiter, const struct kolo_wait *wait, uint64_t began,
                       uint64_t spun_ns) {
    kolo_trace_call_show(&waiter->call);
    if (waiter->owner)
        kolo_trace_write(kolo_trace_head(kind, 0, 0, 0, waiter->trace, wait->peer == UINT32_MAX ? -1 : (int)wait->peer),
                         began, spun_ns);
}

/* Counts time of waits in which the thread did not sleep. */
static void count_spun(kolo_waiter *waiter, uint64_t ns) {
    waiter->spun_ns += ns;
    if (waiter->spun_shown)
        kolo_show_release(waiter->spun_shown, waiter->spun_ns);
}

void kolo_wait_count_spun(kolo_waiter *waiter) {
    const int64_t now_ns = kolo_clock_ns();
    count_spun(waiter, (uint64_t)(now_ns - waiter->since_ns));
    waiter->since_ns = now_ns;
}

/* Does the rank's other work. Returns false if there is none. */
static inline bool do_work(kolo_waiter *waiter) {
    return __builtin_expect(waiter->work != NULL, 0) && waiter->work(waiter);
}

static inline bool do_programs_work(kolo_waiter *waiter) {
    if (__builtin_expect(waiter->idle == NULL, 1))
        return false;
    waiter->idle(waiter->idle_context);
    return true;
}

int64_t kolo_wait_work(kolo_waiter *waiter) {
    const bool has_work = do_work(waiter), has_programs_work = do_programs_work(waiter);
    const int64_t elsewhere_ns = waiter->elsewhere ? waiter->elsewhere(waiter) : KOLO_SLICE_NS;
    const int64_t here_ns = has_work || has_programs_work ? KOLO_WORK_NS
                            : waiter->work                ? 10 * KOLO_WORK_NS
                                                          : KOLO_SLICE_NS;
    return here_ns < elsewhere_ns ? here_ns : elsewhere_ns;
}

static void sleep_slice(const struct kolo_wait *wait, int64_t ns) {
    kolo_bell *bell = wait->bell;
    atomic_fetch_add_explicit(&bell->sleepers, 1, memory_order_relaxed);
    KOLO_POINT("wait.announced");
    kolo_fence_sleeper();
    KOLO_POINT("wait.fenced");
    uint32_t rings = atomic_load_explicit(&bell->rings, memory_order_acquire);
    KOLO_POINT("wait.sleeping");
    if (!kolo_wait_reached(wait))
        kolo_futex_sleep(&bell->rings, rings, ns);
    KOLO_POINT("wait.woken");
    atomic_fetch_sub_explicit(&bell->sleepers, 1, memory_order_relaxed);
    KOLO_POINT("wait.withdrawn");
}

void kolo_bell_ring_slowly(kolo_bell *bell) {
    /* The count changes after the flag's store and before the wake-up: a sleeper that has read the old count and does
     * not sleep yet will find in its futex call that the count has changed. */
    KOLO_POINT("bell.ringing");
    atomic_fetch_add_explicit(&bell->rings, 1, memory_order_release);
    KOLO_POINT("bell.waking");
    kolo_futex_wake_all(&bell->rings);
    KOLO_POINT("bell.woke");
}

static int wait_asleep(kolo_waiter *waiter, struct kolo_wait *wait) {
    struct kolo_awake awake;
    const int64_t start_ns = kolo_awake_begin(&awake, kolo_waiter_timeout_ns(waiter));
    waiter->slept++;
    /* The loop is bounded by check, which fails at the deadline. */
    for (;;) {
        wait->waited_ns = kolo_awake_ns(&awake) - start_ns;
        KOLO_POINT("wait.checking");
        int rc = waiter->check(waiter, wait);
        if (rc < 0)
            return rc;
        int64_t left_ns = kolo_waiter_timeout_ns(waiter) - wait->waited_ns;
        /* A check that has not failed by the deadline has to be called again. */
        const int64_t longest_ns = kolo_wait_work(waiter);
        kolo_wait_count_spun(waiter);
        sleep_slice(wait, left_ns > 0 && left_ns < longest_ns ? left_ns : longest_ns);
        waiter->since_ns = kolo_clock_ns();
        if (kolo_wait_reached(wait))
            return 0;
    }
}

/* Where ranks outnumber processors, the peer may be running on another processor and be about to publish. Yielding then
 * costs two context switches, there and back, if the ranks that share this processor wait for the same peer. */
static inline bool should_give_way(kolo_waiter *waiter, const struct kolo_wait *wait, uint32_t looks) {
    return waiter->neighbours && looks % SPINS_ASKED == 0 &&
           kolo_wait_neighbours(waiter, wait->peer, INT64_MAX) == KOLO_NEIGHBOUR_BEHIND;
}

/* The rest of a spin. Its first looks count as long as these. */
static __attribute__((noinline)) bool spin_on(kolo_waiter *waiter, const struct kolo_wait *wait, uint64_t began) {
    const int64_t start_ns = kolo_clock_ns();
    uint32_t i = SPINS_TIMED;
    bool reached = false;
    for (; i < waiter->spins && !should_give_way(waiter, wait, i) && !(reached = kolo_wait_reached(wait)); i++) {
        do_work(waiter);
        kolo_pause();
    }
    const uint64_t ns = (uint64_t)(kolo_clock_ns() - start_ns);
    count_spun(waiter, i > SPINS_TIMED ? ns + ns * SPINS_TIMED / (i - SPINS_TIMED) : ns);
    if (reached && began)
        trace_wait(KOLO_TRACE_WAIT, waiter, wait, began, 0);
    return reached;
}

/* *began: when the trace says that the wait began; 0: it is too short to be in there. */
static inline __attribute__((always_inline)) bool spin_as(kolo_waiter *waiter, const struct kolo_wait *wait,
                                                          bool is_traced, uint64_t *began) {
    const uint32_t looks = waiter->spins < SPINS_TIMED ? waiter->spins : SPINS_TIMED;
    for (uint32_t i = 0; i < looks; i++) {
        if (should_give_way(waiter, wait, i))
            return false;
        if (kolo_wait_reached(wait)) {
            if (is_traced && *began)
                trace_wait(KOLO_TRACE_WAIT, waiter, wait, *began, 0);
            return true;
        }
        do_work(waiter);
        if (!is_traced || (i != 0 && i != SPINS_UNTRACED)) {
            kolo_pause();
            continue;
        }
        kolo_trace_call_waits(&waiter->call); /* takes as long as a pause */
        if (i == SPINS_UNTRACED) {
            kolo_trace_call_show(&waiter->call);
            *began = kolo_trace_ticks();
        }
    }
    return looks < waiter->spins && spin_on(waiter, wait, is_traced ? *began : 0);
}

static bool spin(kolo_waiter *waiter, const struct kolo_wait *wait) {
    return spin_as(waiter, wait, false, NULL);
}

static __attribute__((noinline, cold)) bool spin_traced(kolo_waiter *waiter, const struct kolo_wait *wait,
                                                        uint64_t *began) {
    return spin_as(waiter, wait, true, began);
}

void kolo_wait_begin(kolo_waiter *waiter, struct kolo_wait *wait, uint64_t began) {
    wait->start_ns = waiter->since_ns = kolo_clock_ns();
    wait->spun_ns = waiter->spun_ns;
    if (kolo_traces())
        trace_wait(KOLO_TRACE_WAIT_BEGIN, waiter, wait, began ? began : kolo_trace_ticks(), 0);
    KOLO_PROBE_WAIT_BEGIN(waiter->owner, wait->peer);
    if (waiter->note)
        waiter->note(waiter, wait, false);
}

void kolo_wait_end(kolo_waiter *waiter, struct kolo_wait *wait, int status) {
    kolo_wait_count_spun(waiter);
    wait->waited_ns = waiter->since_ns - wait->start_ns;
    waiter->waited_ns += (uint64_t)wait->waited_ns;
    KOLO_PROBE_WAIT_END(waiter->owner, wait->peer, status, wait->waited_ns);
    if (waiter->note)
        waiter->note(waiter, wait, true);
    if (kolo_traces())
        trace_wait(KOLO_TRACE_WAIT_END, waiter, wait, 0, waiter->spun_ns - wait->spun_ns);
}

/* The affinity of ranks does not tell whether they share a processor: two ranks that may run on two processors can
 * still be on one, where spinning keeps the peer from running. The first yield of a wait tells. If that yield took so
 * long that another process ran, and the flag was there afterwards, the other process was probably the peer: the next
 * wait spins for less. If the yield came back at once, nobody else wants the processor: waits spin longer again. */
static void learn(kolo_waiter *waiter, bool gave_way, bool reached) {
    if (gave_way && reached)
        waiter->spins = waiter->spins / 4 > KOLO_SPINS_MIN ? waiter->spins / 4 : KOLO_SPINS_MIN;
    else if (!gave_way)
        waiter->spins = waiter->spins < waiter->spins_max / 2 ? waiter->spins * 2 : waiter->spins_max;
}

/* Linux may share a processor between sessions first (sched_autogroup), and a yield gives way only within its session.
 * Launchers such as Hydra make each rank a session of its own. Where ranks are behind on this processor, and yields
 * have come back at once again and again, only sleeping lets them run. */
static bool is_yielding_in_vain(kolo_waiter *waiter) {
    if (kolo_wait_neighbours(waiter, UINT32_MAX, INT64_MAX) != KOLO_NEIGHBOUR_BEHIND)
        return false;
    if (kolo_wait_yield(waiter) > GIVEN_WAY_NS)
        waiter->in_vain /= 2;
    else if (waiter->in_vain < VAIN_MAX)
        waiter->in_vain++;
    return waiter->in_vain >= VAIN_ENOUGH;
}

bool kolo_wait_may_yield(kolo_waiter *waiter) {
    if (waiter->sleeps_left == 0)
        return true;
    waiter->sleeps_left--;
    return false;
}

/* A process that computes takes a time slice at each yield. One that runs now and then does not: there sleeping would
 * cost more, as a call between four ranks on two processors takes 2 to 5 times as long. */
static void note_contention(kolo_waiter *waiter, int64_t now_ns) {
    waiter->sleeps_left = now_ns - waiter->contended_ns < AGAIN_NS ? SLEEPS_AGAIN : SLEEPS_ONCE;
    waiter->contended_ns = now_ns;
    if (waiter->spins > SPINS_CONTENDED)
        waiter->spins = SPINS_CONTENDED;
}

int64_t kolo_wait_yield(kolo_waiter *waiter) {
    const int64_t start_ns = kolo_clock_ns();
    sched_yield();
    const int64_t end_ns = kolo_clock_ns();
    if (end_ns - start_ns > KOLO_CONTENDED_NS && waiter->seen == KOLO_NEIGHBOURS_WAIT &&
        kolo_wait_neighbours(waiter, UINT32_MAX, start_ns) == KOLO_NEIGHBOURS_WAIT)
        note_contention(waiter, end_ns); /* it was no neighbour that ran */
    return end_ns - start_ns;
}

static bool wait_yielding(kolo_waiter *waiter, const struct kolo_wait *wait, int64_t start_ns) {
    if (!kolo_wait_may_yield(waiter))
        return false;
    for (uint32_t i = 0; i < waiter->yields; i++) {
        KOLO_POINT("wait.yielding");
        const int64_t took_ns = kolo_wait_yield(waiter);
        do_work(waiter);
        do_programs_work(waiter);
        const bool reached = kolo_wait_reached(wait);
        if (waiter->sleeps_left > 0) /* since that yield */
            return reached;
        if (i == 0 && waiter->spins_max > KOLO_SPINS_MIN && !waiter->neighbours)
            learn(waiter, took_ns > GIVEN_WAY_NS, reached);
        if (reached)
            return true;
        /* Ranks that share the processor can take long, too: the loop ends early enough to find deaths. */
        if (i % YIELDS_ASKED == YIELDS_ASKED - 1 &&
            (kolo_clock_ns() - start_ns > KOLO_SLICE_NS || is_yielding_in_vain(waiter)))
            break;
    }
    return false;
}

int kolo_wait_slowly(kolo_waiter *waiter, const kolo_atomic_u64 *flag, uint64_t target, kolo_bell *bell,
                     uint32_t peer) {
    struct kolo_wait wait = {.flag = flag, .target = target, .bell = bell, .peer = peer};
    KOLO_POINT("wait.spinning");
    uint64_t began = 0;
    if (kolo_traces() ? spin_traced(waiter, &wait, &began) : spin(waiter, &wait))
        return 0;
    kolo_wait_begin(waiter, &wait, began);
    const int rc = wait_yielding(waiter, &wait, wait.start_ns) ? 0 : wait_asleep(waiter, &wait);
    kolo_wait_end(waiter, &wait, rc);
    return rc;
}

void kolo_wait_idly(kolo_waiter *waiter, const kolo_atomic_u64 *flag, uint64_t target, kolo_bell *bell) {
    const struct kolo_wait wait = {.flag = flag, .target = target, .bell = bell};
    for (bool reached = spin(waiter, &wait); !reached; reached = kolo_wait_reached(&wait))
        sleep_slice(&wait, IDLE_NS);
}

bool kolo_wait_briefly(const kolo_atomic_u64 *flag, uint64_t target, kolo_bell *bell, int64_t ns) {
    const struct kolo_wait wait = {.flag = flag, .target = target, .bell = bell};
    const int64_t end_ns = kolo_clock_ns() + ns;
    while (!kolo_wait_reached(&wait)) {
        if (kolo_clock_ns() >= end_ns)
            return false;
        sleep_slice(&wait, UNRUNG_NS);
    }
    return true;
}
