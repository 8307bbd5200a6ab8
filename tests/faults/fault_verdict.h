/* What must be true of a run in which a fault has struck: in calls, and in the ways to go on after one. */
#pragma once

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

/* What must be true where ranks shrink a broken communicator and another fault strikes meanwhile. */

/* What became of its shrink of that round; the sum after it is the next step. */
const struct step *recovery_shrink(const struct rank_record *record, int round);

/* Whether that rank has come to a communicator in which sums are right. */
bool recovery_is_done(const struct rank_record *record);

/* Judges the survivors of a case of PHASE_SHRINK; `held_ns`: what the machine took apart from their own steps. */
void recovery_find(struct run *run, int64_t held_ns);

/* Judges a stopped victim that has been continued since the others were through. */
void recovery_find_late(struct run *run);

/* Such a victim must have come to its end, and its first shrink to a status that is right. */
void recovery_check_continued(struct run *run, bool is_right);

/* What must be true where the ranks that shrink a broken communicator are on several nodes, and another fault strikes
 * meanwhile. */

/* The timeout of such a communicator. */
enum { REJOIN_DEADLINE_MS = 1000 };

/* What takes longer hangs: longer than two agreements, and the creations after them, which wait for one that is
 * stopped. */
#define REJOIN_LIMIT_NS INT64_C(25000000000)

/* Judges the survivors. */
void rejoin_find(struct run *run, int64_t held_ns);

/* Judges a stopped victim that has been continued since the others were through. */
void rejoin_find_late(struct run *run);

/* What must be true where ranks take in joiners, and a fault strikes one of either meanwhile. */

/* Judges the survivors of a case of PHASE_GROW; `held_ns`: what the machine took apart from their own steps. */
void joining_find(struct run *run, int64_t held_ns);

/* Whether joiners wait for as long as the victim is stopped: it is to answer them. */
bool joining_waits_for_victim(const struct run *run);
