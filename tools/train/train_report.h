/* What kolo-train reads, prints (on rank 0, to stdout) and writes as JSON. */
#ifndef KOLO_TRAIN_REPORT_H
#define KOLO_TRAIN_REPORT_H

#include <limits.h>
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
    int same; /* early_difference_max <= COMPARISON_TOLERANCE */
} comparison;

/* Rank 0 trains alone while the others sleep; then all ranks know `same`, and rank 0 the rest. Returns 0, or -1 having
 * said why. */
int comparison_run(comparison *result, const trainer *together);

/* Everything that a finished run has to tell. */
typedef struct train_report {
    const char *data_path;
    const trainer *trainer;
    int identical;              /* whether all ranks ended with the same parameters */
    const comparison *compared; /* NULL: not compared */
} train_report;

void train_report_heading(const trainer *t, const char *data_path);
void train_report_epoch(const trainer *t); /* a line for the last epoch */
void train_report_summary(const train_report *report);

/* The files of a run, which are rank 0's business alone: the data it reads and the JSON it may write. */
typedef struct train_files {
    char data_path[PATH_MAX]; /* "" but on rank 0 */
    FILE *json;               /* NULL: none asked for, or closed */
} train_files;

/* Finds the data, and opens the JSON file before the training, so that a path that can't be written doesn't cost a
 * whole run. For the rank that is, or has become, rank 0. Returns 0, or -1 having said why. */
int train_files_open(train_files *files, const kolo_comm *comm, const train_options *options);

/* Reads the data. comm NULL: there is none yet. Returns 0, or -1 having said why. */
int train_files_read(train_files *files, const kolo_comm *comm, const train_options *options, dataset *all);

/* Writes the JSON, if it was asked for. Returns 0, or -1 having said why. */
int train_files_close(train_files *files, const train_report *report);

/* Closes what is still open after a failure. */
void train_files_abandon(train_files *files);

#endif
