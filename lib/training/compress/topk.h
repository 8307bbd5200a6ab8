/* Top-k chooses the elements of a tensor that are largest by magnitude, NaNs first, then infinities, then numbers.
 * Among elements of one magnitude, and among NaNs, it chooses those with the lowest indices. So the choice is the same
 * for every instance. */
#ifndef KOLO_TRAINING_COMPRESS_TOPK_H
#define KOLO_TRAINING_COMPRESS_TOPK_H

#include "training/kernels/training_kernels.h"

/* Returns how many indices kolo_topk_choose needs room for besides its result. */
size_t kolo_topk_room(size_t count, size_t k);

/* Fills chosen[0 .. k-1] with the indices of the k largest of `count` elements, ascending; k from 1 to count, count
 * below 2^32. `work` has kolo_topk_room(count, k) elements. */
void kolo_topk_choose(const kolo_training_kernels *kernels, uint32_t *chosen, size_t k, const void *values,
                      size_t count, uint32_t *work);

#endif
