/* What kolo-train reads, prints (on rank 0, to stdout) and writes as JSON. */
#ifndef KOLO_TRAIN_REPORT_H
#define KOLO_TRAIN_REPORT_H

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

/* Rank 0 trains alone while the others sleep; then all ranks know `same`, and rank 0 the rest. Returns 0, or -1 having
 * said why. */
int comparison_run(comparison *result, const trainer *together);

/* Everything that a finished run has to tell. */
typedef struct train_report {
    const trainer *trainer;
    int identical;              /* whether all ranks ended with the same parameters */
    const comparison *compared; /* NULL: not compared */
} train_report;

/* Of a whole run: sums over the epochs, and the last one's loss and test. */
epoch_result train_report_total(const trainer *t);
double train_report_accuracy(const trainer *t, const epoch_result *result);

void train_report_heading(const trainer *t);
void train_report_epoch(const trainer *t); /* a line for the last epoch */
void train_report_summary(const train_report *report);

/* Reads the data, and sets their fingerprint. comm NULL: there is none yet. Returns 0, or -1 having said why. */
int train_data_read(dataset *all, const kolo_comm *comm, train_options *options);

/* Rank 0's JSON file, if it was asked for. *file is NULL while it is not open. It is opened before the training, so
 * that a path that can't be written doesn't cost a whole run, also by whoever becomes rank 0. Return 0, or -1 having
 * said why. train_json_write: all figures of a training. */
int train_json_open(FILE **file, const kolo_comm *comm, const train_options *options);
void train_json_write(FILE *file, const train_report *report);
int train_json_close(FILE **file, const trainer *t);

#endif
