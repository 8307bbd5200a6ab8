/* Progress reports: how far the ranks have come, in words, for warnings about long waits and for deadlines. */
#ifndef KOLO_COMM_FAILURE_PROGRESS_REPORT_H
#define KOLO_COMM_FAILURE_PROGRESS_REPORT_H

#include "comm/comm.h"

/* Returns the rank, other than this one, that is furthest behind: fewest calls, then fewest steps. Among equals that is
 * a stopped one, since steps do not show how far a rank has come in lines; else `peer`. The rank that a wait is for may
 * itself wait for another. In a send or a receive, unless any rank will do, the result is the rank that is waited for
 * in the end. */
uint32_t kolo_progress_report_last(const kolo_comm *comm, uint32_t peer);

/* Returns the words for what kolo_process_activity says: "stopped (by a signal such as SIGSTOP, or a debugger)". */
const char *kolo_progress_report_activity(char activity);

/* Logs a warning if `wait` has lasted for long, and another each time that it has doubled. */
void kolo_progress_report_warn(kolo_comm *comm, const struct kolo_wait *wait);

#endif
