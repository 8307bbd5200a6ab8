/* Many tensors as one message. Part of kolo.h, which says what holds for all calls.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef KOLO_FUSION_H
#define KOLO_FUSION_H

#include "kolo_requests.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kolo_tensor {
    void *data;   /* any alignment; NULL only with count 0 */
    size_t count; /* elements */
} kolo_tensor;

/* An all-reduce in place of `ntensors` tensors, as one message: for each tensor t, tensors[t].data[i] = op over all
 * ranks of tensors[t].data[i], for i in 0 .. tensors[t].count-1. The bits are those of kolo_allreduce, tensor by
 * tensor, but KOLO_ALGORITHM_RING is done as KOLO_ALGORITHM_MESH above 32 KiB in all. Tensors must not overlap; they
 * need not be in order, and may have no elements. All ranks pass the same counts in the same order, at addresses of
 * their own: MISMATCH where they divide the same number of elements differently, too. Blocks until this rank's tensors
 * hold the result. Without tensors, or elements, it still synchronises. What is more than 32 KiB is copied once into
 * shared memory and once out of it, and nowhere else.
 *     KOLO_ERR_ARG: as kolo_allreduce, also tensors NULL with ntensors > 0. All other errors as kolo_allreduce. */
KOLO_API int kolo_allreduce_many(kolo_comm *comm, const kolo_tensor *tensors, size_t ntensors, kolo_dtype dtype,
                                 kolo_op op);

/* The same in the background; see kolo_requests.h. The list is copied; the tensors belong to kolo until the request is
 * complete. */
KOLO_API int kolo_iallreduce_many(kolo_comm *comm, const kolo_tensor *tensors, size_t ntensors, kolo_dtype dtype,
                                  kolo_op op, kolo_request **request);

#ifdef __cplusplus
}
#endif

#endif
