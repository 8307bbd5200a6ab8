#include "perf_progress.h"

#include <math.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "now.h"

enum { COLUMNS_MAX = 79 };

static struct {
    bool is_open, is_shown;
    int rows, rows_begun; /* of all tables */
    double row_begin_s;   /* 0: none is being measured */
    double spent_s;       /* for rows */
} progress;

void perf_progress_open(const perf_options *options) {
    struct stat output;
    progress.is_open = isatty(STDERR_FILENO) && !perf_is_standard_output(options->json_path) &&
                       !perf_is_standard_output(options->csv_path) && fstat(STDOUT_FILENO, &output) == 0 &&
                       !S_ISFIFO(output.st_mode);
}

void perf_progress_expect(const perf_options *options, size_t unit_bytes) {
    for (perf_sizes sizes = {.unit_bytes = unit_bytes}; perf_sizes_next(&sizes, options);)
        progress.rows++;
}

void perf_progress_say(const char *what) {
    if (!progress.is_open)
        return;
    fprintf(stderr, "\r\033[Kkolo-perf: %.*s", COLUMNS_MAX - (int)sizeof("kolo-perf: "), what);
    fflush(stderr);
    progress.is_shown = true;
}

/* The rows to come are taken to be like those before: they grow, but so they do in each table. */
void perf_progress_row(const char *name, size_t bytes) {
    char text[128];
    const double left_s = progress.spent_s / fmax(progress.rows_begun, 1) * (progress.rows - progress.rows_begun);
    const int length = snprintf(text, sizeof(text), "%s, %zu bytes: row %d of %d", name, bytes, progress.rows_begun + 1,
                                progress.rows);
    if (progress.rows_begun > 0)
        snprintf(text + length, sizeof(text) - (size_t)length, ", about %.0f s left", left_s);
    progress.rows_begun++;
    progress.row_begin_s = now_s();
    perf_progress_say(text);
}

void perf_progress_erase(void) {
    if (progress.row_begin_s > 0)
        progress.spent_s += now_s() - progress.row_begin_s;
    progress.row_begin_s = 0;
    if (!progress.is_shown)
        return;
    fprintf(stderr, "\r\033[K");
    fflush(stderr);
    progress.is_shown = false;
}
