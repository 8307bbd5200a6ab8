/* The outcome of a creation, and the waits in it: either every rank has a communicator, or all know why they have none.
 *
 * The outcome is one word of the job's header, `outcome`: how many creations are complete and, after a failure, why
 * there will be no more. Both kinds of writers use compare-and-swap from the word of the last creation:
 *   - Rank 0 counts a creation when all ranks have attached.
 *   - A rank that gives up writes the reason.
 * One of them is first, so a creation ends in the same way on all ranks. With several nodes rank 0 first marks that
 * word, and then tells the other nodes that this one is ready; from then on only rank 0 is a writer, and who finds it
 * dead or late.
 *
 * A rank gives up if it lacks memory or the like, before it attaches; or in a wait, at its deadline or when it finds
 * that a registered process is dead. Rank 0 counts as registered as soon as others can find the file that it has made
 * for the first creation: the file's header names its process.
 *
 * Versions. A rank of another version knows only the first lines of the header, which never change. It writes its rank
 * and version into `other_version`, and gives up. Ranks that wait find that there, and give up as well.
 *
 * comm/README.md, "How a creation ends", says who sleeps until when, who looks whether all live, what deaths leave. */
#pragma once

#include "comm/creation/other_nodes.h"

/* A creation under way, as one rank sees it. */
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

/* Waits for other ranks until there may be news. Returns 0, or the status with which to give up, with its message set.
 * The caller calls this again and again, and checks its condition between two calls. */
int kolo_job_wait(struct kolo_job *job);

/* A rank other than 0 calls this once it has said that it is attached. */
void kolo_job_arrive(struct kolo_job *job);

/* Ends the creation on all ranks with `status`, which it returns; the message is kept. A rank calls this before it has
 * said that it is attached; after that kolo_job_wait ends the creation, unless it is complete. */
int kolo_job_fail(struct kolo_job *job, int status);

/* Rank 0 calls this before it tells other nodes that its node is ready: from then on no rank of the node gives up,
 * unless rank 0 ends or is late. Returns 0, or the status of the creation's failure. */
int kolo_job_agree(struct kolo_job *job);

/* Rank 0 calls this when all are attached: ends the creation well on all ranks, or returns its failure's status. */
int kolo_job_complete(struct kolo_job *job);

/* Fails with the reason why this rank's creation has failed; 0 if it has not. */
int kolo_job_failure(const struct kolo_job *job);

/* Return whether this rank's creation is complete, and how many creations are complete. */
bool kolo_job_is_complete(const struct kolo_job *job);
uint64_t kolo_job_completed(const struct kolo_job *job);

/* A rank of another version than the header's calls this: writes that into the header, and returns KOLO_ERR_VERSION. */
int kolo_job_announce_version(const struct kolo_job *job);

/* Returns the rank at fault, once this rank's creation has failed. */
uint32_t kolo_job_culprit(const struct kolo_job *job);

/* Returns KOLO_ERR_PEER_DEAD, with a message. */
int kolo_job_fail_dead(const struct kolo_job *job, uint32_t rank, const struct kolo_shared_process *process);
