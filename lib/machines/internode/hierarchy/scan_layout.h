/* The layout of a scan's data in a ticket's slots: a rank's slot has a chunk of its input and, behind that, its term
 * (internode/assembly/prefixes.h) if others need the term. The terms of other nodes lie in the slots of the node. */
#ifndef KOLO_INTERNODE_HIERARCHY_SCAN_LAYOUT_H
#define KOLO_INTERNODE_HIERARCHY_SCAN_LAYOUT_H

#include "internode/internode.h"

struct kolo_scan_layout {
    const kolo_kernel *kernel;
    const struct kolo_prefixes *prefixes;
    size_t stride; /* elements of a chunk, but for the last one */
};

/* A chunk has at least one element of each dtype: of a rank's slot, and of what KOLO_RANKS_MAX terms take of the
 * node's. */
static_assert(KOLO_RANKS_MAX * sizeof(uint64_t) <= 2 * KOLO_PAGE_BYTES, "a chunk has at least one element");

/* Whether the term of `rank` is its input alone, as it is. */
static inline bool kolo_scan_is_input(const kolo_comm *comm, const struct kolo_scan_layout *layout, uint32_t rank) {
    return kolo_nodes_local_rank(&comm->internode->nodes, rank) == layout->prefixes->each[rank].first;
}

static inline size_t kolo_scan_term_bytes(const kolo_comm *comm, const struct kolo_scan_layout *layout, uint32_t rank) {
    return kolo_scan_is_input(comm, layout, rank) ? layout->kernel->element_bytes : layout->kernel->acc_bytes;
}

/* `ticket` is over all calls. */
static inline uint8_t *kolo_scan_input(const kolo_comm *comm, uint64_t ticket, uint32_t local) {
    return comm->segment.slots + (local * (size_t)KOLO_SLOTS + ticket % KOLO_SLOTS) * comm->segment.slot_bytes;
}

/* The term of a local rank. */
static inline uint8_t *kolo_scan_term(const kolo_comm *comm, const struct kolo_scan_layout *layout, uint64_t ticket,
                                      uint32_t local) {
    const uint32_t rank = kolo_nodes_rank(&comm->internode->nodes, comm->internode->node, local);
    return kolo_scan_input(comm, ticket, local) +
           (kolo_scan_is_input(comm, layout, rank) ? 0 : layout->stride * layout->kernel->element_bytes);
}

static inline uint8_t *kolo_scan_place(const kolo_comm *comm, const struct kolo_scan_layout *layout, uint64_t ticket,
                                       uint32_t place) {
    return kolo_internode_partial(comm, ticket) + place * layout->stride * layout->kernel->acc_bytes;
}

#endif
