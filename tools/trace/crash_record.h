/* One rank's record of a failure, as KOLO_DUMP has it written (a file *.kolodump), taken from bytes that anybody may
 * have written. */
#pragma once

#include "json_reader.h"

enum {
    CRASH_RANKS_MAX = 1024, /* of a communicator */
    CRASH_CALLS_MAX = 64,   /* of a rank */
    CRASH_NOBODY = -2,      /* for whom a rank waits; -1: any */
    CRASH_WHY_BYTES = 256
};

typedef enum crash_state { CRASH_UNKNOWN, CRASH_RUNNING, CRASH_LEFT, CRASH_STOPPED, CRASH_ENDED } crash_state;

typedef struct crash_call {
    uint64_t number, digest;
    bool ended;
    char text[128];
} crash_call;

/* What is known of a rank. */
typedef struct crash_rank {
    int64_t rank, pid;
    crash_state state;
    uint64_t calls, ended; /* how many it began, and ended */
    int64_t waits_for;
    int64_t waits_since_ns;
    size_t first; /* calls[first .. first + count - 1] of the record, by number */
    int count;
} crash_rank;

typedef struct crash_record {
    char *path; /* set by whoever reads the file */
    char job[128];
    uint64_t communicator; /* the same in the records of all its ranks */
    int64_t rank, ranks, node, lane, pid;
    int64_t utc_ns, now_ns; /* the same moment; now: of the clock that waits_since_ns is of */
    int64_t status, failed_rank;
    char message[512];
    crash_rank *here; /* the ranks of its machine */
    int here_count;
    crash_call *calls;
    size_t call_count;
} crash_record;

/* Reads a file's bytes. Returns false where there is nothing to be had. `why` is then a reason, and else "", or what is
 * wrong with the part that was left out: a phrase that goes on after the file's name. */
bool crash_record_read(crash_record *record, const char *text, size_t bytes, char why[CRASH_WHY_BYTES]);
void crash_record_free(crash_record *record); /* not its path */
