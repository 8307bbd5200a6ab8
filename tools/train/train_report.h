/* What kolo-train prints (on rank 0, to stdout) and writes as JSON. */
#ifndef KOLO_TRAIN_REPORT_H
#define KOLO_TRAIN_REPORT_H

#include "comparison.h"
#include "trainer.h"

#include <stdio.h>

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

/* Returns 0, or -1 with errno set. */
int train_report_json(const train_report *report, FILE *file);

#endif
