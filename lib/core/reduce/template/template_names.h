/* The common part of the templates of kernels: the lengths in which they go through their buffers and, from
 * instances.h, the names of their functions. The including file has defined VECTOR_BYTES. */
#pragma once

#include "kolo.h"
#include "reduce/instances.h"

enum {
    FIXED_MAX = 8,                              /* largest number of sources that has a loop of its own */
    BLOCK_VECTORS = 4,                          /* vectors folded at a time, where there are as many */
    BLOCK_BYTES = BLOCK_VECTORS * VECTOR_BYTES, /* of each source */
    TREE_DEPTH_MAX = 11,                        /* subtrees of different sizes that make up a tree */
    PIECE_ELEMENTS = 512                        /* of a 16-bit float that are widened at a time */
};

_Static_assert(KOLO_RANKS_MAX < 1 << TREE_DEPTH_MAX, "a subtree for each bit of the number of sources");
