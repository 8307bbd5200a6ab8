/* The collectives of communicators of several nodes (comm->internode). */
#ifndef KOLO_INTERNODE_HIERARCHY_H
#define KOLO_INTERNODE_HIERARCHY_H

#include "algo/algo.h"

/* A message without elements is a barrier. */
kolo_run_fn kolo_hierarchy_allreduce, kolo_hierarchy_broadcast, kolo_hierarchy_allgather;

#endif
