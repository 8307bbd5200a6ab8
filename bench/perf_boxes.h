/* Where a worker leaves what its partner is to read, in the memory that a workshop shares: lines and blocks, two sets
 * of each a worker; and how the two keep from writing what the other still reads. Either each writes its own, and two
 * sets in turn are used, as the slower partner may still be reading the set before; or the two change hands. */
#ifndef PERF_BOXES_H
#define PERF_BOXES_H

#include <stddef.h>

#include "perf_rounds.h"

/* The ways of exchanging messages in cache lines, each of which brings its own number: each worker always writes its
 * own lines, or they change hands. Whether it is faster to poll or to relax between two looks differs from processor to
 * processor: both are tried. */
enum { PERF_LINE_BYTES_PAYLOAD = 56, PERF_LINE_WAYS = 4 };

/* Passes task->bytes in this way. Where the task has private memory, what is there goes into the lines and comes out of
 * them; else the lines have nothing but their numbers. */
void perf_lines_choose(perf_task *task, int way);

/* Tries all ways at the present point of the task's curve. */
void perf_lines_try(perf_task *task);

static inline char *perf_task_block(const perf_task *task, int worker, size_t set) {
    return task->shop->blocks + ((size_t)worker * 2 + set) * task->shop->block_bytes_max;
}

static inline char *perf_task_lines(const perf_task *task, int worker, size_t set) {
    return task->shop->lines + ((size_t)worker * 2 + set) * PERF_LINEWISE_BYTES_MAX;
}

/* Where a modified line moves to its reader together with the right to change it, whoever comes back to lines of its
 * own misses with every store. Where the two change hands instead, what a worker has read in one repetition it writes
 * in the next. One set is enough, line by line as well as in blocks under one flag:
 *
 *   - in repetition k each of the pair writes one of two blocks and reads the other. Which one changes with k, so that
 *     each writes in k + 1 what it has itself read in k, in its own program's order;
 *   - it has read that only once the number k was there, so its partner, who wrote it in k, is done with that, and
 *     touches it again in k + 1: to read it, once the number k + 1 is there;
 *   - the partner may still be reading in k what the worker wrote in k. That is the other block, which the worker
 *     only reads in k + 1, and only once the partner has written it: after reading it.
 *
 * Line by line, the same holds for each line, which brings its own number. */
static inline int perf_swap_written(const perf_task *task) {
    return task->sequence & 1 ? task->partner : task->worker->index;
}

static inline int perf_swap_read(const perf_task *task) {
    return task->sequence & 1 ? task->worker->index : task->partner;
}

/* Worker and partner have come to this number when this returns, and each sees what the other wrote before. */
static inline void perf_task_meet(perf_task *task) {
    perf_word_store(&task->shop->flags[task->worker->index].value, task->sequence);
    perf_word_await(&task->shop->flags[task->partner].value, task->sequence, true);
}

#endif
