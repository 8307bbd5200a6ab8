/* Makes communicators: the layers that they use, and their creation within a call on another one, the parent. */
#pragma once

#include "comm/creation/create.h"

/* The layers above lib/core/comm; `internode` is NULL in a library for one machine (KOLO_MACHINES=OFF). */
extern const struct kolo_layer_above kolo_layers;

/* Destroys a communicator, or a lane of one. */
void kolo_comm_end(kolo_comm *comm);

/* Makes a new communicator ready for use, its lanes too, with its other ranks. KOLO_ERR_VERSION: a damaged plan. */
int kolo_comm_prepare(kolo_comm *made);

/* The communicator to be made. */
struct kolo_derivation {
    kolo_comm *parent;    /* this rank is in a call on it */
    const char *function; /* for messages */
    uint32_t rank;        /* in the new communicator */
    uint32_t size;
    const uint32_t *ranks; /* this node's ranks in the parent, by their place among its new ranks; NULL: in their order.
                              Further new ranks may be none of the parent's */
    uint32_t ranks_count;
    int fd;                           /* an empty file that the ranks of this node share; -1: there is one rank */
    const char *meeting;              /* as net.rendezvous, where ranks of several nodes meet; NULL: of one */
    struct kolo_listener *rendezvous; /* rank 0's, open there; the creation takes it */
    int64_t timeout_ns;               /* at most */
    uint32_t lane;                    /* of the parent; 0: it is a communicator of its own */
};

/* Makes the communicator on each of those ranks or on none, like any creation (comm/creation/outcome.h). All of them
 * are in the same call on the parent. If a rank ends meanwhile, the others find that as in any wait of the call, and
 * the parent is broken. *made is set only on success. */
int kolo_comm_derive(const struct kolo_derivation *derivation, kolo_comm **made);

/* Makes lane `lane` of a communicator, in a call on it, as kolo_comm_dup makes a second one. */
int kolo_comm_make_lane(kolo_comm *comm, uint32_t lane, kolo_comm **made);
