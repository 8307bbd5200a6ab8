/* What a training with a parameter server prints (rank 0, and the worker that evaluates) and writes as JSON. */
#ifndef KOLO_TRAIN_WORKER_REPORT_H
#define KOLO_TRAIN_WORKER_REPORT_H

#include <stdio.h>

#include "worker.h"

void worker_report_heading(const worker *w);
void worker_report_evaluation(const evaluation *now);
void worker_report_summary(const worker *w);

/* Writes and closes *file where that is not NULL. Returns 0, or -1 having said why. */
int worker_report_json(const worker *w, FILE **file);

#endif
