/* kolo-perf exact: how fast kolo_exact_add is, beside a plain vectorized sum of the same array. */
#ifndef PERF_EXACT_H
#define PERF_EXACT_H

#include "perf_options.h"

/* Prints a row for each dtype and size. Returns the exit status. */
int perf_exact_report(const perf_options *options);

#endif
