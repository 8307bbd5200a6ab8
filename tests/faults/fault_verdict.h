/* What must be true of a run in which a fault has struck. */
#ifndef KOLO_TESTS_FAULT_VERDICT_H
#define KOLO_TESTS_FAULT_VERDICT_H

#include <stdbool.h>

#include "fault_run.h"

/* Longest time from a death to the last survivor's error, the machine's own delays not counted. */
#define VERDICT_NOTICED_NS INT64_C(100000000)

/* Adds to run->complaint. */
void verdict_complain(struct run *run, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The same, of what no delay explains: the trial is not made again. */
void verdict_condemn(struct run *run, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Raises *ns to another time that is later or longer. */
void verdict_raise(int64_t *ns, int64_t other_ns);

/* Who is not to be struck, and a set of all of them, with a bit a rank. */
bool verdict_is_survivor(const struct run *run, int rank);
uint64_t verdict_survivors(const struct run *run);

/* Whether the victim is stopped, not ended. */
bool verdict_is_stopped(const struct run *run);

/* What is to be true of a rank that has ended whatever its errors are; false if it has not ended well. */
bool verdict_check_end(struct run *run, int rank);

/* The first step that failed; the last one of all if none did. */
int verdict_failed_step(const struct rank_record *record);

/* How long a survivor went on in ignorance: from the fault, or the begin of its first call that was not over by then,
 * to its error; and how much of that the machine took. */
int64_t verdict_ignorance_ns(const struct rank_record *record, int64_t struck_ns, int64_t *held_ns);

/* Judges the survivors; run->team has ended but for a stopped victim. */
void verdict_find(struct run *run);

/* Whether rank 0 died between giving the job its name and removing it. */
bool verdict_name_may_stay(const struct run *run);

#endif
