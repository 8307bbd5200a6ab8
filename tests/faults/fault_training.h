/* Steps of a training as calls of a case: gradients in buckets that are compressed, and the step of an optimizer. */
#ifndef KOLO_TESTS_FAULT_TRAINING_H
#define KOLO_TESTS_FAULT_TRAINING_H

#include "fault_board.h"
#include "fault_cases.h"

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

#endif
