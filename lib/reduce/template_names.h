/* What the templates of kernels have in common: the lengths in which they go through their buffers, the names of what
 * they define, and the kinds of dtypes. The including file has defined VECTOR_BYTES. */
#ifndef KOLO_REDUCE_TEMPLATE_NAMES_H
#define KOLO_REDUCE_TEMPLATE_NAMES_H

#include "kolo.h"

enum {
    FIXED_MAX = 8,                              /* largest number of sources that has a loop of its own */
    BLOCK_VECTORS = 4,                          /* folded at a time, where there are as many */
    BLOCK_BYTES = BLOCK_VECTORS * VECTOR_BYTES, /* of each source */
    TREE_DEPTH_MAX = 11,                        /* subtrees of different sizes that make up a tree */
    PIECE_ELEMENTS = 512                        /* of a 16-bit float that are widened at a time */
};

_Static_assert(KOLO_RANKS_MAX < 1 << TREE_DEPTH_MAX, "a subtree for each bit of the number of sources");

/* What the templates call the functions of a dtype and the kernels. */
#define PASTE3_(a, b, c)  a##_##b##_##c
#define PASTE3(a, b, c)   PASTE3_(a, b, c)
#define PASTE2_(a, b)     a##_##b
#define PASTE2(a, b)      PASTE2_(a, b)
#define DTYPE_NAME(verb)  PASTE2(verb, DTYPE)
#define KERNEL_NAME(verb) PASTE3(verb, DTYPE, OP)
#define F32_NAME(verb)    PASTE3(verb, F32, OP) /* of the same op */

/* KIND, a parameter of dtype_template.h: what a dtype has to be given kernels for. */
#define UNSIGNED 1 /* integer: all ops */
#define SIGNED   2 /* integer: what differs from the unsigned one of its width, MIN, MAX and AVG */
#define FLOAT    3 /* all but the bit operations */
#define HALF     4 /* the same, accumulated in F32 */

#endif
