/* kolo_watch: looking at running jobs from outside, at their communicators and tables, for tools such as kolo-top.
 *
 * Any process may look at the communicators of its own user's jobs. It reads the segments through descriptors opened
 * for reading and maps nothing: it can change nothing, and no job waits for it or knows of it. What it reads is not
 * trusted: sizes, ranks and words are checked, and what makes no sense is left out.
 *
 * As in kolo.h, functions return 0 (kolo_watch_search: a count) or a negative KOLO_ERR_*, with kolo_error_message() to
 * tell more. Structs begin with their size, which the caller sets to sizeof; a NULL struct and a size that was not set
 * are KOLO_ERR_ARG. Times are of CLOCK_MONOTONIC, in nanoseconds. One thread at a time uses a watch. Nothing blocks,
 * beyond reading files.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef KOLO_WATCH_H
#define KOLO_WATCH_H

#include "kolo.h"

#define KOLO_WATCH_CALLS 64 /* last calls of a rank that can be seen */

typedef struct kolo_watch kolo_watch; /* communicators that were found, each with its last reading */

/* Makes a watch of `target`, which is one of
 *     - the pid of a rank;
 *     - the pid of a process that started ranks (kolorun, mpirun, a shell): those of all processes below it;
 *     - the name of a job, KOLO_JOB;
 *     - NULL: all jobs of this user, of which there may be none.
 * The caller owns *watch and ends it with kolo_watch_close. KOLO_ERR_ARG: watch is NULL, or target none of these.
 * KOLO_ERR_SYSTEM: out of memory. */
KOLO_API int kolo_watch_open(kolo_watch **watch, const char *target);

/* Looks for the target's communicators and tables, and returns how many communicators there are to read; *tables
 * becomes how many tables; NULL: not wanted. It finds a process's communicators except those of one rank, which have no
 * segment, and, beyond 32, those that met by names of their own. Later calls drop those that were over at their last
 * reading, and add new ones behind the others. So an index may change. It fails only if no communicator is left.
 * KOLO_ERR_ARG: there is no such process, or it has no communicator. KOLO_ERR_SYSTEM: it is another user's, or cannot
 * be read. KOLO_ERR_VERSION: it runs another version of kolo, which the message names. */
KOLO_API int kolo_watch_search(kolo_watch *watch, int *tables);

/* Closes the watch and frees it. NULL is fine. */
KOLO_API void kolo_watch_close(kolo_watch *watch);

typedef struct kolo_watched_comm {
    size_t comm_bytes;      /* sizeof(kolo_watched_comm); set by the caller */
    char job[128];          /* the job's name: KOLO_JOB, or the launcher's name for it; "": it has none */
    int ranks;              /* on this machine: 2 .. KOLO_RANKS_MAX, or from 1 if others are on other machines */
    uint64_t file;          /* inode of its segment's file */
    uint64_t offset;        /* of the segment in that file, in bytes; file and offset identify a communicator */
    uint64_t segment_bytes; /* size of its segment */
    int64_t read_ns;        /* when it was read */
    int over;               /* 1: all of its ranks have left or ended */
    int failure;            /* the status of what broke it, as in kolo_failure; 0: it is not broken */
    int failure_rank;       /* as in kolo_failure; means nothing where it is not broken */
    int failure_reporter;   /* likewise */
    double age_s;           /* seconds since the oldest of its ranks' processes was started; -1: none is left */
} kolo_watched_comm;

/* Reads communicator `index`, from 0, fills *comm, and keeps what it read for the functions below. KOLO_ERR_ARG also
 * for a wrong index. */
KOLO_API int kolo_watch_read(kolo_watch *watch, int index, kolo_watched_comm *comm);

typedef struct kolo_watched_call {
    size_t call_bytes;          /* sizeof(kolo_watched_call); set by the caller */
    uint64_t number;            /* among the rank's calls on this communicator, from 1 */
    kolo_collective collective; /* KOLO_COLLECTIVES: unknown; then the next four mean nothing */
    kolo_dtype dtype;
    kolo_op op; /* KOLO_OPS_OWN: one of kolo_op_create */
    int root;
    uint64_t count; /* of elements; of bytes for KOLO_ALLOC and KOLO_TABLE; 0 if KOLO_HAS_COUNTS */
    /* Times are kept for messages of 256 KiB or more, and for calls with a wait beyond spinning: for those from the
     * first such wait to the end of the last. */
    int64_t began_ns;  /* 0: not known */
    int64_t ended_ns;  /* 0: not known, or not ended */
    int waited_for;    /* the rank of its longest wait beyond spinning; -1: there was none */
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
    uint64_t payload_bytes;  /* as in kolo_stats, of the calls that have ended */
    uint64_t sent_bytes;     /* likewise */
    uint64_t received_bytes; /* likewise */
    uint64_t waited_ns;      /* in waits beyond spinning that are over */
    int waits_for;           /* the rank for which it is waiting beyond spinning; -1: none */
    int64_t waits_since_ns;  /* since when; 0: it waits for none */
    uint64_t spun_ns;        /* of all waits but those of some 20 us at most, in which it did not sleep */
    /* By kolo_collective: of those that have ended, sends and receives among them. */
    uint64_t calls_by_collective[32];
    uint64_t payload_by_collective[32]; /* in bytes */
} kolo_watched_rank;

/* Fills *seen with a rank, 0 .. ranks-1, by the last reading of communicator `index`. KOLO_ERR_ARG also for a wrong
 * index or rank. */
KOLO_API int kolo_watch_rank(const kolo_watch *watch, int index, int rank, kolo_watched_rank *seen);

/* Fills *call with call `number` of a rank, by the same reading: one of its last KOLO_WATCH_CALLS. KOLO_ERR_ARG also
 * for any other call, and for a wrong index or rank. */
KOLO_API int kolo_watch_call(const kolo_watch *watch, int index, int rank, uint64_t number, kolo_watched_call *call);

/* The tables (kolo_table.h) of the communicators that were found, except those of one rank on one machine. */

typedef struct kolo_watched_table {
    size_t table_bytes;     /* sizeof(kolo_watched_table); set by the caller */
    char name[32];          /* kolo_table_options.name, with '?' for what is not printable ASCII */
    uint64_t table_file;    /* inode of its file, which identifies it */
    uint64_t file, offset;  /* of its communicator, as in kolo_watched_comm */
    int64_t read_ns;        /* when it was read */
    int over;               /* 1: all of its ranks on this machine have left it, or have ended */
    int status;             /* 0, or why it cannot be read, and the rest means nothing but `layout`: KOLO_ERR_VERSION:
                               it is of another version of kolo; KOLO_ERR_SYSTEM: it is damaged */
    unsigned layout;        /* of that version */
    int ranks;              /* on this machine */
    int workers;            /* and of those, workers: the ones below it */
    int servers;            /* of all machines */
    int shards;             /* likewise */
    uint64_t rows;          /* of the table */
    int64_t staleness;      /* KOLO_STALENESS_UNBOUNDED: asynchronous */
    uint64_t memory_bytes;  /* that its ranks share on this machine */
    uint64_t slowest_clock; /* of the workers on this machine that are there */
    uint64_t fastest_clock; /* likewise */
    int slowest_rank;       /* on this machine; the lowest of several; -1: no worker is there */
    int waiting;            /* workers that wait in kolo_table_clock and cannot go on before that one */
} kolo_watched_table;

/* Reads table `index`, from 0, fills *table, and keeps what it read for kolo_watch_table_rank. KOLO_ERR_ARG also for a
 * wrong index. */
KOLO_API int kolo_watch_table_read(kolo_watch *watch, int index, kolo_watched_table *table);

typedef enum kolo_watched_table_state {
    KOLO_WATCHED_TABLE_PRESENT, /* as far as the ranks know */
    KOLO_WATCHED_TABLE_LEFT,    /* it has destroyed the table */
    KOLO_WATCHED_TABLE_DEAD     /* it has ended without that, and others have noticed */
} kolo_watched_table_state;

typedef struct kolo_watched_table_rank {
    size_t rank_bytes;              /* sizeof(kolo_watched_table_rank); set by the caller */
    int pid;                        /* 0: damaged */
    char process;                   /* state of the process as in /proc; 0: it has ended */
    kolo_watched_table_state state; /* on the table */
    int server;                     /* 1: it is one, and has no clock */
    uint64_t clock;                 /* clocks that it has ended */
    int waits_for;                  /* the rank for which it waits in kolo_table_clock or kolo_table_wait; -1: none */
    int64_t waits_since_ns;         /* since when; 0: it waits for none */
    uint64_t pulled, pushed;        /* pieces, as in kolo_table_stats */
    uint64_t applied;               /* likewise */
    uint64_t waited_ns;             /* in such waits that are over */
} kolo_watched_table_rank;

/* Fills *seen with a rank of this machine, 0 .. ranks-1, by the last reading of table `index`. KOLO_ERR_ARG also for a
 * wrong index or rank. */
KOLO_API int kolo_watch_table_rank(const kolo_watch *watch, int index, int rank, kolo_watched_table_rank *seen);

#endif
