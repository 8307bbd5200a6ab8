/* The collectives of several nodes, one function for each way (algo/registry.h). A row of the registry says in what the
 * collectives of a way differ. */
#ifndef KOLO_INTERNODE_HIERARCHY_COLLECTIVES_H
#define KOLO_INTERNODE_HIERARCHY_COLLECTIVES_H

#include "algo/registry.h"
#include "base/status.h"

typedef int kolo_nodes_run_fn(kolo_comm *comm, const struct kolo_descriptor *descriptor,
                              const struct kolo_message *message);

kolo_nodes_run_fn kolo_nodes_reduce; /* all-reduce, also of many, barrier, reduce, reduce-scatter */
kolo_nodes_run_fn kolo_nodes_spread; /* broadcast, all-gather */
kolo_nodes_run_fn kolo_nodes_move;   /* gather, scatter, all-to-all */
kolo_nodes_run_fn kolo_nodes_scan;   /* scan, exclusive scan */
kolo_nodes_run_fn kolo_nodes_apply;  /* all-reduce with a function in its middle */

/* Gives the program's function the reduced gradients of `count` elements of this rank's range, from its element `first`
 * on. */
void kolo_nodes_apply_piece(kolo_comm *comm, const struct kolo_message *message, size_t first, size_t count,
                            const uint8_t *gradients);

/* Refuses a call whose slots would have to be larger to hold one element of each partial result. All ranks refuse
 * it. */
static inline int kolo_nodes_refuse(const kolo_comm *comm, const kolo_kernel *kernel, size_t slot_bytes) {
    return kolo_fail(KOLO_ERR_UNSUPPORTED,
                     "rank %u: the operation's elements of %u bytes take slots of %zu bytes where the ranks are spread"
                     " over the machines like this; they have %zu: set KOLO_SLOT_BYTES",
                     comm->global_rank, kernel->element_bytes, slot_bytes, comm->segment.slot_bytes);
}

#endif
