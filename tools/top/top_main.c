/* kolo-top: what the ranks of a running job do, seen from outside through kolo_watch.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "command_line.h"
#include "messages.h"
#include "now.h"
#include "terminal_colour.h"
#include "top_list.h"
#include "top_report.h"
#include "top_sample.h"
#include "top_terminal.h"

#define FIRST_INTERVAL_S  0.2 /* so that something is on the screen soon */
#define SEARCH_INTERVAL_S 5   /* for communicators that have come since: a look at all processes of the user */

static struct {
    double interval_s;
    bool once;
    bool json;
} options = {.interval_s = 1};

static const command_option table[] = {
    {"--interval S", "seconds from one reading to the next (default 1)", TO_NUMBER(options.interval_s, 0.01, 3600)},
    {"--once", "read twice, an interval apart, show what lies between, and end", TO_FLAG(options.once)},
    {"--json", "print an object for each reading, on a line of its own, instead of tables; for the list, one object",
     TO_FLAG(options.json)},
};

static command_line line = {
    .program = "kolo-top",
    .before =
        "usage: kolo-top\n"
        "       kolo-top [OPTION...] PID|JOB\n"
        "\n"
        "Without PID or JOB, lists your running jobs. With one, shows what its ranks do, whom they wait for, and "
        "who keeps them waiting; the key q quits. PID is that of a rank, or of what started the ranks: kolorun, "
        "mpirun, a shell. JOB is the job's name: its KOLO_JOB, or the one in the list. Only jobs of the same user "
        "can be looked at. The job does not notice: nothing is written, stopped or waited for.",
    .options = table,
    .options_count = sizeof table / sizeof *table,
    .arguments_max = 1,
    .after =
        "Columns\n"
        "  *        the straggler: the rank for which the others waited longest in this interval, less what it "
        "waited itself\n"
        "  state    between (calls), in call, waiting (beyond spinning), stopped, left (has destroyed the "
        "communicator), ended\n"
        "  algbw    bytes of messages a second, of calls that have ended\n"
        "  wait     share of the interval spent in waits beyond spinning\n"
        "  for      the rank for which it is waiting, or waited longest in its last 64 calls in this interval\n"
        "  call     number of the present or last call, and what it is\n"
        "\n"
        "On a terminal, what needs a look has a colour; NO_COLOR=1 switches colours off.\n"
        "\n"
        "JSON\n"
        "  interval_s, and communicators, a list of: job, file, offset (the segment's inode and place in it), "
        "segment_bytes, state (running, broken, ended), failure (null or status, rank, reporter), straggler (a rank "
        "or null) and ranks, a list of: rank, pid, process (state letter as in /proc; null: ended), state, calls "
        "(begun), calls_ended, steps, call (null or number, collective, count, dtype, op, root, for_s: since when it "
        "runs, null if that is not known or it has ended), calls_per_s, bytes_per_s, payload_bytes, sent_bytes, "
        "received_bytes, waited_s (since creation), waiting_share, waits_for, waits_s (now; null: for nobody), "
        "waited_most_for (in the interval), awaited_share (what the others waited for it, as a share of the "
        "interval; above 1 if several did).\n"
        "  How long a call has run is known of messages of 256 KiB or more, and of calls that had to wait beyond "
        "spinning.\n"
        "  The list: jobs, a list of: job, pid (of its first rank), ranks (on this machine), communicators, state "
        "(running, stopped, broken), age_s.\n"
        "\n"
        "Exit status: 0, also when the job ends meanwhile; 1 where there is no such job; 2 for a wrong option.\n"
        "\n"
        "example: KOLO_JOB=digits kolorun -n 2 kolo-train & sleep 5; kolo-top digits",
};

/* False where it cannot be written. */
static bool show(const top_sample *sample) {
    if (options.json)
        top_report_json(sample);
    else {
        if (!options.once && isatty(STDOUT_FILENO))
            fputs("\033[H\033[2J", stdout);
        top_report_table(sample);
        if (top_terminal_has_keys())
            puts("q quits");
    }
    return message_unless_written() == 0;
}

/* Shows one interval after another until all communicators are over; the program's exit status. */
static int follow(kolo_watch *watch) {
    top_sample before, sample = {0};
    double search_s = now_s() + SEARCH_INTERVAL_S;
    bool good = top_sample_take(&before, watch, &sample), over = false;
    double interval_s = !options.once && FIRST_INTERVAL_S < options.interval_s ? FIRST_INTERVAL_S : options.interval_s;
    while (good && !over && top_terminal_wait(interval_s) == TOP_EVENT_TIME) {
        interval_s = options.interval_s;
        good = top_sample_take(&sample, watch, &before);
        good = good && show(&sample);
        over = options.once;
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
    const char *target = *command_line_read(&line, argc, argv);
    kolo_watch *watch;
    if (!target && (options.once || command_line_has(&line, "--interval")))
        command_line_refuse(&line, "--once and --interval are for one job: give a process or a job's name");
    if (!target)
        return top_list_print(options.json);
    if (kolo_watch_open(&watch, target) < 0) {
        message_print("%s; kolo-top alone lists your jobs", kolo_error_message());
        return EXIT_FAILURE;
    }
    top_report_set_colour(!options.json && terminal_has_colour(STDOUT_FILENO));
    if (!options.once && !options.json)
        top_terminal_open();
    const int exit_code = follow(watch);
    kolo_watch_close(watch);
    top_terminal_close();
    return exit_code;
}
