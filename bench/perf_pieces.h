/* The pieces of work that perf_limits.h names, each as a function for the workers of a team. `argument` is the
 * perf_workshop that they share; worker 0 leaves the result in its limits.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef PERF_PIECES_H
#define PERF_PIECES_H

#include "perf_team.h"

void perf_measure_latency(perf_worker *worker, void *argument);
void perf_measure_handover(perf_worker *worker, void *argument);
void perf_measure_exchanges(perf_worker *worker, void *argument);
void perf_measure_sendrecv(perf_worker *worker, void *argument);
void perf_measure_fetch(perf_worker *worker, void *argument);
void perf_measure_copy(perf_worker *worker, void *argument);
void perf_measure_update(perf_worker *worker, void *argument);
void perf_measure_read(perf_worker *worker, void *argument);

#endif
