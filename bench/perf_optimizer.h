/* kolo-perf optimizer: a training step of AdamW in the all-reduce, beside an all-reduce and the whole update on every
 * rank. */
#ifndef PERF_OPTIMIZER_H
#define PERF_OPTIMIZER_H

#include "perf_report.h"

/* Measures all sizes that are asked for; collective. Returns 0, a KOLO_ERR_*, or 1 after a complaint of this rank's.
 * *wrong becomes the bytes of parameters in which the two ways differ; the report is rank 0's. */
int perf_optimizer_run(const perf_options *options, kolo_comm *comm, perf_report *report, int64_t *wrong);

#endif
