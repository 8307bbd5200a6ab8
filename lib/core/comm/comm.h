/* A communicator, as one rank holds it. The memory that ranks share is in shm/layout.h. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "kolo.h"
#include "comm/channels/channels.h"
#include "comm/step/heap.h"
#include "comm/failure/liveness.h"
#include "comm/step/call.h"
#include "comm/creation/options.h"
#include "comm/ranks.h"
#include "reduce/reducer.h"
#include "shm/segment.h"
#include "sync/trace.h"

/* The token of a communicator: a page of its own that a forked child finds zeroed, so that one load tells it. */
struct kolo_token {
    bool ours;              /* false in a forked child only */
    kolo_atomic_u64 usable; /* also 0 once the communicator is broken, which any thread of the rank may do */
    kolo_atomic_u64 ready; /* 1: a call may begin at once: usable, and no request in flight, see api/requests/queue.h */
};

/* The state of warnings about long waits, see comm/failure/findings.h. */
struct kolo_stall {
    int64_t warn_ns; /* of a wait, before the first warning; 0: never */
    int64_t next_ns; /* of the wait last warned about */
    uint64_t wait;   /* the number of that wait, as waiter.slept counts them */
};

/* The ranks that run on this one's processor, see comm/step/progress.h. */
struct kolo_oversubscription {
    uint64_t processor;              /* as in kolo_shared_member */
    uint32_t next;                   /* the rank to look at next */
    uint32_t unknown;                /* ranks not looked at since this one came to the processor */
    uint64_t ranks[KOLO_RANK_WORDS]; /* a bit for each that last waited on this processor */
};

/* This value in place of a rank means the node's proxy, see internode/proxy.h. */
#define KOLO_PEER_PROXY UINT32_MAX

/* The program's hook of that name (kolo_hooks). Threads other than the one that set it only look whether it is theirs.
 */
struct kolo_interrupt {
    int (*check)(void *context); /* NULL: none */
    void *context;
    int thread;       /* the thread in which the check is called */
    int64_t asked_ns; /* when it was called last */
    kolo_atomic_u64
        code; /* the check's result while that thread waited for another one of this rank, whose wait it ends */
};

/* What another part of the library still does for other ranks, after this rank has left it. kolo_comm_destroy ends it
 * first, which may block; in a forked child it only frees the child's copy. */
struct kolo_remnant {
    struct kolo_remnant *next;
    void (*end)(void *owner);
    void *owner;
};

struct kolo_comm {
    uint32_t rank; /* the local rank, which all of this library uses except in messages */
    uint32_t size; /* of this node */
    uint32_t global_rank;
    uint32_t global_size; /* of all nodes */
    const struct kolo_nodes
        *nodes;    /* the node of each rank; NULL: there is one, and the next two fields mean nothing */
    uint32_t node; /* this one */
    struct kolo_internode *internode; /* the state of the layer that connects nodes */
    const struct kolo_layer_above *above;
    struct kolo_token *token;
    kolo_comm *first;         /* lane 0 of its lanes, see api/lanes/lanes.h; itself, if it is lane 0 */
    struct kolo_lanes *lanes; /* in lane 0: all lanes; NULL: there is one */
    bool is_lane;             /* kolo_comm_lane hands it out: it takes blocking collectives alone */
    const kolo_reducer *reducer;
    struct kolo_segment segment;       /* header is NULL with one rank on one node */
    struct kolo_shared_signal *signal; /* this rank's, as is the next */
    struct kolo_shared_history *history;
    size_t lines_bytes_end[KOLO_COLLECTIVES]; /* messages of fewer bytes go straight to lines; 0: none do */
    struct kolo_call_state call;
    kolo_waiter waiter;
    kolo_stats stats;
    struct kolo_heap heap;         /* buffers of kolo_alloc; lane 0 has those of all lanes */
    struct kolo_queue *queue;      /* calls in the background, see api/requests/queue.h; NULL: there was none yet */
    kolo_atomic_u64 stopping;      /* 1: the thread that carries out such a call gives it up */
    struct kolo_remnant *remnants; /* the latest first; NULL: none */

    struct kolo_shared_settings settings; /* a private copy of the header's */
    struct kolo_oversubscription oversubscription;
    struct kolo_liveness liveness;
    bool is_blind; /* there is a rank of which it cannot see whether it lives, see comm/failure/watchdog.h */
    struct kolo_stall stall;
    kolo_atomic_u64
        user; /* the thread that is in a call; 0: none. In builds with assertions only, see api/arguments.h */
    kolo_atomic_u64 failure; /* in lane 0, where there is no segment: as the header's; failure_code belongs to it */
    int64_t failure_code;
    kolo_atomic_u64 has_difference; /* in lane 0: 1: `difference` is complete, and stays as it is */
    kolo_atomic_u64 has_record;     /* in lane 0: 1: see comm/failure/record.c */
    uint64_t identity;              /* a random number of all its ranks; lanes have others */
    uint64_t bucket_sets;           /* kolo_bucket_create has made so many: ranks tell them apart by number */
    char difference[224];           /* "; counts[3] is 12 on rank 1, 16 on rank 0" */
    kolo_log_level log_level;
    struct kolo_settings origin; /* its settings at creation */
    struct kolo_interrupt interrupt;
    struct kolo_channels channels;

    /* See comm/creation/agreement.h and comm/creation/other_nodes.h. */
    struct kolo_listener *listener;      /* kept by a leader; NULL: none */
    uint64_t shrink_generation;          /* the last one that this rank took part in */
    uint64_t survivors[KOLO_RANK_WORDS]; /* a bit for each rank that was left after it; at first, all */
    bool shrunk;                         /* shrink has made a communicator */
};

static inline bool kolo_comm_is_usable(const kolo_comm *comm) {
    return kolo_load_relaxed(&comm->token->usable);
}

/* Breaks this rank's communicator, after a failure or an abort. */
static inline void kolo_comm_break(kolo_comm *comm) {
    kolo_store_relaxed(&comm->token->usable, 0);
    kolo_fence_full(); /* pairs with kolo_comm_set_ready */
    kolo_store_relaxed(&comm->token->ready, 0);
}

/* The thread that owns the communicator calls this. A communicator that another thread breaks meanwhile does not stay
 * ready: of the two threads, the later to pass its fence sees what the other has stored. */
static inline void kolo_comm_set_ready(kolo_comm *comm, bool is_ready) {
    kolo_store_relaxed(&comm->token->ready, is_ready);
    if (!is_ready)
        return;
    kolo_fence_full();
    if (!kolo_comm_is_usable(comm))
        kolo_store_relaxed(&comm->token->ready, 0);
}

/* Returns the word in which the failure that breaks all lanes is published. */
static inline kolo_atomic_u64 *kolo_comm_failure_word(const kolo_comm *comm) {
    kolo_comm *first = comm->first;
    return first->segment.header ? &first->segment.header->failure : &first->failure;
}

/* Returns the rank among all nodes of local rank `rank` of this node. */
static inline uint32_t kolo_rank_global(const kolo_comm *comm, uint32_t rank) {
    return comm->nodes ? kolo_nodes_rank(comm->nodes, comm->node, rank) : rank;
}

/* Returns the local rank that a wait for `peer` waits for: the proxy runs in the leader, local rank 0. */
static inline uint32_t kolo_peer_rank(uint32_t peer) {
    return peer == KOLO_PEER_PROXY ? 0 : peer;
}

/* Frees what creation has allocated so far. Leaves the segment or, in a forked child, only closes its descriptor. */
void kolo_comm_free(kolo_comm *comm);

/* Returns the key of the present call, or of the last one. */
static inline struct kolo_call_key kolo_call_key_now(const kolo_comm *comm) {
    return kolo_call_key_load(comm->history->keys[comm->call.number % (2 * KOLO_HISTORY)]);
}
