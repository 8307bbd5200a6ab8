/* What rank 0 prints and writes: the table of a run, and its rows as JSON.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef PERF_REPORT_H
#define PERF_REPORT_H

#include <stdio.h>

#include "perf_bound.h"
#include "perf_options.h"
#include "perf_run.h"

typedef struct perf_report {
    const perf_options *options;
    int ranks;
    int nodes;                 /* more than one: rows show what the busiest link carried, and no bound */
    FILE *json;                /* NULL: none */
    const perf_limits *limits; /* NULL: rows have no bound */
} perf_report;

/* Opens the JSON file where one is asked for. Returns 0, or -1 after saying on stderr why it cannot be written. */
int perf_report_open(perf_report *report, const perf_options *options, const perf_run *run, const perf_limits *limits);

/* The lines above the table. `note` is why there is no bound, or NULL. */
void perf_report_head(const perf_report *report, const char *note);

void perf_report_row(const perf_report *report, const perf_row *row);

/* Closes the JSON file. Returns 0, or -1 after saying on stderr that output was lost. */
int perf_report_close(perf_report *report);

/* A line with the machine's name, kernels and CPUs. */
void perf_print_machine(void);

/* "12.34", in few characters and with at least three digits. */
void perf_print_us(double us, int width);

#endif
