/* The ways of exchanging messages in cache lines, each of which brings its own number. Whoever includes this defines
 * pass_lines: it writes the lines of task->bytes to `sent`, with the number task->sequence, and waits until that is in
 * each line of `received`. Whether it is faster to poll or to relax between two looks differs from processor to
 * processor: both are tried.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdbool.h>
#include <stddef.h>

#include "perf_boxes.h"

static inline void pass_lines(perf_task *task, char *sent, const char *received, bool relaxes);

/* Each writes its own. */
static inline void exchange_lines(perf_task *task, bool relaxes) {
    for (int i = 0; i < task->repetitions; i++) {
        const size_t set = ++task->sequence & 1;
        pass_lines(task, perf_task_lines(task, task->worker->index, set), perf_task_lines(task, task->partner, set),
                   relaxes);
    }
}

static void exchange_lines_polling(perf_task *task) {
    exchange_lines(task, false);
}

static void exchange_lines_relaxing(perf_task *task) {
    exchange_lines(task, true);
}

/* They change hands. */
static inline void swap_lines(perf_task *task, bool relaxes) {
    for (int i = 0; i < task->repetitions; i++) {
        task->sequence++;
        pass_lines(task, perf_task_lines(task, perf_swap_written(task), 0),
                   perf_task_lines(task, perf_swap_read(task), 0), relaxes);
    }
}

static void swap_lines_polling(perf_task *task) {
    swap_lines(task, false);
}

static void swap_lines_relaxing(perf_task *task) {
    swap_lines(task, true);
}

static const struct {
    const char *name;
    void (*work)(perf_task *task);
} line_ways[] = {
    {"lines", exchange_lines_polling},
    {"lines+relax", exchange_lines_relaxing},
    {"swap+lines", swap_lines_polling},
    {"swap+lines+relax", swap_lines_relaxing},
};
enum { LINE_WAYS = sizeof(line_ways) / sizeof(line_ways[0]) };

static void measure_lines(perf_task *task, perf_curve *curve, int point) {
    for (int i = 0; i < LINE_WAYS; i++) {
        task->work = line_ways[i].work;
        perf_rounds_record(task, curve, point, perf_rounds_take(task), line_ways[i].name);
    }
}
