/* kolo_trace: a timeline of each rank, in files that survive a crash, and ranges of the program's own in it.
 *
 * KOLO_TRACE=DIR makes each process that joins a communicator write what it does to a file of its own in that
 * directory, JOB.RANK.PID.kolotrace with mode 0600: calls, waits and for which rank, stages of large calls, requests,
 * ranges. `kolorun --trace DIR` sets the variable; kolo-trace shows the files. Nothing of the data is in them: sizes,
 * times and names alone. A file has KOLO_TRACE_BYTES bytes, 4 MiB by default, and keeps the newest events. It is mapped
 * memory, so that what a process has written stays when the process is killed.
 *
 * The structs below are the file's format, for programs that read it. Numbers have the byte order of the machine that
 * wrote them: `format` tells a reader of another one.
 *
 *     file    [ header | communicators | block 0 | block 1 | ... ]
 *     block   [ block header | events ]
 *
 * A thread writes to a block of its own; when it is full, the thread takes the next block, the oldest one that no other
 * thread has. So each block has consecutive events of one thread.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef KOLO_TRACE_H
#define KOLO_TRACE_H

#include "kolo_types.h"

/* Begins a range of the calling thread, shown under `name`, of which the first KOLO_TRACE_NAME_MAX bytes count; NULL
 * is "". Ranges may lie within each other. Without a trace nothing happens. Neither function fails or blocks. */
KOLO_API void kolo_trace_begin(const char *name);

/* Ends the thread's last range that has not ended. */
KOLO_API void kolo_trace_end(void);

/* Stops writing the process's trace (pauses is not 0), or goes on (0), to trace some steps of a long job. Without a
 * trace nothing happens. Never fails. Call it while no thread of the process is in a call or has an open range: what is
 * under way then shows without its begin or its end. */
KOLO_API void kolo_trace_pause(int pauses);

#define KOLO_TRACE_NAME_MAX 63
#define KOLO_TRACE_MAGIC    "kolotrc" /* and its NUL: the first 8 bytes */
#define KOLO_TRACE_FORMAT   1u
#define KOLO_TRACE_COMMS    128
#define KOLO_TRACE_DRIFT_NS 20000 /* two machines' clocks drift apart by 1 ns in so many at most, which is 50 ppm */

struct kolo_trace_header {
    char magic[8];         /* stored last */
    uint32_t format;       /* KOLO_TRACE_FORMAT */
    uint32_t version;      /* of the library that wrote it: major << 16 | minor << 8 | patch */
    uint32_t header_bytes; /* where the communicators begin: sizeof(struct kolo_trace_header) */
    uint32_t comms;        /* KOLO_TRACE_COMMS */
    uint32_t block_bytes;  /* of each block, its header included; blocks begin behind the last communicator */
    uint32_t blocks;
    uint32_t pid;
    int32_t rank, ranks;  /* of the process's first communicator, of all nodes */
    int32_t node, nodes;  /* likewise; 0 of 1 on one machine */
    uint32_t has_ticks;   /* 1: event times are ticks of the processor's counter; 0: ns of CLOCK_MONOTONIC */
    int64_t began_ticks;  /* when the trace began: as event times, */
    int64_t began_ns;     /* by CLOCK_MONOTONIC, */
    int64_t began_utc_ns; /* and since 1970 */
    char host[64];        /* NUL-terminated, as the next two */
    char job[128];        /* KOLO_JOB or the launcher's name for the job; "": none */
    char program[64];     /* name of the executable */

    uint64_t ended;           /* 1: the process ended in order, and has written all */
    uint64_t taken;           /* blocks taken so far; more than `blocks`: older events are gone */
    uint64_t lost;            /* events that found no block, since other threads had all */
    uint64_t comms_made;      /* communicators so far */
    uint64_t offset_time;     /* of the last KOLO_TRACE_OFFSET, 0: there was none; stored last */
    int64_t offset_ns;        /* its a, */
    uint64_t offset_error_ns; /* and b */
    uint64_t reserved[15];
};

/* A communicator of the process, or a lane of one: comms[id % KOLO_TRACE_COMMS]. */
struct kolo_trace_comm {
    uint64_t time;         /* when it was made; 0: none is here; stored last */
    uint64_t file, offset; /* of its segment, as in kolo_watched_comm: the same for all its ranks on a machine */
    uint64_t identity;     /* a random number, the same for all its ranks on all machines; 0: not known */
    uint32_t id;           /* from 0, in the order of creation */
    int32_t rank, size;    /* on this machine */
    int32_t global_rank, global_size;
    int32_t node, nodes;
    int32_t lane;     /* 0: the communicator itself */
    char made_by[16]; /* "create"; "group": from another one, as by a split or a shrink; "lane" */
};

typedef enum kolo_trace_thread {
    KOLO_TRACE_PROGRAM,  /* a thread of the program */
    KOLO_TRACE_PROGRESS, /* a communicator's progress thread (KOLO_PROGRESS) */
    KOLO_TRACE_HELPER,   /* moves data of a lane (KOLO_THREADS) */
    KOLO_TRACE_PROXY,    /* exchanges data with other machines */
    KOLO_TRACE_SERVER,   /* serves a table */
    KOLO_TRACE_THREADS
} kolo_trace_thread;

struct kolo_trace_block {
    uint64_t number; /* of `taken`, from 1; 0: never used. A block that is being read may become a newer one: look at
                        it again after reading */
    uint64_t used;   /* events so far */
    uint32_t track;  /* the thread, numbered from 0 */
    uint32_t thread; /* kolo_trace_thread */
    uint32_t tid;    /* of the kernel */
    uint32_t depth;  /* ranges and spans that were open at its begin */
    uint64_t reserved[4];
};

/* The kind of an event says what its fields mean; fields that it does not name are 0. `comm` is a communicator's id,
 * modulo 65536; `rank` is one of the communicator's ranks on this machine. */
typedef enum kolo_trace_kind {
    KOLO_TRACE_NONE,
    KOLO_TRACE_CLOCK,      /* a: CLOCK_MONOTONIC in ns at `time`. A block begins with one */
    KOLO_TRACE_CALL_BEGIN, /* detail: kolo_collective; dtype; op: kolo_op, KOLO_OPS: one of kolo_op_create; comm; rank:
                              root; a: elements, 0 where blocks have counts of their own; b: number among the calls of
                              the communicator, which is the same on all ranks */
    KOLO_TRACE_CALL_END,   /* detail: kolo_algorithm, KOLO_ALGORITHM_AUTO: none; op: -status; comm; b: number */
    KOLO_TRACE_WAIT,       /* a wait that is over, in spinning. comm; rank: for whom; a: when it began, as `time` */
    KOLO_TRACE_WAIT_BEGIN, /* a wait goes beyond spinning. comm; rank: for whom, -1: any; a: when it began */
    KOLO_TRACE_WAIT_END,   /* it is over. b: ns since WAIT_BEGIN in which the thread did not sleep */
    KOLO_TRACE_STAGE, /* a call of 256 KiB or more. detail: the kolo_trace_stage that begins; it lasts until the next
                         one, a wait or the end of the call; comm */
    KOLO_TRACE_ISSUE, /* a call in the background is issued. detail: kolo_collective, KOLO_COLLECTIVES: a function of
                         kolo_irun; comm; a: elements; b: number among the requests of the process */
    KOLO_TRACE_CARRY, /* this thread begins to carry it out; its CALL_BEGIN follows. comm; b: that number */
    KOLO_TRACE_DONE,  /* it is complete. op: -status; comm; b: that number */
    KOLO_TRACE_SPAN_BEGIN,  /* detail: kolo_trace_span; rank; a, b: see there */
    KOLO_TRACE_SPAN_END,    /* detail: kolo_trace_span; op: -status */
    KOLO_TRACE_RANGE_BEGIN, /* kolo_trace_begin. a, b: the first 16 bytes of the name; detail: KOLO_TRACE_TEXT events
                               that follow with the rest */
    KOLO_TRACE_RANGE_END,
    KOLO_TRACE_TEXT,     /* a, b: 16 bytes of a name, the last ones followed by NULs */
    KOLO_TRACE_FAILURE,  /* a communicator has failed. op: -status; comm; rank: at fault, of all nodes; -1: none */
    KOLO_TRACE_OFFSET,   /* a: what has to be added to this machine's CLOCK_MONOTONIC to get node 0's, in ns, as an
                            int64_t; b: the largest error of that, in ns */
    KOLO_TRACE_CALL,     /* a call from begin to end, in less than a microsecond or so, at this time. Fields as of
                            KOLO_TRACE_CALL_BEGIN */
    KOLO_TRACE_EXCHANGE, /* exchanges with other machines are over, all that were not before. comm; rank: -1; a: when
                            the first of them began, as `time`; b: bytes sent and received since then, or since the
                            last such event */
    KOLO_TRACE_KINDS
} kolo_trace_kind;

typedef enum kolo_trace_stage {
    KOLO_TRACE_STAGE_NONE,
    KOLO_TRACE_STAGE_COPY_IN,
    KOLO_TRACE_STAGE_FOLD,
    KOLO_TRACE_STAGE_COPY_OUT,
    KOLO_TRACE_STAGES
} kolo_trace_stage;

/* What takes time beside calls and waits. */
typedef enum kolo_trace_span {
    KOLO_TRACE_CREATE,     /* of a communicator. a: ranks, of all nodes */
    KOLO_TRACE_DESTROY,    /* comm */
    KOLO_TRACE_SEND,       /* comm; rank: to whom; a: bytes; b: tag */
    KOLO_TRACE_RECV,       /* comm; rank: from whom, -1: any; a: bytes of the buffer; b: tag */
    KOLO_TRACE_PULL,       /* of a table. comm; a: rows; b: the first one, 0 if they are listed */
    KOLO_TRACE_PUSH,       /* likewise */
    KOLO_TRACE_TABLE_WAIT, /* for the staleness bound, or for pushes to arrive. a: clock */
    KOLO_TRACE_BUCKETS,    /* kolo_bucket_wait. comm; a: tensors */
    KOLO_TRACE_OPTIMIZER,  /* a step of an optimizer. a: parameters */
    KOLO_TRACE_SPANS
} kolo_trace_span;

struct kolo_trace_event {
    uint64_t time;
    uint8_t kind; /* kolo_trace_kind */
    uint8_t detail;
    uint8_t dtype;
    uint8_t op;
    uint16_t comm;
    int16_t rank;
    uint64_t a, b;
};

#endif
