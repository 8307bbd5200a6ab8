/* Creation of a communicator: settings, meeting the other ranks, the segment, how to wait. */
#ifndef KOLO_COMM_CREATION_CREATE_H
#define KOLO_COMM_CREATION_CREATE_H

#include "comm/comm.h"
#include "comm/creation/options.h"
#include "comm/creation/other_nodes.h"

/* Fills in the segment's settings, on rank 0, once all ranks have registered. The layer above does that, since it knows
 * the algorithms. */
typedef void kolo_decide_fn(kolo_comm *comm, const struct kolo_settings *settings);

/* What this layer needs from those above it. */
struct kolo_layer_above {
    kolo_decide_fn *decide;
    int (*complete)(kolo_comm *comm);             /* makes what else belongs to it, by calls on it: its lanes */
    int64_t (*elsewhere)(kolo_waiter *waiter);    /* see struct kolo_waiter */
    const struct kolo_internode_calls *internode; /* NULL: communicators of one node only */
};

/* See kolo_comm_create. rejoin: NULL but after a failure; KOLO_ERR_UNSUPPORTED: one of several nodes is asked for. */
int kolo_comm_make(kolo_comm **comm, const struct kolo_settings *settings, const struct kolo_layer_above *above,
                   struct kolo_rejoin *rejoin);

/* Allocates a communicator's own memory, the first part of making one: settings of this node, place among the ranks of
 * all. kolo_comm_free frees it. */
int kolo_comm_begin(kolo_comm **comm, const struct kolo_settings *settings, const struct kolo_place *place,
                    const struct kolo_layer_above *above);

/* How much memory that is, where all ranks are on one node. */
size_t kolo_comm_bytes(uint32_t ranks);

/* Fills in the settings for a communicator of all or some of `comm`'s ranks: those of `comm`, without a place to
 * meet. */
void kolo_settings_inherit(struct kolo_settings *settings, const kolo_comm *comm, uint32_t rank, uint32_t size);

#endif
