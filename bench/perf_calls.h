/* Calls that a sampler makes otherwise than one after another: in the background, by several threads of a rank, and
 * with a trace in every other sample. */
#pragma once

#include "perf_report.h"
#include "perf_sampler.h"

/* Calls in the background: many in flight at once, and how much of a call hides behind computing.
 *
 * The computing is arithmetic in registers, as long as the call takes alone by the slowest rank's clock: it needs a
 * core, and neither caches nor memory. A program that needs those, too, pays more. */

/* The `call` of a sampler: each of its messages in a request of its own, all in flight, then waits for all. */
int perf_background_call(const perf_sampler *sampler, const perf_call *first);

/* One message size. Times are medians, of one call each, in every sample the slowest rank's. */
typedef struct perf_overlap {
    perf_row row; /* without its times */
    double call_us;
    double compute_us;
    double turns_us;     /* the call, then the computing */
    double both_us;      /* the call in the background of the computing, until both are over */
    double computing_us; /* of that, until the computing is over */
    double hidden_percent;
    double slowdown_percent;
} perf_overlap;

/* Measures messages of `bytes` bytes; collective. As perf_sampler_row. The sampler has one message. */
int perf_overlap_take(perf_sampler *sampler, size_t bytes, bool in_place, perf_overlap *taken);

/* The table's first lines, after those of perf_report_head, and a row of it. */
void perf_overlap_head(const perf_report *report);
void perf_overlap_row(perf_report *report, const perf_overlap *taken);

/* Calls by several threads of a rank: by all of them at once, each in its lane (kolo_comm_lane), as in a parallel
 * region of a program's own.
 *
 * The rank's first thread is in lane 0, and one thread for each other lane waits for its next call. For a while they
 * spin, as OpenMP's threads do; so a sample has little in it of what it costs to wake them. */

/* Starts the threads. Returns 0, or 1 after saying on stderr why it cannot; perf_lanes_end either way. */
int perf_lanes_begin(int lanes);
void perf_lanes_end(void);

/* The `call` of a sampler: returns when all lanes have. */
int perf_lanes_call(const perf_sampler *sampler, const perf_call *call);

/* Calls with a trace (KOLO_TRACE) of the process in every other sample. Its file has no name any more when calls begin,
 * so that nothing is left of it. */

/* Before the first communicator is created. Returns 0, or -1 after saying on stderr why there can be no trace. */
int perf_tracing_begin(void);

/* After it was created: until its turn nothing is traced. Returns 0, or -1 after saying on stderr that there is no
 * trace. */
int perf_tracing_pause(void);

/* The `turn` of a sampler. */
void perf_tracing_turn(bool on);
