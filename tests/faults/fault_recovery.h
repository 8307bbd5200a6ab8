/* What must be true where ranks shrink a broken communicator and another fault strikes meanwhile. */
#ifndef KOLO_TESTS_FAULT_RECOVERY_H
#define KOLO_TESTS_FAULT_RECOVERY_H

#include <stdbool.h>

#include "fault_run.h"

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

#endif
