/* kolo-perf limits: measures every piece thoroughly, prints what it finds as it goes, then the bound for each size.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef PERF_LIMITS_REPORT_H
#define PERF_LIMITS_REPORT_H

#include "perf_options.h"

/* `ranks` is how many the launcher started; --ranks goes first. Returns the exit status. */
int perf_limits_report(const perf_options *options, int ranks);

#endif
