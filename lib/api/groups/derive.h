/* Making communicators: of which layers, and in a call of another one, their parent. */
#ifndef KOLO_API_GROUPS_DERIVE_H
#define KOLO_API_GROUPS_DERIVE_H

#include "comm/creation/create.h"

/* What is above lib/comm; its `internode` is NULL in a library for one machine (KOLO_NODES=OFF). */
extern const struct kolo_layer_above kolo_layers;

/* Gives the caller what was made, if what rank 0 decided for it makes sense: KOLO_ERR_VERSION. */
int kolo_comm_take_into_use(kolo_comm *made, kolo_comm **comm);

/* What is to be made. */
struct kolo_derivation {
    kolo_comm *parent;    /* in a call of which this rank is */
    const char *function; /* for messages */
    uint32_t rank;        /* in the new communicator */
    uint32_t size;
    const uint32_t *ranks; /* of the parent, by their new ranks; some that come after them may be no ranks of it */
    uint32_t ranks_count;
    int fd;             /* an empty file that the ranks of this node have in common; -1: there is one rank */
    int64_t timeout_ns; /* at most */
};

/* On each of them or on none, as any creation (comm/creation/outcome.h); all are in the same call of the parent. A rank
 * that ends meanwhile is found as in any wait of that call: then the parent is broken. Otherwise *made is NULL where
 * the status is below 0. */
int kolo_comm_derive(const struct kolo_derivation *derivation, kolo_comm **made);

#endif
