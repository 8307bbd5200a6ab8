/* The collectives of several nodes, by what they do. Each is a kolo_run_fn but for the collective. */
#ifndef KOLO_INTERNODE_HIERARCHY_COLLECTIVES_H
#define KOLO_INTERNODE_HIERARCHY_COLLECTIVES_H

#include "algo/algo.h"

typedef int kolo_nodes_run_fn(kolo_comm *comm, kolo_collective collective, const struct kolo_message *message);

kolo_nodes_run_fn kolo_nodes_reduce; /* all-reduce, barrier, reduce, reduce-scatter */
kolo_nodes_run_fn kolo_nodes_spread; /* broadcast, all-gather */
kolo_nodes_run_fn kolo_nodes_move;   /* gather, scatter, all-to-all */
kolo_nodes_run_fn kolo_nodes_scan;   /* scan, exclusive scan */

#endif
