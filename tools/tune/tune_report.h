/* The table of what was measured and chosen. */
#ifndef KOLO_TUNE_REPORT_H
#define KOLO_TUNE_REPORT_H

#include "tune_choice.h"

/* Prints one rank count's table on standard output. Returns 0 or -1 after a complaint. */
int tune_report(const tune_space *space, const tune_times *times, const tune_choice *choice, bool bound);

#endif
