/* Own operations are those of the program (kolo_op_create). This file has the kernels that call their functions.
 *
 * A kernel is a plain function without a context. So there is a fixed number of places, each of which has kernels of
 * its own that know their place. An operation's number names its place and, above that, how often the place was taken
 * before. The number means nothing once its operation is destroyed, and is never given again: a place without numbers
 * left stays free.
 *
 * The type of accumulation is the element itself. Inputs are folded from left to right (reduce/reducer.h). */
#pragma once

#include <stdbool.h>

#include "reduce/reducer.h"

/* Takes a place. KOLO_ERR_UNSUPPORTED: all are taken, or no number is left. */
int kolo_own_op_add(kolo_op *op, kolo_op_function function, void *context, size_t element_bytes, bool is_commutative);

/* Gives the place back. Returns false if there is no such operation. */
bool kolo_own_op_remove(kolo_op op);

/* Returns the operation's kernel; NULL: there is no such operation. */
const kolo_kernel *kolo_own_op_kernel(kolo_op op);
