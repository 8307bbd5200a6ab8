/* Buckets of tensors that go out while others are still computed, and their compression. kolo.h says what holds for all
 * calls.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef KOLO_FUSION_H
#define KOLO_FUSION_H

#include "kolo_requests.h"

/* What is sent for the elements of f32 tensors, in buckets that say so. */
typedef enum kolo_compression {
    KOLO_COMPRESSION_NONE,   /* the elements themselves */
    KOLO_COMPRESSION_BF16,   /* each rounded to BF16 */
    KOLO_COMPRESSION_F16,    /* each rounded to F16 */
    KOLO_COMPRESSION_TOPK,   /* of each tensor those that are largest by magnitude, with their indices */
    KOLO_COMPRESSION_ONEBIT, /* signs, and of every 512 elements the mean magnitude */
    KOLO_COMPRESSIONS        /* how many there are */
} kolo_compression;

/* Tensors that are reduced in place in every step, such as the gradients of a model, and become ready one by one, in
 * any order, on each rank in another one. They are put together in buckets, each of which is one kolo_iallreduce_many.
 * It goes out as soon as all its tensors are ready and all buckets before it are out: so all ranks issue the same
 * calls, in the same order, and no order in which tensors become ready makes ranks wait for each other in a circle. */
typedef struct kolo_buckets kolo_buckets;

/* What becomes of tensors that kolo_bucket_ready has not named when kolo_bucket_wait is called. */
typedef enum kolo_bucket_unused {
    KOLO_BUCKET_UNUSED_ERROR, /* kolo_bucket_wait returns KOLO_ERR_ARG; the step goes on */
    KOLO_BUCKET_UNUSED_ZERO   /* this rank contributes zeros: they are set to zero. For KOLO_SUM, KOLO_AVG and
                                 KOLO_SUM_EXACT */
} kolo_bucket_unused;

/* Begin with KOLO_BUCKET_OPTIONS_INIT. All ranks choose the same. */
typedef struct kolo_bucket_options {
    size_t options_bytes; /* sizeof(kolo_bucket_options); set by KOLO_BUCKET_OPTIONS_INIT */
    kolo_dtype dtype;     /* of all tensors; KOLO_F32 */
    kolo_op op;           /* KOLO_AVG */
    size_t bucket_bytes;  /* a bucket is full when the next tensor would make it larger. A larger tensor has one of its
                             own. 0: KOLO_BUCKET_BYTES */
    int keep_order;       /* 1: buckets go out from the last registered tensor to the first in every step. 0: in the
                             first one alone; then in the order in which rank 0's tensors became ready in that step */
    kolo_bucket_unused unused;    /* KOLO_BUCKET_UNUSED_ERROR */
    kolo_compression compression; /* KOLO_COMPRESSION_NONE; others for KOLO_F32 with KOLO_SUM or KOLO_AVG, see below */
    double compression_share;     /* of the elements of each tensor that TOPK sends, rounded up; above 0, at most 1;
                                     0.01 */
    int error_feedback;           /* 1: what a message leaves out goes into the tensor's next one; 0: it is lost. 1 */
} kolo_bucket_options;

#define KOLO_BUCKET_BYTES ((size_t)4 << 20)

#define KOLO_BUCKET_OPTIONS_INIT                                                                                       \
    { sizeof(kolo_bucket_options), KOLO_F32, KOLO_AVG, 0, 0, KOLO_BUCKET_UNUSED_ERROR, KOLO_COMPRESSION_NONE, 0.01, 1 }

/* Registers tensors 0 .. ntensors-1 and allocates all that steps need but the requests. All ranks register the same
 * counts in the same order, and a communicator's buckets in the same order; where they differ, a step returns MISMATCH.
 * The list is copied; the tensors' memory stays the caller's, and where it is. options NULL: the defaults. Waits for
 * nobody. The caller ends *buckets with kolo_bucket_destroy.
 *     Between a step's first kolo_bucket_ready and the return of its kolo_bucket_wait a rank makes no other call on the
 * communicator. For such calls, or for several kolo_buckets, make further communicators (kolo_comm_dup). With
 * kolo_options.progress buckets go on while the program computes (kolo_requests.h); without it in kolo_bucket_wait.
 *     KOLO_ERR_ARG: comm or buckets is NULL, options or tensors as in kolo_allreduce_many. STATE: the communicator
 * cannot be used. SYSTEM: out of memory. */
KOLO_API int kolo_bucket_create(kolo_comm *comm, const kolo_tensor *tensors, size_t ntensors,
                                const kolo_bucket_options *options, kolo_buckets **buckets);

/* Tensor `tensor`, as it was registered, is ready: its memory belongs to kolo until kolo_bucket_wait returns. Issues
 * the buckets that this completes, and waits for nobody. Any thread may call it, several at once, too.
 *     KOLO_ERR_ARG: there is no such tensor, or it was ready already in this step. STATE, SYSTEM: as kolo_iallreduce.
 * TIMEOUT, PEER_DEAD, MISMATCH, ABORTED: a bucket that went out before has failed so; see kolo_types.h. After any of
 * these but SYSTEM the buckets can only be destroyed. */
KOLO_API int kolo_bucket_ready(kolo_buckets *buckets, size_t tensor);

/* Ends the step: blocks until all tensors hold the result; then the next step begins. One thread calls it, once all
 * calls of kolo_bucket_ready of the step have returned. After the first step ranks also agree on the order of buckets
 * (see keep_order), by a broadcast.
 *     KOLO_ERR_ARG: a tensor was not marked ready, which the message names, and options.unused does not allow that.
 * Nothing was done, and the step goes on: mark it ready and wait again. All other errors as kolo_bucket_ready. */
KOLO_API int kolo_bucket_wait(kolo_buckets *buckets);

/* Compression: instead of a tensor's elements each rank sends something shorter, and all tensors get the same bits on
 * all ranks, and from run to run: op over the ranks of what was sent.
 *     BF16, F16: half of the bytes, between machines 3/4, by a kolo_allreduce of that type: the sum is rounded once
 * more, and that is not fed back. Numbers beyond what the type holds, of F16 65504, become infinite. ONEBIT: a 30th; of
 * 512 elements each is received as their mean magnitude, with its sign. TOPK: per element that is sent 8 bytes; of
 * equals those with the lowest indices are sent; at most 2^32 - 1 elements in a tensor. Messages of these two go from
 * each rank to all ranks, which add them up in the order that kolo_allreduce has on one machine, whichever ranks share
 * one. A rank of n receives n - 1: with 60 ranks ONEBIT, and with 1 / compression_share ranks TOPK, is no shorter than
 * KOLO_COMPRESSION_NONE. With error feedback each rank keeps a residual for each tensor, as long as the tensor: what
 * its messages have left out, which it adds to the tensor's next message. So over many steps nothing is lost. A
 * residual belongs to a model's state as an optimizer's does; after an error it is undefined, and to be loaded again
 * with the rest. A NaN or an infinity is received as one on all ranks (ONEBIT: by its whole block; TOPK: NaNs come
 * first, then infinities), and leaves 0 in the residual. Ranks with different compressions, or shares, get MISMATCH in
 * the step. On one machine this takes longer than to send all: it is for slow networks. */

/* Copies the residual of a tensor, as it was registered, to before[], and then wanted[] to the residual: to save it and
 * load it, between steps. Both have the tensor's count of floats; either may be NULL. Waits for nobody. KOLO_ERR_ARG:
 * there is no such tensor or residual, a step has begun, a value is infinite or NaN. STATE: inherited through fork. */
KOLO_API int kolo_bucket_residual(kolo_buckets *buckets, size_t tensor, const float *wanted, float *before);

/* How many there are, and what they hold. */
typedef struct kolo_bucket_info {
    size_t info_bytes; /* sizeof(kolo_bucket_info); set by the caller */
    size_t buckets;    /* how many a step has now */
    size_t held_bytes; /* that they hold for messages and residuals; 0 without compression */
} kolo_bucket_info;

/* Fills *info. Waits for nobody. KOLO_ERR_ARG: NULL argument, or info_bytes was not set. */
KOLO_API int kolo_bucket_query(const kolo_buckets *buckets, kolo_bucket_info *info);

/* Ends the buckets, and waits for what is in flight, whose first error it returns; else 0. NULL: 0. It may come after
 * kolo_comm_destroy of the communicator, which ends what is in flight. */
KOLO_API int kolo_bucket_destroy(kolo_buckets *buckets);

#endif
