/* The cases of the sweep: a team that creates a communicator, makes a few calls and destroys it, with faults counted in
 * one of these three phases; or that breaks it and goes on with what is left of it, with faults counted meanwhile; or
 * that takes in joiners, with faults counted in the calls by which it does. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kolo.h"
#include "kolo_fusion.h"

enum phase {
    PHASE_CREATE,
    PHASE_CALLS,
    PHASE_DESTROY,
    PHASE_SHRINK,
    PHASE_GROW /* kolo_comm_grow and kolo_comm_join */
};

enum script {
    SCRIPT_ALLREDUCE,  /* three all-reduces */
    SCRIPT_LANES,      /* the same by a thread of the rank's own for each lane */
    SCRIPT_BROADCAST,  /* three broadcasts from rank 0 */
    SCRIPT_ALLGATHER,  /* three all-gathers */
    SCRIPT_FAMILY,     /* three calls of the case's collective, see fault_calls.h */
    SCRIPT_BARRIER,    /* three barriers */
    SCRIPT_CHANNELS,   /* exchanges round the ring of ranks, and messages to rank 0, which takes them from any */
    SCRIPT_COMPRESSED, /* three steps of buckets with the case's compression */
    SCRIPT_OPTIMIZER,  /* three steps of an optimizer, with a segment that has begun before */
    SCRIPT_REQUESTS, /* an all-reduce, and then three in flight, of which the first is waited for, then the next ones */
    SCRIPT_BUFFERS,  /* kolo_alloc, all-reduces in its buffers, an all-reduce half out of them, kolo_free */
    SCRIPT_SHARE,    /* kolo_share, a buffer that all have, all-reduces from the one into the other, kolo_free */
    SCRIPT_SPLIT,    /* kolo_comm_dup and kolo_comm_split, and sums in what comes of them */
    SCRIPT_GROW,     /* kolo_comm_listen, and kolo_comm_grow where nobody waits */
    SCRIPT_KEEP,     /* buffers that are there when the communicator is destroyed */
    SCRIPT_KEEP_SHARED /* the same with those of SCRIPT_SHARE */
};

/* What else happens. `actor` below is the rank that does it. */
enum twist {
    TWIST_NONE,
    TWIST_LATE,         /* the actor comes late, so that the victim waits until it sleeps */
    TWIST_RINGS,        /* the victim comes late, and wakes those that sleep */
    TWIST_ABORTS,       /* the victim calls kolo_comm_abort */
    TWIST_SECOND,       /* the actor dies, and then the victim while it finds that out and publishes it */
    TWIST_SECOND_EARLY, /* the same during creation */
    TWIST_REPLACES,     /* the job's name is there, left by a rank 0 that died */
    TWIST_AWAITED,      /* rank 0 comes late, when the others look for it */
    TWIST_GIVES_UP,     /* rank 0 has little time, and gives up before the others come */
    TWIST_PAUSES,  /* the actor pauses in the creation in a call: once it is attached, or before it meets the others;
                      with several nodes rank 0, once they have agreed that all are ready */
    TWIST_FOREIGN, /* the last rank comes late, and finds another version in the job file */

    /* Of PHASE_SHRINK, where rank 0 breaks the communicator by an abort unless: */
    TWIST_DIES,        /* the actor breaks it, by its death; another one pauses before it destroys it */
    TWIST_SECOND_VIEW, /* the actor dies in the shrink, and the victim finds that out, as another rank pauses then */
    TWIST_LACKS        /* the victim has no descriptor left: the first shrink fails on all */
};

/* Rounds of PHASE_SHRINK, and of PHASE_GROW once a sum has failed: in each a rank shrinks, CASE_RECOVERY_STEP, and then
 * sums, the next step, in the communicator that has come of it, until a sum succeeds. */
enum {
    CASE_CREATE_STEP = 0,
    CASE_TWIST_STEP = 2,
    CASE_PROBES = 3,
    CASE_GROW_STEP = 2, /* kolo_comm_grow or kolo_comm_join, and then a sum, the next step */
    CASE_GROW_MS = 500, /* longest wait of both for all to be ready */
    CASE_RECOVERY_STEP = 10,
    CASE_ROUNDS = 4,
    CASE_NODES_MAX = 3,
    CASE_COUNT_MAX = 8192,
    CASE_SLOT_BYTES = 4096 /* the smallest */
};

struct fault_case {
    const char *name;
    enum phase phase;
    enum script script;
    enum twist twist;
    int ranks;
    int joiners; /* the last of them, of PHASE_GROW */
    kolo_algorithm algorithm;
    kolo_collective collective;   /* of SCRIPT_FAMILY */
    int root;                     /* of that */
    kolo_compression compression; /* of SCRIPT_COMPRESSED */
    size_t count;                 /* of int32, of the message or of a block */
    const char *levels;           /* KOLO_ALGO, with the levels of a tree; NULL: auto */
    int nodes;                    /* among which the ranks are divided evenly, in order; 0: no network */
    bool lopsided;                /* not evenly: each node but the first has one rank */
    const char *engine;           /* KOLO_NET */
    const char *exchange;         /* KOLO_NET_ALGO */
    bool rank_order;              /* KOLO_NET_ORDER=rank, and all-reduces of floats */
    int threads;                  /* threads:N of KOLO_NET; 0: one */
    int lanes;                    /* kolo_options.threads; 0: one */
    size_t slot_bytes;            /* 0: the smallest, whose messages between nodes are small ones */
    bool single_copy; /* KOLO_SINGLE_COPY=1: scatter, allgather and all-to-all read out of the other ranks */
    bool by_descriptor;
    bool has_thread; /* a progress thread, which carries out requests at once */
    bool hides;      /* ranks may not look into each other's processes */
    bool beats;      /* late ones are so late that their nodes send heartbeats meanwhile */
    bool sleeps;     /* KOLO_WAIT=sleep: on a busy machine, yielding alone may outlast a late rank */
};

enum { FAULT_CASES_MAX = 300 };

extern struct fault_case fault_cases[FAULT_CASES_MAX];
extern int fault_cases_count;

/* Fills the list, before all else. */
void fault_cases_make(void);

/* How the ranks of a run behave beyond the case. */
struct run_mode {
    const struct fault_case *what;
    int actor; /* see enum twist; -1: none */
    int dying; /* rank that dies before PHASE_SHRINK; -1: none */
    const char *job;
    int fd;                       /* -1: by name */
    int node_fds[CASE_NODES_MAX]; /* of a case of several nodes: what the ranks of each inherit */
    char rendezvous[32];
    int64_t timeout_ms;
    int64_t create_timeout_ms;
    void (*spoil)(kolo_comm *comm); /* a defect for the survivors; NULL: none. See fault_control.c */
};

/* Element `index` of what `rank` has to reduce in a step. */
int32_t case_value(int rank, int step, size_t index);

/* The node of a rank, and the rank that leads a node; 0 without a network. */
int case_node(const struct fault_case *what, int rank);
int case_leader(const struct fault_case *what, int node);

/* Who the actor is when `victim` is the victim. */
int case_actor(const struct fault_case *what, int victim);

/* Calls of the script, which are steps 1 and on; barriers that the survivors make follow them. */
int case_calls(const struct fault_case *what);

/* Whether the call of that step cannot end before all ranks have begun it, and done what others wait for; and whether
 * it may wait at all. */
bool case_joins(const struct fault_case *what, int step);
bool case_waits(const struct fault_case *what, int step);

/* Whether a rank may be further than its step says: its progress thread carries out the requests of later steps. */
bool case_runs_ahead(const struct fault_case *what);

/* Whether the script's calls do not join, and whether `rank` waits for `peer` in them. */
bool case_is_one_way(const struct fault_case *what);
bool case_waits_for(const struct fault_case *what, int rank, int peer);

/* Runs as `rank` and writes down in the board what came of it. */
void case_run(const struct run_mode *mode, int rank);
