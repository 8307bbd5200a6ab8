/* kolo_watch: looking at running jobs from outside, for tools such as kolo-top.
 *
 * Any process may look at the communicators of jobs of its own user. It reads the segments through descriptors opened
 * for reading and maps nothing, so that it can change nothing, and no job waits for it or knows of it. What it reads is
 * not trusted: sizes, ranks and words are checked, and what makes no sense is left out.
 *
 * As in kolo.h, functions return 0 or a negative KOLO_ERR_*, with kolo_error_message() to tell more; structs begin with
 * their size, set by the caller to sizeof. Times are of CLOCK_MONOTONIC, in nanoseconds. A watch is used by one thread
 * at a time.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef KOLO_WATCH_H
#define KOLO_WATCH_H

#include "kolo.h"

#ifdef __cplusplus
extern "C" {
#endif

#define KOLO_WATCH_CALLS 64 /* last calls of a rank that can be seen */

typedef struct kolo_watch kolo_watch; /* communicators that were found, each with its last reading */

/* Looks for the communicators of `target`: the pid of a rank; or of what started ranks (kolorun, mpirun, a shell): then
 * those of all processes below it; or a job's name, KOLO_JOB. NULL: of all jobs of this user, of which there may be
 * none. Several in one process are all found; those of one rank have no segment, and are not. KOLO_ERR_ARG: there is no
 * such process, or none of kolo's there. KOLO_ERR_SYSTEM: it is another user's, or cannot be read. KOLO_ERR_VERSION: it
 * runs another version of kolo, which the message names. */
KOLO_API int kolo_watch_open(kolo_watch **watch, const char *target);

/* Looks again: lets go of the communicators that were over when they were read last, and adds those that have come
 * since, behind the others. Their numbers change. Errors as above, but only where none is left. */
KOLO_API int kolo_watch_search(kolo_watch *watch);

/* Closes; NULL is fine. */
KOLO_API void kolo_watch_close(kolo_watch *watch);

/* How many communicators were found. */
KOLO_API int kolo_watch_count(const kolo_watch *watch);

typedef struct kolo_watched_comm {
    size_t comm_bytes;      /* sizeof(kolo_watched_comm); set by the caller */
    char job[128];          /* the job's name: KOLO_JOB, or what the launcher calls it; "": it has none */
    int ranks;              /* those on this machine: 2 .. KOLO_RANKS_MAX, or from 1 where there are others elsewhere */
    uint64_t file;          /* inode and offset of its segment: tells it from others */
    uint64_t offset;        /* see file */
    uint64_t segment_bytes; /* size of its segment */
    int64_t read_ns;        /* when it was read */
    int over;               /* 1: all of its ranks have left or ended */
    int failure;            /* what broke it: status, rank and reporter as in kolo_failure; 0: nothing has */
    int failure_rank;
    int failure_reporter;
    double age_s; /* since the oldest of its ranks' processes was started; -1: none is left */
} kolo_watched_comm;

/* Reads communicator `index`, from 0, and keeps what it read for the functions below. KOLO_ERR_ARG: a wrong index or
 * comm_bytes. */
KOLO_API int kolo_watch_read(kolo_watch *watch, int index, kolo_watched_comm *comm);

typedef struct kolo_watched_call {
    size_t call_bytes;          /* sizeof(kolo_watched_call); set by the caller */
    uint64_t number;            /* of the rank's calls on this communicator, from 1 */
    kolo_collective collective; /* KOLO_COLLECTIVES: unknown */
    kolo_dtype dtype;
    kolo_op op;
    int root;
    uint64_t count;   /* of elements; of bytes for KOLO_ALLOC */
    int64_t began_ns; /* 0: not known. Times are kept of messages of 256 KiB or more, and of calls with a wait beyond */
    int64_t ended_ns; /* spinning: of those from the first such wait to the last. 0: not known, or not ended */
    int waited_for;   /* the rank of its longest wait beyond spinning; -1: there was none */
    int64_t waited_ns; /* how long that was */
} kolo_watched_call;

typedef struct kolo_watched_rank {
    size_t rank_bytes;       /* sizeof(kolo_watched_rank); set by the caller */
    int pid;                 /* 0: damaged */
    char process;            /* state of the process as in /proc: 'R', 'S', 'T', ...; 0: it has ended */
    int left;                /* 1: it has destroyed the communicator */
    uint64_t calls;          /* collectives begun */
    uint64_t calls_ended;    /* of those, ended: one less than `calls` within a call */
    uint64_t steps;          /* of its algorithms, in all calls: how far it has got */
    uint64_t payload_bytes;  /* as kolo_stats, of the calls that have ended, as are the next two */
    uint64_t sent_bytes;     /* data put into the segment */
    uint64_t received_bytes; /* data read from it */
    uint64_t waited_ns;      /* in waits beyond spinning that are over */
    int waits_for;           /* the rank for which it is waiting beyond spinning; -1: none */
    int64_t waits_since_ns;  /* since when */
} kolo_watched_rank;

/* A rank, by the last reading of communicator `index`. KOLO_ERR_ARG: a wrong index, rank or rank_bytes. */
KOLO_API int kolo_watch_rank(const kolo_watch *watch, int index, int rank, kolo_watched_rank *seen);

/* Call number `number` of a rank, likewise: one of its last KOLO_WATCH_CALLS. KOLO_ERR_ARG: it is none of those. */
KOLO_API int kolo_watch_call(const kolo_watch *watch, int index, int rank, uint64_t number, kolo_watched_call *call);

#ifdef __cplusplus
}
#endif

#endif
