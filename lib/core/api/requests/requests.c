/* Functions of programs in the order of the requests; tests of requests, and waits for them. */
#include <errno.h>
#include <sys/eventfd.h>

#include "api/requests/queue.h"
#include "base/file.h"
#include "sync/thread.h"

/* A kolo_carry_out_fn. */
static int call_function(const struct kolo_descriptor *descriptor, kolo_comm *comm, const struct kolo_arguments *call) {
    (void)descriptor, (void)comm;
    call->function(call->recv);
    return 0;
}

static int call_at_once(const char *name, kolo_comm *comm, void (*function)(void *argument), void *argument) {
    const bool was_ready = kolo_is_ready(comm);
    const int rc = was_ready ? 0 : kolo_queue_claim(name, comm, false);
    if (rc < 0)
        return rc;
    function(argument);
    if (!was_ready)
        kolo_queue_release(comm, 0);
    return kolo_comm_is_usable(comm) ? 0 : kolo_unusable(name, comm);
}

int kolo_irun(kolo_comm *comm, void (*function)(void *argument), void *argument, kolo_request **request) {
    static const struct kolo_descriptor descriptor = {.function = "kolo_irun", .collective = KOLO_COLLECTIVES};
    const struct kolo_arguments call = {.recv = argument, .function = function};
    kolo_request *made;
    if (comm && !function)
        return KOLO_REFUSE(comm, descriptor.function, "function is NULL");
    if (!request)
        return call_at_once(descriptor.function, comm, function, argument);
    int rc = kolo_enter(descriptor.function, comm);
    if (rc < 0)
        return rc;
    rc = kolo_request_create(&made, descriptor.function, &descriptor, comm, call_function, 0);
    if (rc == 0)
        rc = kolo_request_issue(made, descriptor.function, &call);
    if (rc == 0)
        *request = made;
    kolo_leave(comm);
    return rc;
}

int kolo_request_test(kolo_request *request, int *done) {
    if (!done)
        return kolo_fail(KOLO_ERR_ARG, "kolo_request_test: done is NULL");
    *done = 1;
    if (!request || kolo_request_is_over(request))
        return 0;
    kolo_common_lock();
    struct kolo_queue *queue = kolo_queue_before(request, false);
    if (queue && queue->has_thread)
        kolo_queue_urge(queue, request);
    else if (queue)
        kolo_queue_go_on(queue, request, false, false);
    queue = kolo_queue_before(request, false);
    *done = !queue;
    const bool goes_on = queue && !queue->has_thread;
    kolo_common_unlock();
    if (goes_on) /* the other rank may wait for a message of another communicator */
        kolo_queue_elsewhere(&request->comm->waiter);
    return 0;
}

int kolo_request_wait(kolo_request *request) {
    if (!request)
        return 0;
    if (!kolo_request_is_over(request)) {
        kolo_common_lock();
        kolo_queue_carry_out(request);
        kolo_queue_forget_answers();
        kolo_common_unlock();
    }
    const int status = request->status;
    if (status < 0)
        kolo_fail(status, "%s", request->message ? request->message : kolo_strerror(status));
    kolo_request_free(request);
    return status;
}

/* When the turn of a request comes, among those that have something to be carried out: the smallest first. */
struct turn {
    int kind;
    uint64_t order;
};

/* In a wait for any, collectives come before messages, which other ranks may not have: so all ranks carry out
 * collectives in one order. Of messages those come first that are behind collectives, and not over before. */
static struct turn turn_of(const kolo_request *request, const struct kolo_queue *queue, bool any) {
    if (!any || !request->transfer)
        return (struct turn){0, request->order};
    if (queue->oldest && !queue->has_thread)
        return (struct turn){1, queue->oldest->order};
    return (struct turn){2, request->order};
}

/* The request whose turn it is, among those that have something to be carried out (kolo_queue_before) and whose
 * communicator is not `except`. The caller of this function and the next has the common lock. */
static kolo_request *first_issued(kolo_request *const *requests, size_t count, const kolo_comm *except, bool any) {
    kolo_request *first = NULL;
    struct turn least = {0, 0};
    for (size_t i = 0; i < count; i++) {
        const struct kolo_queue *queue =
            requests[i] && requests[i]->comm != except ? kolo_queue_before(requests[i], any) : NULL;
        if (!queue)
            continue;
        const struct turn turn = turn_of(requests[i], queue, any);
        if (first && (turn.kind != least.kind ? turn.kind > least.kind : turn.order >= least.order))
            continue;
        first = requests[i];
        least = turn;
    }
    return first;
}

/* The last request up to which one communicator's requests can be carried out before another communicator's turn. */
static const kolo_request *next_turn(kolo_request *const *requests, size_t count) {
    const kolo_request *last = first_issued(requests, count, NULL, false);
    const kolo_request *other = last ? first_issued(requests, count, last->comm, false) : NULL;
    for (size_t i = 0; last && i < count; i++)
        if (requests[i] && requests[i]->comm == last->comm && requests[i]->order > last->order &&
            (!other || requests[i]->order < other->order) && kolo_queue_before(requests[i], false))
            last = requests[i];
    return last;
}

int kolo_request_wait_all(kolo_request **requests, size_t count) {
    int status = 0;
    if (!requests && count)
        return kolo_fail(KOLO_ERR_ARG, "kolo_request_wait_all: requests is NULL with count %zu", count);
    kolo_common_lock();
    for (const kolo_request *last; (last = next_turn(requests, count));)
        kolo_queue_carry_out(last);
    kolo_queue_forget_answers();
    kolo_common_unlock();
    for (size_t i = count; i-- > 0; requests[i] = NULL) { /* the message that stays is the first one's */
        const int rc = kolo_request_wait(requests[i]);
        status = rc < 0 ? rc : status;
    }
    return status;
}

/* The index of a request that is complete, with nothing to carry out before it, or -1; under the common lock. */
static int find_over(kolo_request *const *requests, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (requests[i] && !kolo_queue_before(requests[i], true))
            return (int)i;
    return -1;
}

int kolo_request_wait_any(kolo_request **requests, size_t count, int *index) {
    if (!index || (!requests && count) || count > INT32_MAX)
        return kolo_fail(KOLO_ERR_ARG, "kolo_request_wait_any: %s",
                         !index      ? "index is NULL"
                         : !requests ? "requests is NULL"
                                     : "more requests than an index can tell");
    const kolo_request *first;
    int found;
    kolo_common_lock();
    while ((found = find_over(requests, count)) < 0 && (first = first_issued(requests, count, NULL, true))) {
        struct kolo_queue *queue = kolo_queue_before(first, true), *other;
        for (size_t i = 0; i < count; i++) /* queues with a progress thread */
            if (requests[i] && (other = kolo_queue_before(requests[i], true)) && other->has_thread)
                kolo_queue_urge(other, requests[i]);
        if (queue->running || (queue->has_thread && (queue->comm->segment.header || queue->oldest)))
            kolo_queue_await_completion(queue, first, 0);
        else
            kolo_queue_go_on(queue, first, true, true);
    }
    kolo_queue_forget_answers();
    kolo_common_unlock();
    *index = found;
    if (found < 0)
        return 0;
    kolo_request *request = requests[found];
    requests[found] = NULL;
    return kolo_request_wait(request);
}

int kolo_comm_eventfd(kolo_comm *comm, int *fd) {
    static const char *const function = "kolo_comm_eventfd";
    if (comm && !fd)
        return KOLO_REFUSE(comm, function, "fd is NULL");
    int rc = kolo_check_whole(function, comm);
    if (rc == 0 && !comm->queue)
        rc = kolo_queue_create(comm);
    if (rc < 0)
        return rc;
    struct kolo_queue *queue = comm->queue;
    kolo_common_lock();
    if (queue->event_fd < 0)
        queue->event_fd = kolo_file_raise(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    const int error = errno;
    kolo_common_unlock();
    if (queue->event_fd < 0)
        return kolo_fail_system(error, "rank %u: %s: making an eventfd", comm->global_rank, function);
    *fd = queue->event_fd;
    return 0;
}
