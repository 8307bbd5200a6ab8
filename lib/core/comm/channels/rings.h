/* The places of the rings and streams of sends and receives, by ranks of all nodes, and what fits into them.
 *
 * With one node there is a ring for each pair. With several, a node has the rings of all pairs of which one rank is its
 * own: first those from its ranks, then those from other nodes' ranks to its own. A pair on two nodes has a ring on
 * each, which the relay keeps alike (internode/relay/relay.h). Likewise each node has a stream for each rank of all
 * nodes. */
#ifndef KOLO_COMM_CHANNELS_RINGS_H
#define KOLO_COMM_CHANNELS_RINGS_H

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

#endif
