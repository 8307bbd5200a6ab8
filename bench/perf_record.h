/* Rows of measurements as named values, for JSON and CSV alike, each with where and when it was measured.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef PERF_RECORD_H
#define PERF_RECORD_H

#include <stdio.h>

typedef enum perf_field_kind { PERF_TEXT, PERF_NUMBER, PERF_TRUTH } perf_field_kind;

typedef struct perf_field {
    const char *name; /* "time_us.median" is median in the object time_us in JSON, and one column in CSV */
    perf_field_kind kind;
    const char *text; /* PERF_TEXT */
    double number;    /* the others; NAN: unknown */
    int decimals;
} perf_field;

typedef struct perf_origin {
    char host[256];
    char cpu[64];
    char date[32]; /* of the run's beginning, ISO 8601 in UTC */
} perf_origin;

enum { PERF_ORIGIN_FIELDS = 4, PERF_FIELDS_MAX = 40 };

perf_origin perf_origin_now(void);

/* Appends host, cpu, kolo_version and date at fields[count]. Returns the new count. */
size_t perf_origin_append(const perf_origin *origin, perf_field *fields, size_t count);

/* An object on a line of its own. */
void perf_record_json(FILE *to, const perf_field *fields, size_t count);

/* A line of values with commas between, and the line of names that goes before them. */
void perf_record_csv_names(FILE *to, const perf_field *fields, size_t count);
void perf_record_csv(FILE *to, const perf_field *fields, size_t count);

#endif
