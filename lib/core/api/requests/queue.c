/* Issues requests, carries them out, and completes them. */
#include "api/requests/queue.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "api/lanes/lanes.h"
#include "comm/failure/failure.h"
#include "cpu/spare.h"
#include "sync/thread.h"

#define SLEEP_NS    INT64_C(1000000000)   /* the most that a lost wake-up would cost the thread */
#define DEFERRED_NS (10 * KOLO_NS_PER_MS) /* longer than computing that is as long as a call of some MiB */

/* The common lock guards these, for all queues of the process. The bell: of threads that wait for some request. */
static kolo_bell completion;
static uint32_t sleepers;
static uint64_t issued;
static struct kolo_queue *queues;
static uint64_t turns;
static uint32_t awaiting; /* queues with `awaits_any` */

/* The number of requests that have been completed. */
static kolo_atomic_u64 completed;

/* The number of transfers that are not complete, of all queues. While it is 0 no wait takes the lock for them. */
static kolo_atomic_u64 transferring;

/* Reads what the first lane has counted so far, and the other lanes, in none of which a thread is. Where `in_call`, one
 * may be in them, and `others` keeps its former values. */
static void read_stats(const kolo_comm *comm, bool in_call, kolo_stats *others, kolo_stats *stats) {
    if (!in_call)
        kolo_lanes_read_stats(comm, others);
    *stats = comm->stats;
    stats->sent_bytes += others->sent_bytes;
    stats->received_bytes += others->received_bytes;
    stats->segment_bytes += others->segment_bytes;
    stats->waits_slept = comm->waiter.slept + others->waits_slept;
    stats->waited_ns = comm->waiter.waited_ns + others->waited_ns;
}

/* Makes the calling thread the communicator's owner, under the common lock. */
static void own(struct kolo_queue *queue) {
    queue->running = true;
    if (queue->has_thread)
        read_stats(queue->comm, false, &queue->other_lanes, &queue->stats);
}

/* Puts a request's issue, its begin or its end into the trace. */
static void trace_request(kolo_trace_kind kind, const kolo_request *request, int status) {
    if (!kolo_traces())
        return;
    const struct kolo_transfer *transfer = request->transfer;
    const bool sends = transfer && transfer->sends;
    const kolo_collective what = !transfer ? request->descriptor->collective : sends ? KOLO_SEND : KOLO_RECV;
    const uint64_t count = !transfer ? request->call.count
                           : sends   ? transfer->sending.count
                                     : transfer->receiving.count;
    kolo_trace_write(kolo_trace_head(kind, what, 0, status < 0 ? (unsigned)-status : 0, request->comm->waiter.trace, 0),
                     count, request->order);
}

/* Puts a wait for what another thread carries out into the trace. */
static void trace_await(kolo_trace_kind kind, unsigned comm, uint64_t began) {
    if (kolo_traces())
        kolo_trace_write(kolo_trace_head(kind, 0, 0, 0, comm, -1), began, 0);
}

/* Completing. */

static void complete(struct kolo_queue *queue, kolo_request *request, int status, const char *message) {
    static const uint64_t one = 1;
    kolo_request **place = request->transfer ? &queue->transfers : &queue->oldest;
    while (*place != request)
        place = &(*place)->next;
    *place = request->next;
    if (request->transfer)
        kolo_fetch_add(&transferring, -UINT64_C(1));
    request->status = status;
    request->message = status < 0 ? strdup(message) : NULL;
    kolo_fetch_add(&completed, 1);
    KOLO_POINT("request.completing");
    trace_request(KOLO_TRACE_DONE, request, status);
    kolo_store_release(&request->done, 1); /* pairs with kolo_request_is_done; from now on the caller may free it */
    if (queue->event_fd >= 0 && write(queue->event_fd, &one, sizeof one) < 0) {
        /* The eventfd is full, and so readable, which is all that it has to say. */
    }
    for (struct kolo_queue *other = awaiting ? queues : NULL; other; other = other->next)
        if (other->awaits_any && other != queue && other->comm->token->ours)
            kolo_transfer_interrupt(other->comm);
    if (sleepers)
        kolo_bell_ring_slowly(&completion);
}

/* Completes a transfer, with kolo_error_message if it has failed. */
static void complete_transfer(kolo_request *request, int status) {
    struct kolo_queue *queue = request->comm->queue;
    kolo_common_lock();
    if (queue->has_thread)
        read_stats(queue->comm, true, &queue->other_lanes, &queue->stats);
    complete(queue, request, status, kolo_error_message());
    kolo_common_unlock();
}

/* Completes all requests of a communicator that is broken, about to be freed, or inherited. Without transfers of
 * requests another thread may be in a blocking send or receive, whose transfer is its own. */
static void complete_all(struct kolo_queue *queue, int status, const char *message) {
    if (queue->transfers) {
        queue->comm->channels.sends = NULL;
        queue->comm->channels.receives = NULL;
    }
    kolo_store_relaxed(&queue->unbegun, 0);
    while (queue->oldest || queue->transfers) {
        kolo_request *request = queue->oldest;
        if (!request || (queue->transfers && queue->transfers->order < request->order))
            request = queue->transfers;
        complete(queue, request, status, message);
    }
}

/* Completes all requests if the queue has ended, or if the communicator broke in a call that returned `rc`; 0: by a
 * receive in its waits, or a function that it called. */
static void complete_ended(struct kolo_queue *queue, int rc) {
    if (queue->ended) {
        complete_all(queue, queue->ended, queue->why);
    } else if (!kolo_comm_is_usable(queue->comm)) {
        if (rc >= 0)
            rc = kolo_failure_look(queue->comm, queue->comm->rank, 0);
        complete_all(queue, rc, kolo_error_message());
    }
}

/* Completes the requests that a forked child has inherited, under the common lock. */
static void disinherit(struct kolo_queue *queue) {
    if (queue->event_fd >= 0) /* a write there would wake the parent */
        close(queue->event_fd);
    queue->event_fd = -1;
    complete_all(queue, KOLO_ERR_STATE,
                 "the request was inherited through fork; only the process that issued it has it");
}

struct kolo_queue *kolo_queue_before(const kolo_request *request, bool any) {
    const bool is_done = kolo_request_is_done(request);
    if (is_done && !request->carries)
        return NULL;
    struct kolo_queue *queue = is_done ? queues : request->comm->queue;
    while (queue && (queue->comm != request->comm || queue->made >= request->order))
        queue = queue->next;
    if (queue && !queue->comm->token->ours) {
        disinherit(queue);
        return NULL;
    }
    if (queue && is_done && !(queue->oldest && (any || queue->oldest->order < request->order)))
        return NULL;
    return queue;
}

/* Transfers. */

static kolo_request *first_unbegun(struct kolo_queue *queue) {
    kolo_request *request = queue->transfers;
    while (request && request->transfer->is_begun)
        request = request->next;
    return request;
}

/* Puts in flight the transfers that have been issued. Returns 0, or the status with which the communicator broke. */
static int begin_transfers(struct kolo_queue *queue) {
    int rc = 0;
    while (rc == 0 && kolo_load_acquire(&queue->unbegun)) {
        kolo_common_lock();
        kolo_request *request = first_unbegun(queue);
        kolo_fetch_add(&queue->unbegun, -UINT64_C(1));
        kolo_common_unlock();
        rc = kolo_transfer_begin(request->transfer);
        if (rc < 0 && kolo_comm_is_usable(queue->comm)) {
            complete_transfer(request, rc);
            rc = 0;
        }
    }
    return rc;
}

/* The work that a rank does in the waits of a collective, see kolo_waiter.work. */
static bool work_on(kolo_waiter *waiter) {
    kolo_comm *comm = waiter->owner;
    return kolo_comm_is_usable(comm) && begin_transfers(comm->queue) == 0 && kolo_transfer_advance(comm) == 0 &&
           kolo_channels_in_flight(&comm->channels);
}

/* The condition until which transfers go on. */
struct until {
    struct kolo_queue *queue;
    const kolo_request *request; /* until this one is complete; NULL: until any is, of any queue */
    const kolo_request *first;   /* of those for which the caller waits; NULL: it waits for all */
    uint64_t completed;          /* former value of `completed` */
    bool is_thread;              /* of the progress thread: until it is called */
    bool waits;
};

static bool is_enough(void *argument) {
    const struct until *until = argument;
    if (until->is_thread)
        return kolo_load_acquire(&until->queue->called); /* pairs with call_thread */
    return !until->waits ||
           (until->request ? kolo_request_is_done(until->request) : until->completed != kolo_load_acquire(&completed));
}

/* Looks which peers have ended, so that a program that tests again and again, and never waits, finds out, too. */
static int look_at_peers(struct kolo_queue *queue) {
    kolo_comm *comm = queue->comm;
    const int64_t now_ns = kolo_clock_ns();
    if (!comm->segment.header || !kolo_channels_in_flight(&comm->channels) || now_ns < queue->look_ns)
        return 0;
    queue->look_ns = now_ns + KOLO_SLICE_NS;
    return kolo_transfer_look(comm);
}

/* Gives up a receive from the own rank for which the wait, for that request or for any, would never end. */
static bool give_up(const kolo_comm *comm, const struct until *until) {
    const struct kolo_receiving *receives = comm->channels.receives;
    const bool any = !until->request;
    bool is_vain = receives && until->waits && !until->is_thread && !is_enough((void *)until);
    for (const struct kolo_receiving *receiving = any ? receives : NULL; receiving; receiving = receiving->next)
        is_vain = is_vain && !receiving->is_matched && receiving->from == comm->global_rank;
    return is_vain && !(any && comm->channels.sends) &&
           kolo_transfer_give_up(until->first ? until->first->transfer : receives->owner, "kolo_request_wait");
}

/* Goes on with transfers. The caller has the communicator and the common lock, which this gives up meanwhile. */
static void go_on_with_transfers(struct kolo_queue *queue, const struct until *until) {
    kolo_comm *comm = queue->comm;
    own(queue);
    queue->awaits_any = until->waits && !until->is_thread && !until->request && queues->next && comm->segment.header;
    awaiting += queue->awaits_any;
    kolo_common_unlock();
    int rc = begin_transfers(queue);
    const bool is_vain = rc == 0 && give_up(comm, until);
    if (rc == 0)
        rc = is_vain || !comm->segment.header
                 ? kolo_transfer_advance(comm)
                 : kolo_transfer_run(comm, is_enough, (void *)until, until->is_thread || queue->awaits_any);
    if (rc == 0 && !until->waits && until->request) /* a test */
        rc = look_at_peers(queue);
    kolo_common_lock();
    awaiting -= queue->awaits_any;
    queue->awaits_any = queue->running = false;
    complete_ended(queue, rc);
    if (sleepers)
        kolo_bell_ring_slowly(&completion);
}

/* The queue that has waited longest, among those whose communicator no thread has. */
static struct kolo_queue *find_idle(const kolo_comm *except) {
    struct kolo_queue *found = NULL;
    for (struct kolo_queue *queue = queues; queue; queue = queue->next)
        if (queue->transfers && !queue->running && !queue->wanted && !queue->has_thread && queue->comm != except &&
            queue->comm->token->ours && kolo_comm_is_usable(queue->comm) && (!found || queue->turn < found->turn))
            found = queue;
    return found;
}

int64_t kolo_queue_elsewhere(kolo_waiter *waiter) {
    if (!kolo_load_relaxed(&transferring))
        return KOLO_SLICE_NS;
    kolo_common_lock();
    struct kolo_queue *queue = find_idle(waiter->owner);
    uint64_t moves = 0;
    bool has_moved = false;
    if (queue) {
        queue->turn = ++turns;
        moves = queue->comm->channels.moves;
        do /* again for transfers issued meanwhile, which found that a thread owns the communicator */
            go_on_with_transfers(queue, &(struct until){.queue = queue});
        while (kolo_load_relaxed(&queue->unbegun));
        has_moved = moves != queue->comm->channels.moves;
    }
    kolo_common_unlock();
    return has_moved ? KOLO_WORK_NS : queue ? 10 * KOLO_WORK_NS : KOLO_SLICE_NS;
}

/* Carrying out. */

void kolo_queue_stats(const kolo_comm *comm, kolo_stats *stats) {
    const struct kolo_queue *queue = comm->queue;
    kolo_stats others;
    if (!queue) {
        read_stats(comm, false, &others, stats);
        return;
    }
    kolo_common_lock();
    if (queue->running && queue->has_thread)
        *stats = queue->stats;
    else
        read_stats(comm, false, &others, stats);
    kolo_common_unlock();
}

static void carry_out_oldest(struct kolo_queue *queue) {
    kolo_comm *comm = queue->comm;
    kolo_request *request = queue->oldest;
    own(queue);
    comm->waiter.work = queue->transfers || queue->has_thread ? work_on : NULL;
    kolo_common_unlock();
    KOLO_POINT("request.carrying_out");
    trace_request(KOLO_TRACE_CARRY, request, 0);
    const int rc = request->carry_out(request->descriptor, comm, &request->call);
    KOLO_POINT("request.carried_out");
    kolo_common_lock();
    comm->waiter.work = NULL;
    queue->running = false;
    const bool is_broken = !queue->ended && !kolo_comm_is_usable(comm);
    if (rc >= 0 || !is_broken)
        complete(queue, request, rc < 0 && queue->ended ? queue->ended : rc,
                 queue->ended ? queue->why : kolo_error_message());
    complete_ended(queue, rc);
}

void kolo_queue_await_completion(struct kolo_queue *queue, const kolo_request *request, uint64_t began) {
    const unsigned traced = queue->comm->waiter.trace;
    const uint32_t rings = kolo_bell_rings(&completion);
    const bool may_ask = queue->comm->interrupt.thread == gettid();
    struct kolo_interrupt interrupt = {0}; /* a copy: the queue may be gone while the lock is given up */
    if (may_ask)
        interrupt = queue->comm->interrupt;
    sleepers++;
    kolo_common_unlock();
    KOLO_POINT("request.awaiting");
    trace_await(KOLO_TRACE_WAIT_BEGIN, traced, began || !kolo_traces() ? began : kolo_trace_ticks());
    kolo_futex_sleep(&completion.rings, rings, KOLO_INTERRUPT_NS);
    trace_await(KOLO_TRACE_WAIT_END, traced, 0);
    KOLO_POINT("request.awaited");
    const int code = kolo_failure_ask(&interrupt);
    kolo_common_lock();
    sleepers--;
    if (!may_ask || (request && kolo_request_is_done(request)))
        return;
    queue->comm->interrupt.asked_ns = interrupt.asked_ns;
    if (code)
        kolo_store_release(&queue->comm->interrupt.code, (uint64_t)code); /* pairs with kolo_failure_ask */
}

void kolo_queue_forget_answers(void) {
    for (struct kolo_queue *queue = queues; queue; queue = queue->next)
        if (kolo_load_relaxed(&queue->comm->interrupt.code) && queue->comm->interrupt.thread == gettid())
            kolo_store_relaxed(&queue->comm->interrupt.code, 0);
}

/* Waits for a request. The progress thread has a processor of its own, so that the caller need not sleep at once. */
static void await(struct kolo_queue *queue, const kolo_request *request) {
    const uint64_t began = kolo_traces() ? kolo_trace_ticks() : 0;
    const unsigned traced = queue->comm->waiter.trace; /* the queue may be gone while the lock is given up */
    if (request && queue->has_thread && !queue->defers) {
        const uint32_t spins = queue->comm->waiter.spins_max;
        kolo_common_unlock();
        for (uint32_t i = 0; i < spins && !kolo_request_is_done(request); i++)
            kolo_pause();
        kolo_common_lock();
        if (kolo_request_is_done(request)) {
            trace_await(KOLO_TRACE_WAIT, traced, began);
            return;
        }
    }
    kolo_queue_await_completion(queue, request, began);
}

/* Makes the progress thread look for something to do. */
static void call_thread(struct kolo_queue *queue) {
    kolo_store_release(&queue->called, 1); /* pairs with is_enough */
    if (queue->thread_transfers)
        kolo_transfer_interrupt(queue->comm);
    else if (queue->thread_sleeps || (queue->has_thread && queue->transfers))
        kolo_bell_ring_slowly(&queue->bell);
}

/* Leaves what is in flight to the progress thread, which may have found the communicator owned meanwhile. */
static void pass_on(struct kolo_queue *queue) {
    if (queue->oldest || queue->transfers)
        call_thread(queue);
}

void kolo_queue_urge(struct kolo_queue *queue, const kolo_request *request) {
    if (!queue->defers || queue->running || request->order <= queue->urged)
        return;
    queue->urged = request->order;
    kolo_bell_ring_slowly(&queue->bell);
}

bool kolo_queue_go_on(struct kolo_queue *queue, const kolo_request *request, bool any, bool waits) {
    const kolo_request *first = request && request->transfer ? request : NULL, *transfer = any ? NULL : first;
    const struct until until = {queue, transfer, first, kolo_load_relaxed(&completed), false, waits};
    const bool is_threads = transfer && queue->has_thread && queue->comm->segment.header;
    if (is_threads)
        kolo_queue_urge(queue, transfer);
    if (queue->running || is_threads) {
        if (waits)
            await(queue, request);
        return false;
    }
    if (queue->oldest && (!transfer || queue->oldest->order < transfer->order)) {
        carry_out_oldest(queue);
    } else if (queue->transfers) {
        go_on_with_transfers(queue, &until);
    }
    return true;
}

void kolo_queue_carry_out(const kolo_request *request) {
    struct kolo_queue *queue, *carried = NULL;
    while ((queue = kolo_queue_before(request, false)))
        carried = kolo_queue_go_on(queue, request, false, true) ? queue : NULL;
    if (carried)
        pass_on(carried);
}

/* Carries out all requests. A thread that has completed the last transfer may still be on its way out. */
static void carry_out_all(struct kolo_queue *queue) {
    while (queue->oldest || queue->transfers || queue->running)
        kolo_queue_go_on(queue, NULL, true, true);
    kolo_queue_forget_answers();
}

/* Waits until the thread that carries out what is given up has done so. */
static void await_idle(struct kolo_queue *queue) {
    while (queue->running)
        kolo_queue_await_completion(queue, NULL, 0);
}

int kolo_get_ready_slowly(const char *function, kolo_comm *comm) {
    struct kolo_queue *queue = comm ? comm->queue : NULL;
    if (!queue || !comm->token->ours)
        return kolo_unusable(function, comm);
    if (!kolo_comm_is_usable(comm)) {
        kolo_common_lock();
        await_idle(queue); /* the caller may be about to free what the last request still uses */
        kolo_common_unlock();
        return kolo_unusable(function, comm);
    }
    const int rc = kolo_enter(function, comm);
    if (rc < 0)
        return rc;
    kolo_common_lock();
    carry_out_all(queue);
    kolo_comm_set_ready(comm, true);
    kolo_common_unlock();
    kolo_leave(comm);
    return kolo_is_ready(comm) ? 0 : kolo_unusable(function, comm);
}

bool kolo_queue_is_busy(const kolo_comm *comm) {
    struct kolo_queue *queue = comm->queue;
    if (!queue)
        return false;
    kolo_common_lock();
    const bool is_busy = queue->oldest || queue->transfers;
    if (!is_busy)
        carry_out_all(queue);
    kolo_common_unlock();
    return is_busy;
}

int kolo_queue_claim(const char *function, kolo_comm *comm, bool for_collective) {
    struct kolo_queue *queue = comm ? comm->queue : NULL;
    if (!queue || !comm->token->ours || !kolo_comm_is_usable(comm)) /* the last request may still be on its way out */
        return kolo_unusable(function, comm);
    int rc = kolo_enter(function, comm);
    if (rc < 0)
        return rc;
    kolo_common_lock();
    queue->wanted = true;
    while (queue->oldest || queue->running) {
        if (queue->thread_transfers)
            call_thread(queue);
        if (queue->running)
            kolo_queue_await_completion(queue, NULL, 0);
        else
            carry_out_oldest(queue);
    }
    queue->wanted = false;
    const bool is_usable = kolo_comm_is_usable(comm);
    if (is_usable)
        own(queue);
    kolo_common_unlock();
    kolo_leave(comm);
    if (!is_usable)
        return kolo_unusable(function, comm);
    rc = begin_transfers(queue);
    comm->waiter.work = for_collective ? work_on : NULL;
    if (rc < 0)
        kolo_queue_release(comm, rc);
    return rc;
}

void kolo_queue_release(kolo_comm *comm, int status) {
    struct kolo_queue *queue = comm->queue;
    kolo_common_lock();
    comm->waiter.work = NULL;
    queue->running = false;
    kolo_queue_forget_answers();
    complete_ended(queue, status);
    kolo_comm_set_ready(comm, !queue->transfers);
    pass_on(queue);
    kolo_common_unlock();
}

/* The progress thread. */

/* The check of long waits where there is a progress thread: it ends the wait of the thread once the queue ends. */
static int check_stopping(kolo_waiter *waiter, const struct kolo_wait *wait) {
    kolo_comm *comm = waiter->owner;
    /* Pairs with kolo_queue_end. A failure, published before that, says what an abort by another thread says. */
    if (!kolo_load_acquire(&comm->stopping) || kolo_load_acquire(kolo_comm_failure_word(comm)))
        return comm->queue->check(waiter, wait);
    if (!waiter->work) /* in a wait for transfers, which others find incomplete */
        return KOLO_ERR_STATE;
    return kolo_failure_publish(comm, KOLO_ERR_PEER_DEAD, 0);
}

/* How long until the thread may carry out the oldest request. */
static int64_t due_in_ns(const struct kolo_queue *queue) {
    if (!queue->defers || queue->event_fd >= 0 || queue->transfers || queue->oldest->order <= queue->urged)
        return 0;
    return queue->oldest->issued_ns + DEFERRED_NS - kolo_clock_ns();
}

/* Gives up the lock and sleeps, until something happens or the time is over. */
static void sleep_thread(struct kolo_queue *queue, int64_t ns, bool must_be_woken) {
    const uint32_t rings = kolo_bell_rings(&queue->bell);
    queue->thread_sleeps = must_be_woken;
    kolo_common_unlock();
    KOLO_POINT("progress.sleeping");
    kolo_futex_sleep(&queue->bell.rings, rings, ns);
    kolo_common_lock();
    queue->thread_sleeps = false;
}

static void wait_for_transfers(struct kolo_queue *queue, bool is_alone) {
    queue->thread_transfers = !is_alone;
    go_on_with_transfers(queue, &(struct until){.queue = queue, .is_thread = true, .waits = true});
    queue->thread_transfers = false;
}

/* Moves this thread to processors that the ranks leave. Returns whether there is one for it. */
static bool take_spare_processors(const kolo_comm *comm) {
    const kolo_cpu_set *rank_cpus[KOLO_RANKS_MAX];
    kolo_cpu_set own;
    kolo_cpu_set_allowed(&own);
    for (uint32_t rank = 0; rank < comm->size; rank++)
        rank_cpus[rank] = comm->segment.header ? &comm->segment.members[rank].cpus : &own;
    return kolo_spare_take(&own, rank_cpus, comm->size, comm->rank);
}

static void *run(void *argument) {
    struct kolo_queue *queue = argument;
    pthread_setname_np(pthread_self(), "kolo-progress");
    kolo_trace_name_thread(KOLO_TRACE_PROGRESS);
    const bool has_spare = take_spare_processors(queue->comm);
    const bool is_alone = !queue->comm->segment.header; /* waits for no other rank, once its transfers are begun */
    KOLO_POINT("progress.starting");
    kolo_common_lock();
    queue->defers = !has_spare;
    while (!kolo_load_acquire(&queue->comm->stopping)) { /* pairs with kolo_queue_end */
        const bool is_free = !queue->running && !queue->wanted, waits = queue->oldest && is_free;
        const int64_t due_ns = waits ? due_in_ns(queue) : SLEEP_NS;
        kolo_store_relaxed(&queue->called, 0);
        if (due_ns <= 0)
            carry_out_oldest(queue);
        else if (is_free && queue->transfers && (!is_alone || kolo_load_relaxed(&queue->unbegun)))
            wait_for_transfers(queue, is_alone);
        else
            sleep_thread(queue, due_ns, !waits);
    }
    kolo_common_unlock();
    return NULL;
}

static int start_thread(struct kolo_queue *queue) {
    kolo_comm *comm = queue->comm;
    queue->check = comm->waiter.check;
    const int error = kolo_thread_start(&queue->thread, run, queue);
    if (error)
        return kolo_fail_system(error, "rank %u: starting the progress thread", comm->global_rank);
    comm->waiter.check = check_stopping; /* the thread has nothing to do yet */
    queue->has_thread = true;
    return 0;
}

/* Life. */

int kolo_queue_create(kolo_comm *comm) {
    struct kolo_queue *queue = calloc(1, sizeof *queue);
    if (!queue)
        return kolo_fail(KOLO_ERR_SYSTEM, "rank %u: out of memory", comm->global_rank);
    queue->comm = comm;
    queue->event_fd = -1;
    const int rc = comm->origin.progress ? start_thread(queue) : 0;
    if (rc < 0) {
        free(queue);
        return rc;
    }
    kolo_common_lock();
    comm->queue = queue; /* another thread may abort the communicator meanwhile */
    queue->made = issued;
    queue->next = queues;
    queues = queue;
    kolo_common_unlock();
    return 0;
}

void kolo_queue_end(kolo_comm *comm, int status, const char *message) {
    kolo_common_lock();
    struct kolo_queue *queue = comm->queue;
    if (!queue) {
        kolo_common_unlock();
        return;
    }
    if (!comm->token->ours)
        disinherit(queue);
    kolo_store_release(&comm->stopping, 1); /* pairs with check_stopping */
    if (!queue->ended) {
        queue->ended = status;
        snprintf(queue->why, sizeof queue->why, "%s", message);
    }
    if (!queue->running)
        complete_all(queue, queue->ended, queue->why);
    if (queue->has_thread && comm->token->ours) {
        call_thread(queue);
        kolo_bell_ring_slowly(&queue->bell);
    }
    kolo_common_unlock();
}

void kolo_queue_join(kolo_comm *comm) {
    struct kolo_queue *queue = comm->queue;
    if (!queue || !comm->token->ours)
        return;
    kolo_common_lock();
    await_idle(queue);
    const bool has_thread = queue->has_thread;
    queue->has_thread = false;
    kolo_common_unlock();
    if (has_thread) {
        pthread_join(queue->thread, NULL);
        comm->waiter.check = queue->check; /* kolo_comm_shrink still waits */
    }
}

void kolo_queue_free(kolo_comm *comm) {
    struct kolo_queue *queue = comm->queue, **place = &queues;
    if (!queue)
        return;
    kolo_common_lock();
    while (*place != queue)
        place = &(*place)->next;
    *place = queue->next;
    kolo_common_unlock();
    if (queue->event_fd >= 0)
        close(queue->event_fd);
    free(queue);
}

static int create(kolo_request **result, const char *function, kolo_comm *comm, size_t more_bytes) {
    int rc = kolo_check_whole(function, comm);
    if (rc == 0 && !comm->queue)
        rc = kolo_comm_is_usable(comm) ? kolo_queue_create(comm) : kolo_unusable(function, comm);
    if (rc < 0)
        return rc;
    kolo_request *request = calloc(1, sizeof *request + more_bytes);
    if (!request)
        return KOLO_FAIL_IN(comm, function, KOLO_ERR_SYSTEM, "out of memory");
    request->comm = comm;
    *result = request;
    return 0;
}

int kolo_request_create(kolo_request **result, const char *function, const struct kolo_descriptor *descriptor,
                        kolo_comm *comm, kolo_carry_out_fn *carry_out, size_t ntensors) {
    const size_t ranks = comm ? comm->global_size : 0;
    const size_t sent = descriptor->send == COUNTED ? ranks : 0, taken = descriptor->recv == COUNTED ? ranks : 0;
    kolo_request *request = NULL;
    if (ntensors > SIZE_MAX / (2 * sizeof(kolo_tensor)))
        return kolo_fail(KOLO_ERR_ARG, "%s: ntensors %zu: more than memory can hold", function, ntensors);
    const int rc = create(&request, function, comm,
                          2 * (sent + taken) * sizeof *request->numbers + ntensors * sizeof(kolo_tensor));
    if (rc < 0)
        return rc;
    request->descriptor = descriptor;
    request->carry_out = carry_out;
    request->offsets[0] = request->numbers;
    request->offsets[1] = request->numbers + sent;
    *result = request;
    return 0;
}

int kolo_request_create_transfer(kolo_request **result, const char *function, kolo_comm *comm) {
    kolo_request *request = NULL;
    const int rc = create(&request, function, comm, sizeof *request->transfer);
    if (rc < 0)
        return rc;
    request->transfer = (void *)request->numbers;
    *result = request;
    return 0;
}

/* Copies the counts of blocks, if they have any, to `copy`, and returns the end of the copy. */
static size_t *keep_counts(struct kolo_blocks *blocks, size_t *copy, uint32_t ranks) {
    if (!blocks->counts)
        return copy;
    memcpy(copy, blocks->counts, ranks * sizeof *copy);
    blocks->counts = blocks->whole = copy;
    return copy + ranks;
}

/* Under the common lock: puts a request in the queue, if the communicator can be used. */
static bool append(struct kolo_queue *queue, kolo_request *request) {
    kolo_comm *comm = queue->comm;
    kolo_request **end = &queue->transfers;
    if (!kolo_comm_is_usable(comm))
        return false;
    kolo_comm_set_ready(comm, false);
    request->order = ++issued;
    request->issued_ns = queue->has_thread ? kolo_clock_ns() : 0;
    KOLO_POINT("request.issued");
    trace_request(KOLO_TRACE_ISSUE, request, 0);
    if (!request->transfer) {
        if (queue->oldest)
            queue->newest->next = request;
        else
            queue->oldest = request;
        queue->newest = request;
        return true;
    }
    while (*end)
        end = &(*end)->next;
    *end = request;
    kolo_fetch_add(&queue->unbegun, 1);
    kolo_fetch_add(&transferring, 1);
    return true;
}

int kolo_request_issue(kolo_request *request, const char *function, const struct kolo_arguments *call) {
    kolo_comm *comm = request->comm;
    const uint32_t ranks = comm->global_size;
    size_t *const counts =
        request->offsets[1] + (request->descriptor->recv == COUNTED ? ranks : 0); /* behind all offsets */
    request->call = *call;
    if (call->ntensors) {
        memcpy(request->numbers, call->tensors, call->ntensors * sizeof *call->tensors);
        request->call.tensors = (void *)request->numbers;
    }
    keep_counts(&request->call.recv_blocks, keep_counts(&request->call.send_blocks, counts, ranks), ranks);
    kolo_common_lock();
    const bool is_issued = append(comm->queue, request);
    if (is_issued)
        call_thread(comm->queue);
    kolo_common_unlock();
    if (is_issued)
        return 0;
    kolo_request_free(request);
    return kolo_unusable(function, comm);
}

int kolo_request_issue_transfer(kolo_request *request, const char *function) {
    kolo_comm *comm = request->comm;
    struct kolo_queue *queue = comm->queue;
    request->transfer->request = request;
    request->transfer->complete = complete_transfer;
    request->carries = !queue->has_thread;
    kolo_common_lock();
    const bool is_issued = append(queue, request), is_first = !queue->running;
    if (is_issued && is_first) {
        go_on_with_transfers(queue, &(struct until){.queue = queue});
        kolo_comm_set_ready(comm, !queue->oldest && !queue->transfers);
    }
    if (is_issued)
        pass_on(queue);
    kolo_common_unlock();
    if (is_issued)
        return 0;
    kolo_request_free(request);
    return kolo_unusable(function, comm);
}

void kolo_request_free(kolo_request *request) {
    free(request->message);
    free(request);
}
