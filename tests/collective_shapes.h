/* What the buffers of each collective are: one block, or one for each rank, of the call's count or of any length. */
#ifndef KOLO_TESTS_COLLECTIVE_SHAPES_H
#define KOLO_TESTS_COLLECTIVE_SHAPES_H

#include <stdbool.h>

#include "kolo.h"

typedef struct collective_shape {
    bool sends_blocks, takes_blocks;
    bool counted;
    bool sent_by_root, taken_by_root;
} collective_shape;

static const collective_shape collective_shapes[KOLO_COLLECTIVES] = {
    [KOLO_BROADCAST] = {.sent_by_root = true},
    [KOLO_ALLGATHER] = {.takes_blocks = true},
    [KOLO_ALLGATHERV] = {.takes_blocks = true, .counted = true},
    [KOLO_REDUCE] = {.taken_by_root = true},
    [KOLO_REDUCE_SCATTER] = {.sends_blocks = true},
    [KOLO_REDUCE_SCATTERV] = {.sends_blocks = true, .counted = true},
    [KOLO_GATHER] = {.takes_blocks = true, .taken_by_root = true},
    [KOLO_GATHERV] = {.takes_blocks = true, .taken_by_root = true, .counted = true},
    [KOLO_SCATTER] = {.sends_blocks = true, .sent_by_root = true},
    [KOLO_SCATTERV] = {.sends_blocks = true, .sent_by_root = true, .counted = true},
    [KOLO_ALLTOALL] = {.sends_blocks = true, .takes_blocks = true},
    [KOLO_ALLTOALLV] = {.sends_blocks = true, .takes_blocks = true, .counted = true},
};

/* How many ranks' inputs are in what rank `self` gets of a reduction, from rank 0 on. */
static inline int collective_inputs(kolo_collective collective, int self, int ranks) {
    return collective == KOLO_SCAN ? self + 1 : collective == KOLO_EXSCAN ? self : ranks;
}

#endif
