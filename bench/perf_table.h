/* kolo-perf ps: pulls and pushes of a parameter server's table, beside copies of as many rows of a rank's own memory.
 */
#ifndef PERF_TABLE_H
#define PERF_TABLE_H

#include "perf_report.h"

/* Measures all sizes of rows that are asked for; collective. Returns 0, a KOLO_ERR_*, or 1 after a complaint of this
 * rank's. *wrong becomes the rows that were torn or are not the sum of what was pushed; the report is rank 0's. */
int perf_table_run(const perf_options *options, kolo_comm *comm, perf_report *report, int64_t *wrong);

#endif
