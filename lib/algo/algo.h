/* What api/ calls once a call's arguments are checked and the call has begun: one function an algorithm, each
 * blocking, each 0 or the status with which the communicator broke. `send` may equal `recv`. At least two ranks. */
#ifndef KOLO_ALGO_ALGO_H
#define KOLO_ALGO_ALGO_H

#include "plan/plan.h"
#include "comm/comm.h"
#include "reduce/copy.h"

/* An all-reduce under way. */
struct kolo_reduction {
    const uint8_t *send;
    uint8_t *recv;
    size_t count;
    const kolo_kernel *kernel;
    struct kolo_answer plan;
};

int kolo_oneshot_run(kolo_comm *comm, const struct kolo_reduction *reduction);
int kolo_mesh_run(kolo_comm *comm, const struct kolo_reduction *reduction);
int kolo_ring_run(kolo_comm *comm, const struct kolo_reduction *reduction);
int kolo_central_run(kolo_comm *comm, const struct kolo_reduction *reduction);
int kolo_tree_run(kolo_comm *comm, const struct kolo_reduction *reduction);

enum { KOLO_DIRECT_IMPOSSIBLE = 1 };

/* KOLO_DIRECT_IMPOSSIBLE: some rank's buffers are not of kolo_alloc; nothing was reduced, and another algorithm is to
 * do the same call. */
int kolo_direct_run(kolo_comm *comm, const struct kolo_reduction *reduction);

/* The smallest messages: the whole input within this rank's lines. */
int kolo_oneshot_lines(kolo_comm *comm, const void *send, void *recv, size_t count, const kolo_kernel *kernel);

int kolo_broadcast_run(kolo_comm *comm, uint8_t *buffer, size_t bytes, uint32_t root);
int kolo_barrier_run(kolo_comm *comm);

/* The same where there are several nodes: comm->internode. `root` is a rank among all. */
int kolo_hierarchy_run(kolo_comm *comm, const struct kolo_reduction *reduction);
int kolo_hierarchy_broadcast(kolo_comm *comm, uint8_t *buffer, size_t bytes, uint32_t root);
int kolo_hierarchy_barrier(kolo_comm *comm);

/* Elements of chunk `chunk`, and where it begins in the message. */
static inline size_t kolo_chunk(const struct kolo_reduction *reduction, size_t chunk, size_t *first) {
    *first = chunk * reduction->plan.chunk_count;
    const size_t left = reduction->count - *first;
    return left < reduction->plan.chunk_count ? left : reduction->plan.chunk_count;
}

/* A rank that is done with a chunk goes on to show the third one after it. */
#define KOLO_CHUNKS_AT_ONCE 3

/* Copies `count` elements of the result to `recv`, from element `first` on: past the caches if the plan says so. Then
 * the same place of the chunk that is shown next comes into the caches. */
static inline void kolo_result_copy(const struct kolo_reduction *reduction, size_t first, const uint8_t *from,
                                    size_t count) {
    const size_t element_bytes = reduction->kernel->element_bytes;
    const size_t next = first + KOLO_CHUNKS_AT_ONCE * reduction->plan.chunk_count;
    uint8_t *to = reduction->recv + first * element_bytes;
    if (!reduction->plan.stream)
        kolo_copy(to, from, count * element_bytes);
    else
        kolo_copy_stream(to, from, count * element_bytes,
                         next + count <= reduction->count ? reduction->send + next * element_bytes : NULL);
}

#endif
