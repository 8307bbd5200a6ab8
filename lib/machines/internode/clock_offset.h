/* How far another node's clock is from this one's, for traces (kolo_trace.h), from round trips.
 *
 * A question goes at `asked`, and its answer is there at `heard`, by this node's clock. The answer says the time
 * `theirs` by the other node's clock, which was read in between. So the offset, which makes this clock's time the other
 * one's, is at least theirs - heard and at most theirs - asked, whatever either way took. All round trips bound it. A
 * bound grows looser with time, as the clocks drift apart.
 *
 * The leader of each node asks node 0, by the first lane of its process's first communicator, if the process writes a
 * trace: several times in a row, about once a second, with an event KOLO_TRACE_OFFSET after the last time. A node
 * without a trace answers, too. Questions and answers are frames of the kind KOLO_FRAME_CLOCK. A thread of the proxy
 * that expects one sleeps for moments only, so that round trips are short also while no rank communicates. */
#pragma once

#include "net/engine.h"
#include "sync/atomic.h"

/* Zero: nothing is known. */
struct kolo_clock_offset {
    int64_t least_ns, most_ns;
    int64_t heard_ns; /* when both held, by this clock; 0: nothing is known */
};

/* Takes a round trip. One that contradicts the earlier ones replaces them: a clock was set, or drifts faster. */
void kolo_clock_offset_take(struct kolo_clock_offset *offset, int64_t asked_ns, int64_t theirs_ns, int64_t heard_ns);

/* The estimate when the last round trip was over, and the largest error of it. */
int64_t kolo_clock_offset_ns(const struct kolo_clock_offset *offset, uint64_t *error_ns);

/* What a proxy knows of its questions. The thread that drives the proxy owns it, but for `expects_ns`. */
struct kolo_clock_questions {
    bool asks;
    uint32_t left;              /* questions of the present row */
    int64_t asked_ns;           /* time of the one that has no answer yet; 0: there is none */
    int64_t next_ns;            /* when the next row begins */
    kolo_atomic_u64 expects_ns; /* until when a question or an answer is expected soon */
    struct kolo_clock_offset offset;
};

/* Begins a row of questions if it is time. */
void kolo_clock_ask(struct kolo_clock_questions *questions, kolo_engine *engine, int64_t now_ns);

/* Takes a frame of the kind KOLO_FRAME_CLOCK. */
void kolo_clock_hear(struct kolo_clock_questions *questions, kolo_engine *engine, uint32_t node,
                     const struct kolo_frame *frame);

/* How long a thread may sleep that would sleep for `ns`. Any thread may call this. */
int64_t kolo_clock_sleep_ns(const struct kolo_clock_questions *questions, int64_t ns);
