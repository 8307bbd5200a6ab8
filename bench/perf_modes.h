/* What kolo-perf measures beside collectives: a function for each. */
#pragma once

#include "perf_options.h"
#include "perf_report.h"

/* kolo-perf exact: how fast kolo_exact_add is, beside a plain vectorized sum of the same array. */

/* Prints a row for each dtype and size. Returns the exit status. */
int perf_exact_report(const perf_options *options);

/* kolo-perf init: the time from exec to the first result. */

/* Whether this process is one that perf_init_run has started, and its whole main. */
bool perf_init_is_started(char *const *arguments);
int perf_init_start(char *const *arguments);

/* Starts a process for each rank, again and again; collective. Returns 0, a KOLO_ERR_*, or 1 after a complaint; the
 * report is rank 0's. */
int perf_init_run(const perf_options *options, kolo_comm *comm, perf_report *report);

/* kolo-perf sendrecv: messages between two ranks, kolo_send and kolo_recv. Ranks 0 and 1 send, the others wait. */

/* Measures all sizes that are asked for; collective. Returns 0, a KOLO_ERR_*, or 1 after a complaint of this rank's.
 * *wrong becomes the bytes that arrived wrong; the report is rank 0's. */
int perf_messages_run(const perf_options *options, kolo_comm *comm, perf_report *report, int64_t *wrong);

/* kolo-perf waits: CPU time and delay of waits of 1 us and more by each KOLO_WAIT. */

/* Measures all lengths that are asked for; collective. Returns 0, a KOLO_ERR_*, or 1 after a complaint of this rank's.
 * The report is rank 0's. */
int perf_waits_run(const perf_options *options, kolo_comm *comm, perf_report *report);

/* kolo-perf optimizer: a training step of AdamW in the all-reduce, beside an all-reduce and the whole update on every
 * rank. */

/* Measures all sizes that are asked for; collective. Returns 0, a KOLO_ERR_*, or 1 after a complaint of this rank's.
 * *wrong becomes the bytes of parameters in which the two ways differ; the report is rank 0's. */
int perf_optimizer_run(const perf_options *options, kolo_comm *comm, perf_report *report, int64_t *wrong);

/* kolo-perf ps: pulls and pushes of a parameter server's table, beside copies of as many rows of a rank's own memory.
 */

/* Measures all sizes of rows that are asked for; collective. Returns 0, a KOLO_ERR_*, or 1 after a complaint of this
 * rank's. *wrong becomes the rows that were torn or are not the sum of what was pushed; the report is rank 0's. */
int perf_table_run(const perf_options *options, kolo_comm *comm, perf_report *report, int64_t *wrong);
