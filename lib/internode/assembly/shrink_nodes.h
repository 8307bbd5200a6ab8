/* How the nodes of a broken communicator agree on who is left: see shrink_nodes.c. What goes on in each node's own
 * memory is told in shrink.c. */
#ifndef KOLO_INTERNODE_ASSEMBLY_SHRINK_NODES_H
#define KOLO_INTERNODE_ASSEMBLY_SHRINK_NODES_H

#include "comm/comm.h"
#include "comm/ranks.h"
#include "net/connect/address.h"

struct kolo_listener;

/* What came of a agreement, and what is kept of it until the new communicator is made. */
struct kolo_nodes_agreement {
    uint64_t left[KOLO_RANK_WORDS];   /* a bit for each rank, of all nodes, that goes on */
    struct kolo_address meeting;      /* where they meet */
    struct kolo_listener *rendezvous; /* which is open there, if the lowest of them is of this node; else NULL */
    int *lifelines;                   /* [nodes]: connections to others that have agreed; -1: none */
    uint32_t nodes;
};

/* For one rank of each node, with what it knows of its own: `survivors` has a bit for each of its local ranks. *met
 * must be closed, also where this fails. KOLO_ERR_TIMEOUT: others may be going on without this node; PEER_DEAD: no
 * leader is left; SYSTEM, VERSION. */
int kolo_nodes_agreement_reach(struct kolo_nodes_agreement *met, kolo_comm *comm, const uint64_t *survivors);

/* How long that takes at most, in a communicator with that timeout. */
int64_t kolo_nodes_agreement_ns_max(int64_t timeout_ns);

/* False once another node that has agreed has gone without a word. */
bool kolo_nodes_agreement_lives(struct kolo_nodes_agreement *met);

/* done: there is a new communicator here. */
void kolo_nodes_agreement_close(struct kolo_nodes_agreement *met, bool done);

#endif
