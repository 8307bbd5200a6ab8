/* Compressed messages of f32 tensors: how they are made, and read. A message belongs to one bucket; all messages of a
 * set of buckets may be in flight at once.
 *
 * BF16 and F16: the tensors' halves, one tensor behind the other, are all-reduced in that type: summed in f32, rounded
 * once, and widened to f32. Between machines each byte crosses the network once, as ever.
 *
 * ONEBIT and TOPK: every rank's message goes to all ranks by an all-gather. Each rank reads all messages, and folds the
 * values that they stand for with the kernels of an ordinary all-reduce, in the canonical order. So the result has the
 * bits that kolo_allreduce gives for these values, whichever ranks share a machine. A reduce-scatter would have to
 * compress sums once more, which loses more and needs a residual on the owner, too. It would pay where a rank gets more
 * than twice the uncompressed message from the others: from 60 ranks on with ONEBIT, with TOPK from as many as 1 /
 * share.
 *
 * A message, as all-gathered, has a part for each tensor:
 *
 *   ONEBIT   a 64-bit word for each 64 elements, their signs; then an f32 for each KOLO_SIGNS_BLOCK elements
 *   TOPK     `chosen` u32, the indices in ascending order; then `chosen` f32
 *
 * A part begins at a multiple of 8 bytes. */
#pragma once

#include "kolo_fusion.h"
#include "comm/comm.h"
#include "training/kernels/training_kernels.h"

/* The state of compression of one set of buckets. */
struct kolo_compressed {
    kolo_compression kind; /* NONE: nothing else is there */
    double share;          /* of a tensor's elements that TOPK sends */
    kolo_op op;            /* SUM or AVG */
    uint32_t rank, ranks;  /* of all nodes */
    const kolo_reducer *reducer;
    const kolo_training_kernels *kernels;
    uint8_t *messages;     /* of all tensors: those of BF16 and F16 once, others of each rank */
    float *residual;       /* of all tensors: the parts that earlier messages left out; NULL: these are lost */
    size_t bytes;          /* of messages, residuals and work memory */
    size_t *begins;        /* begin of each tensor's residual, by registered number */
    uint32_t *work;        /* of TOPK, for choosing elements */
    float *rows;           /* a piece of a tensor per rank */
    const void **rows_of;  /* places of these pieces */
    const uint8_t **parts; /* the part of a tensor in each rank's message */
    size_t *next;          /* TOPK: the next pair of each rank */
};

/* Bytes that a tensor takes in a message. */
size_t kolo_compressed_bytes(const struct kolo_compressed *compressed, size_t count);

/* Allocates the memory of the following calls, for those tensors and legal options. Residuals are 0. KOLO_ERR_ARG: a
 * tensor is too long for TOPK. KOLO_ERR_SYSTEM: out of memory. kolo_compressed_free frees it, even where nothing was
 * allocated and all is zeroed. */
int kolo_compressed_allocate(struct kolo_compressed *compressed, const kolo_comm *comm,
                             const kolo_bucket_options *options, const kolo_tensor *tensors, size_t ntensors);
void kolo_compressed_free(struct kolo_compressed *compressed);

/* A bucket. */
struct kolo_compressed_bucket {
    const kolo_tensor *tensors;
    const uint32_t *order; /* registered numbers of the tensors */
    size_t count;
    size_t at; /* begin in `messages` of one rank, behind the tensors of the buckets before */
};

/* Makes this rank's message for the bucket, and keeps in the residuals what the message lacks: once for a step. */
void kolo_compressed_encode(struct kolo_compressed *compressed, const struct kolo_compressed_bucket *bucket);

/* Issues the collective that exchanges the bucket's messages; `items` are what the ranks have to pass alike for the
 * bucket. Waits for no rank. Returns the statuses of kolo_iallreduce; after KOLO_ERR_SYSTEM it can be called again. */
int kolo_compressed_issue(const struct kolo_compressed *compressed, kolo_comm *comm,
                          const struct kolo_compressed_bucket *bucket, struct kolo_items items, kolo_request **request);

/* Sets the tensors, after the collective has succeeded, to op over all ranks' values, as their messages give them. */
void kolo_compressed_read(struct kolo_compressed *compressed, const struct kolo_compressed_bucket *bucket);

/* Top-k (topk.c) chooses the elements of a tensor that are largest by magnitude, NaNs first, then infinities, then
 * numbers. Among elements of one magnitude, and among NaNs, it chooses those with the lowest indices. So the choice is
 * the same for every instance. */

/* Returns how many indices kolo_topk_choose needs room for besides its result. */
size_t kolo_topk_room(size_t count, size_t k);

/* Fills chosen[0 .. k-1] with the indices of the k largest of `count` elements, ascending; k from 1 to count, count
 * below 2^32. `work` has kolo_topk_room(count, k) elements. */
void kolo_topk_choose(const kolo_training_kernels *kernels, uint32_t *chosen, size_t k, const void *values,
                      size_t count, uint32_t *work);
