/* The requests of a communicator, in the order of issue, and who carries them out.
 *
 * Who may do what. A request is issued by the thread that uses the communicator, at the queue's end. The one at its
 * head is carried out by whoever finds that nobody does (`running`): that thread, while it waits for a request or makes
 * a call that is not in the background; or the progress thread, where the communicator has one. Whoever does has the
 * communicator for itself: it is handed on under the lock.
 *
 * Sends and receives, the transfers, are in a list of their own, and all in flight at once. They are put in flight and
 * go on as soon as somebody has the communicator: in waits of collectives, too (work_on). A thread that is about to
 * sleep in a wait takes for a moment a communicator that nobody has (kolo_queue_elsewhere): its message may be what the
 * rank is waiting for by another communicator. The progress thread gives up
 * waiting for them when there is something else to do with the communicator (call_thread).
 *
 * A call that is not in the background first has the queue's collectives carried out. If it is a collective, a send or
 * a receive, it then has the communicator until it is over (kolo_queue_claim), and the transfers go on meanwhile; all
 * others wait for those too (kolo_get_ready). So collectives happen in the order in which they are made, and stamps and
 * history see no difference. The common lock (sync/common_lock.h) guards all queues: a forked child finds them
 * consistent, each with its requests, which it can only free.
 *
 * A failure that breaks the communicator, its destruction and its abort complete all requests, in their order.
 * kolo_queue_end leaves the one that is being carried out to whoever does that, who then completes it and all behind
 * it. A collective that is given up because its rank leaves fails on all ranks: that is published before its buffers
 * are the caller's again, since others may be reading them.
 *
 * A thread may touch a queue and its communicator while it has the lock and knows of a request there that is not
 * complete, or while it carries something out. Else they may be gone: a wait that gave up the lock looks at its request
 * first. Without a progress thread a wait for a message carries out the collectives before it, also where the message
 * is complete already, since that may be so on one rank alone: it looks for its queue among those that there are.
 *
 * A progress thread that has no processor but those of the ranks would take from their computing what it gives to the
 * call, and be in the way of the caller that comes for the result soon. So it defers: a request is its business only
 * after DEFERRED_NS, or once somebody has asked about it without waiting for it (kolo_request_test, an eventfd). It
 * does not defer transfers, nor collectives beside them, as other ranks may wait for those. */
#ifndef KOLO_API_REQUESTS_QUEUE_H
#define KOLO_API_REQUESTS_QUEUE_H

#include <pthread.h>

#include "api/arguments.h"
#include "api/checks.h"
#include "api/requests/transfers.h"

/* Carries a request out. The thread has the communicator for itself. */
typedef int kolo_carry_out_fn(const struct kolo_descriptor *descriptor, kolo_comm *comm,
                              const struct kolo_arguments *call);

struct kolo_request {
    kolo_request *next;
    kolo_comm *comm;
    struct kolo_transfer *transfer; /* behind `numbers`; NULL: a collective, or a function of kolo_irun */
    const struct kolo_descriptor *descriptor;
    kolo_carry_out_fn *carry_out;
    struct kolo_arguments call;
    uint64_t order;       /* of issue, among all requests of the process */
    bool carries;         /* a message, whose waits carry out collectives: there is no progress thread */
    int64_t issued_ns;    /* when, by base/clock.h */
    kolo_atomic_u64 done; /* 1: `status` and `message` are there, and nobody but the caller knows the request */
    int status;
    char *message;      /* what went wrong; NULL: nothing, or no memory to say it */
    size_t *offsets[2]; /* where kolo_arguments_resolve says where blocks to send, and to receive, begin */
    size_t numbers[];   /* those, and the caller's counts, or its list of tensors */
};

enum { KOLO_QUEUE_WHY_BYTES = sizeof((kolo_failure *)NULL)->message };

struct kolo_queue {
    struct kolo_queue *next; /* of all that there are */
    kolo_comm *comm;
    uint64_t made;                  /* its requests are those of `comm` with a larger order */
    kolo_request *oldest, *newest;  /* collectives not complete */
    kolo_request *transfers;        /* sends and receives not complete */
    kolo_atomic_u64 unbegun;        /* of those, not in flight yet */
    uint64_t completed;             /* requests */
    int64_t look_ns;                /* when a test of a transfer looks next at who has ended */
    uint64_t turn;                  /* when waits of other communicators have gone on with its transfers */
    bool running;                   /* a thread has the communicator */
    kolo_stats stats;               /* while it does: the communicator's, as they were before */
    kolo_stats other_lanes;         /* and those of its other lanes */
    int event_fd;                   /* of kolo_comm_eventfd; -1: nobody has asked for it */
    int ended;                      /* status of all requests that are not complete yet; 0: it goes on */
    char why[KOLO_QUEUE_WHY_BYTES]; /* their message */

    /* The progress thread. */
    bool has_thread, defers;
    bool thread_sleeps;     /* until its bell rings; otherwise it looks by itself again */
    bool thread_transfers;  /* it waits for transfers, by its rank's mailbox */
    bool wanted;            /* another thread is about to take the communicator */
    kolo_atomic_u64 called; /* 1: it is to look what else there is to do */
    uint64_t urged;         /* requests up to this one, by their order, are not deferred */
    pthread_t thread;
    kolo_bell bell;                                                  /* rung when there is something for it to do */
    int (*check)(kolo_waiter *waiter, const struct kolo_wait *wait); /* the communicator's own, see queue.c */
};

static inline bool kolo_request_is_done(const kolo_request *request) {
    return kolo_load_acquire(&request->done); /* pairs with complete */
}

/* For waits of all communicators, see struct kolo_waiter: goes on with transfers of another one that nobody has. */
int64_t kolo_queue_elsewhere(kolo_waiter *waiter);

/* Allocates a request for a call of `function`, and on a communicator's first one the queue. */
int kolo_request_create(kolo_request **request, const char *function, const struct kolo_descriptor *descriptor,
                        kolo_comm *comm, kolo_carry_out_fn *carry_out, size_t ntensors);

/* Issues it for a call that has been checked, copying the counts or the `ntensors` tensors. Where that fails the
 * request is freed. */
int kolo_request_issue(kolo_request *request, const char *function, const struct kolo_arguments *call);

void kolo_request_free(kolo_request *request);

/* Allocates a request for a send, a receive or both, and issues it: it may be complete then. Where that fails it is
 * freed. */
int kolo_request_create_transfer(kolo_request **request, const char *function, kolo_comm *comm);
int kolo_request_issue_transfer(kolo_request *request, const char *function);

/* Whether a wait for it has nothing to do, not even before it. */
static inline bool kolo_request_is_over(const kolo_request *request) {
    return kolo_request_is_done(request) && !request->carries;
}

/* Under the common lock: the queue that has something to be carried out before a wait for the request ends; NULL: there
 * is none, and the queue may be gone. any: before a wait for it or others, to which all collectives belong. */
struct kolo_queue *kolo_queue_before(const kolo_request *request, bool any);

/* Under the common lock, which it may give up meanwhile: carries out what there is to do before a wait for the request
 * ends. */
void kolo_queue_carry_out(const kolo_request *request);

/* Under the common lock, in a queue of kolo_queue_before for that request or, if it is NULL, for any: carries out a
 * collective, takes transfers as far as they get, or waits for whoever does; `waits`: until something is complete.
 * False: the lock was given up, and nothing carried out. */
bool kolo_queue_go_on(struct kolo_queue *queue, const kolo_request *request, bool waits);

/* Under the common lock: sleeps until somebody has completed a request, or for KOLO_INTERRUPT_NS. The program's own
 * check is asked meanwhile; whoever carries out something in the queue then ends its wait by what that says. `request`:
 * one for which the caller waits, which is not complete; NULL: the caller is in another call on the communicator. */
void kolo_queue_await_completion(struct kolo_queue *queue, const kolo_request *request);

/* Under the common lock: has the progress thread, if there is one, carry out all requests up to that one now. */
void kolo_queue_urge(struct kolo_queue *queue, const kolo_request *request);

/* Allocates the queue of a communicator that has none yet. */
int kolo_queue_create(kolo_comm *comm);

/* Ends the background: all requests complete with that status and message, and the progress thread ends. The
 * communicator is about to be destroyed, or is broken. Waits for nobody: the request that is being carried out
 * completes when that is over, which for the progress thread is soon. */
void kolo_queue_end(kolo_comm *comm, int status, const char *message);

/* Waits until that is so, and nobody else uses the communicator. */
void kolo_queue_join(kolo_comm *comm);

/* The communicator's counters. What another thread is carrying out is not counted yet. */
void kolo_queue_stats(const kolo_comm *comm, kolo_stats *stats);

/* Frees the queue of a communicator that is about to be freed. */
void kolo_queue_free(kolo_comm *comm);

/* The part of kolo_get_ready where the communicator is not. */
__attribute__((cold)) int kolo_get_ready_slowly(const char *function, kolo_comm *comm);

/* Whether requests are in flight. If none is, nobody else uses the communicator on return. */
bool kolo_queue_is_busy(const kolo_comm *comm);

static inline bool kolo_is_ready(const kolo_comm *comm) {
    return __builtin_expect(comm && kolo_load_relaxed(&comm->token->ready), 1);
}

/* A collective, a send or a receive that is not in the background begins with this where the communicator is not ready,
 * and ends with the next: collectives in flight are carried out first. Fails if the communicator cannot be used. */
__attribute__((cold)) int kolo_queue_claim(const char *function, kolo_comm *comm, bool for_collective);
__attribute__((cold)) void kolo_queue_release(kolo_comm *comm, int status);

/* Every other call that is not in the background begins with this: if requests are in flight they are carried out
 * first. Fails if the communicator cannot be used. */
static inline int kolo_get_ready(const char *function, kolo_comm *comm) {
    return kolo_is_ready(comm) ? 0 : kolo_get_ready_slowly(function, comm);
}

#endif
