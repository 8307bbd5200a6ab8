/* The collectives of communicators of several nodes (comm->internode). */
#ifndef KOLO_INTERNODE_HIERARCHY_HIERARCHY_H
#define KOLO_INTERNODE_HIERARCHY_HIERARCHY_H

#include "algo/registry.h"

int kolo_hierarchy_run(kolo_comm *comm, const struct kolo_descriptor *descriptor, const struct kolo_message *message);

#endif
