/* The training step in one pass: an all-reduce that updates parameters on the way. Part of kolo.h, which says what holds for all calls.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef KOLO_OPTIMIZER_H
#define KOLO_OPTIMIZER_H

#include "kolo_comm.h"
#include "kolo_requests.h"

#ifdef __cplusplus
extern "C" {
#endif

/* An all-reduce with a function in its middle. */

/* Updates a part of the parameters that this rank owns: gradients[i] and parameters[i], i in 0 .. count-1, are of
 * elements first + i of the message. gradients: reduced over all ranks; they may be overwritten with anything the next
 * moment. It must not call kolo. It runs in the thread that carries the call out, part by part, in the order of
 * `first`; with kolo_options.threads several threads call it at once, for different parts. */
typedef void kolo_apply_function(void *context, size_t first, size_t count, const void *gradients, void *parameters);

/* Reduces gradients[0 .. count-1] over all ranks; on each rank calls `function` for the elements that it owns, with
 * their reduced gradients and its parameters[0 .. count-1]; and copies the parameters that it has left there to all
 * other ranks. So after the call the parameters are those of their owners, the same bits on every rank, and each rank
 * has done 1/size of the work, with 1/size of what the function keeps for its elements. The gradients have the bits of
 * kolo_allreduce, and stay as they are.
 *     What each rank owns says kolo_apply_owned. It goes from one end of the message to the other in one pass, chunk by
 * chunk of every rank's range. Where the ranks' gradients, or parameters, lie in memory that all have mapped
 * (kolo_alloc), they are read and written there without a copy. With one rank the function gets the caller's gradients.
 *     gradients NULL: nothing is reduced, and the function gets NULL. parameters NULL: nothing is copied to other
 * ranks, and the function gets NULL. All ranks pass NULL alike. The two must not overlap. Errors as kolo_allreduce;
 * KOLO_ERR_ARG also where function, or both buffers, are NULL. After an error that breaks the communicator some parts
 * of the parameters are new and others are not. */
KOLO_API int kolo_allreduce_apply(kolo_comm *comm, const void *gradients, void *parameters, size_t count,
                                  kolo_dtype dtype, kolo_op op, kolo_apply_function *function, void *context);

/* The same in the background, as kolo_iallreduce: context and buffers are kolo's until the request is complete. */
KOLO_API int kolo_iallreduce_apply(kolo_comm *comm, const void *gradients, void *parameters, size_t count,
                                   kolo_dtype dtype, kolo_op op, kolo_apply_function *function, void *context,
                                   kolo_request **request);

/* What rank `rank` of the communicator owns of a message of `count` elements: *owned elements from *first on. About
 * count / size, in whole lines of 128 bytes: the last ranks have less, or nothing. It follows from count, size and the
 * bytes of an element alone. Blocks for nobody. KOLO_ERR_ARG: NULL, or a rank, count or dtype that there is not. */
KOLO_API int kolo_apply_owned(const kolo_comm *comm, int rank, size_t count, kolo_dtype dtype, size_t *first,
                              size_t *owned);

#ifdef __cplusplus
}
#endif

#endif
