/* What buckets with a compression must give, from the words of kolo_fusion.h alone: one element after another, in plain
 * C, with nothing taken from the library. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "kolo.h"
#include "kolo_fusion.h"

/* How many elements of a tensor TOPK sends. */
size_t reference_chosen(double share, size_t count);

/* What one rank's message for a tensor stands for, in `sent`. residual NULL: what is not sent is lost. Of BF16 and F16
 * the elements of `sent` are the halves, of 2 bytes each. */
void reference_compress(kolo_compression kind, double share, const float *values, float *residual, void *sent,
                        size_t count);

/* expected = op over what the ranks have sent. */
void reference_join(kolo_compression kind, kolo_op op, const void *const *sent, int ranks, float *expected,
                    size_t count);
