/* The same training once more in one process: does sharing the work change the losses, and what does it gain? */
#ifndef KOLO_TRAIN_COMPARISON_H
#define KOLO_TRAIN_COMPARISON_H

#include "kolo.h"

#include "trainer.h"

/* Sums over other shares of a batch round differently, by about 1e-7. Training can amplify that, at a high learning
 * rate even to another course altogether; but not in the first steps, where a wrong gradient shows at once. So those
 * steps decide. */
enum { COMPARISON_STEPS = 10 };
#define COMPARISON_TOLERANCE 1e-3

/* How two runs' losses of the same step differ: |together - alone| / max(1, |alone|). */
typedef struct comparison {
    double early_difference_max; /* over the first COMPARISON_STEPS */
    double difference_max;       /* over all steps */
    size_t step_of_max;          /* from 1 */
    double seconds_together;
    double seconds_alone;
    double test_accuracy_alone;
    int same; /* early_difference_max <= COMPARISON_TOLERANCE */
} comparison;

/* Rank 0 trains alone while the others sleep; then all ranks know `same`, and rank 0 the rest. Returns 0, or -1 having
 * said why. */
int comparison_run(comparison *result, const trainer *together);

#endif
