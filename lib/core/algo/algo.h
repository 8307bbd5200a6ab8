/* The algorithms of the collectives. api/ calls these functions once it has checked the arguments and begun the call.
 * Each blocks and returns 0 or the status with which the communicator broke, which has two ranks or more. */
#pragma once

#include "plan/plan.h"
#include "comm/comm.h"
#include "reduce/copy.h"

/* Blocks of any length, indexed by rank among the ranks of all nodes. */
struct kolo_blocks {
    const size_t *counts;  /* elements */
    const size_t *offsets; /* the beginning of each, in elements */
    const size_t *whole;   /* elements of the blocks of which these are a lane's slices; else as `counts` */
};

/* The function that kolo_allreduce_apply runs between its two halves. */
struct kolo_apply {
    kolo_apply_function function;
    void *context;
    bool has_gradients, has_parameters;
};

/* The data of a call, or of one lane's slice of it. Where a buffer has a block for each rank, blocks.counts is NULL if
 * all blocks are of `count` elements, `gap` elements apart; else both of its arrays are set. */
struct kolo_message {
    const uint8_t *send; /* may equal recv, or either may be a block of the other */
    uint8_t *recv;
    size_t count;   /* elements of the message, or of each block; of this rank's own block if lengths differ */
    size_t gap;     /* 0, but in a slice */
    size_t longest; /* elements of the longest block of all ranks */
    struct kolo_blocks send_blocks, recv_blocks;
    const kolo_kernel *kernel; /* also gives the size of an element; the kernel of SUM where nothing is reduced */
    uint32_t root;             /* a rank among those of all nodes */
    struct kolo_answer plan;   /* not set where the message goes through lines */

    /* Only for kolo_allreduce_apply, see algo/fusion/apply.h. */
    const struct kolo_apply *apply;
    uint32_t lane, lanes;

    /* Only for KOLO_ALLREDUCE_MANY. */
    const kolo_tensor *tensors; /* in place of `send` and `recv` */
    size_t tensors_first;       /* the message's first element among theirs */
};

kolo_lines_fn kolo_oneshot_lines, kolo_broadcast_lines, kolo_allgather_lines, kolo_reduce_lines,
    kolo_reduce_scatter_lines, kolo_gather_lines, kolo_scatter_lines, kolo_alltoall_lines, kolo_scan_lines,
    kolo_exscan_lines, kolo_many_lines;
kolo_run_fn kolo_oneshot_run, kolo_mesh_run, kolo_ring_run, kolo_central_run, kolo_tree_run;
kolo_run_fn kolo_broadcast_run, kolo_allgather_run, kolo_reduce_run, kolo_reduce_mesh_run, kolo_reduce_scatter_run,
    kolo_gather_run, kolo_scatter_run, kolo_alltoall_run, kolo_scan_run, kolo_scan_mesh_run, kolo_apply_run,
    kolo_many_run;

enum { KOLO_DIRECT_IMPOSSIBLE = 1 };

/* These functions return KOLO_DIRECT_IMPOSSIBLE if a buffer of some rank is not from kolo_alloc or, if plan.reads, some
 * rank cannot read it. Then another algorithm has to do the same call. */
kolo_run_fn kolo_direct_run, kolo_broadcast_direct, kolo_allgather_direct, kolo_reduce_direct,
    kolo_reduce_scatter_direct, kolo_gather_direct, kolo_scatter_direct, kolo_alltoall_direct, kolo_scan_direct,
    kolo_apply_direct;

/* Counts `bytes` that this rank has put there `to` times, for others to read, and has read of `from` others. Lines do
 * it themselves: gcc makes more instructions of this. */
static inline void kolo_traffic(kolo_comm *comm, size_t bytes, uint32_t to, uint32_t from) {
    comm->stats.sent_bytes += bytes * to;
    comm->stats.received_bytes += bytes * from;
}

/* Returns the elements of chunk `chunk` of a message or block of `count`, and where the chunk begins there. The last
 * chunks of a block that is shorter than others are empty. */
static inline size_t kolo_chunk_of(const struct kolo_message *message, size_t count, size_t chunk, size_t *first) {
    *first = chunk * message->plan.chunk_count;
    const size_t left = count > *first ? count - *first : 0;
    return left < message->plan.chunk_count ? left : message->plan.chunk_count;
}

static inline size_t kolo_chunk(const struct kolo_message *message, size_t chunk, size_t *first) {
    return kolo_chunk_of(message, message->count, chunk, first);
}

/* Returns the elements of the block of `rank`, and where the block begins in its buffer. */
static inline size_t kolo_block(const struct kolo_message *message, const struct kolo_blocks *blocks, uint32_t rank,
                                size_t *first) {
    *first = blocks->counts ? blocks->offsets[rank] : rank * (message->count + message->gap);
    return blocks->counts ? blocks->counts[rank] : message->count;
}

/* Returns the elements of the whole block of `rank`, of which the message may have a slice. */
static inline uint64_t kolo_block_whole(const struct kolo_message *message, const struct kolo_blocks *blocks,
                                        uint32_t rank) {
    return blocks->counts ? blocks->whole[rank] : message->count + message->gap;
}

/* Return the bytes from one block of `count` elements to the next, and those of all blocks with their gaps. */
static inline size_t kolo_block_stride(const struct kolo_message *message) {
    return (message->count + message->gap) * message->kernel->element_bytes;
}

static inline size_t kolo_blocks_bytes(const kolo_comm *comm, const struct kolo_message *message) {
    return comm->size * kolo_block_stride(message) - message->gap * message->kernel->element_bytes;
}

/* Returns the elements of chunk `chunk` of that block, and where the chunk begins in the buffer. */
static inline size_t kolo_block_chunk(const struct kolo_message *message, const struct kolo_blocks *blocks,
                                      uint32_t rank, size_t chunk, size_t *first) {
    size_t begin;
    const size_t count = kolo_block(message, blocks, rank, &begin);
    const size_t chunk_count = kolo_chunk_of(message, count, chunk, first);
    *first += begin;
    return chunk_count;
}

/* Copies to `recv`, past the caches if the plan says so. The caller calls kolo_result_end when all is copied. */
static inline void kolo_result_store(const struct kolo_message *message, uint8_t *to, const uint8_t *from,
                                     size_t bytes) {
    if (message->plan.stream)
        kolo_copy_stream(to, from, bytes, NULL);
    else
        kolo_copy(to, from, bytes);
}

/* Like kolo_result_store, from a slot; the slot's lines are taken over. */
static inline void kolo_result_take(const struct kolo_message *message, uint8_t *to, uint8_t *from, size_t bytes) {
    kolo_copy_take(to, from, bytes, message->plan.stream);
}

static inline void kolo_result_end(const struct kolo_message *message) {
    if (message->plan.stream)
        kolo_fence_stream();
}

/* A rank that is done with chunk c next shows chunk c + 3. */
#define KOLO_CHUNKS_AT_ONCE 3

/* Copies `count` elements of the result to `recv`, from element `first` on, past the caches if the plan says so. In
 * that case the copy also prefetches the same place of the chunk that this rank shows next. */
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
