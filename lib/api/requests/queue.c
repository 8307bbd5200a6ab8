/* Issues requests, carries them out, and completes them. */
#include "api/requests/queue.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/status.h"
#include "sync/common_lock.h"
#include "sync/futex.h"

#define SLEEP_NS INT64_C(1000000000) /* a wake-up that were lost would cost no more */

/* Under the common lock, for all queues of the process: who sleeps until some request is complete. */
static kolo_bell completion;
static uint32_t sleepers;
static uint64_t issued;

/* Completing. */

static void complete(struct kolo_queue *queue, int status, const char *message) {
    static const uint64_t one = 1;
    kolo_request *request = queue->oldest;
    request->status = status;
    request->message = status < 0 ? strdup(message) : NULL;
    queue->oldest = request->next;
    kolo_store_release(&request->done, 1); /* pairs with kolo_request_is_done; from now on the caller may free it */
    if (queue->event_fd >= 0 && write(queue->event_fd, &one, sizeof one) < 0) {
        /* It is full: so it is readable, which is all that it has to say. */
    }
    if (sleepers)
        kolo_bell_ring_slowly(&completion);
}

static void complete_all(struct kolo_queue *queue, int status, const char *message) {
    while (queue->oldest)
        complete(queue, status, message);
}

void kolo_queue_disinherit(struct kolo_queue *queue) {
    if (queue->event_fd >= 0) /* or what is written there would wake the parent */
        close(queue->event_fd);
    queue->event_fd = -1;
    complete_all(queue, KOLO_ERR_STATE,
                 "the request was inherited through fork; only the process that issued it has it");
}

/* Carrying out. */

void kolo_queue_carry_out_oldest(struct kolo_queue *queue) {
    kolo_comm *comm = queue->comm;
    const kolo_request *request = queue->oldest;
    queue->running = true;
    kolo_common_unlock();
    const int rc = request->carry_out(request->descriptor, comm, &request->call);
    kolo_common_lock();
    queue->running = false;
    if (rc < 0 && !comm->token->usable)
        complete_all(queue, rc, kolo_error_message());
    else if (rc == 0 || !kolo_load_acquire(&queue->stopping)) /* else kolo_queue_end completes it */
        complete(queue, rc, kolo_error_message());
    else if (sleepers)
        kolo_bell_ring_slowly(&completion);
}

void kolo_queue_await_completion(void) {
    const uint32_t rings = kolo_bell_rings(&completion);
    sleepers++;
    kolo_common_unlock();
    kolo_futex_sleep(&completion.rings, rings, SLEEP_NS);
    kolo_common_lock();
    sleepers--;
}

static void wake_thread(struct kolo_queue *queue) {
    if (queue->thread_sleeps)
        kolo_bell_ring_slowly(&queue->bell);
}

void kolo_queue_carry_out(struct kolo_queue *queue, const kolo_request *request) {
    while (request ? !kolo_request_is_done(request) : queue->oldest != NULL)
        if (queue->running)
            kolo_queue_await_completion();
        else
            kolo_queue_carry_out_oldest(queue);
    if (queue->oldest)
        wake_thread(queue);
}

int kolo_get_ready_slowly(const char *function, kolo_comm *comm) {
    struct kolo_queue *queue = comm ? comm->queue : NULL;
    if (!queue || !comm->token->ours)
        return kolo_unusable(function, comm);
    const int rc = kolo_enter(function, comm);
    if (rc < 0)
        return rc;
    kolo_common_lock();
    kolo_queue_carry_out(queue, NULL);
    comm->token->ready = comm->token->usable;
    kolo_common_unlock();
    kolo_leave(comm);
    return comm->token->ready ? 0 : kolo_unusable(function, comm);
}

/* The progress thread. */

/* The communicator's check of a long wait, for the progress thread: so that nobody has to wait for it for long. */
static int check_stopping(kolo_waiter *waiter, const struct kolo_wait *wait) {
    const kolo_comm *comm = waiter->owner;
    if (kolo_load_acquire(&comm->queue->stopping)) /* pairs with kolo_queue_end */
        return KOLO_ERR_STATE;
    return comm->queue->check(waiter, wait);
}

/* Moves to the processors that no rank of the communicator may use, if there are any. */
static void leave_ranks_cpus(const kolo_comm *comm) {
    kolo_cpu_set used = {{0}};
    kolo_cpu_set_allowed(&used);
    for (uint32_t rank = 0; comm->segment.header && rank < comm->size; rank++)
        kolo_cpu_set_merge(&used, &comm->segment.members[rank].cpus);
    kolo_cpu_set_avoid(&used);
}

static void *run(void *argument) {
    struct kolo_queue *queue = argument;
    pthread_setname_np(pthread_self(), "kolo-progress");
    leave_ranks_cpus(queue->comm);
    kolo_common_lock();
    while (!kolo_load_acquire(&queue->stopping)) { /* pairs with kolo_queue_end */
        if (queue->oldest && !queue->running) {
            kolo_queue_carry_out_oldest(queue);
            continue;
        }
        const uint32_t rings = kolo_bell_rings(&queue->bell);
        queue->thread_sleeps = true;
        kolo_common_unlock();
        kolo_futex_sleep(&queue->bell.rings, rings, SLEEP_NS);
        kolo_common_lock();
        queue->thread_sleeps = false;
    }
    kolo_common_unlock();
    return NULL;
}

static int start_thread(struct kolo_queue *queue) {
    kolo_comm *comm = queue->comm;
    sigset_t all, before;
    queue->check = comm->waiter.check;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are the program's, and go to its own threads */
    const int error = pthread_create(&queue->thread, NULL, run, queue);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error)
        return kolo_fail_system(error, "rank %u: starting the progress thread", comm->global_rank);
    comm->waiter.check = check_stopping; /* it has nothing to do yet */
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
    if (rc < 0)
        free(queue);
    else
        comm->queue = queue;
    return rc;
}

void kolo_queue_end(kolo_comm *comm, int status, const char *message) {
    struct kolo_queue *queue = comm->queue;
    if (!queue)
        return;
    kolo_common_lock();
    if (!comm->token->ours)
        kolo_queue_disinherit(queue);
    kolo_store_release(&queue->stopping, 1); /* pairs with check_stopping */
    while (comm->token->ours && queue->running)
        kolo_queue_await_completion();
    const bool has_thread = comm->token->ours && queue->has_thread;
    wake_thread(queue);
    queue->has_thread = false;
    complete_all(queue, status, message);
    kolo_common_unlock();
    if (has_thread) {
        pthread_join(queue->thread, NULL);
        comm->waiter.check = queue->check; /* kolo_comm_shrink still waits */
    }
}

void kolo_queue_free(kolo_comm *comm) {
    if (comm->queue && comm->queue->event_fd >= 0)
        close(comm->queue->event_fd);
    free(comm->queue);
}

int kolo_request_create(kolo_request **result, const char *function, const struct kolo_descriptor *descriptor,
                        kolo_comm *comm, kolo_carry_out_fn *carry_out) {
    if (!comm || !comm->token->ours)
        return kolo_unusable(function, comm);
    int rc = comm->queue ? 0 : comm->token->usable ? kolo_queue_create(comm) : kolo_unusable(function, comm);
    if (rc < 0)
        return rc;
    const size_t sent = descriptor->send == COUNTED ? comm->global_size : 0;
    const size_t taken = descriptor->recv == COUNTED ? comm->global_size : 0;
    kolo_request *request = calloc(1, sizeof *request + 2 * (sent + taken) * sizeof *request->numbers);
    if (!request)
        return kolo_fail(KOLO_ERR_SYSTEM, "rank %u: %s: out of memory", comm->global_rank, function);
    request->comm = comm;
    request->descriptor = descriptor;
    request->carry_out = carry_out;
    request->offsets[0] = request->numbers;
    request->offsets[1] = request->numbers + sent;
    *result = request;
    return 0;
}

/* Copies the counts of blocks, if they have any, to `copy`; returns what is behind it. */
static size_t *keep_counts(struct kolo_blocks *blocks, size_t *copy, uint32_t ranks) {
    if (!blocks->counts)
        return copy;
    memcpy(copy, blocks->counts, ranks * sizeof *copy);
    blocks->counts = copy;
    return copy + ranks;
}

int kolo_request_issue(kolo_request *request, const char *function, const struct kolo_arguments *call) {
    kolo_comm *comm = request->comm;
    struct kolo_queue *queue = comm->queue;
    const uint32_t ranks = comm->global_size;
    size_t *const counts =
        request->offsets[1] + (request->descriptor->recv == COUNTED ? ranks : 0); /* behind all offsets */
    request->call = *call;
    keep_counts(&request->call.recv_blocks, keep_counts(&request->call.send_blocks, counts, ranks), ranks);
    kolo_common_lock();
    const bool is_usable = queue->running || comm->token->usable; /* of who runs the latter is not to be looked at */
    if (is_usable) {
        if (comm->token->ready) /* else another thread may be looking at it */
            comm->token->ready = false;
        request->order = ++issued;
        if (queue->oldest)
            queue->newest->next = request;
        else
            queue->oldest = request;
        queue->newest = request;
        wake_thread(queue);
    }
    kolo_common_unlock();
    if (is_usable)
        return 0;
    kolo_request_free(request);
    return kolo_unusable(function, comm);
}

void kolo_request_free(kolo_request *request) {
    free(request->message);
    free(request);
}
