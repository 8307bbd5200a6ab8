/* The requests of a communicator, in the order of issue, and who carries them out.
 *
 * Who may do what. A request is issued by the thread that uses the communicator, at the queue's end. The one at its
 * head is carried out by whoever finds that nobody does (`running`): that thread, while it waits for a request or makes
 * a call that is not in the background; or the progress thread, where the communicator has one. Whoever does has the
 * communicator for itself: it is handed on under the lock.
 *
 * A call that is not in the background first has the queue carried out (kolo_get_ready). So calls happen in the order
 * in which they are made, and stamps and history see no difference. The common lock (sync/common_lock.h) guards all
 * queues: a forked child finds them consistent, each with its requests, which it can only free.
 *
 * A failure that breaks the communicator, its destruction and its abort complete all requests, in their order. A
 * request that is complete does not touch the communicator any more, which may be gone. */
#ifndef KOLO_API_REQUESTS_QUEUE_H
#define KOLO_API_REQUESTS_QUEUE_H

#include <pthread.h>

#include "api/arguments.h"
#include "api/checks.h"

/* Carries a request out. The thread has the communicator for itself. */
typedef int kolo_carry_out_fn(const struct kolo_descriptor *descriptor, kolo_comm *comm,
                              const struct kolo_arguments *call);

struct kolo_request {
    kolo_request *next;
    kolo_comm *comm;
    const struct kolo_descriptor *descriptor;
    kolo_carry_out_fn *carry_out;
    struct kolo_arguments call;
    uint64_t order;       /* of issue, among all requests of the process */
    kolo_atomic_u64 done; /* 1: `status` and `message` are there, and nobody but the caller knows the request */
    int status;
    char *message;      /* what went wrong; NULL: nothing, or no memory to say it */
    size_t *offsets[2]; /* where kolo_arguments_resolve says where blocks to send, and to receive, begin */
    size_t numbers[];   /* those, and the caller's counts */
};

struct kolo_queue {
    kolo_comm *comm;
    kolo_request *oldest, *newest; /* those not complete */
    bool running;                  /* a thread carries out the oldest */
    int event_fd;                  /* of kolo_comm_eventfd; -1: nobody has asked for it */

    /* The progress thread. */
    bool has_thread, thread_sleeps;
    pthread_t thread;
    kolo_bell bell;                                                  /* rung when there is something for it to do */
    kolo_atomic_u64 stopping;                                        /* 1: it gives up what it carries out, and ends */
    int (*check)(kolo_waiter *waiter, const struct kolo_wait *wait); /* the communicator's own, see queue.c */
};

static inline bool kolo_request_is_done(const kolo_request *request) {
    return kolo_load_acquire(&request->done); /* pairs with complete */
}

/* Allocates a request for a call of `function`, and on a communicator's first one the queue. */
int kolo_request_create(kolo_request **request, const char *function, const struct kolo_descriptor *descriptor,
                        kolo_comm *comm, kolo_carry_out_fn *carry_out);

/* Issues it for a call that has been checked, copying the counts. Where that fails the request is freed. */
int kolo_request_issue(kolo_request *request, const char *function, const struct kolo_arguments *call);

void kolo_request_free(kolo_request *request);

/* Under the common lock: carries out requests until `request` is complete; NULL: until all of its queue are. May give
 * up the lock meanwhile. */
void kolo_queue_carry_out(struct kolo_queue *queue, const kolo_request *request);

/* Under the common lock: carries out the oldest request, which nobody else does, or sleeps until somebody has completed
 * one. */
void kolo_queue_carry_out_oldest(struct kolo_queue *queue);
void kolo_queue_await_completion(void);

/* Under the common lock, in a forked child: completes the requests that it has inherited. */
void kolo_queue_disinherit(struct kolo_queue *queue);

/* Allocates the queue of a communicator that has none yet. */
int kolo_queue_create(kolo_comm *comm);

/* Ends the background: interrupts what is under way, ends the progress thread, and completes all requests with that
 * status and message. Afterwards the communicator is destroyed, or is broken. */
void kolo_queue_end(kolo_comm *comm, int status, const char *message);

/* Frees the queue of a communicator that is about to be freed. */
void kolo_queue_free(kolo_comm *comm);

/* The part of kolo_get_ready where the communicator is not. */
__attribute__((cold)) int kolo_get_ready_slowly(const char *function, kolo_comm *comm);

static inline bool kolo_is_ready(const kolo_comm *comm) {
    return __builtin_expect(comm && comm->token->ready, 1);
}

/* Every call that is not in the background begins with this: if requests are in flight they are carried out first.
 * Fails if the communicator cannot be used. */
static inline int kolo_get_ready(const char *function, kolo_comm *comm) {
    return kolo_is_ready(comm) ? 0 : kolo_get_ready_slowly(function, comm);
}

#endif
