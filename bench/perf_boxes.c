#include <string.h>

#include "perf_boxes.h"

enum { LINE_BYTES = 64 };

static const char *const names[PERF_LINE_WAYS] = {"lines", "lines+relax", "swap+lines", "swap+lines+relax"};

/* A part of a message in each line, before the line's number; the rest of the last one is copied along, and is
 * there: such messages are much shorter than a page. */
static void pass_lines(perf_task *task) {
    const size_t step = task->in != NULL ? PERF_LINE_BYTES_PAYLOAD : LINE_BYTES;
    for (int i = 0; i < task->repetitions; i++) {
        task->sequence++;
        const size_t set = task->swaps ? 0 : task->sequence & 1;
        char *sent = perf_task_lines(task, task->swaps ? perf_swap_written(task) : task->worker->index, set);
        const char *received = perf_task_lines(task, task->swaps ? perf_swap_read(task) : task->partner, set);
        for (size_t at = 0; at < task->bytes; at += step, sent += LINE_BYTES) {
            if (task->in != NULL)
                memcpy(sent, task->in + at, PERF_LINE_BYTES_PAYLOAD);
            perf_word_store((_Atomic uint64_t *)(sent + PERF_LINE_BYTES_PAYLOAD), task->sequence);
        }
        for (size_t at = 0; at < task->bytes; at += step, received += LINE_BYTES) {
            perf_word_await((const _Atomic uint64_t *)(received + PERF_LINE_BYTES_PAYLOAD), task->sequence,
                            task->relaxes);
            if (task->in != NULL)
                memcpy(task->out + at, received, PERF_LINE_BYTES_PAYLOAD);
        }
    }
}

void perf_lines_choose(perf_task *task, int way) {
    task->work = pass_lines;
    task->swaps = way / 2;
    task->relaxes = way % 2;
}

void perf_lines_try(perf_task *task) {
    for (int way = 0; way < PERF_LINE_WAYS; way++) {
        perf_lines_choose(task, way);
        perf_rounds_try(task, task->work, names[way]);
    }
}
