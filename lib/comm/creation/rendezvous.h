/* How the ranks of a job find each other: the job file.
 *
 * By name: rank 0 makes a file without a name in /dev/shm, fills in its header and then links it to its name, so that
 * whoever opens the name finds a complete header in it; a name that exists already and whose creator is dead is removed
 * first. The others open the name, again and again until it is there and its creator lives. Rank 0 removes the name
 * when all are attached. By descriptor (kolorun): the file is there, empty, and has no name; rank 0 fills it.
 *
 * One file serves one creation after another. Each has a number, the epoch, which every rank counts for itself in its
 * job member. A creation goes: every rank registers (pid, start time, epoch); rank 0 allocates the segment and offers
 * it; the others map it, write their shared member and say `attached`; rank 0, when all have, says that it is complete.
 * How that ends, whoever dies or gives up when, is told in comm/creation/outcome.h. */
#ifndef KOLO_COMM_CREATION_RENDEZVOUS_H
#define KOLO_COMM_CREATION_RENDEZVOUS_H

#include "base/awake.h"
#include "comm/creation/options.h"
#include "comm/creation/other_nodes.h"
#include "shm/segment.h"

#define KOLO_JOB_DIRECTORY "/dev/shm"
#define KOLO_JOB_PATH      KOLO_JOB_DIRECTORY "/kolo-%u-" /* of a user's jobs, before the job's name */

struct kolo_job {
    const struct kolo_settings *settings;
    struct kolo_remote_ranks *remote; /* NULL: there is one node */
    struct kolo_rejoin *rejoin;       /* NULL: none */
    uint32_t rank;
    uint32_t ranks;
    int fd;
    struct kolo_job_header *header; /* NULL: not yet mapped */
    struct kolo_job_member *members;
    size_t bytes;
    char path[KOLO_JOB_NAME_BYTES + 64]; /* "" without a name */
    bool linked;                         /* the name exists and is this rank's to remove */
    int64_t linked_ns;                   /* since when */
    bool guarded;                        /* fd's open file description is this rank's alone: see shm/guard.h */
    uint64_t own_namespace;              /* see comm/failure/process.h */
    uint64_t epoch;                      /* 0: not registered */
    bool was_nameless;                   /* once there was no name when this rank looked for it */
    struct kolo_awake *awake;            /* by which the next two are: that of `remote` or its own */
    struct kolo_awake own_awake;
    int64_t deadline_ns;
    int64_t look_ns;  /* when to look next at what is not for the watchdog */
    int64_t pause_ns; /* the last one, while there is no bell to sleep at */
    uint32_t rings;   /* of this rank's bell, before it last looked at what it waits for */
    bool has_slept;   /* there */
    int64_t overslept_ns;
    bool is_watchdog; /* this rank was the last time it looked, see comm/failure/watchdog.h */
    bool is_blind;    /* nothing tells of some rank whether it lives */
};

/* Opens (rank 0: makes) the job file and registers this rank. Of *job, remote and rejoin are the caller's
 * to set before. The job must be closed even where this fails. KOLO_ERR_TIMEOUT, MISMATCH, VERSION, NO_SPACE, SYSTEM.
 */
int kolo_job_open(struct kolo_job *job, const struct kolo_settings *settings);

/* The number, among all nodes, of this one's rank `rank`, for messages. */
uint32_t kolo_job_rank(const struct kolo_job *job, uint32_t rank);

/* Reads the header of the file behind fd: false where it holds no complete one. */
bool kolo_job_header_read(int fd, struct kolo_job_header *header);

/* False if the process that made that file has ended; true too where nothing tells. */
bool kolo_job_creator_alive(uint64_t own_namespace, int fd, const struct kolo_job_header *header);

/* Removes the name `path` if it still names the file behind fd: 0 or a negative errno. A lock on the file makes the
 * look and the removal one step among those who would remove it, so that nobody removes the name of the file that
 * replaces it. */
int kolo_job_name_remove_of(const char *path, int fd);

/* Removes the name, if it is this rank's. */
void kolo_job_unlink(struct kolo_job *job);

/* Unmaps and closes. */
void kolo_job_close(struct kolo_job *job);

#endif
