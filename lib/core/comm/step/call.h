/* A rank's record of the collective call that is under way, and of those before it. See comm/step/progress.h. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "comm/step/items.h"
#include "shm/layout.h"

/* Data is folded, and passed on, in pieces of this size: the pieces of two inputs, of the result and of its destination
 * fit a first-level cache. Pieces of 16 KiB and more take 5 to 10 % longer, up to 20 % in buffers of kolo_alloc. */
#define KOLO_PIECE_BYTES 8192
/* The size of pieces where results in buffers of kolo_alloc are stored past the caches: larger pieces switch between
 * streams less often. Pieces of 8 KiB take 6 to 15 % longer. */
#define KOLO_STREAMED_PIECE_BYTES 32768
/* A list of tensors of at most so many bytes is packed, see algo/fusion/many.c. That is about the size up to which
 * all-reduces with few ranks go through slots in one shot. */
#ifndef KOLO_PACKED_BYTES_MAX /* tests/faults and tests/schedules have no such large ones */
#define KOLO_PACKED_BYTES_MAX 16384
#endif

/* An earlier schedule. */
struct kolo_past_steps {
    uint64_t step; /* the steps of all schedules before this one */
    uint64_t stamp;
    uint64_t line_rounds; /* rounds of lines at its end */
};

/* The last use of one of this rank's slots as a whole, or of a part. */
struct kolo_slot_use {
    uint64_t free;           /* once the ranks that touch it have reached this step, they do so no more */
    const uint64_t *readers; /* these ranks, one bit each; NULL: see `reader` */
    uint32_t reader;         /* the only one; KOLO_RANKS_MAX: there is none; KOLO_EVERY_RANK */
};

struct kolo_call_state {
    uint64_t number;      /* the call's index, from 1; 0 before the first one */
    uint64_t stamp;       /* a mix of the keys of this call and all calls before it */
    uint64_t line_rounds; /* see algo/lines.h */
    uint64_t passes;      /* since the last round */
    uint64_t pass_lines;  /* of those */

    /* Scratch memory of the algorithms. */
    const void **sources; /* [ranks]: inputs of a fold */
    uint8_t **targets;    /* [ranks]: destinations of a result, in memory that all have mapped */
    uint8_t collective;   /* of the present call */
    bool one_target;      /* all targets are the same memory, where one rank stores what all receive */
    bool reads;           /* sources are addresses in the other ranks' processes */
    bool traces_stages;   /* kolo_call_stage puts the present call's stages into the trace */
    bool has_refused;     /* one of those could not be read, in the present call */
    uint8_t *unpacked;    /* one set of lines' payload a rank */
    uint8_t *stage;       /* KOLO_STREAMED_PIECE_BYTES for a piece of a result on its way to more than one place */
    uint8_t *packed;      /* KOLO_PACKED_BYTES_MAX for the tensors of a list */

    /* Steps and tickets. */
    uint64_t step;        /* steps of all schedules before the present one */
    uint64_t steps;       /* of the present one */
    uint64_t ticket;      /* tickets of all schedules before the present one */
    uint64_t tickets;     /* of the present one */
    uint64_t part;        /* of that ticket's slot: the first that no small schedule has used */
    bool is_small;        /* the present one, or the last: it has a part in the place of a ticket's slot */
    uint64_t schedule;    /* the number, from 0, of the present schedule or the next; only those with tickets count */
    uint64_t *peer_steps; /* [ranks]: the last step of each rank that this rank has seen */
    struct kolo_slot_use slots[KOLO_SLOTS]; /* as wholes */
    struct kolo_slot_use parts[KOLO_PARTS];
    uint64_t parts_free[KOLO_SLOTS]; /* the latest `free` of a slot's parts */
    uint64_t swap_calls;             /* calls through regions of pairs (algo/regions.h) since kolo_swaps_stop */
    uint64_t places_free;            /* once all have reached this step, the rank may write its places again, see
                                        algo/direct_buffers.h */
    struct kolo_past_steps past[KOLO_STAMPS]; /* [s % KOLO_STAMPS]: schedule s, the last ones */

    /* See comm/step/history.h. */
    uint64_t recorded;            /* the call whose record in the history is open */
    uint64_t recorded_longest_ns; /* its longest wait so far */

    /* The fields below are for few calls. */
    struct kolo_items items; /* that ranks have to pass alike in this call, for messages; `item` NULL: not known */
    size_t *offsets[2];      /* [ranks of all nodes]: of blocks to send, and to receive, one behind the other */
    uint64_t tree_readers[KOLO_RANK_WORDS]; /* see algo/allreduce/tree.c */
};
