/* How the nodes of a broken communicator agree on who is left: see shrink_nodes.c. What goes on in each node's own
 * memory is told in shrink.c. */
#ifndef KOLO_COMM_SHRINK_NODES_H
#define KOLO_COMM_SHRINK_NODES_H

#include "comm/comm.h"
#include "comm/ranks.h"
#include "net/address.h"

struct kolo_door;

/* What came of a conference, and what is kept of it until the new communicator is made. */
struct kolo_conference {
    uint64_t left[KOLO_RANK_WORDS]; /* a bit for each rank, of all nodes, that goes on */
    struct kolo_address meeting;    /* where they meet */
    struct kolo_door *rendezvous;   /* which is open there, if the lowest of them is of this node; else NULL */
    int *lifelines;                 /* [nodes]: connections to others that have conferred; -1: none */
    uint32_t nodes;
};

/* For one rank of each node, with what it knows of its own: `survivors` has a bit for each of its local ranks. *met
 * must be closed, also where this fails. KOLO_ERR_TIMEOUT: others may be going on without this node; PEER_DEAD: no
 * leader is left; SYSTEM, VERSION. */
int kolo_conference_hold(struct kolo_conference *met, kolo_comm *comm, const uint64_t *survivors);

/* How long that takes at most, in a communicator with that timeout. */
int64_t kolo_conference_ns_max(int64_t timeout_ns);

/* False once another node that has conferred has gone without a word. */
bool kolo_conference_lives(struct kolo_conference *met);

/* done: there is a new communicator here. */
void kolo_conference_close(struct kolo_conference *met, bool done);

#endif
