/* The records of one job, side by side: what its communicators' ranks were doing when they failed. */
#pragma once

#include <stdio.h>

#include "crash_record.h"

/* What the records of a communicator say together of one of its ranks. */
typedef struct crash_stand {
    bool has_record;
    bool is_known;     /* one of the records tells of it */
    crash_state state; /* the worst that was seen */
    crash_rank is;     /* its own record has precedence, then that which has seen it begin most calls */
    int64_t waited_ns; /* for is.waits_for, when the record was written */
    crash_call *calls; /* the last ones, is.count */
} crash_stand;

typedef struct crash_comm {
    const crash_record *records; /* by the time when they were written, without `here` and `calls` */
    int record_count;
    int ranks;
    crash_stand stands[CRASH_RANKS_MAX];
} crash_comm;

/* A call of which two ranks' records say different things. */
typedef struct crash_difference {
    uint64_t number;   /* 0: there is none */
    uint64_t from, to; /* numbers of the calls, from the first to the last one, that two or more ranks' records have */
    uint64_t same_count; /* how many of these are the same in all records that have them */
} crash_difference;

/* Begins a communicator: the records are of one, and sorted. */
void crash_comm_begin(crash_comm *comm, const crash_record *records, int count);

/* Adds what a record says: one of those, read again. False: no memory. */
bool crash_comm_add(crash_comm *comm, const crash_record *record);
void crash_comm_free(crash_comm *comm);

/* Of a rank: its call of a number; NULL: it is not known. */
const crash_call *crash_call_of(const crash_stand *stand, uint64_t number);
bool crash_calls_differ(const crash_call *a, const crash_call *b);

/* Whether a rank has ended, was stopped, or never wrote a record. */
bool crash_is_missing(const crash_stand *stand);

/* False: no memory. */
bool crash_difference_find(crash_difference *difference, const crash_comm *comm);

/* Tells what the files, and the files *.kolodump in folders, say of the newest job in them, in words or in JSON.
 * Returns false, having said why, if there is nothing to tell. */
bool crash_tell(char **paths, bool as_json);

/* Writes what a communicator's records say. False: no memory. */
bool crash_comm_print(const crash_comm *comm);
bool crash_comm_write_json(FILE *to, const crash_comm *comm);
