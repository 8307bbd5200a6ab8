/* The nodes of a broken communicator agree on which ranks are left: shrink_nodes.c has the protocol.
 * comm/creation/shrink.c describes what happens in each node's own memory. */
#ifndef KOLO_INTERNODE_ASSEMBLY_SHRINK_NODES_H
#define KOLO_INTERNODE_ASSEMBLY_SHRINK_NODES_H

#include "comm/creation/other_nodes.h"

/* These are calls of struct kolo_internode_calls. */
int kolo_nodes_agreement_reach(struct kolo_nodes_agreement *met, kolo_comm *comm, const uint64_t *survivors);
int64_t kolo_nodes_agreement_ns_max(int64_t timeout_ns);
bool kolo_nodes_agreement_lives(struct kolo_nodes_agreement *met);
void kolo_nodes_agreement_close(struct kolo_nodes_agreement *met, kolo_comm *comm, bool done);

#endif
