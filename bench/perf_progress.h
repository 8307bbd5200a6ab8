/* How far a run has come: one line on standard error, where that is a terminal, which is erased before anything else is
 * printed. Rank 0 opens it; without that all of this does nothing. */
#pragma once

#include <stddef.h>

#include "perf_options.h"

/* Nothing is shown where standard output goes into a pipe, as to a pager on the same terminal, or has records. */
void perf_progress_open(const perf_options *options);

/* There will be one more table, with a row for each size. */
void perf_progress_expect(const perf_options *options, size_t unit_bytes);

/* The next row is being measured, of `bytes` bytes. */
void perf_progress_row(const char *name, size_t bytes);

/* Something else is. */
void perf_progress_say(const char *what);

/* It has been: what is shown goes. */
void perf_progress_erase(void);
