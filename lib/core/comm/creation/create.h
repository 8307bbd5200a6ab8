/* The creation of a communicator: settings, meeting, the segment, and how to wait; also after a failure. */
#pragma once

#include "comm/creation/other_nodes.h"

/* Fills in the segment's settings, on rank 0, once all ranks have registered. The layer above knows the algorithms. */
typedef void kolo_decide_fn(kolo_comm *comm, const struct kolo_settings *settings);

/* The calls that this layer needs from the layers above it. */
struct kolo_layer_above {
    kolo_decide_fn *decide;
    int (*complete)(kolo_comm *comm);             /* makes the rest of the communicator, its lanes, by calls on it */
    int64_t (*elsewhere)(kolo_waiter *waiter);    /* see struct kolo_waiter */
    const struct kolo_internode_calls *internode; /* NULL: communicators of one node only */
};

/* Makes a communicator, see kolo_comm_create. rejoin: NULL except after a failure. KOLO_ERR_UNSUPPORTED: the caller
 * asks for several nodes, and the layer above supports one. */
int kolo_comm_make(kolo_comm **comm, const struct kolo_settings *settings, const struct kolo_layer_above *above,
                   struct kolo_rejoin *rejoin);

/* Allocates a communicator's own memory, as the first part of making one. settings: those of this node; place: the
 * rank's among all nodes. kolo_comm_free frees the memory. */
int kolo_comm_begin(kolo_comm **comm, const struct kolo_settings *settings, const struct kolo_place *place,
                    const struct kolo_layer_above *above);

/* Returns the bytes of that memory, where all ranks are on one node. */
size_t kolo_comm_bytes(uint32_t ranks);

/* Fills in the settings for a communicator of some of `comm`'s ranks: those of `comm`, without a place to meet. */
void kolo_settings_inherit(struct kolo_settings *settings, const kolo_comm *comm, uint32_t rank, uint32_t size);

/* kolo_comm_shrink: the survivors of a broken communicator agree on which ranks are left, and make a communicator of
 * them. shrink.c says how they do that, and why it holds whichever rank dies, and when. */

/* See kolo_comm_shrink. `comm` is broken, and this process's own. KOLO_ERR_TIMEOUT, NO_SPACE, SYSTEM, VERSION. */
int kolo_shrink_run(kolo_comm *comm, kolo_comm **shrunk);

/* Frees the places of ranks whose processes have ended, so that the last rank that leaves knows that it is the last. */
void kolo_shrink_mark_dead(kolo_comm *comm);
