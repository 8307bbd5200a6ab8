/* KOLO_SUM_EXACT of one element, which specifies its kernels: the sum of all inputs, rounded once. */
#ifndef KOLO_REDUCE_EXACT_EXACT_ELEMENT_H
#define KOLO_REDUCE_EXACT_EXACT_ELEMENT_H

#include <stddef.h>
#include <stdint.h>

#include "kolo.h"

/* Returns the bits of element `index` of a result of `dtype`. The n sources are of source_dtype: the same dtype, or F32
 * for a 16-bit float. */
uint64_t kolo_exact_element(kolo_dtype dtype, kolo_dtype source_dtype, const void *const *sources, uint32_t n,
                            size_t index);

#endif
