/* The rendezvous of ranks of a communicator of several nodes that make another communicator: they meet at listeners of
 * their own, on the addresses by which the nodes know each other's leaders. */
#ifndef KOLO_INTERNODE_ASSEMBLY_GROUP_RENDEZVOUS_H
#define KOLO_INTERNODE_ASSEMBLY_GROUP_RENDEZVOUS_H

#include "comm/comm.h"
#include "net/connect/listener.h"

/* The address at which this node reaches the listener that the leader of `node` keeps. KOLO_ERR_VERSION: the segment is
 * damaged. */
int kolo_leader_address(const kolo_comm *comm, uint32_t node, struct kolo_address *address);

/* Opens a listener on this node's address, at any port; *bound: where. KOLO_ERR_SYSTEM, VERSION. */
int kolo_rendezvous_listen(kolo_comm *comm, const struct kolo_secret *secret, struct kolo_listener **listener,
                           struct kolo_address *bound);

/* See struct kolo_internode_calls. */
int kolo_rendezvous_open(kolo_comm *comm, struct kolo_listener **listener, uint64_t *port);
int kolo_rendezvous_name(const kolo_comm *comm, uint32_t node, uint64_t port, char *rendezvous);

#endif
