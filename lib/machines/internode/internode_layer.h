/* The functions that a communicator of several nodes needs from this layer: see comm/creation/other_nodes.h. */
#ifndef KOLO_INTERNODE_INTERNODE_LAYER_H
#define KOLO_INTERNODE_INTERNODE_LAYER_H

#include "comm/creation/other_nodes.h"

extern const struct kolo_internode_calls kolo_internode_calls;

#endif
