/* What tests know of each collective, from the words of the public headers alone. Lists of cases go through this table,
 * so that they have a new collective as soon as it has a row here. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "kolo.h"

enum { COLLECTIVES = KOLO_ALLOC }; /* what comes before it: a barrier, and then those that have data */

typedef struct collective_shape {
    kolo_collective collective;
    bool reduces, has_root;
    bool sends_blocks, takes_blocks; /* a block for, or from, each rank; else one of the call's count */
    bool counted;                    /* blocks of any length */
    bool sent_by_root, taken_by_root;
    bool is_prefix;      /* it reduces the inputs up to this rank's */
    bool leaves_own_out; /* and not that one, so that rank 0 has no result */
} collective_shape;

static const collective_shape collective_shapes[COLLECTIVES] = {
    [KOLO_BARRIER] = {KOLO_BARRIER, .reduces = false},
    [KOLO_BROADCAST] = {KOLO_BROADCAST, .has_root = true, .sent_by_root = true},
    [KOLO_ALLREDUCE] = {KOLO_ALLREDUCE, .reduces = true},
    [KOLO_ALLGATHER] = {KOLO_ALLGATHER, .takes_blocks = true},
    [KOLO_ALLGATHERV] = {KOLO_ALLGATHERV, .takes_blocks = true, .counted = true},
    [KOLO_REDUCE] = {KOLO_REDUCE, .reduces = true, .has_root = true, .taken_by_root = true},
    [KOLO_REDUCE_SCATTER] = {KOLO_REDUCE_SCATTER, .reduces = true, .sends_blocks = true},
    [KOLO_REDUCE_SCATTERV] = {KOLO_REDUCE_SCATTERV, .reduces = true, .sends_blocks = true, .counted = true},
    [KOLO_GATHER] = {KOLO_GATHER, .has_root = true, .takes_blocks = true, .taken_by_root = true},
    [KOLO_GATHERV] = {KOLO_GATHERV, .has_root = true, .takes_blocks = true, .taken_by_root = true, .counted = true},
    [KOLO_SCATTER] = {KOLO_SCATTER, .has_root = true, .sends_blocks = true, .sent_by_root = true},
    [KOLO_SCATTERV] = {KOLO_SCATTERV, .has_root = true, .sends_blocks = true, .sent_by_root = true, .counted = true},
    [KOLO_ALLTOALL] = {KOLO_ALLTOALL, .sends_blocks = true, .takes_blocks = true},
    [KOLO_ALLTOALLV] = {KOLO_ALLTOALLV, .sends_blocks = true, .takes_blocks = true, .counted = true},
    [KOLO_SCAN] = {KOLO_SCAN, .reduces = true, .is_prefix = true},
    [KOLO_EXSCAN] = {KOLO_EXSCAN, .reduces = true, .is_prefix = true, .leaves_own_out = true},
    [KOLO_ALLREDUCE_APPLY] = {KOLO_ALLREDUCE_APPLY, .reduces = true},
    [KOLO_ALLREDUCE_MANY] = {KOLO_ALLREDUCE_MANY, .reduces = true},
};

/* How many ranks' inputs are in what rank `self` gets of a reduction, from rank 0 on. */
static inline int collective_inputs(kolo_collective collective, int self, int ranks) {
    const collective_shape *shape = &collective_shapes[collective];
    return !shape->is_prefix ? ranks : shape->leaves_own_out ? self : self + 1;
}

/* One of those that reduce, by turns. */
static inline const collective_shape *collective_reducing(uint32_t index) {
    uint32_t reducing = 0, left = 0;
    for (int i = 0; i < COLLECTIVES; i++)
        reducing += collective_shapes[i].reduces;
    left = index % reducing;
    for (int i = 0;; i++)
        if (collective_shapes[i].reduces && left-- == 0)
            return &collective_shapes[i];
}
