/* SPDX-License-Identifier: Apache-2.0 */
#include "comparison.h"

#include "complain.h"

#include <math.h>
#include <stdio.h>

/* What rank 0 tells the waiting ranks after each epoch. */
enum verdict { VERDICT_LATER, VERDICT_SAME, VERDICT_DIFFERENT };

static int tell(kolo_comm *comm, int32_t verdict) {
    if (kolo_broadcast(comm, &verdict, 1, KOLO_I32, 0) < 0)
        return complain_kolo(comm, "cannot share the progress of the run in one process");
    return 0;
}

static double seconds_of(const trainer *t) {
    double seconds = 0;
    for (size_t epoch = 0; epoch < t->epochs; epoch++)
        seconds += t->results[epoch].seconds;
    return seconds;
}

static void compare(comparison *result, const trainer *together, const trainer *alone) {
    *result = (comparison){.seconds_together = seconds_of(together), .seconds_alone = seconds_of(alone)};
    result->test_accuracy_alone = (double)alone->results[alone->epochs - 1].test_correct / (double)alone->test->rows;
    for (size_t step = 0; step < alone->steps; step++) {
        double reference = (double)alone->losses[step];
        double difference = fabs((double)together->losses[step] - reference) / fmax(1, fabs(reference));
        if (step == 0 || difference > result->difference_max) {
            result->difference_max = difference;
            result->step_of_max = step + 1;
        }
        if (step < COMPARISON_STEPS)
            result->early_difference_max = result->difference_max;
    }
    result->same = result->early_difference_max <= COMPARISON_TOLERANCE;
}

/* Rank 0's part. A word after each epoch keeps every single wait of the others short. */
static int lead(comparison *result, const trainer *together, kolo_comm *single) {
    trainer alone;
    if (trainer_create(&alone, single, together->options, together->train, together->test) < 0)
        return -1;
    int rc = trainer_begin(&alone);
    while (rc == 0 && alone.steps < alone.steps_planned) {
        rc = trainer_run_epoch(&alone);
        if (rc == 0)
            rc = tell(together->comm, VERDICT_LATER);
    }
    if (rc == 0) {
        compare(result, together, &alone);
        rc = tell(together->comm, result->same ? VERDICT_SAME : VERDICT_DIFFERENT);
    }
    trainer_destroy(&alone);
    return rc;
}

static int follow(comparison *result, const trainer *together) {
    int32_t verdict = VERDICT_LATER;
    for (size_t epoch = 0; epoch <= together->epochs_planned && verdict == VERDICT_LATER; epoch++)
        if (kolo_broadcast(together->comm, &verdict, 1, KOLO_I32, 0) < 0)
            return complain_kolo(together->comm, "cannot follow the run in one process");
    *result = (comparison){.same = verdict == VERDICT_SAME};
    return 0;
}

int comparison_run(comparison *result, const trainer *together) {
    if (kolo_comm_rank(together->comm) != 0)
        return follow(result, together);
    kolo_options options = KOLO_OPTIONS_INIT;
    options.rank = 0;
    options.size = 1;
    kolo_comm *single;
    if (kolo_comm_create(&single, &options) < 0)
        return complain(together->comm, "cannot begin the run in one process: %s", kolo_error_message());
    int rc = lead(result, together, single);
    kolo_comm_destroy(single);
    return rc;
}
