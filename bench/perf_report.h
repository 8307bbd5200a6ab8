/* What rank 0 prints and writes: the table of a run, and its rows as JSON and CSV. */
#pragma once

#include <stdbool.h>
#include <stdio.h>
#include <sys/utsname.h>

#include "kolo_tools.h"
#include "perf_bound.h"
#include "perf_options.h"
#include "perf_sampler.h"

/* Rows of measurements are named values, for JSON and CSV alike, each with where and when it was measured. */
typedef enum perf_field_kind { PERF_TEXT, PERF_NUMBER, PERF_TRUTH } perf_field_kind;

typedef struct perf_field {
    const char *name; /* "time_us.median" is median in the object time_us in JSON, and one column in CSV */
    perf_field_kind kind;
    const char *text; /* PERF_TEXT */
    double number;    /* the others; NAN: unknown */
    int decimals;
} perf_field;

/* The fields of statistics, of an object with that name. */
#define PERF_SPREAD(name, of, decimals)                                                                                \
    {name ".min", PERF_NUMBER, NULL, (of)->min, decimals}, {name ".avg", PERF_NUMBER, NULL, (of)->avg, decimals},      \
        {name ".median", PERF_NUMBER, NULL, (of)->median, decimals},                                                   \
        {name ".p99", PERF_NUMBER, NULL, (of)->p99, decimals}, {                                                       \
        name ".max", PERF_NUMBER, NULL, (of)->max, decimals                                                            \
    }

/* The most that a record has, with what perf_report_record adds. */
enum { PERF_FIELDS_MAX = 40 };

typedef struct perf_report {
    const perf_options *options;
    int ranks;
    int nodes; /* more than one: rows show what the busiest link carried, and no bound */
    struct utsname system;
    kolo_machine machine;
    char date[32];             /* of the run's beginning, ISO 8601 in UTC */
    FILE *table;               /* standard output, or standard error where rows go to standard output */
    FILE *json;                /* NULL: none */
    FILE *csv;                 /* NULL: none */
    const perf_limits *limits; /* NULL: rows have no bound */
    /* Of the table that is being printed. */
    int threads;   /* with which each rank moves its data */
    bool progress; /* its calls in the background are carried out by a progress thread */
    const perf_collective *collective;
    bool both_places;
    bool bounded;
    double busbw_sum_gbps;
    int results;       /* in that sum */
    bool above_bound;  /* a row was faster than its bound */
    bool reader_gone;  /* who read standard output has closed it: head has seen enough */
    bool csv_has_head; /* its line of names is written */
    /* errno of the first write that failed; 0: none. */
    int output_error;
    int json_error;
    int csv_error;
} perf_report;

/* Opens the files that are asked for. Returns 0, or -1 after saying on stderr what cannot be written. */
int perf_report_open(perf_report *report, const perf_options *options, int ranks, int nodes, const perf_limits *limits);

/* Begins a table. With `both_places` rows show the two side by side. `note` is why there is no bound, or NULL. */
void perf_report_head(perf_report *report, const perf_collective *collective, bool both_places, const char *note);

/* The results of one message size: one, or those out of place and in place. */
void perf_report_rows(perf_report *report, perf_row *rows, int count);

/* Writes an object or a line to the files that are asked for: the fields up to the first without a name, to which it
 * adds where and when they were measured. */
void perf_report_record(perf_report *report, perf_field fields[PERF_FIELDS_MAX]);

/* The same of a collective's row: what was called, and then the fields that it is given. */
void perf_report_record_call(perf_report *report, const perf_row *row, const perf_field *measured);

/* What follows the last row; the average bus bandwidth is the last line. */
void perf_report_end(perf_report *report, int64_t wrong);

/* Writes what is buffered, and finds out whether somebody still reads it. */
void perf_report_flush(perf_report *report);

/* True while somebody reads standard output, or a file is being written. */
bool perf_report_is_wanted(const perf_report *report);

/* *ends becomes true where that is no longer so, which rank 0 alone knows. Collective; returns 0 or a KOLO_ERR_*. */
int perf_report_agree_on_end(const perf_report *report, kolo_comm *comm, bool *ends);

/* Closes the files. Returns 0, or -1 after saying on stderr that output was lost. */
int perf_report_close(perf_report *report);

/* Lines with the machine's name, kernels and CPUs. */
void perf_report_machine(const perf_report *report);

/* A space, then the value in `width` characters, at least five: with so many decimals, or as "1234k" where they are too
 * many. */
void perf_print_number(FILE *to, double value, int decimals, int width);

/* The same with four digits, or all those before the point: microseconds or GB/s. */
void perf_print_digits(FILE *to, double value, int width);

/* A space, then a message size in `width` characters: in bytes or, where these are too many digits, as "16G". */
void perf_print_bytes(FILE *to, size_t bytes, int width);

/* A space, then how many elements are wrong in six characters, as "1234k" where they are more; -1: "-". */
void perf_print_wrong(FILE *to, int64_t wrong);
