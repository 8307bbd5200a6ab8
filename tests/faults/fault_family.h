/* The collectives that a case may name, one call at a time, with results that are checked. */
#ifndef KOLO_TESTS_FAULT_FAMILY_H
#define KOLO_TESTS_FAULT_FAMILY_H

#include "fault_cases.h"

enum { FAMILY_RANKS_MAX = 4 };

/* Calls what->collective as `rank`, in that step, and notes whether a result is wrong. Returns the call's status. */
int family_call(kolo_comm *comm, const struct fault_case *what, int rank, int step, bool *is_wrong);

/* A kolo_allreduce_apply whose parameters become the sums: on all ranks what an all-reduce leaves. */
int family_apply(kolo_comm *comm, const int32_t *gradients, int32_t *parameters, size_t count);

/* Whether data goes from the root to all others, or from all others to the root, and nothing else makes a rank wait
 * for the end of another's part: not so in lines, which all ranks read of all others. */
bool family_is_one_way(const struct fault_case *what);

/* Whether `rank` waits for what `peer` does, in a call that is one-way. */
bool family_waits(const struct fault_case *what, int rank, int peer);

#endif
