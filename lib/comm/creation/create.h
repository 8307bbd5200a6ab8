/* Creation of a communicator: settings, meeting the other ranks, the segment, how to wait. */
#ifndef KOLO_COMM_CREATION_CREATE_H
#define KOLO_COMM_CREATION_CREATE_H

#include "comm/comm.h"
#include "comm/creation/options.h"
#include "comm/creation/other_nodes.h"

/* Fills in the segment's settings, on rank 0, once all ranks have introduced themselves: the layer above does, which
 * knows the algorithms. */
typedef void kolo_decide_fn(kolo_comm *comm, const struct kolo_settings *settings);

/* What this layer needs from those above it. */
struct kolo_layer_above {
    kolo_decide_fn *decide;
    const struct kolo_internode_calls *internode; /* NULL: communicators of one node only */
};

/* See kolo_comm_create. rejoin: NULL but after a failure; KOLO_ERR_UNSUPPORTED: one of several nodes is asked for. */
int kolo_comm_make(kolo_comm **comm, const struct kolo_settings *settings, const struct kolo_layer_above *above,
                   struct kolo_rejoin *rejoin);

/* What comm/creation/shrink.c makes a communicator of, too. */

/* Allocates what a communicator has of its own; kolo_comm_free frees it. */
int kolo_comm_begin(kolo_comm **comm, const struct kolo_settings *settings, const struct kolo_layer_above *above);

/* Rank 0's part: lays the segment out over a new mapping of its file that `users` ranks are going to use. */
void kolo_comm_format_segment(kolo_comm *comm, void *mapping, uint32_t users);

/* Everyone's last part, once all are attached and rank 0 has decided what binds all. */
void kolo_comm_finish(kolo_comm *comm);

#endif
