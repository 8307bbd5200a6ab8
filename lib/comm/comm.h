/* A communicator as its own rank holds it. What ranks share is in shm/layout.h. */
#ifndef KOLO_COMM_COMM_H
#define KOLO_COMM_COMM_H

#include <stdbool.h>
#include <stdint.h>

#include "kolo.h"
#include "base/log.h"
#include "comm/step/heap.h"
#include "comm/failure/liveness.h"
#include "comm/step/oversubscription.h"
#include "comm/creation/options.h"
#include "comm/nodes.h"
#include "reduce/reducer.h"
#include "shm/segment.h"
#include "sync/wait.h"

/* A page of its own that a forked child finds zeroed, so that using an inherited communicator costs one look here. */
struct kolo_token {
    bool usable; /* false too once the communicator is broken */
    bool ours;   /* false in a forked child only */
};

/* What is folded, and passed on, at once: the pieces of two inputs, of the result and of where it goes fit a first
 * cache. Pieces of 16 KiB and more take 5 to 10 % longer, up to 20 in buffers of kolo_alloc. */
#define KOLO_PIECE_BYTES 8192
/* The same where the results of buffers of kolo_alloc are stored past the caches: each stream is left less often.
 * Pieces of 8 KiB take 6 to 15 % longer. */
#define KOLO_STREAMED_PIECE_BYTES 32768

/* Warnings about long waits, see comm/failure/progress_report.h. */
struct kolo_stall {
    int64_t warn_ns; /* of one wait, before the first; 0: never */
    int64_t next_ns; /* of the wait last warned about */
    uint64_t wait;   /* which one that was, as waiter.slept counts them */
};

/* A call of steps that this rank has made, see comm/step/progress.h. */
struct kolo_past_steps {
    uint64_t step; /* steps of all calls before it */
    uint64_t stamp;
    uint64_t line_rounds; /* when it ended */
};

/* Instead of a rank: the node's proxy, see internode/proxy.h. */
#define KOLO_PEER_PROXY UINT32_MAX

struct kolo_comm {
    uint32_t rank; /* among those of this node, which is what all of this library but messages goes by */
    uint32_t size; /* of this node */
    uint32_t global_rank;
    uint32_t global_size;             /* of all nodes */
    const struct kolo_nodes *nodes;   /* who is where; NULL: there is one node, and so the next two mean nothing */
    uint32_t node;                    /* this one */
    struct kolo_internode *internode; /* what the layer that connects nodes has of it */
    const struct kolo_layer_above *above;
    struct kolo_token *token;
    const kolo_reducer *reducer;
    struct kolo_segment segment;       /* header is NULL with one rank on one node */
    struct kolo_shared_signal *signal; /* this rank's, as is the next */
    struct kolo_shared_history *history;
    uint64_t recorded;            /* the call whose record in the history is open */
    uint64_t recorded_longest_ns; /* its longest wait so far */

    /* See comm/step/progress.h. */
    uint64_t calls;                           /* collectives begun */
    uint64_t call;                            /* what the present one is: kolo_call_word */
    uint64_t stamp;                           /* what all of them were, mixed */
    uint64_t step;                            /* steps of all calls before the present one */
    uint64_t ticket;                          /* slot uses of all calls before the present one */
    struct kolo_past_steps past[KOLO_STAMPS]; /* [c % KOLO_STAMPS]: call c, the last ones */
    uint64_t slot_free[KOLO_SLOTS];           /* the step at which all its readers are done with what a slot held */
    const uint64_t *slot_readers[KOLO_SLOTS]; /* a bit a rank; NULL: all */
    uint64_t *peer_steps;                     /* one a rank: how far it is known to have got */
    uint64_t line_rounds;                     /* see algo/lines.h */
    uint64_t tree_readers[KOLO_RANK_WORDS];   /* see algo/tree.c */

    const void **sources; /* one a rank: inputs of a fold */
    uint8_t **targets;    /* one a rank: where a result goes that all have mapped */
    uint8_t *stage;       /* KOLO_STREAMED_PIECE_BYTES for a piece of a result on its way to more than one place */
    uint8_t *unpacked;    /* one set of lines' payload a rank */

    struct kolo_heap heap; /* buffers of kolo_alloc */

    struct kolo_shared_settings settings; /* a private copy of the header's */
    size_t lines_bytes_end;               /* messages below it go straight to lines; 0: none does */
    kolo_waiter waiter;
    struct kolo_oversubscription oversubscription;
    struct kolo_liveness liveness;
    bool is_blind; /* cannot see whether some rank lives, see comm/failure/watchdog.h */
    struct kolo_stall stall;
    kolo_atomic_u64 user; /* thread that is in a call; 0: none. Of builds with assertions only, see api/checks.h */
    kolo_log_level log_level;
    kolo_stats stats;
    struct kolo_settings origin; /* what it was created with */

    /* See comm/creation/shrink.c and comm/creation/other_nodes.h. */
    struct kolo_listener *listener;      /* that a leader keeps; NULL: none */
    uint64_t shrink_generation;          /* the last one that this rank took part in */
    uint64_t survivors[KOLO_RANK_WORDS]; /* a bit for each rank that was left then; before the first, all */
    bool shrunk;                         /* a communicator has come of it */
};

/* The rank, among those of all nodes, of rank `rank` of this one. */
static inline uint32_t kolo_rank_global(const kolo_comm *comm, uint32_t rank) {
    return comm->nodes ? kolo_nodes_rank(comm->nodes, comm->node, rank) : rank;
}

/* Of this node's ranks, whom a wait for `peer` is for: the proxy is in the leader. */
static inline uint32_t kolo_peer_rank(uint32_t peer) {
    return peer == KOLO_PEER_PROXY ? 0 : peer;
}

/* Frees what creation allocated, whatever part of it is there. The segment is left or, in a forked child, forgotten. */
void kolo_comm_free(kolo_comm *comm);

#endif
