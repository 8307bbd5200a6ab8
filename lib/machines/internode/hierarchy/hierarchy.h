/* The collectives of communicators of several nodes (comm->internode). */
#ifndef KOLO_INTERNODE_HIERARCHY_HIERARCHY_H
#define KOLO_INTERNODE_HIERARCHY_HIERARCHY_H

#include "algo/algo.h"

int kolo_hierarchy_run(kolo_comm *comm, kolo_collective collective, const struct kolo_message *message);

#endif
