/* What kolo-train reads, prints (on rank 0, to stdout) and writes as JSON. */
#pragma once

#include <stdio.h>

#include "dataset.h"
#include "kolo.h"
#include "train_options.h"
#include "trainer.h"

/* The same training once more in one process: does sharing the work change the losses, and what does it gain?
 *
 * Sums over other shares of a batch round differently, by about 1e-7. Training can amplify that, at a high learning
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
    int same;             /* early_difference_max <= COMPARISON_TOLERANCE */
    int cpus;             /* that the ranks may use; 0: they are on several machines */
    double starved_share; /* of their computing together: the time in which they had no processor */
} comparison;

/* Rank 0 trains alone while the others sleep; then all ranks know `same`, and rank 0 the rest. Returns 0 or LOST. */
int comparison_run(comparison *result, const trainer *together);

/* Of one step; and the largest of the first `steps`, and which it is, from 1. */
double loss_difference_max(const trainer *t, const trainer *reference, size_t steps, size_t *step_of_max);

/* Of a whole run: sums over the epochs, and the last one's loss and test. */
epoch_result train_report_total(const trainer *t);
double train_report_accuracy(const trainer *t, const epoch_result *result);

void train_report_heading(const trainer *t);
void train_report_epoch(const trainer *t); /* a line for the last epoch */

/* Everything that a finished run has to tell, printed and written to *json where that is not NULL. `compared` may be
 * NULL: it was not. */
void train_report_end(const trainer *t, int identical, const comparison *compared, FILE **json);

/* What JSON begins with: of the data and the settings. */
void train_report_settings(FILE *file, const trainer *t);

/* Reads the data, and sets their fingerprint. */
void train_data_read(dataset *all, train_options *options);

/* Rank 0's JSON file, if it was asked for. *file is NULL while it is not open. It is opened before the training, so
 * that a path that can't be written doesn't cost a whole run, also by whoever becomes rank 0. What cannot be written
 * ends the process. */
void train_json_open(FILE **file, const train_options *options);
void train_report_close(FILE **file, const train_options *options); /* and standard output has had its last line */

/* "rank" or "ranks", "step" or "steps". */
const char *plural(size_t count);
