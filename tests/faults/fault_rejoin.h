/* What must be true where the ranks that shrink a broken communicator are on several nodes, and another fault strikes
 * meanwhile. */
#ifndef KOLO_TESTS_FAULT_REJOIN_H
#define KOLO_TESTS_FAULT_REJOIN_H

#include "fault_run.h"

/* The timeout of such a communicator. */
enum { REJOIN_DEADLINE_MS = 1000 };

/* What takes longer hangs: longer than two agreements, and the creations after them, which wait for one that is
 * stopped. */
#define REJOIN_LIMIT_NS INT64_C(25000000000)

/* Judges the survivors. */
void rejoin_find(struct run *run, int64_t held_ns);

/* Judges a stopped victim that has been continued since the others were through. */
void rejoin_find_late(struct run *run);

#endif
