/* kolo-top: what the ranks of a running job do, seen from outside through kolo_watch.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "top_list.h"
#include "top_options.h"
#include "top_report.h"
#include "top_sample.h"
#include "top_terminal.h"

#define FIRST_INTERVAL_S  0.2 /* so that something is on the screen soon */
#define SEARCH_INTERVAL_S 5   /* for communicators that have come since: a look at all processes of the user */

static double now_s(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* False where it cannot be written. */
static bool show(const top_sample *sample, const top_options *options) {
    if (options->json)
        top_report_json(sample);
    else {
        if (!options->once && isatty(STDOUT_FILENO))
            fputs("\033[H\033[2J", stdout);
        top_report_table(sample);
        if (top_terminal_has_keys())
            puts("q quits");
    }
    if (fflush(stdout) == 0 && !ferror(stdout))
        return true;
    perror("kolo-top: cannot write the report");
    return false;
}

/* Shows one interval after another until all communicators are over; the program's exit status. */
static int follow(kolo_watch *watch, const top_options *options) {
    top_sample before, sample = {0};
    double search_s = now_s() + SEARCH_INTERVAL_S;
    bool good = top_sample_take(&before, watch, &sample), over = false;
    double interval_s =
        !options->once && FIRST_INTERVAL_S < options->interval_s ? FIRST_INTERVAL_S : options->interval_s;
    while (good && !over && top_terminal_wait(interval_s) == TOP_EVENT_TIME) {
        interval_s = options->interval_s;
        good = top_sample_take(&sample, watch, &before);
        good = good && show(&sample, options);
        over = options->once;
        if (good && !over && (now_s() >= search_s || top_sample_over(&sample))) {
            search_s = now_s() + SEARCH_INTERVAL_S;
            over = kolo_watch_search(watch) < 0;
            if (over)
                fputs("kolo-top: the job has ended\n", stderr);
        }
        top_sample_free(&before);
        before = sample;
    }
    top_sample_free(&before);
    return good ? EXIT_SUCCESS : EXIT_FAILURE;
}

int main(int argc, char **argv) {
    const top_options options = top_options_parse(argc, argv);
    kolo_watch *watch;
    if (!options.target)
        return top_list_print(options.json);
    if (kolo_watch_open(&watch, options.target) < 0) {
        fprintf(stderr, "kolo-top: %s; kolo-top alone lists your jobs\n", kolo_error_message());
        return EXIT_FAILURE;
    }
    top_report_set_colour(!options.json && top_terminal_has_colour());
    if (!options.once && !options.json)
        top_terminal_open();
    const int exit_code = follow(watch, &options);
    kolo_watch_close(watch);
    top_terminal_close();
    return exit_code;
}
