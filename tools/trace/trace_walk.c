#include "trace_walk.h"

#include <stdio.h>
#include <string.h>

#include "kolo_types.h"

enum { SHORT_NS = 200 }; /* of a KOLO_TRACE_CALL */

static void tell_begin(trace_walk *walk, const trace_slice *slice) {
    if (walk->visitor.begin)
        walk->visitor.begin(walk->visitor.context, walk, slice);
}

static void tell_end(trace_walk *walk, const trace_slice *slice) {
    if (walk->visitor.end)
        walk->visitor.end(walk->visitor.context, walk, slice);
}

static void push(trace_walk *walk, trace_slice slice) {
    if (walk->depth == TRACE_DEPTH_MAX) {
        walk->mismatches++;
        return;
    }
    if (slice.begin_ns < walk->now_ns)
        slice.begin_ns = walk->now_ns;
    if (slice.begin_ns < walk->begin_ns) /* a wait is written down when it is over */
        walk->begin_ns = slice.begin_ns;
    walk->now_ns = slice.begin_ns;
    tell_begin(walk, &slice);
    walk->open[walk->depth++] = slice;
}

/* A wait counts for all that it lies in. Those within it, of calls that the program made meanwhile (kolo_hooks), have
 * been counted. */
static void count_wait(trace_walk *walk, const trace_slice *wait) {
    const int64_t ns = wait->end_ns - wait->begin_ns, own_ns = ns - wait->waited_ns;
    for (int i = 0; i < walk->depth; i++) {
        trace_slice *within = &walk->open[i];
        within->waited_ns += own_ns;
        if (ns < within->waited_longest_ns)
            continue;
        within->waited_longest_ns = ns;
        within->waited_longest_end_ns = wait->end_ns;
    }
}

/* Ends the innermost slice. */
static void pop(trace_walk *walk, const trace_event *end, bool unfinished, int64_t ns) {
    trace_slice slice = walk->open[--walk->depth];
    slice.end = end;
    slice.unfinished = unfinished;
    slice.end_ns = ns > walk->now_ns ? ns : walk->now_ns;
    walk->now_ns = slice.end_ns;
    if (slice.type == TRACE_SLICE_WAIT)
        count_wait(walk, &slice);
    tell_end(walk, &slice);
}

/* Ends those within the one at `depth`: stages have no end of their own, others have lost it. */
static void pop_above(trace_walk *walk, int depth, int64_t ns) {
    while (walk->depth > depth + 1)
        pop(walk, NULL, walk->open[walk->depth - 1].type != TRACE_SLICE_STAGE, ns);
}

/* An end whose begin is gone: a slice from before the first event on. */
static void tell_end_alone(trace_walk *walk, trace_slice_type type, const trace_event *end) {
    const bool counts = type == TRACE_SLICE_RANGE || type == TRACE_SLICE_SPAN;
    if (walk->depth > 0 || walk->ends_alone == TRACE_DEPTH_MAX || (counts && walk->hidden == 0)) {
        walk->mismatches++;
        return;
    }
    walk->hidden -= counts;
    walk->ends_alone++;
    trace_slice slice = {.type = type, .end = end, .end_ns = end->ns > walk->now_ns ? end->ns : walk->now_ns};
    slice.begin_ns = walk->begin_ns - walk->ends_alone; /* a later end is that of an outer slice */
    if (slice.begin_ns < walk->floor_ns)
        slice.begin_ns = walk->floor_ns;
    if (type == TRACE_SLICE_RANGE)
        snprintf(slice.name, sizeof slice.name, "(a range whose begin is gone)");
    walk->now_ns = slice.end_ns;
    tell_end(walk, &slice);
}

static bool fits(const trace_slice *slice, trace_slice_type type, const trace_event *end) {
    if (slice->type != type)
        return false;
    if (type == TRACE_SLICE_CALL)
        return slice->begin->comm == end->comm && slice->begin->b == end->b;
    return type != TRACE_SLICE_SPAN || slice->begin->detail == end->detail;
}

static void end_slice(trace_walk *walk, trace_slice_type type, const trace_event *end) {
    int depth = walk->depth - 1;
    while (depth >= 0 && !fits(&walk->open[depth], type, end))
        depth--;
    if (depth < 0) {
        tell_end_alone(walk, type, end);
        return;
    }
    pop_above(walk, depth, end->ns);
    pop(walk, end, false, end->ns);
}

static void begin_call(trace_walk *walk, const trace_event *event) {
    for (int i = walk->depth - 1; i >= 0 && !walk->carries; i--) {
        const trace_slice *open = &walk->open[i];
        if (open->type == TRACE_SLICE_CALL && open->begin->comm == event->comm) { /* its end is lost */
            pop_above(walk, i, event->ns);
            pop(walk, NULL, true, event->ns);
        }
    }
    push(walk,
         (trace_slice){.type = TRACE_SLICE_CALL, .begin = event, .begin_ns = event->ns, .carried = walk->carries});
    walk->carries = false;
}

static void begin_stage(trace_walk *walk, const trace_event *event) {
    for (int i = walk->depth - 1; i >= 0 && walk->open[i].type != TRACE_SLICE_CALL; i--)
        if (walk->open[i].type == TRACE_SLICE_STAGE) {
            pop_above(walk, i, event->ns);
            pop(walk, NULL, false, event->ns);
            break;
        }
    if (event->detail != KOLO_TRACE_STAGE_NONE)
        push(walk, (trace_slice){.type = TRACE_SLICE_STAGE, .begin = event, .begin_ns = event->ns});
}

static void begin_range(trace_walk *walk, const trace_event *event, const trace_event *behind) {
    trace_slice slice = {.type = TRACE_SLICE_RANGE, .begin = event, .begin_ns = event->ns};
    size_t used = 0, texts = event->detail;
    for (const trace_event *part = event; used + 16 <= KOLO_TRACE_NAME_MAX + 1; used += 16) {
        memcpy(slice.name + used, &part->a, 8);
        memcpy(slice.name + used + 8, &part->b, 8);
        do
            part++;
        while (part < behind && (part->kind == KOLO_TRACE_CLOCK || part->kind == KOLO_TRACE_NONE));
        if (texts-- == 0 || part == behind || part->kind != KOLO_TRACE_TEXT)
            break;
    }
    slice.name[sizeof slice.name - 1] = '\0';
    trace_text_clean(slice.name);
    push(walk, slice);
}

/* A stage lasts until a wait begins. */
static void begin_wait(trace_walk *walk, const trace_event *event) {
    const int64_t ns = (int64_t)event->a;
    if (walk->depth > 0 && walk->open[walk->depth - 1].type == TRACE_SLICE_STAGE)
        pop(walk, NULL, false, ns);
    push(walk, (trace_slice){.type = TRACE_SLICE_WAIT, .begin = event, .begin_ns = ns});
}

static void wait_whole(trace_walk *walk, const trace_event *event) {
    begin_wait(walk, event);
    if (walk->depth > 0 && walk->open[walk->depth - 1].begin == event)
        pop(walk, NULL, false, event->ns);
}

/* A call of which one time is known: it is shown as SHORT_NS long, if there is room before the next event. */
static void call_whole(trace_walk *walk, const trace_event *event, const trace_event *behind) {
    const int64_t next_ns = event + 1 < behind ? event[1].ns : event->ns;
    begin_call(walk, event);
    if (walk->depth > 0 && walk->open[walk->depth - 1].begin == event)
        pop(walk, NULL, false, next_ns < event->ns + SHORT_NS ? next_ns : event->ns + SHORT_NS);
}

/* Where a block begins, as many ranges and spans are open as it says, or events before it are missing. */
static void begin_block(trace_walk *walk, const trace_event *event) {
    uint64_t open = walk->hidden;
    for (int i = 0; i < walk->depth; i++)
        open += walk->open[i].type == TRACE_SLICE_RANGE || walk->open[i].type == TRACE_SLICE_SPAN;
    if (event->b == 0 && open == event->a)
        return;
    walk->mismatches += event->b == 0;
    pop_above(walk, -1, walk->now_ns);
    walk->floor_ns = walk->now_ns;
    walk->begin_ns = event->ns;
    walk->hidden = event->a;
    walk->ends_alone = 0;
    walk->carries = false;
}

static void take(trace_walk *walk, const trace_event *event, const trace_event *behind) {
    switch ((kolo_trace_kind)event->kind) {
    case KOLO_TRACE_NONE:
        begin_block(walk, event);
        return;
    case KOLO_TRACE_CALL_BEGIN:
        begin_call(walk, event);
        return;
    case KOLO_TRACE_CALL:
        call_whole(walk, event, behind);
        return;
    case KOLO_TRACE_CALL_END:
        end_slice(walk, TRACE_SLICE_CALL, event);
        return;
    case KOLO_TRACE_WAIT:
        wait_whole(walk, event);
        return;
    case KOLO_TRACE_WAIT_BEGIN:
        begin_wait(walk, event);
        return;
    case KOLO_TRACE_WAIT_END:
        end_slice(walk, TRACE_SLICE_WAIT, event);
        return;
    case KOLO_TRACE_STAGE:
        begin_stage(walk, event);
        return;
    case KOLO_TRACE_SPAN_BEGIN:
        push(walk, (trace_slice){.type = TRACE_SLICE_SPAN, .begin = event, .begin_ns = event->ns});
        return;
    case KOLO_TRACE_SPAN_END:
        end_slice(walk, TRACE_SLICE_SPAN, event);
        return;
    case KOLO_TRACE_RANGE_BEGIN:
        begin_range(walk, event, behind);
        return;
    case KOLO_TRACE_RANGE_END:
        end_slice(walk, TRACE_SLICE_RANGE, event);
        return;
    case KOLO_TRACE_CARRY:
        walk->carries = true;
        break;
    default:
        break;
    }
    if (walk->visitor.event)
        walk->visitor.event(walk->visitor.context, walk, event);
}

uint64_t trace_walk_track(const trace_job *job, int process, const trace_track *track, trace_visitor visitor) {
    const trace_process *of = &job->processes[process];
    const trace_event *events = of->events + track->first, *behind = events + track->count;
    if (track->count == 0)
        return 0;
    trace_walk walk = {.job = job,
                       .process = process,
                       .track = track,
                       .visitor = visitor,
                       .now_ns = events->ns,
                       .begin_ns = events->ns,
                       .floor_ns = INT64_MIN,
                       .hidden = events->a};
    for (const trace_event *event = events; event < behind; event++)
        take(&walk, event, behind);
    pop_above(&walk, -1, of->last_ns);
    return walk.mismatches;
}

const char *trace_collective_name(unsigned collective) {
    const char *name = kolo_name(KOLO_NAME_COLLECTIVE, (int)collective);
    return name ? name : "unknown call";
}

const char *trace_slice_name(const trace_walk *walk, const trace_slice *slice, char text[TRACE_SLICE_NAME_BYTES]) {
    static const char *const stages[KOLO_TRACE_STAGES] = {"", "copy in", "fold", "copy out"};
    static const char *const spans[KOLO_TRACE_SPANS] = {[KOLO_TRACE_CREATE] = "create communicator",
                                                        [KOLO_TRACE_DESTROY] = "destroy communicator",
                                                        [KOLO_TRACE_SEND] = "send",
                                                        [KOLO_TRACE_RECV] = "recv",
                                                        [KOLO_TRACE_PULL] = "pull",
                                                        [KOLO_TRACE_PUSH] = "push",
                                                        [KOLO_TRACE_TABLE_WAIT] = "wait for a table",
                                                        [KOLO_TRACE_BUCKETS] = "wait for buckets",
                                                        [KOLO_TRACE_OPTIMIZER] = "optimizer step"};
    const trace_event *event = slice->begin ? slice->begin : slice->end;
    char rank[TRACE_PROCESS_NAME_BYTES];
    switch (slice->type) {
    case TRACE_SLICE_CALL:
        return slice->begin ? trace_collective_name(event->detail) : "call whose begin is gone";
    case TRACE_SLICE_STAGE:
        return stages[event->detail];
    case TRACE_SLICE_SPAN:
        return spans[event->detail];
    case TRACE_SLICE_RANGE:
        return slice->name;
    case TRACE_SLICE_WAIT:
        break;
    }
    const int peer = slice->begin ? trace_job_peer(walk->job, &walk->job->processes[walk->process], event) : -1;
    if (!slice->begin || event->rank < 0 || peer == walk->process) /* for no rank */
        return "wait";
    if (peer >= 0)
        snprintf(text, TRACE_SLICE_NAME_BYTES, "wait for %s", trace_process_name(walk->job, peer, rank));
    else
        snprintf(text, TRACE_SLICE_NAME_BYTES, "wait for local rank %d", event->rank);
    return text;
}
