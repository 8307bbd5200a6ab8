/* What must be true of a run in which a fault has struck. */
#ifndef KOLO_TESTS_FAULT_VERDICT_H
#define KOLO_TESTS_FAULT_VERDICT_H

#include <stdbool.h>

#include "fault_run.h"

/* Longest time from a death to the last survivor's error, the machine's own delays not counted. */
#define VERDICT_NOTICED_NS INT64_C(100000000)

/* Adds to run->complaint. */
void verdict_complain(struct run *run, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Who is not to be struck. */
bool verdict_is_survivor(const struct run *run, int rank);

/* What is to be true of a rank that has ended whatever its errors are; false if it has not ended well. */
bool verdict_check_end(struct run *run, int rank);

/* Judges the survivors; run->team has ended but for a stopped victim. */
void verdict_find(struct run *run);

/* Whether rank 0 died between giving the job its name and removing it. */
bool verdict_name_may_stay(const struct run *run);

#endif
