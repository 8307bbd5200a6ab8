/* The pieces of work that perf_limits.h names, each as a function for the workers of a team, whose argument is the
 * perf_workshop that they share; worker 0 leaves the result in its limits. */
#pragma once

#include "perf_rounds.h"

typedef struct perf_piece_row {
    const char *name; /* of a curve, and what it is; NULL: it has none */
    const char *meaning;
    perf_worker_function measure;
    int cpus_min;
    /* Of a curve: */
    void (*try_ways)(perf_task *task); /* all of them, at the present point */
    size_t bytes_min;                  /* of the first point */
    enum {
        BLOCKS_PRIVATE,   /* each worker by itself */
        BLOCKS_EXCHANGED, /* with its neighbour */
        BLOCKS_FETCHED    /* from the next one */
    } blocks;
    int private_blocks;            /* that a worker has */
    void (*work)(perf_task *task); /* NULL: try_ways chooses it */
} perf_piece_row;

extern const perf_piece_row perf_piece_rows[PERF_PIECES];

/* As try_ways (perf_sendrecv.c). */
void perf_try_sendrecv(perf_task *task);

/* Tries all ways of exchanging messages in cache lines at the present point of the task's curve. Where the task has
 * private memory, what is there goes into the lines and comes out of them; else the lines have nothing but their
 * numbers. */
void perf_lines_try(perf_task *task);

/* Where a worker leaves what its partner is to read, in the memory that a workshop shares: lines and blocks, two sets
 * of each a worker. Either each writes its own, and two sets in turn are used, as the slower partner may still be
 * reading the set before; or the two change hands. */
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
