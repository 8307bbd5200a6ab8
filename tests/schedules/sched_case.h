/* One run of a case: the ranks make their calls under one schedule, and what comes of it is judged. */
#ifndef SCHED_CASE_H
#define SCHED_CASE_H

#include "sched_plan.h"

/* True if all went as it must; else `problem` says what did not. */
bool sched_case_run(const sched_case *which, uint64_t seed, bool trace, char *problem, size_t problem_bytes);

#endif
