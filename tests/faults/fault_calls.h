/* What the ranks of a case call, one call at a time, with results that are checked: collectives that a case may name,
 * memory that is shared, steps of a training. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kolo.h"
#include "fault_board.h"
#include "fault_cases.h"

enum { FAMILY_RANKS_MAX = 4 };

/* Calls what->collective as `rank`, in that step, and notes whether a result is wrong. Returns the call's status. */
int family_call(kolo_comm *comm, const struct fault_case *what, int rank, int step, bool *is_wrong);

/* A kolo_allreduce_apply whose parameters become the sums: on all ranks what an all-reduce leaves. */
int family_apply(kolo_comm *comm, const int32_t *gradients, int32_t *parameters, size_t count);

/* Whether data goes from the root to all others, or from all others to the root, and nothing else makes a rank wait
 * for the end of another's part: not so in lines, which all ranks read of all others. */
bool family_is_one_way(const struct fault_case *what);

/* Whether `rank` waits for what `peer` does, in a call that is one-way. */
bool family_waits(const struct fault_case *what, int rank, int peer);

/* The players' buffers: memory of a player's own that kolo_share makes memory of all ranks, and what becomes of buffers
 * once a call is over. */

/* Shares private memory of `count` numbers, whole pages, as `rank`. It must keep its contents whatever happens: else
 * *is_wrong becomes true. On success *buffer is that memory. Returns kolo_share's status. */
int memory_share(kolo_comm *comm, int rank, int32_t count, int32_t **buffer, bool *is_wrong);

/* A call that returned `status` is over: fills `count` numbers of its buffer with rubbish, and remembers them where it
 * failed. */
void memory_give_back(int status, int32_t *buffer, size_t count);

/* Whether somebody has written there since. */
bool memory_was_written(void);

/* Steps of a training as calls of a case: gradients in buckets that are compressed, and the step of an optimizer. */

/* One rank's part of step `step`. `data` is room for the case's count; `said` becomes the message of what failed. */
struct training_step {
    kolo_comm *comm;
    const struct fault_case *what;
    int rank, step;
    float *data;
    bool *is_wrong;
    char *said; /* BOARD_TEXT_BYTES */
};

/* Two buckets of a tensor each, which send something shorter: what->compression. Returns the status of what failed. */
int training_compressed(const struct training_step *call);

/* kolo_optimizer_step, the first of two segments of which has begun; in the last step of a case the gradients are
 * clipped, so that all segments wait for their norm. Returns as above. */
int training_optimizer(const struct training_step *call);
