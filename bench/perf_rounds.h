/* A measurement is a number of rounds. In every round all workers of a team do the same work between two barriers; a
 * round's time is from when the last worker begins to when the last one ends (who comes late from a barrier does not
 * count as the hardware's slowness), and the result is the lower quartile of the rounds: what else runs on the
 * machine only ever adds to a round, so this is what the hardware does when it is left alone, and a lucky round alone
 * does not decide it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "perf_limits.h"
#include "perf_stream.h"
#include "perf_team.h"

enum { PERF_ROUNDS_MIN = 9, PERF_ROUNDS_MAX = 400 };
enum { PERF_LINEWISE_BYTES_MAX = 16 << 10 };

/* When a worker worked, by the clock of all. */
typedef struct perf_span {
    double begin_us;
    double end_us;
} perf_span;

/* What the workers of one run share. */
typedef struct perf_workshop {
    perf_limits limits; /* written by worker 0 only */
    perf_limits_request request;
    perf_piece piece;
    size_t block_bytes_max;               /* of exchanges and fetch */
    size_t stream_bytes_max;              /* of copy, update and read */
    bool rounds_over;                     /* worker 0's decision; see perf_rounds_take */
    perf_word *flags;                     /* one for each worker */
    char *lines;                          /* two sets of PERF_LINEWISE_BYTES_MAX for each worker */
    char *blocks;                         /* two sets of block_bytes_max for each worker */
    perf_span (*rounds)[PERF_ROUNDS_MAX]; /* of each worker */
} perf_workshop;

/* One measurement, as one worker sees it. */
typedef struct perf_task {
    perf_workshop *shop;
    perf_worker *worker;
    int partner; /* whose data it reads; -1: it stands by */
    perf_stream_way way;
    void (*copy_in)(void *to, const void *from, size_t bytes); /* from private memory into shared */
    size_t bytes;
    int repetitions;
    bool swaps;        /* of lines: they change hands */
    bool relaxes;      /* of what waits for a line: it does not just poll */
    uint64_t sequence; /* grows with each repetition, over all measurements of a run */
    char *in;          /* private memory, and the part of it that is next */
    char *out;
    size_t at_bytes;
    size_t chunk_bytes;
    void (*prepare)(struct perf_task *task); /* not timed; may be NULL */
    void (*work)(struct perf_task *task);
    perf_curve *curve; /* that is measured, and at which point */
    int point;
} perf_task;

/* Of one repetition. */
typedef struct perf_task_time {
    double us;
    double min_us;  /* of the fastest round */
    double mean_us; /* of the rounds that were not disturbed: for work that differs from round to round */
} perf_task_time;

/* How often a message is passed in a round, so that about target_bytes are, but not more than `most` times. */
static inline int perf_repetitions(size_t target_bytes, size_t bytes, int most) {
    const size_t fitting = target_bytes / bytes;
    return fitting < 1 ? 1 : fitting > (size_t)most ? most : (int)fitting;
}

/* Takes rounds until the request's time is used up. Only worker 0's result is valid. */
perf_task_time perf_rounds_take(perf_task *task);

/* Enters a time at the point of the task's curve, unless that already has a faster way. */
void perf_rounds_record(const perf_task *task, double us, const char *way);

/* Takes rounds of this work, and enters its time. */
void perf_rounds_try(perf_task *task, void (*work)(perf_task *task), const char *way);

/* The next point of a curve; false once the last one has reached `wanted_bytes`, or the curve its end. */
bool perf_point_next(size_t *bytes, size_t wanted_bytes, size_t end_bytes);
