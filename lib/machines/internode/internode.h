/* A communicator's part in a job of several nodes: which rank is on which node, and the memory in which the ranks of a
 * node and its proxies (internode/proxy.h) work together. Users, and messages of failures, number ranks over all nodes.
 * Everything else uses local ranks, as comm->rank is. */
#pragma once

#include "comm/comm.h"
#include "comm/creation/other_nodes.h"
#include "internode/partials.h"
#include "net/connect/listener.h"

struct kolo_proxy;

struct kolo_internode {
    struct kolo_nodes nodes;
    uint32_t node; /* this one */
    uint8_t session[KOLO_SESSION_BYTES];
    struct kolo_subtrees *subtrees; /* for the order of all ranks; NULL: that of the nodes is the same */
    struct kolo_subtrees *inputs;   /* each rank by itself, where an op has no partial results */
    struct kolo_prefixes *prefixes[KOLO_PREFIXES_KINDS];
    uint32_t lanes;                             /* as rank 0 wants it */
    struct kolo_proxy *proxies[KOLO_LANES_MAX]; /* the leader's, one a lane */
};

/* Whether a call's inputs are combined in the canonical order of all ranks, and not node by node. */
static inline bool kolo_internode_by_rank(const kolo_comm *comm, const kolo_kernel *kernel) {
    return comm->origin.net.rank_order || kernel->keeps_order;
}

static inline bool kolo_internode_leads(const struct kolo_internode *internode) {
    return internode->proxies[0];
}

/* Where the ranks of this node leave their partial result of `ticket`, and find the result: slot_bytes each. */
static inline uint8_t *kolo_internode_partial(const kolo_comm *comm, uint64_t ticket) {
    return comm->segment.internode_slots + ticket % KOLO_SLOTS * 2 * comm->segment.slot_bytes;
}

static inline uint8_t *kolo_internode_result(const kolo_comm *comm, uint64_t ticket) {
    return kolo_internode_partial(comm, ticket) + comm->segment.slot_bytes;
}

/* Ranks of a communicator of several nodes that make another communicator meet at listeners of their own, on the
 * addresses by which the nodes know each other's leaders. */

/* Where this node reaches the listener that the leader of `node` keeps. KOLO_ERR_VERSION: the segment is damaged. */
int kolo_leader_address(const kolo_comm *comm, uint32_t node, struct kolo_address *address);

/* Opens a listener on this node's address, at any port; *bound: where. KOLO_ERR_SYSTEM, VERSION. */
int kolo_rendezvous_listen(kolo_comm *comm, const struct kolo_secret *secret, struct kolo_listener **listener,
                           struct kolo_address *bound);

/* The calls of comm/creation/other_nodes.h, of which assembly/shrink_nodes.c has these. */
extern const struct kolo_internode_calls kolo_internode_calls;

int kolo_nodes_agreement_reach(struct kolo_nodes_agreement *met, kolo_comm *comm, const uint64_t *survivors);
int64_t kolo_nodes_agreement_ns_max(int64_t timeout_ns);
bool kolo_nodes_agreement_lives(struct kolo_nodes_agreement *met);
void kolo_nodes_agreement_close(struct kolo_nodes_agreement *met, kolo_comm *comm, bool done);
