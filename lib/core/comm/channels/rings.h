/* The places of the rings and streams of sends and receives, by ranks of all nodes, what fits into them, and how sender
 * and receiver publish (comm/channels/transfer.h).
 *
 * With one node there is a ring for each pair. With several, a node has the rings of all pairs of which one rank is its
 * own: first those from its ranks, then those from other nodes' ranks to its own. A pair on two nodes has a ring on
 * each, which the relay keeps alike (internode/relay/relay.h). Each node has a stream for each rank of all nodes. */
#pragma once

#include "comm/comm.h"

/* In place of kolo_shared_cell.chunks_before: the message waits until its receiver asks for it. */
#define KOLO_NOT_STREAMED UINT64_MAX

static inline bool kolo_is_near(const kolo_comm *comm, uint32_t rank) {
    return !comm->nodes || comm->nodes->node_of[rank] == comm->node;
}

/* The local rank of a rank of this node. */
static inline uint32_t kolo_local_of(const kolo_comm *comm, uint32_t rank) {
    return comm->nodes ? kolo_nodes_local_rank(comm->nodes, rank) : rank;
}

static inline struct kolo_shared_ring *kolo_ring(const kolo_comm *comm, uint32_t from, uint32_t to) {
    const size_t all = comm->global_size, size = comm->size;
    return kolo_is_near(comm, from) ? &comm->segment.rings[kolo_local_of(comm, from) * all + to]
                                    : &comm->segment.rings[size * all + from * size + kolo_local_of(comm, to)];
}

static inline size_t kolo_elements_bytes(kolo_dtype dtype, uint64_t count) {
    return count * kolo_dtype_bytes(dtype);
}

static inline bool kolo_fits_cell(kolo_dtype dtype, uint64_t count) {
    return kolo_elements_bytes(dtype, count) <= KOLO_CELL_PAYLOAD;
}

static inline uint64_t kolo_chunks_of(size_t bytes) {
    return (bytes + KOLO_CHUNK_BYTES - 1) / KOLO_CHUNK_BYTES;
}

/* The bytes of chunk `chunk` of a message. */
static inline size_t kolo_chunk_bytes(size_t bytes, uint64_t chunk) {
    const size_t left = bytes - chunk * KOLO_CHUNK_BYTES;
    return left < KOLO_CHUNK_BYTES ? left : KOLO_CHUNK_BYTES;
}

/* Tells the relay that this rank has news for a rank of another node. */
static inline void kolo_tell_relay(kolo_comm *comm, uint32_t peer) {
    struct kolo_shared_relay *relay = &comm->segment.internode->relay;
    KOLO_POINT("transfer.telling");
    kolo_set_bits(&comm->segment.mailboxes[comm->rank].news[peer / 64], UINT64_C(1) << peer % 64);
    kolo_set_bits(&relay->news[comm->rank / 64], UINT64_C(1) << comm->rank % 64);
    kolo_fetch_add(&relay->events, 1);
    kolo_bell_ring(&comm->waiter, &relay->bell);
    KOLO_POINT("transfer.told");
}

/* Publishes `value` in this rank's own flag, for `peer`. */
static inline void kolo_publish_to(kolo_comm *comm, kolo_atomic_u64 *flag, uint64_t value, uint32_t peer) {
    comm->channels.moves++;
    if (!kolo_is_near(comm, peer)) {
        kolo_store_release(flag, value); /* pairs with the relay's look */
        kolo_tell_relay(comm, peer);
        return;
    }
    struct kolo_shared_mailbox *mailbox = &comm->segment.mailboxes[kolo_local_of(comm, peer)];
    kolo_publish(&comm->waiter, flag, value, &comm->signal->bell);
    if (kolo_load_relaxed(&mailbox->listens)) {
        KOLO_POINT("transfer.counting");
        kolo_fetch_add(&mailbox->events, 1);
        kolo_bell_ring(&comm->waiter, &mailbox->bell);
    }
    KOLO_POINT("transfer.published");
}
