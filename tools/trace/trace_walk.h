/* A track's events as slices that lie within each other: calls, waits, stages, spans and ranges. An end whose begin was
 * overwritten, and a begin without an end, still make a slice. */
#pragma once

#include "trace_job.h"

enum { TRACE_DEPTH_MAX = 64 };

typedef enum trace_slice_type {
    TRACE_SLICE_CALL,
    TRACE_SLICE_WAIT,
    TRACE_SLICE_STAGE,
    TRACE_SLICE_SPAN,
    TRACE_SLICE_RANGE
} trace_slice_type;

typedef struct trace_slice {
    trace_slice_type type;
    const trace_event *begin; /* NULL: overwritten */
    const trace_event *end;   /* NULL: none, and for a stage and a wait in spinning */
    bool unfinished;          /* it has no end: begin_ns to end_ns is what is known of it */
    int64_t begin_ns, end_ns;
    int64_t waited_ns;         /* of it in waits */
    int64_t waited_longest_ns; /* in one of them */
    int64_t waited_longest_end_ns;
    bool carried;                /* a call in the background */
    char name[TRACE_NAME_BYTES]; /* of a range */
} trace_slice;

typedef struct trace_walk trace_walk;

/* What is told in the order of time. A slice that has no begin comes in `end` alone. Any of them may be NULL. */
typedef struct trace_visitor {
    void *context;
    void (*begin)(void *context, const trace_walk *walk, const trace_slice *slice);
    void (*end)(void *context, const trace_walk *walk, const trace_slice *slice);
    void (*event)(void *context, const trace_walk *walk, const trace_event *event); /* one that belongs to no slice */
} trace_visitor;

struct trace_walk {
    const trace_job *job;
    int process; /* index */
    const trace_track *track;
    trace_visitor visitor;
    trace_slice open[TRACE_DEPTH_MAX]; /* each within the one before; without the one that is being told */
    int depth;
    int64_t now_ns;      /* what has been told is not later */
    int64_t begin_ns;    /* of the events that follow each other without a gap */
    int64_t floor_ns;    /* what came before the gap is not later */
    uint64_t hidden;     /* ranges and spans that were open there */
    int ends_alone;      /* ends without a begin since then */
    bool carries;        /* the next call is one in the background */
    uint64_t mismatches; /* ends that fit no begin, what lies too deep, and gaps */
};

/* Returns how many events do not fit together. */
uint64_t trace_walk_track(const trace_job *job, int process, const trace_track *track, trace_visitor visitor);

/* What a slice is: "allreduce", "wait for rank 2", "fold", "push", or a range's name. */
enum { TRACE_SLICE_NAME_BYTES = 96 };
const char *trace_slice_name(const trace_walk *walk, const trace_slice *slice, char text[TRACE_SLICE_NAME_BYTES]);

/* Never NULL. */
const char *trace_collective_name(unsigned collective);
