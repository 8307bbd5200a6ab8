/* A creation under way, as one rank sees it: see comm/creation/rendezvous.h and comm/creation/outcome.h. */
#ifndef KOLO_COMM_CREATION_CREATION_JOB_H
#define KOLO_COMM_CREATION_CREATION_JOB_H

#include "base/clock.h"
#include "comm/creation/options.h"
#include "comm/creation/other_nodes.h"
#include "shm/layout.h"

struct kolo_job {
    const struct kolo_settings *settings;
    struct kolo_remote_ranks *remote; /* NULL: there is one node */
    struct kolo_rejoin *rejoin;       /* NULL: none */
    uint32_t rank;
    uint32_t ranks;
    uint32_t global_rank; /* for messages */
    int fd;
    bool is_borrowed;               /* it is settings->shm_fd itself */
    struct kolo_job_header *header; /* NULL: not yet mapped */
    struct kolo_job_member *members;
    size_t bytes;
    char path[KOLO_JOB_NAME_BYTES + 64]; /* "" without a name */
    bool linked;                         /* the name exists and is this rank's to remove */
    int64_t linked_ns;                   /* the time at which it was made */
    bool guarded;                        /* only this rank uses fd's open file description: see shm/guard.h */
    uint64_t own_namespace;              /* see comm/failure/process.h */
    uint64_t epoch;                      /* 0: not registered */
    bool was_nameless;                   /* this rank has looked for the name at least once and found none */
    struct kolo_awake *awake;            /* the scale of the next two: that of `remote` or an own one */
    struct kolo_awake own_awake;
    int64_t deadline_ns;
    int64_t look_ns;  /* when to look next at what the watchdog does not look at */
    int64_t pause_ns; /* the last pause, while there is no bell to sleep at */
    uint32_t rings;   /* of this rank's bell, before it last looked at what it waits for */
    bool has_slept;   /* there */
    int64_t overslept_ns;
    bool is_watchdog; /* this rank was the watchdog when it last looked, see comm/failure/watchdog.h */
    uint32_t culprit; /* the rank at fault when this rank gave up its wait; else its own number */
    bool is_blind;    /* there is a rank of which nothing tells whether it lives */
};

/* Returns the global rank of this node's local rank `rank`, for messages. */
static inline uint32_t kolo_job_rank(const struct kolo_job *job, uint32_t rank) {
    return job->remote ? kolo_nodes_rank(job->remote->nodes, job->remote->node, rank) : rank;
}

#endif
