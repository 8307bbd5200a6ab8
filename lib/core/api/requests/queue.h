/* The requests of a communicator, in the order of issue, and the threads that carry them out.
 *
 * Who does what. The thread that uses the communicator issues a request, at the queue's end. A thread that finds
 * `running` false carries out the request at the head: the thread that issued it, while it waits for a request or makes
 * a call that is not in the background; or the progress thread, where the communicator has one. The thread that sets
 * `running` owns the communicator until it clears `running`. It passes the communicator on under the lock.
 *
 * Transfers. Sends and receives, the transfers, are in a list of their own, and all in flight at once. A thread that
 * owns the communicator puts them in flight and goes on with them: in waits of collectives, too (work_on). A thread
 * that is about to sleep in a wait also takes, for a moment, another communicator that no thread owns
 * (kolo_queue_elsewhere): the rank may be waiting for a message of that one. The progress thread stops waiting for
 * transfers when the communicator is needed for something else (call_thread).
 *
 * Other calls. A call that is not in the background first has the queue's collectives carried out. If it is a
 * collective, a send or a receive, it then owns the communicator until it is over (kolo_queue_claim), and the transfers
 * go on meanwhile; all other calls wait for the transfers, too (kolo_get_ready). So collectives happen in the order in
 * which they are made, and stamps and history see no difference. The common lock (sync/thread.h) guards all
 * queues: a forked child finds them consistent, each with its requests, which it can only free.
 *
 * Ends. A failure that breaks the communicator, its destruction and its abort complete all requests, in their order.
 * kolo_queue_end leaves the request that a thread is carrying out to that thread, which then completes it and all
 * behind it. A collective that is given up because its rank leaves fails on all ranks. That failure is published before
 * the buffers are the caller's again, since other ranks may be reading them.
 *
 * Lifetime. A thread may touch a queue and its communicator while it has the lock and knows of a request there that is
 * not complete, or while it carries something out. At other times they may be gone: a wait that gave up the lock looks
 * at its request first. Without a progress thread a wait for a message carries out the collectives before it, even
 * where the message is complete already, as it may be complete on one rank alone. It looks for its queue in the list.
 *
 * Deferral. A progress thread that has no processor but those of the ranks would take from their computing what it
 * gives to the call, and be in the way of the caller that comes for the result soon. So it defers a request until
 * DEFERRED_NS have passed, or a thread has asked about the request (kolo_request_test, kolo_request_wait_any, an
 * eventfd). It does not defer transfers, nor collectives beside them, as other ranks may wait for those. */
#pragma once

#include <pthread.h>

#include "api/arguments.h"
#include "comm/channels/transfer.h"

/* A transfer: one send, one receive, or both at once, made by a call or a request. */
struct kolo_transfer {
    kolo_comm *comm;
    kolo_request *request; /* which completes with the transfer, through `complete`; NULL: a call waits for it */
    void (*complete)(kolo_request *request, int status);
    struct kolo_sending sending;
    struct kolo_receiving receiving;
    bool sends, receives;
    kolo_received *received; /* NULL: the caller does not want it */
    const char *function;    /* that has given the receive up */

    bool is_begun;
    uint32_t parts; /* in flight */
    int status;     /* once no part is in flight: 0, or KOLO_ERR_ARG */
};

/* Puts the transfer in flight. A part that needs no other rank is over at once, and so is a receive in flight that
 * takes what the rank sends itself. Errors: KOLO_ERR_NO_SPACE, and nothing was done; or the status with which the
 * communicator broke. */
int kolo_transfer_begin(struct kolo_transfer *transfer);

/* Whether the transfer receives from its own rank a message that the rank has not sent: while the rank waits, no other
 * thread can send it. If so, the transfer is in flight no more, with KOLO_ERR_ARG. */
bool kolo_transfer_give_up(struct kolo_transfer *transfer, const char *function);

/* Carries a request out. The thread owns the communicator. */
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
    int64_t issued_ns;    /* time of issue, by base/clock.h */
    kolo_atomic_u64 done; /* 1: `status` and `message` are set, and only the caller still knows the request */
    int status;
    char *message;      /* of a failure; NULL: there is none, or no memory for it */
    size_t *offsets[2]; /* begins of blocks to send, and to receive, by kolo_arguments_check */
    size_t numbers[];   /* the offsets and the caller's counts, or its list of tensors */
};

enum { KOLO_QUEUE_WHY_BYTES = sizeof((kolo_failure *)NULL)->message };

struct kolo_queue {
    struct kolo_queue *next; /* in the list of all queues */
    kolo_comm *comm;
    uint64_t made;                  /* a request of `comm` is in this queue if its order is larger */
    kolo_request *oldest, *newest;  /* collectives not complete */
    kolo_request *transfers;        /* sends and receives not complete */
    kolo_atomic_u64 unbegun;        /* number of transfers that are not in flight yet */
    int64_t look_ns;                /* when a test of a transfer looks next for peers that have ended */
    uint64_t turn;                  /* grows each time a wait of another communicator goes on with the transfers */
    bool running;                   /* a thread owns the communicator */
    bool awaits_any;                /* it waits for any request, which may be another queue's, by its rank's mailbox */
    kolo_stats stats;               /* while a thread runs: the communicator's counters from before */
    kolo_stats other_lanes;         /* likewise of its other lanes */
    int event_fd;                   /* of kolo_comm_eventfd; -1: the program has not asked for it */
    int ended;                      /* status of all requests that are not complete yet; 0: the queue goes on */
    char why[KOLO_QUEUE_WHY_BYTES]; /* message of these requests */

    /* The progress thread. */
    bool has_thread, defers;
    bool thread_sleeps;     /* the thread sleeps until its bell rings; otherwise it looks by itself again */
    bool thread_transfers;  /* the thread waits for transfers, by its rank's mailbox */
    bool wanted;            /* another thread is about to take the communicator */
    kolo_atomic_u64 called; /* 1: the thread is to look for something else to do */
    uint64_t urged;         /* requests up to this one, by their order, are not deferred */
    pthread_t thread;
    kolo_bell bell;                                                  /* rung when the thread has something to do */
    int (*check)(kolo_waiter *waiter, const struct kolo_wait *wait); /* the communicator's own, see queue.c */
};

static inline bool kolo_request_is_done(const kolo_request *request) {
    return kolo_load_acquire(&request->done); /* pairs with complete */
}

/* The work of all waits, see struct kolo_waiter: goes on with transfers of another communicator that no thread owns. */
int64_t kolo_queue_elsewhere(kolo_waiter *waiter);

/* Allocates a request for a call of `function`, and for a communicator's first request the queue. */
int kolo_request_create(kolo_request **request, const char *function, const struct kolo_descriptor *descriptor,
                        kolo_comm *comm, kolo_carry_out_fn *carry_out, size_t ntensors);

/* Issues a request for a checked call, with copies of its counts or tensors. Frees the request on failure. */
int kolo_request_issue(kolo_request *request, const char *function, const struct kolo_arguments *call);

void kolo_request_free(kolo_request *request);

/* Allocate a request for a send, a receive or both, and issue it: it may be complete then, and on failure is freed. */
int kolo_request_create_transfer(kolo_request **request, const char *function, kolo_comm *comm);
int kolo_request_issue_transfer(kolo_request *request, const char *function);

/* Whether a wait for the request has nothing to do, nor anything before the request. */
static inline bool kolo_request_is_over(const kolo_request *request) {
    return kolo_request_is_done(request) && !request->carries;
}

/* The queue that has something to be carried out before a wait for the request ends; NULL: there is none, and the queue
 * may be gone. The caller has the common lock. any: before a wait for this or others. */
struct kolo_queue *kolo_queue_before(const kolo_request *request, bool any);

/* Carries out what comes before the end of a wait for the request. The caller's common lock is given up meanwhile. */
void kolo_queue_carry_out(const kolo_request *request);

/* Carries out a collective, advances transfers as far as they get, or waits for the thread that does. The caller has
 * the common lock; the queue is that of kolo_queue_before for this request. any: for any, of which this is the first;
 * NULL: for all of the queue. `waits`: until something is complete. False: the lock was given up, and nothing carried
 * out. */
bool kolo_queue_go_on(struct kolo_queue *queue, const kolo_request *request, bool any, bool waits);

/* Sleeps until a thread has completed a request, or for KOLO_INTERRUPT_NS. The caller has the common lock. The
 * program's own check is asked meanwhile; a thread that carries out something in the queue then ends its wait by the
 * answer. `request`: one for which the caller waits, which is not complete; NULL: the caller is in another call. began:
 * of the wait, in the trace; 0: now. */
void kolo_queue_await_completion(struct kolo_queue *queue, const kolo_request *request, uint64_t began);

/* Ends what that check has said to this thread, whose wait is over. The caller has the common lock. */
void kolo_queue_forget_answers(void);

/* Makes the progress thread, if any, carry out all requests up to that one now. The caller has the common lock. */
void kolo_queue_urge(struct kolo_queue *queue, const kolo_request *request);

/* Allocates the queue of a communicator that has none yet. */
int kolo_queue_create(kolo_comm *comm);

/* Ends the background: completes all requests with that status and message, and ends the progress thread. The
 * communicator is about to be destroyed, or is broken. Waits for no thread: the request that a thread is carrying out
 * completes when that is over, which for the progress thread is soon. */
void kolo_queue_end(kolo_comm *comm, int status, const char *message);

/* Waits until the background has ended, and no other thread uses the communicator. */
void kolo_queue_join(kolo_comm *comm);

/* The communicator's counters. They do not yet have what another thread is carrying out. */
void kolo_queue_stats(const kolo_comm *comm, kolo_stats *stats);

/* Frees the queue of a communicator that is about to be freed. */
void kolo_queue_free(kolo_comm *comm);

/* The part of kolo_get_ready for a communicator that is not ready. */
__attribute__((cold)) int kolo_get_ready_slowly(const char *function, kolo_comm *comm);

/* Whether requests are in flight. If none is, no other thread uses the communicator on return. */
bool kolo_queue_is_busy(const kolo_comm *comm);

static inline bool kolo_is_ready(const kolo_comm *comm) {
    return __builtin_expect(comm && kolo_load_relaxed(&comm->token->ready), 1);
}

/* Begins a collective, a send or a receive that is not in the background, where the communicator is not ready; the next
 * function ends it. Carries out the collectives in flight first. Fails if the communicator cannot be used. */
__attribute__((cold)) int kolo_queue_claim(const char *function, kolo_comm *comm, bool for_collective);
__attribute__((cold)) void kolo_queue_release(kolo_comm *comm, int status);

/* Begins every other call that is not in the background: carries out the requests in flight, or fails. */
static inline int kolo_get_ready(const char *function, kolo_comm *comm) {
    return kolo_is_ready(comm) ? 0 : kolo_get_ready_slowly(function, comm);
}
