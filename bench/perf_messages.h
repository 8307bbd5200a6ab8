/* kolo-perf sendrecv: messages between two ranks, kolo_send and kolo_recv. Ranks 0 and 1 send, the others wait. */
#ifndef PERF_MESSAGES_H
#define PERF_MESSAGES_H

#include "perf_report.h"

/* Measures all sizes that are asked for; collective. Returns 0, a KOLO_ERR_*, or 1 after a complaint of this rank's.
 * *wrong becomes the bytes that arrived wrong; the report is rank 0's. */
int perf_messages_run(const perf_options *options, kolo_comm *comm, perf_report *report, int64_t *wrong);

#endif
