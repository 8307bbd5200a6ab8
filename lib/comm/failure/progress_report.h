/* Progress reports: how far the ranks have got, in words, for warnings about long waits and for deadlines. */
#ifndef KOLO_COMM_FAILURE_PROGRESS_REPORT_H
#define KOLO_COMM_FAILURE_PROGRESS_REPORT_H

#include "comm/comm.h"

/* The rank, other than this one, that has got least far: fewest calls, then fewest steps. Among equals it is one that
 * is stopped, since steps do not show how far a rank has got in lines; else `peer`. The rank that a wait is for may
 * itself wait for another. In a send or a receive it is the one that
 * `peer` waits for in the end, or `peer`, unless any rank will do. */
uint32_t kolo_progress_report_last(const kolo_comm *comm, uint32_t peer);

/* "stopped (by a signal such as SIGSTOP, or a debugger)", for what kolo_process_activity says. */
const char *kolo_progress_report_activity(char activity);

/* Logs a warning if `wait` has lasted for long, and another each time that it has doubled. */
void kolo_progress_report_warn(kolo_comm *comm, const struct kolo_wait *wait);

#endif
