/* The ways of exchanging messages in cache lines, each of which brings its own number: each worker always writes its
 * own lines, or they change hands (perf_boxes.h). Whether it is faster to poll or to relax between two looks differs
 * from processor to processor: both are tried.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef PERF_LINES_H
#define PERF_LINES_H

#include "perf_rounds.h"

enum { PERF_LINE_BYTES_PAYLOAD = 56, PERF_LINE_WAYS = 4 };

/* Passes task->bytes in this way. Where the task has private memory, what is there goes into the lines and comes out of
 * them; else the lines have nothing but their numbers. */
void perf_lines_choose(perf_task *task, int way);

/* Tries all ways at the present point of the task's curve. */
void perf_lines_try(perf_task *task);

#endif
