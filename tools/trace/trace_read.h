/* One process's trace (kolo_trace.h), taken from bytes that anybody may have written: what comes out is in range, in
 * order, and in ns. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kolo_trace.h"

enum {
    TRACE_WHY_BYTES = 256,
    TRACE_TRACKS_MAX = 4096, /* of a process */
    TRACE_RANKS_MAX = 65536, /* of a communicator */
    TRACE_THREAD_NAME_BYTES = 32,
    TRACE_NAME_BYTES = KOLO_TRACE_NAME_MAX + 1
};

/* Kind, and where another event has them, as in struct kolo_trace_event. KOLO_TRACE_NONE: a block begins here; a: the
 * ranges and spans that are open, b: 1 for the first one of a track. `a` of a wait and of an exchange is in ns, too. */
typedef struct trace_event {
    int64_t ns; /* of CLOCK_MONOTONIC; never less than that of the event before */
    uint64_t a, b;
    uint16_t comm;
    int16_t rank;
    uint8_t kind;
    uint8_t detail;
    uint8_t dtype;
    uint8_t op;
} trace_event;

typedef struct trace_track {
    uint32_t number;
    kolo_trace_thread thread;
    int of_its_thread; /* how many tracks of the same kind of thread come before */
    size_t first, count;
} trace_track;

typedef struct trace_comm {
    bool present;
    struct kolo_trace_comm is; /* made_by is NUL-terminated; size, rank and the like are in range */
    int64_t ns;                /* when it was made */
    int machine_comm;          /* of the job: see trace_job.h */
} trace_comm;

/* What a file lacks, as counts. */
typedef struct trace_damage {
    uint64_t blocks_overwritten; /* by newer ones */
    uint64_t events_lost;        /* found no block */
    uint64_t blocks_cut;         /* not in the file, which is shorter than it says */
    uint64_t events_cut;         /* likewise, at least */
    uint64_t blocks_wrong;       /* make no sense */
    uint64_t events_wrong;
} trace_damage;

typedef struct trace_process {
    char *path;                      /* set by whoever reads the file */
    struct kolo_trace_header header; /* strings are clean text; rank, ranks, node, nodes: of its largest communicator */
    trace_event *events;
    trace_track *tracks; /* each has consecutive events */
    int track_count;
    trace_comm comms[KOLO_TRACE_COMMS];
    trace_damage damage;
    double ns_per_tick;        /* 0: cannot be told */
    int64_t first_ns, last_ns; /* of its events; without one, when it began */
    int64_t offset_at_ns;      /* when header.offset_ns was right; INT64_MIN: never */
} trace_process;

/* Reads a whole file. ns_per_tick: what holds where the file cannot tell, 0: not known. Returns false, with a reason,
 * where there is nothing to be had: a phrase that goes on after the file's name. The bytes are needed no more. */
bool trace_read(trace_process *process, const void *bytes, size_t length, double ns_per_tick,
                char why[TRACE_WHY_BYTES]);
void trace_process_free(trace_process *process);

/* The communicator that an event names; NULL: nothing is known of it. */
const trace_comm *trace_comm_of(const trace_process *process, const trace_event *event);

/* "program", "program 2", "progress", ... */
const char *trace_thread_name(const trace_track *track, char text[TRACE_THREAD_NAME_BYTES]);

/* Makes text clean in place: UTF-8 without control characters, others become '?'. */
void trace_text_clean(char *text);

/* Time: ticks of a process to ns. */
typedef struct trace_clock_pair {
    uint64_t ticks;
    int64_t ns;
} trace_clock_pair;

typedef struct trace_clock {
    trace_clock_pair *pairs; /* both members grow */
    size_t count, at;
    double ns_per_tick; /* beyond the ends */
} trace_clock;

/* Sorts the pairs, of which there is at least one, and drops those that cannot be right or are too close to another.
 * ns_per_tick: as for trace_read. Returns false if the rate is not known: then it is a guess. */
bool trace_clock_set(trace_clock *clock, trace_clock_pair *pairs, size_t count, double ns_per_tick);

/* In ns, rounded; out of +-2^62: those limits. */
int64_t trace_clock_ns(trace_clock *clock, uint64_t ticks);
