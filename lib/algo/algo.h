/* What api/ calls once a call's arguments are checked and the call has begun: one function an algorithm, each
 * blocking, each 0 or the status with which the communicator broke. At least two ranks. */
#ifndef KOLO_ALGO_ALGO_H
#define KOLO_ALGO_ALGO_H

#include "plan/plan.h"
#include "comm/comm.h"
#include "reduce/copy.h"

/* What a call is to reduce or to move. */
struct kolo_message {
    const uint8_t *send; /* may equal recv, or where this rank's block of it is */
    uint8_t *recv;
    size_t count;              /* elements that a rank contributes */
    const kolo_kernel *kernel; /* also says how large an element is; that of SUM where nothing is reduced */
    uint32_t root;             /* a rank among those of all nodes */
    struct kolo_answer plan;   /* unless the message goes through lines */
};

/* Runs a call. */
typedef int kolo_run_fn(kolo_comm *comm, const struct kolo_message *message);

/* Runs a call whose message fits this rank's lines. */
typedef int kolo_lines_fn(kolo_comm *comm, const void *send, void *recv, size_t count, const kolo_kernel *kernel);

kolo_lines_fn kolo_oneshot_lines, kolo_allgather_lines;
kolo_run_fn kolo_oneshot_run, kolo_mesh_run, kolo_ring_run, kolo_central_run, kolo_tree_run;
kolo_run_fn kolo_broadcast_run, kolo_allgather_run;

enum { KOLO_DIRECT_IMPOSSIBLE = 1 };

/* KOLO_DIRECT_IMPOSSIBLE: some rank's buffers are not of kolo_alloc; nothing was reduced, and another algorithm is to
 * do the same call. */
kolo_run_fn kolo_direct_run;

/* Elements of chunk `chunk`, and where it begins in what a rank contributes. */
static inline size_t kolo_chunk(const struct kolo_message *message, size_t chunk, size_t *first) {
    *first = chunk * message->plan.chunk_count;
    const size_t left = message->count - *first;
    return left < message->plan.chunk_count ? left : message->plan.chunk_count;
}

/* A rank that is done with a chunk goes on to show the third one after it. */
#define KOLO_CHUNKS_AT_ONCE 3

/* Copies `count` elements of the result to `recv`, from element `first` on: past the caches if the plan says so. Then
 * the same place of the chunk that is shown next comes into the caches. */
static inline void kolo_result_copy(const struct kolo_message *message, size_t first, const uint8_t *from,
                                    size_t count) {
    const size_t element_bytes = message->kernel->element_bytes;
    const size_t next = first + KOLO_CHUNKS_AT_ONCE * message->plan.chunk_count;
    uint8_t *to = message->recv + first * element_bytes;
    if (!message->plan.stream)
        kolo_copy(to, from, count * element_bytes);
    else
        kolo_copy_stream(to, from, count * element_bytes,
                         next + count <= message->count ? message->send + next * element_bytes : NULL);
}

#endif
