/* The proxy's threads: they carry out exchanges, and pass failures on. */
#include "internode/proxy.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/status.h"
#include "comm/failure/failure.h"
#include "cpu/fpenv.h"
#include "internode/clock_offset.h"
#include "internode/relay/relay.h"
#include "sync/point.h"
#include "sync/thread.h"

#define PROXY_TICK_NS INT64_C(20000000)  /* longest time between two looks at the failure word */
#define LINGER_NS     INT64_C(200000000) /* for what is queued when the leader leaves, all lanes together */
#define SPIN_NS       INT64_C(100000)    /* a wait looks for frames so long at most, */
#define PAUSE_NS      5                  /* for each look that the communicator's waits take, */
#define YIELDS_MAX    20                 /* and then so many times at most, giving way to others, before it sleeps */

struct kolo_proxy {
    kolo_comm *comm;
    struct kolo_shared_lane *shared;
    kolo_engine *engine;
    struct kolo_exchange_state *exchange;
    struct kolo_relay *relay; /* of the first lane; NULL in another lane */
    pthread_t thread;
    struct kolo_order orders[KOLO_SLOTS];
    kolo_atomic_u64 ordered;    /* the last ticket, plus one; written by the leader */
    kolo_atomic_u64 background; /* the last ticket, plus one, that the thread is to drive; written by the leader */
    kolo_atomic_u64 stopping;   /* 1: the leader leaves */
    kolo_bell own_bell;         /* of a lane without a relay */
    kolo_bell *bell;            /* the bell by which the thread sleeps */
    kolo_atomic_u64 wanted;     /* threads that wait to drive in place of the proxy's own, see take_from_thread */
    kolo_atomic_u64 driven;     /* 1: a thread drives, and owns all that follows */
    kolo_waiter bell_ringer;    /* for kolo_publish */
    int64_t look_ns;            /* when to look next at the failure word */
    int64_t spin_ns;
    uint32_t yields_max;
    int listening; /* the leader's listener, another descriptor of it; -1: of another lane, or left */
    bool broken;   /* the communicator is broken, and the other nodes know */
    bool stopped;  /* no data comes or goes any more */
    struct kolo_clock_questions clock;
    uint64_t traced_begins[KOLO_SLOTS]; /* when exchanges began, as times of the trace */
    uint64_t traced_bytes;              /* that have gone before the next exchange that the trace shows */
    struct neighbour {
        kolo_pulse pulse;                        /* BEATS until nothing more comes from it */
        int error;                               /* of its connections' end, see kolo_engine_events.ended */
        bool left;                               /* the node has said that it leaves */
        uint8_t control[KOLO_CONTROL_BYTES_MAX]; /* the payload of a control frame that arrives, perhaps in pieces */
    } * neighbours;
};

static bool has_ended(const struct kolo_proxy *proxy, uint32_t node) {
    return proxy->neighbours[node].pulse != KOLO_PULSE_BEATS;
}

/* Failures. */

/* Tells the other nodes about a failure that is published here. */
static void tell_failure(struct kolo_proxy *proxy) {
    struct kolo_failure_report report;
    uint8_t payload[KOLO_REPORT_BYTES];
    if (proxy->broken || !kolo_failure_collect(proxy->comm, &report))
        return;
    KOLO_POINT("proxy.telling");
    proxy->broken = true;
    kolo_failure_pack(&report, payload);
    const struct kolo_internode *internode = proxy->comm->internode;
    const struct kolo_frame frame = {.kind = KOLO_FRAME_FAILURE, .bytes = sizeof payload};
    for (uint32_t node = 0; node < internode->nodes.nodes; node++)
        if (node != internode->node && !has_ended(proxy, node))
            kolo_engine_tell(proxy->engine, node, &frame, payload);
    KOLO_POINT("proxy.told");
}

static void hear_failure(struct kolo_proxy *proxy, const uint8_t *payload) {
    struct kolo_failure_report report;
    KOLO_POINT("proxy.hearing");
    if (kolo_failure_parse(payload, proxy->comm->internode->nodes.size, &report))
        kolo_failure_relay(proxy->comm, &report);
    tell_failure(proxy); /* others may see this node's streams end before they hear which node found the failure */
    KOLO_POINT("proxy.heard");
}

/* Publishes and tells a failure that this node finds in its dealings with `node`. The ranks that it names are the two
 * leaders, unless the ranks are known. */
static void find_failure(struct kolo_proxy *proxy, uint32_t node, struct kolo_failure_report report) {
    kolo_comm *comm = proxy->comm;
    if (report.rank == report.reporter) {
        report.rank = kolo_nodes_rank(comm->nodes, node, 0);
        report.reporter = comm->global_rank;
    }
    report.lane = comm->origin.lane;
    if (report.call == 0)
        report.call = kolo_load_relaxed(&comm->segment.signals[comm->rank].calls);
    kolo_failure_relay(comm, &report);
    tell_failure(proxy);
}

static void give_up(struct kolo_proxy *proxy, uint32_t node, int status, kolo_cause cause) {
    KOLO_POINT("proxy.giving_up");
    find_failure(proxy, node,
                 (struct kolo_failure_report){.status = status,
                                              .cause = cause,
                                              .detail = cause == KOLO_CAUSE_ENDED ? proxy->neighbours[node].error : 0,
                                              .node = node + 1});
}

/* Publishes why exchanges cannot go on, if they cannot. */
static void report_trouble(struct kolo_proxy *proxy) {
    const struct kolo_exchange_trouble *trouble = &proxy->exchange->trouble;
    if (trouble->status == 0 || proxy->broken)
        return;
    if (trouble->status == KOLO_ERR_MISMATCH)
        find_failure(proxy, trouble->node,
                     (struct kolo_failure_report){
                         .status = KOLO_ERR_MISMATCH,
                         .cause = KOLO_CAUSE_MISMATCH,
                         .rank = trouble->counts.sender,
                         .reporter = trouble->counts.taker,
                         .code = kolo_failure_counts(trouble->counts.sent, trouble->counts.expected),
                         .call = trouble->own.number,
                         .keys = {kolo_call_key_pack(trouble->own.key), kolo_call_key_pack(trouble->theirs)}});
    else
        give_up(proxy, trouble->node, trouble->status, KOLO_CAUSE_FAILED);
}

/* A node that has ended is at fault once something is needed from it that has not come. */
static void check_ended(struct kolo_proxy *proxy) {
    const uint32_t nodes = proxy->comm->internode->nodes.nodes;
    for (uint32_t node = 0; node < nodes && !proxy->broken; node++)
        if (has_ended(proxy, node) && kolo_exchange_awaits(proxy->exchange, node))
            give_up(proxy, node, KOLO_ERR_PEER_DEAD, proxy->neighbours[node].left ? KOLO_CAUSE_LEFT : KOLO_CAUSE_ENDED);
}

/* Events of the engine. */

/* Notes that the relay refuses a frame: that makes its sender fail, or this node where it has no memory for it. */
static void note_refused(struct kolo_proxy *proxy, uint32_t node, int rc) {
    const bool own = rc == KOLO_ERR_NO_SPACE;
    kolo_exchange_note(proxy->exchange, (struct kolo_exchange_trouble){.status = own ? rc : KOLO_ERR_SYSTEM,
                                                                       .node = own ? proxy->comm->node : node});
}

/* Where there is no memory for a chunk, it and all later ones are thrown away: heartbeats come behind them. */
static int place_chunk(struct kolo_proxy *proxy, uint32_t node, const struct kolo_frame *frame, void **where) {
    if (proxy->exchange->trouble.status)
        return KOLO_PLACE_NOWHERE;
    const int rc = proxy->relay ? kolo_relay_place(proxy->relay, node, frame, where) : KOLO_ERR_VERSION;
    if (rc != KOLO_ERR_NO_SPACE)
        return rc;
    note_refused(proxy, node, rc);
    return KOLO_PLACE_NOWHERE;
}

static int place(void *owner, uint32_t node, const struct kolo_frame *frame, void **where) {
    struct kolo_proxy *proxy = owner;
    *where = proxy->neighbours[node].control;
    if (frame->kind == KOLO_FRAME_CHUNK)
        return place_chunk(proxy, node, frame, where);
    if (frame->kind < KOLO_FRAME_DATA)
        return frame->kind != KOLO_FRAME_FAILURE || frame->bytes == KOLO_REPORT_BYTES ? 0 : KOLO_ERR_VERSION;
    if (proxy->broken)
        return KOLO_PLACE_LATER;
    return kolo_exchange_place(proxy->exchange, node, frame, where);
}

static void arrived(void *owner, uint32_t node, const struct kolo_frame *frame) {
    struct kolo_proxy *proxy = owner;
    const bool is_relayed =
        frame->kind == KOLO_FRAME_MESSAGE || frame->kind == KOLO_FRAME_PROGRESS || frame->kind == KOLO_FRAME_CHUNK;
    if (frame->kind == KOLO_FRAME_LEAVE) {
        proxy->neighbours[node].left = true;
    } else if (frame->kind == KOLO_FRAME_FAILURE) {
        hear_failure(proxy, proxy->neighbours[node].control);
    } else if (is_relayed) {
        const int rc = proxy->relay ? kolo_relay_take(proxy->relay, node, frame, proxy->neighbours[node].control) : 0;
        if (rc < 0)
            note_refused(proxy, node, rc);
    } else if (frame->kind == KOLO_FRAME_CLOCK && !proxy->broken) {
        kolo_clock_hear(&proxy->clock, proxy->engine, node, frame);
    } else if (frame->kind == KOLO_FRAME_BEGUN && !proxy->broken) {
        kolo_exchange_hear(proxy->exchange, node, frame);
    } else if (frame->kind >= KOLO_FRAME_DATA && !proxy->broken) {
        kolo_exchange_arrived(proxy->exchange, node, frame);
    }
}

static void sent(void *owner, uint32_t node, const struct kolo_frame *frame) {
    struct kolo_proxy *proxy = owner;
    (void)node;
    if (frame->kind == KOLO_FRAME_CHUNK)
        kolo_relay_sent(proxy->relay, frame);
    else if (!proxy->broken)
        kolo_exchange_sent(proxy->exchange, frame);
}

/* The silent node is told of its failure, too: a process that was stopped then finds why the others are gone. */
static void silent(void *owner, uint32_t node) {
    struct kolo_proxy *proxy = owner;
    report_trouble(proxy);
    if (!proxy->broken)
        give_up(proxy, node, KOLO_ERR_TIMEOUT, KOLO_CAUSE_SILENT);
}

static void ended(void *owner, uint32_t node, int error) {
    struct kolo_proxy *proxy = owner;
    KOLO_POINT("proxy.ended");
    report_trouble(proxy);
    proxy->neighbours[node].pulse = error == ETIMEDOUT ? KOLO_PULSE_LOST : KOLO_PULSE_CLOSED;
    proxy->neighbours[node].error = error;
    kolo_store_relaxed(&proxy->shared->lost, 1);
    kolo_log(proxy->comm->log_level, error && !proxy->neighbours[node].left ? KOLO_LOG_WARN : KOLO_LOG_INFO,
             (int)proxy->comm->global_rank, "node %u: its connections have ended%s%s", node, error ? ": " : "",
             error ? strerror(error) : "");
    if (error == ETIMEDOUT && !proxy->broken)
        give_up(proxy, node, KOLO_ERR_TIMEOUT, KOLO_CAUSE_SILENT);
    else if (error == EPROTO && !proxy->broken)
        give_up(proxy, node, KOLO_ERR_SYSTEM, KOLO_CAUSE_FAILED);
    else
        check_ended(proxy);
    if (proxy->relay) /* once the cause is known */
        kolo_relay_end(proxy->relay, node, proxy->neighbours[node].left);
}

/* Exchanges. */

static uint64_t all_bytes(const struct kolo_proxy *proxy) {
    const struct kolo_engine_counts *counts = kolo_engine_counts(proxy->engine);
    return counts->sent_bytes + counts->received_bytes;
}

/* Notes for the trace that the next exchange begins. */
static void trace_begin(struct kolo_proxy *proxy) {
    proxy->traced_begins[proxy->exchange->begun % KOLO_SLOTS] = kolo_trace_ticks();
    if (proxy->exchange->begun == proxy->exchange->done)
        proxy->traced_bytes = all_bytes(proxy);
}

static bool begin_ordered(struct kolo_proxy *proxy) {
    struct kolo_exchange_state *exchange = proxy->exchange;
    const uint64_t ordered = kolo_load_acquire(&proxy->ordered); /* pairs with kolo_proxy_order */
    const uint64_t before = exchange->begun;
    while (exchange->begun < ordered && !proxy->broken && kolo_exchange_may_begin(exchange, exchange->begun)) {
        if (kolo_traces())
            trace_begin(proxy);
        kolo_exchange_begin(exchange, &proxy->orders[exchange->begun % KOLO_SLOTS]);
    }
    if (exchange->begun > before) {
        KOLO_POINT("proxy.begun");
        kolo_engine_resume(proxy->engine);
        report_trouble(proxy);
    }
    if (before < ordered)
        check_ended(proxy);
    return exchange->begun > before;
}

/* Shows in the message of ranks that wait until the deadline which node is late. */
static void show_late(struct kolo_proxy *proxy) {
    const struct kolo_internode *internode = proxy->comm->internode;
    const uint32_t late = kolo_exchange_late(proxy->exchange);
    kolo_store_relaxed(&proxy->shared->late, late < internode->nodes.nodes ? late + UINT64_C(1) : 0);
}

static void show_counts(struct kolo_proxy *proxy) {
    struct kolo_shared_lane *shared = proxy->shared;
    const struct kolo_engine_counts *counts = kolo_engine_counts(proxy->engine);
    kolo_store_relaxed(&shared->sent_bytes, counts->sent_bytes);
    kolo_store_relaxed(&shared->received_bytes, counts->received_bytes);
    kolo_store_relaxed(&shared->system_calls, counts->system_calls);
}

/* Puts exchanges that are over into the trace: this lane's tickets from `first` to `done`. */
static void trace_exchanges(struct kolo_proxy *proxy, uint64_t first, uint64_t done) {
    const uint32_t lanes = proxy->comm->internode->lanes;
    const uint64_t bytes = all_bytes(proxy);
    first += (proxy->exchange->lane + lanes - first % lanes) % lanes;
    if (first >= done)
        return;
    kolo_trace_write(kolo_trace_head(KOLO_TRACE_EXCHANGE, 0, 0, 0, proxy->comm->waiter.trace, -1),
                     proxy->traced_begins[first % KOLO_SLOTS], bytes - proxy->traced_bytes);
    proxy->traced_bytes = bytes;
}

static bool publish_done(struct kolo_proxy *proxy) {
    struct kolo_shared_lane *shared = proxy->shared;
    const uint64_t done = proxy->exchange->done, before = kolo_load_relaxed(&shared->done);
    if (done == before || proxy->broken)
        return false;
    show_counts(proxy);
    KOLO_POINT("proxy.publishing");
    kolo_publish(&proxy->bell_ringer, &shared->done, done, &shared->bell); /* pairs with kolo_proxy_await */
    KOLO_POINT("proxy.published");
    if (kolo_traces())
        trace_exchanges(proxy, before, done);
    return true;
}

/* Returns the call in which another node waits for this one (in an exchange of this lane), while the leader has begun
 * neither call nor exchange; 0: none. It fails for certain if a rank has ended before it has begun that call, and
 * nobody here may look meanwhile. */
static uint64_t awaited_call(const struct kolo_proxy *proxy) {
    const struct kolo_shared_signal *own = &proxy->comm->segment.signals[proxy->comm->rank];
    const uint64_t ended = kolo_load_acquire(&own->ended), calls = kolo_load_acquire(&own->calls);
    const bool all_begun =
        kolo_load_acquire(&proxy->ordered) <= proxy->exchange->begun; /* pairs with kolo_proxy_order */
    return proxy->exchange->heard_count > 0 && ended == calls && all_begun ? calls + 1 : 0;
}

static void look_at_failure(struct kolo_proxy *proxy, int64_t now_ns) {
    if (now_ns < proxy->look_ns)
        return;
    proxy->look_ns = now_ns + PROXY_TICK_NS;
    show_late(proxy);
    if (proxy->listening >= 0)
        kolo_listener_thin(proxy->listening, KOLO_LISTENER_PENDING + 2 * proxy->comm->internode->nodes.nodes);
    if (!proxy->broken && kolo_load_acquire(kolo_comm_failure_word(proxy->comm))) /* pairs with failure.c */
        tell_failure(proxy);
    if (!proxy->broken)
        kolo_exchange_announce(proxy->exchange);
    if (!proxy->broken)
        kolo_clock_ask(&proxy->clock, proxy->engine, now_ns);
    struct kolo_failure_report found;
    if (!proxy->broken && proxy->relay && kolo_relay_look(proxy->relay, awaited_call(proxy), &found))
        find_failure(proxy, proxy->comm->node, found);
}

/* Driving. */

static bool take(struct kolo_proxy *proxy) {
    const bool is_taken = kolo_compare_and_swap(&proxy->driven, 0, 1);
    KOLO_POINT("proxy.taken");
    return is_taken;
}

/* Takes the driver's role from the proxy's thread, which may drive all the time. */
static void take_from_thread(struct kolo_proxy *proxy) {
    kolo_fetch_add(&proxy->wanted, 1);
    while (!take(proxy)) {
        kolo_engine_wake(proxy->engine);
        sched_yield();
    }
    kolo_fetch_add(&proxy->wanted, UINT64_MAX); /* one less */
}

static void hand_back(struct kolo_proxy *proxy) {
    KOLO_POINT("proxy.handing_back");
    kolo_store_release(&proxy->driven, 0); /* pairs with the swap in take */
}

/* Stops all data after a failure, so that the memory of the failed call becomes the caller's again. */
static void stop_when_broken(struct kolo_proxy *proxy) {
    if (!proxy->broken || proxy->stopped)
        return;
    proxy->stopped = true;
    KOLO_POINT("proxy.stopping_data");
    if (!kolo_engine_stop_data(proxy->engine))
        kolo_log(proxy->comm->log_level, KOLO_LOG_ERROR, (int)proxy->comm->global_rank,
                 "the kernel does not let go of the buffers of the call that failed");
}

static void drive(struct kolo_proxy *proxy, int64_t wait_ns) {
    bool any = begin_ordered(proxy);
    any = publish_done(proxy) || any;
    if (proxy->relay && !proxy->broken)
        kolo_relay_serve(proxy->relay);
    KOLO_POINT("proxy.driving");
    if (kolo_engine_run(proxy->engine, any ? 0 : wait_ns) < 0 && !proxy->broken)
        give_up(proxy, proxy->comm->internode->node, KOLO_ERR_SYSTEM, KOLO_CAUSE_FAILED);
    KOLO_POINT("proxy.driven");
    publish_done(proxy);
    look_at_failure(proxy, kolo_clock_ns());
    report_trouble(proxy);
    stop_when_broken(proxy);
}

/* Whether the thread is to drive all the time. */
static bool is_threads(const struct kolo_proxy *proxy) {
    return proxy->relay && kolo_relay_talks(proxy->relay);
}

/* True while the thread is to drive: an exchange that was ordered in the background is not over, or the relay talks. */
static bool has_background(const struct kolo_proxy *proxy) {
    const bool has_order = kolo_load_acquire(&proxy->background) > /* pairs with kolo_proxy_order */
                           kolo_load_relaxed(&proxy->shared->done);
    return (has_order || is_threads(proxy)) && !kolo_load_relaxed(kolo_comm_failure_word(proxy->comm));
}

/* True while ranks have published something that the relay has not passed on. */
static bool has_news(const struct kolo_proxy *proxy) {
    return proxy->relay && kolo_relay_has_news(proxy->relay) && !kolo_load_relaxed(kolo_comm_failure_word(proxy->comm));
}

/* Sleeps until an order or the relay's news ring the bell, or it is time to look. */
static void sleep_at_bell(struct kolo_proxy *proxy, uint32_t rings) {
    kolo_bell_enter(proxy->bell);
    if (!has_background(proxy) && !has_news(proxy) && !kolo_load_acquire(&proxy->stopping))
        kolo_futex_sleep(&proxy->bell->rings, rings, kolo_clock_sleep_ns(&proxy->clock, PROXY_TICK_NS));
    kolo_bell_leave(proxy->bell);
}

/* Tells the other nodes that this one leaves, and ends the engine. The thread does so, as operations on sockets end in
 * the thread that has submitted them. Of one that is gone the kernel ends them when it finds time: on a busy machine
 * that took it seconds. */
static void leave(struct kolo_proxy *proxy) {
    const struct kolo_internode *internode = proxy->comm->internode;
    const struct kolo_frame frame = {.kind = KOLO_FRAME_LEAVE};
    if (proxy->relay && !proxy->broken)
        kolo_relay_serve(proxy->relay); /* what was sent before */
    tell_failure(proxy);                /* a failure that the leader has just published */
    stop_when_broken(proxy);            /* by which frames for the relay may arrive */
    kolo_relay_stop(proxy->relay);
    KOLO_POINT("proxy.stopped");
    for (uint32_t node = 0; node < internode->nodes.nodes && !proxy->broken; node++)
        if (node != internode->node && !has_ended(proxy, node))
            kolo_engine_tell(proxy->engine, node, &frame, NULL);
    KOLO_POINT("proxy.leaving");
    kolo_engine_destroy(proxy->engine, LINGER_NS / internode->lanes);
    proxy->engine = NULL;
}

static void *run(void *argument) {
    struct kolo_proxy *proxy = argument;
    pthread_setname_np(pthread_self(), "kolo-proxy");
    kolo_trace_name_thread(KOLO_TRACE_PROXY);
    kolo_fpenv_enter(); /* for good: this thread folds, and has inherited the modes of the thread that made the
                           communicator */
    while (!kolo_load_acquire(&proxy->stopping)) { /* pairs with kolo_proxy_destroy */
        const uint32_t rings = kolo_bell_rings(proxy->bell);
        const bool busy = has_background(proxy);
        while (kolo_load_acquire(&proxy->wanted)) /* pairs with take_from_thread */
            sched_yield();
        if (take(proxy)) {
            drive(proxy, busy ? PROXY_TICK_NS : 0);
            hand_back(proxy);
        } else if (is_threads(proxy) || has_news(proxy)) {
            kolo_engine_wake(proxy->engine); /* the leader may sleep in it, and has to hand back, or to look */
            sched_yield();
        }
        if (!busy)
            sleep_at_bell(proxy, rings);
        KOLO_POINT("proxy.ticked");
    }
    leave(proxy);
    return NULL;
}

/* The lane by which `ticket` goes. */
static uint32_t lane_of(const struct kolo_internode *internode, uint64_t ticket) {
    return internode->lanes == 1 ? 0 : (uint32_t)(ticket % internode->lanes);
}

void kolo_proxy_order(kolo_comm *comm, struct kolo_order *order, bool background) {
    struct kolo_proxy *proxy = comm->internode->proxies[lane_of(comm->internode, order->ticket)];
    order->stamp = comm->call.stamp;
    order->key = kolo_call_key_now(comm);
    order->number = comm->call.number;
    proxy->orders[order->ticket % KOLO_SLOTS] = *order;
    KOLO_POINT("proxy.ordering");
    kolo_store_release(&proxy->ordered, order->ticket + 1); /* pairs with begin_ordered */
    if (background || is_threads(proxy)) {
        kolo_store_release(&proxy->background, order->ticket + 1); /* pairs with has_background */
        KOLO_POINT("proxy.in_background");
        /* The thread may sleep in two places: whichever it was at before the store, it may have changed over by now. */
        kolo_engine_wake(proxy->engine);
        kolo_bell_ring(&proxy->bell_ringer, proxy->bell);
    }
    KOLO_POINT("proxy.ordered");
}

void kolo_proxy_abandon(kolo_comm *comm) {
    for (uint32_t lane = 0; lane < comm->internode->lanes; lane++) {
        struct kolo_proxy *proxy = comm->internode->proxies[lane];
        if (!proxy) /* this is not the leader */
            continue;
        take_from_thread(proxy);
        tell_failure(proxy); /* tells nothing where the call was refused and broke nothing */
        stop_when_broken(proxy);
        hand_back(proxy);
    }
}

/* Drives until `wait` is over, or the thread is to drive. Like any wait (sync/wait.c) it spins first, then gives way,
 * then sleeps: in the engine. */
static int drive_until(struct kolo_proxy *proxy, struct kolo_wait *wait) {
    kolo_waiter *waiter = &proxy->comm->waiter;
    struct kolo_awake awake;
    const int64_t start_ns = kolo_awake_begin(&awake, kolo_waiter_timeout_ns(waiter));
    uint32_t yields = kolo_wait_may_yield(waiter) ? 0 : proxy->yields_max;
    bool slept = false;
    while (!kolo_wait_reached(wait) && !is_threads(proxy)) { /* bounded by check, which fails at the deadline */
        wait->waited_ns = kolo_awake_ns(&awake) - start_ns;
        const bool spins = wait->waited_ns < proxy->spin_ns, sleeps = !spins && yields >= proxy->yields_max;
        const bool checks = sleeps || proxy->broken, lends = checks || waiter->idle;
        if (lends) /* the program's hooks may take long: the thread drives meanwhile */
            hand_back(proxy);
        const int rc = checks ? waiter->check(waiter, wait) : 0;
        if (rc == 0 && !spins && !sleeps && yields++ > 0) {
            kolo_wait_yield(waiter);
            yields = waiter->sleeps_left > 0 ? proxy->yields_max : yields;
        }
        const int64_t sleep_ns = rc == 0 ? kolo_wait_work(waiter) : 0;
        if (lends)
            take_from_thread(proxy);
        if (rc < 0)
            return rc;
        waiter->slept += sleeps && !slept;
        slept |= sleeps;
        if (sleeps)
            kolo_wait_count_spun(waiter);
        drive(proxy, sleeps && !kolo_wait_reached(wait) ? sleep_ns : 0);
        if (sleeps)
            waiter->since_ns = kolo_clock_ns();
    }
    return 0;
}

int kolo_proxy_await(kolo_comm *comm, uint64_t ticket) {
    const uint32_t lane = lane_of(comm->internode, ticket);
    struct kolo_proxy *proxy = comm->internode->proxies[lane]; /* NULL: this is not the leader */
    struct kolo_shared_lane *shared = &comm->segment.internode->lanes[lane];
    kolo_waiter *waiter = &comm->waiter;
    struct kolo_wait wait = {
        .flag = &shared->done, .target = ticket + 1, .bell = &shared->bell, .peer = KOLO_PEER_PROXY};
    if (!proxy || kolo_load_relaxed(&proxy->background) > ticket || kolo_wait_reached(&wait))
        return kolo_wait_at_least(waiter, wait.flag, wait.target, wait.bell, wait.peer);
    bool drives;
    while (!(drives = take(proxy)) && !is_threads(proxy)) /* the thread drives for a moment, or from now on */
        sched_yield();
    int rc = 0;
    if (drives) {
        kolo_wait_begin(waiter, &wait, 0);
        rc = drive_until(proxy, &wait);
        kolo_wait_end(waiter, &wait, rc);
        hand_back(proxy);
    }
    return rc < 0 ? rc : kolo_wait_at_least(waiter, wait.flag, wait.target, wait.bell, wait.peer);
}

kolo_pulse kolo_proxy_pulse(struct kolo_proxy *proxy, uint32_t node) {
    take_from_thread(proxy);
    const kolo_pulse pulse = proxy->neighbours[node].pulse;
    hand_back(proxy);
    return pulse;
}

/* Life. */

static int add_streams(struct kolo_proxy *proxy, int *fds) {
    const struct kolo_internode *internode = proxy->comm->internode;
    const uint32_t each = 1 + proxy->comm->origin.net.streams;
    int rc = 0;
    for (uint32_t node = 0; node < internode->nodes.nodes; node++) {
        int *own = fds + (node * internode->lanes + proxy->exchange->lane) * each;
        for (uint32_t i = 0; rc == 0 && node != internode->node && i < each; i++) {
            rc = kolo_engine_add(proxy->engine, node, own[i]);
            own[i] = -1; /* closed where that failed */
        }
    }
    return rc;
}

static void close_listening(struct kolo_proxy *proxy) {
    if (proxy->listening >= 0)
        close(proxy->listening);
    proxy->listening = -1;
}

static void free_proxy(struct kolo_proxy *proxy) {
    if (proxy->engine)
        kolo_engine_destroy(proxy->engine, 0);
    kolo_exchange_destroy(proxy->exchange);
    kolo_relay_free(proxy->relay);
    free(proxy->neighbours);
    close_listening(proxy);
    free(proxy);
}

static void say_how(const kolo_comm *comm, const kolo_engine *engine) {
    const int refused = comm->origin.net.engine == KOLO_NET_ENGINE_AUTO ? kolo_engine_probe_uring() : 0;
    kolo_log(comm->log_level, KOLO_LOG_INFO, (int)comm->global_rank, "%u nodes, linked by %s, network threads: %u%s%s",
             comm->internode->nodes.nodes, kolo_engine_name(engine), comm->internode->lanes,
             refused ? ", as io_uring is refused: " : "", refused ? strerror(-refused) : "");
}

/* The leader waits in the engine as other ranks do at flags. With KOLO_WAIT=sleep it sleeps soon, too. */
static void set_waiting(struct kolo_proxy *proxy) {
    const kolo_waiter *waiter = &proxy->comm->waiter;
    const int64_t spin_ns = (int64_t)waiter->spins_max * PAUSE_NS;
    proxy->spin_ns = spin_ns < SPIN_NS ? spin_ns : SPIN_NS;
    proxy->yields_max = waiter->yields > 0 || spin_ns >= SPIN_NS ? YIELDS_MAX : 0;
}

int kolo_proxy_create(struct kolo_proxy **result, kolo_comm *comm, uint32_t lane, int *fds) {
    static const struct kolo_engine_events events = {
        .place = place, .arrived = arrived, .sent = sent, .ended = ended, .silent = silent};
    const struct kolo_net_settings *net = &comm->origin.net;
    const struct kolo_internode *internode = comm->internode;
    const struct kolo_engine_options options = {
        .kind = net->engine,
        .nodes = internode->nodes.nodes,
        .streams_max = net->streams,
        .silence_ns = net->silence_ns,
        .zero_copy = net->zero_copy,
        .memory = comm->segment.internode_slots,
        .memory_bytes = 2 * KOLO_SLOTS * comm->segment.slot_bytes,
    };
    struct kolo_proxy *proxy = calloc(1, sizeof *proxy);
    if (!proxy)
        return kolo_fail(KOLO_ERR_SYSTEM, "out of memory");
    proxy->comm = comm;
    proxy->listening = -1;
    proxy->shared = &comm->segment.internode->lanes[lane];
    proxy->clock.asks = lane == 0 && internode->node != 0 && kolo_trace_is_first();
    proxy->bell_ringer.publisher_fences = comm->waiter.publisher_fences;
    set_waiting(proxy);
    proxy->neighbours = calloc(internode->nodes.nodes, sizeof *proxy->neighbours);
    int rc = proxy->neighbours ? 0 : kolo_fail(KOLO_ERR_SYSTEM, "out of memory");
    if (rc == 0)
        rc = kolo_engine_create(&proxy->engine, &options, &events, proxy);
    if (rc == 0)
        rc = kolo_exchange_create(&proxy->exchange, comm, lane, proxy->engine);
    if (rc == 0 && lane == 0)
        rc = kolo_relay_create(&proxy->relay, comm, proxy->engine);
    if (rc == 0 && lane == 0 && (proxy->listening = kolo_listener_share(comm->listener)) < 0)
        rc = kolo_fail_system(-proxy->listening, "another descriptor of a socket that listens");
    proxy->bell = proxy->relay ? kolo_relay_bell(proxy->relay) : &proxy->own_bell;
    if (rc == 0)
        rc = add_streams(proxy, fds);
    KOLO_POINT("proxy.starting");
    const int error = rc == 0 ? kolo_thread_start(&proxy->thread, run, proxy) : 0;
    if (error)
        rc = kolo_fail_system(error, "rank %u: starting the network thread", comm->global_rank);
    KOLO_POINT("proxy.started");
    if (rc < 0) {
        kolo_relay_stop(proxy->relay);
        free_proxy(proxy);
        return rc;
    }
    if (lane == 0)
        say_how(comm, proxy->engine);
    *result = proxy;
    return 0;
}

void kolo_proxy_watch(struct kolo_proxy *proxy) {
    take_from_thread(proxy);
    kolo_engine_watch(proxy->engine);
    hand_back(proxy);
}

void kolo_proxy_leave_listener(struct kolo_proxy *proxy) {
    take_from_thread(proxy);
    close_listening(proxy);
    hand_back(proxy);
}

void kolo_proxy_forget(struct kolo_proxy *proxy) {
    kolo_engine_forget(proxy->engine);
    proxy->engine = NULL;
    free_proxy(proxy);
}

void kolo_proxy_destroy(struct kolo_proxy *proxy) {
    KOLO_POINT("proxy.stopping");
    take_from_thread(proxy);                 /* for good: the thread drives no more, and leaves */
    kolo_store_release(&proxy->stopping, 1); /* pairs with run */
    kolo_bell_ring_slowly(proxy->bell);
    pthread_join(proxy->thread, NULL);
    free_proxy(proxy);
    KOLO_POINT("proxy.left");
}
