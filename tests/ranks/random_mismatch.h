/* Random programs in which one rank makes one call that differs: in anything, at any place, blocking or in the
 * background, in memory of kolo_alloc or not; or sends a message that does not fit the receive. Every rank gets
 * KOLO_ERR_MISMATCH, after at most as many calls as kolo_collectives.h allows, in the words of both calls; what
 * succeeded before has the bits of the reference. */
#ifndef KOLO_TESTS_RANDOM_MISMATCH_H
#define KOLO_TESTS_RANDOM_MISMATCH_H

#include "harness.h"

/* Tries so many, each on a copy of the rank's communicator, which has one node or several; node_of is as in struct
 * program. */
void mismatches_run(const struct rank *rank, uint32_t cases, bool has_nodes, const int *node_of);

#endif
