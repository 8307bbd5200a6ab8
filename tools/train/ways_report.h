/* What a comparison of ways prints (on rank 0, to stdout) and writes as JSON. */
#ifndef KOLO_TRAIN_WAYS_REPORT_H
#define KOLO_TRAIN_WAYS_REPORT_H

#include <stdio.h>

#include "ways.h"

/* The largest difference of a step's loss from the plain way's, relative to the larger of that and 1; 0: same bits. */
double ways_difference(const ways *all, const way_run *run);

/* What comes before the first epoch. */
void ways_report_heading(const ways *all);
void ways_report_print(const ways *all);
void ways_report_json(const ways *all, FILE *file);

#endif
