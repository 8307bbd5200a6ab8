/* The settings of a new communicator, from options, else environment, else defaults. All are checked. */
#pragma once

#include "kolo.h"
#include "base/status.h"
#include "comm/creation/launcher.h"
#include "cpu/levels.h"

#define KOLO_STREAMS_MAX    16 /* of a lane to one other node, beside the control stream */
#define KOLO_TIMEOUT_MS_MAX (INT64_C(1000) * 60 * 60 * 24 * 365)

typedef enum kolo_wait_mode { KOLO_WAIT_AUTO, KOLO_WAIT_SPIN, KOLO_WAIT_YIELD, KOLO_WAIT_SLEEP } kolo_wait_mode;

/* The engine that moves frames between nodes, see net/engine.h. */
typedef enum kolo_net_engine { KOLO_NET_ENGINE_AUTO, KOLO_NET_ENGINE_URING, KOLO_NET_ENGINE_POLL } kolo_net_engine;

/* The algorithm by which nodes reduce their partial results, see internode/exchange.h. */
typedef enum kolo_exchange {
    KOLO_EXCHANGE_AUTO,
    KOLO_EXCHANGE_MESH,    /* every node owns a slice */
    KOLO_EXCHANGE_RING,    /* 2(M-1) steps between neighbours */
    KOLO_EXCHANGE_TREE,    /* binomial, up and down */
    KOLO_EXCHANGE_CENTRAL, /* the first `servers` nodes own all slices, as parameter servers do */
    KOLO_EXCHANGES
} kolo_exchange;

/* For jobs on several machines. */
struct kolo_net_settings {
    char rendezvous[256];   /* "HOST:PORT" where ranks may be on several machines; "": all are on this one */
    kolo_net_engine engine; /* KOLO_NET: auto, uring, poll */
    uint32_t lanes;         /* threads:N of KOLO_NET: see internode/proxy.h, 1 to KOLO_LANES_MAX, default 1 */
    uint32_t streams;       /* streams:N: data sockets of a lane to each other node, 1 to 16, default 4 */
    kolo_exchange exchange; /* KOLO_NET_ALGO: auto, mesh, ring, tree, central */
    uint32_t servers;       /* servers:N: of `central`, at least 1; default 1 */
    bool half_on_wire;      /* wire:bf16: f32 travels as bf16; wire:none (default): as it is */
    bool rank_order;        /* KOLO_NET_ORDER=rank: the canonical order over all ranks; node (default): by nodes */
    bool any_part;          /* quorum:any: see internode/assembly/shrink_nodes.c; quorum:majority (default) */
    bool zero_copy;         /* zero_copy */
    int64_t silence_ns; /* KOLO_NET_SILENCE_MS: a node that sends nothing for so long counts as lost; default 10000 */
};

struct kolo_settings {
    struct kolo_place place;         /* rank and size known; job "" only with shm_fd >= 0, a rendezvous or one rank */
    int shm_fd;                      /* -1: by name */
    char title[KOLO_JOB_NAME_BYTES]; /* the job's name for tools, even if its ranks meet without a name; "": none */
    kolo_algorithm algorithm;
    kolo_wait_mode wait;
    kolo_log_level log_level;
    uint32_t features;          /* instruction sets that the reducer may use */
    size_t slot_bytes;          /* whole pages */
    uint64_t single_copy_bytes; /* KOLO_SINGLE_COPY, as struct kolo_tuning_question has it */
    bool tree_levels_given;
    uint32_t tree_levels[KOLO_LEVELS_MAX]; /* see cpu/levels.h */
    int64_t timeout_ns;                    /* KOLO_NEVER_NS: none */
    int64_t create_timeout_ns;
    int64_t stall_warn_ns; /* 0: never */
    bool progress;         /* a thread carries out calls in the background */
    uint32_t threads;      /* number of lanes, see api/lanes/lanes.h; in a lane's settings, of all lanes together */
    uint32_t lane;         /* the number of this lane */
    kolo_comm *first;      /* lane 0; NULL: this is lane 0 */
    struct kolo_net_settings net;
};

/* Reads a caller's options, of any version of kolo.h, into this version's struct; NULL: the defaults. KOLO_ERR_ARG. */
int kolo_options_read(kolo_options *options, const kolo_options *theirs);

/* Fills *settings from a caller's options, as above. KOLO_ERR_ARG, KOLO_ERR_UNSUPPORTED; the message has the value. */
int kolo_settings_resolve(struct kolo_settings *settings, const kolo_options *options);

/* Returns whether `job` can be a job's name. Reads at most KOLO_JOB_NAME_BYTES of it. */
bool kolo_settings_job_is_legal(const char *job);

/* Returns the default slot size for `ranks` ranks of `threads` lanes each. */
size_t kolo_settings_slot_bytes(uint32_t ranks, uint32_t threads);
