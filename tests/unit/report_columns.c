/* The rows of kolo-perf (perf_report.h) keep to their columns whatever was measured: on a busy machine a bound may be
 * hundreds of times the median. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "perf_report.h"

static const double extremes[] = {0,       1e-3,    9.9994999, 9.9995, 99.9949,    999.9499, 999.95,
                                  9999.96, 99999.5, 999999.5,  1e7,    99999999.5, 1e10};
enum { EXTREMES = sizeof(extremes) / sizeof(extremes[0]) };

/* Fails unless each of the table's lines has `columns` columns. */
static void check_lines(char *table, size_t columns) {
    char *rest = NULL;
    int lines = 0;
    for (char *line = strtok_r(table, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest), lines++)
        if (strlen(line) != columns)
            fail_msg("%zu columns, not %zu: '%s'", strlen(line), columns, line);
    assert_int_equal(lines, EXTREMES * EXTREMES);
}

/* The rows of every two extremes: as times, and as rates and the bound. */
static void check_rows_of(perf_report *report, size_t columns) {
    char *text = NULL;
    size_t length = 0;
    report->table = open_memstream(&text, &length);
    assert_non_null(report->table);
    for (int i = 0; i < EXTREMES * EXTREMES; i++) {
        const double us = extremes[i / EXTREMES], other = extremes[i % EXTREMES];
        const perf_row row = {.bytes = SIZE_MAX >> (18 + i % 46),
                              .samples = 1,
                              .calls_per_sample = 1,
                              .time_us = {us, us, us, us, us},
                              .turned_us = other,
                              .wrong = i % 2 ? INT64_MAX >> 14 : -1,
                              .algorithm = "oneshot",
                              .algbw_gbps = other,
                              .busbw_gbps = other,
                              .link_gbps = other,
                              .bound_us = other};
        perf_row rows[] = {row, row};
        perf_report_rows(report, rows, report->both_places ? 2 : 1);
    }
    assert_int_equal(fclose(report->table), 0);
    check_lines(text, columns);
    free(text);
}

static void check_rows(void **state) {
    perf_options options = {.dtype = KOLO_F32};
    perf_report report = {
        .options = &options, .ranks = 2, .nodes = 1, .threads = 1, .collective = perf_collective_find(KOLO_ALLREDUCE)};
    (void)state;
    check_rows_of(&report, 80);
    report.nodes = 2;
    check_rows_of(&report, 80);
    report.both_places = true;
    check_rows_of(&report, 79);
    report.both_places = false;
    options.trace = true;
    check_rows_of(&report, 59);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(check_rows)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
