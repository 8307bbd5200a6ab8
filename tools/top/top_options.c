/* SPDX-License-Identifier: Apache-2.0 */
#include "top_options.h"

#include <stdlib.h>
#include <string.h>

#include "command_line.h"

#define INTERVAL_S_DEFAULT 1
#define INTERVAL_S_MIN     0.01
#define INTERVAL_S_MAX     3600.0

enum { OPTION_INTERVAL = 256, OPTION_ONCE, OPTION_JSON };

static const struct option long_options[] = {
    {"interval", required_argument, NULL, OPTION_INTERVAL},
    {"once", no_argument, NULL, OPTION_ONCE},
    {"json", no_argument, NULL, OPTION_JSON},
    {"help", no_argument, NULL, 'h'},
    {"version", no_argument, NULL, 'v'},
    {NULL, 0, NULL, 0},
};

static const char help_text[] = "usage: kolo-top\n"
                                "       kolo-top [OPTION...] PID|JOB\n"
                                "\n"
                                "Without PID or JOB, lists your running jobs. With one, shows what its ranks do,\n"
                                "whom they wait for, and who keeps them waiting; the key q quits. PID is that of\n"
                                "a rank, or of what started the ranks: kolorun, mpirun, a shell. JOB is the\n"
                                "job's name: its KOLO_JOB, or the one in the list. Only jobs of the same user\n"
                                "can be looked at. The job does not notice: nothing is written, stopped or\n"
                                "waited for.\n"
                                "\n"
                                "  --interval S   seconds from one reading to the next (default 1)\n"
                                "  --once         read twice, an interval apart, show what lies between, and end\n"
                                "  --json         print an object for each reading, on a line of its own,\n"
                                "                 instead of tables; for the list, one object\n"
                                "  --version      print the version\n"
                                "  --help         print this\n"
                                "\n"
                                "Columns\n"
                                "  *        the straggler: the rank for which the others waited longest in this\n"
                                "           interval, less what it waited itself\n"
                                "  state    between (calls), in call, waiting (beyond spinning), stopped, left\n"
                                "           (has destroyed the communicator), ended\n"
                                "  algbw    bytes of messages a second, of calls that have ended\n"
                                "  wait     share of the interval spent in waits beyond spinning\n"
                                "  for      the rank for which it is waiting, or waited longest in its last 64\n"
                                "           calls in this interval\n"
                                "  call     number of the present or last call, and what it is\n"
                                "\n"
                                "On a terminal, what needs a look has a colour; NO_COLOR=1 switches colours off.\n"
                                "\n"
                                "JSON\n"
                                "  interval_s, and communicators, a list of: job, file, offset (the segment's\n"
                                "  inode and place in it), segment_bytes, state (running, broken, ended), failure\n"
                                "  (null or status, rank, reporter), straggler (a rank or null) and ranks, a list\n"
                                "  of: rank, pid, process (state letter as in /proc; null: ended), state, calls\n"
                                "  (begun), calls_ended, steps, call (null or number, collective, count, dtype,\n"
                                "  op, root, for_s: since when it runs, null if that is not known or it has\n"
                                "  ended), calls_per_s, bytes_per_s, payload_bytes, sent_bytes, received_bytes,\n"
                                "  waited_s (since creation), waiting_share, waits_for, waits_s (now; null: for\n"
                                "  nobody), waited_most_for (in the interval), awaited_share (what the others\n"
                                "  waited for it, as a share of the interval; above 1 if several did).\n"
                                "  How long a call has run is known of messages of 256 KiB or more, and of calls\n"
                                "  that had to wait beyond spinning.\n"
                                "  The list: jobs, a list of: job, pid (of its first rank), ranks (on this\n"
                                "  machine), communicators, state (running, stopped, broken), age_s.\n"
                                "\n"
                                "Exit status: 0, also when the job ends meanwhile; 1 where there is no such job;\n"
                                "2 for a wrong option.\n"
                                "\n"
                                "example: KOLO_JOB=digits kolorun -n 2 kolo-train & sleep 5; kolo-top digits\n";

static const command_line line = {"kolo-top", help_text, long_options, .arguments_max = 1};

static double parse_interval(const char *text) {
    char *end;
    const double seconds = strtod(text, &end);
    if (strspn(text, "0123456789.") != strlen(text) || end == text || *end ||
        !(seconds >= INTERVAL_S_MIN && seconds <= INTERVAL_S_MAX))
        command_line_refuse(&line, "--interval '%s': give seconds from 0.01 to 3600", text);
    return seconds;
}

top_options top_options_parse(int argc, char **argv) {
    top_options options = {0};
    for (int option; (option = command_line_next(&line, argc, argv)) != -1;) {
        switch (option) {
        case OPTION_INTERVAL:
            options.interval_s = parse_interval(optarg);
            break;
        case OPTION_ONCE:
            options.once = true;
            break;
        case OPTION_JSON:
            options.json = true;
            break;
        }
    }
    options.target = argv[optind];
    if (!options.target && (options.once || options.interval_s > 0))
        command_line_refuse(&line, "--once and --interval are for one job: give a process or a job's name");
    if (options.interval_s == 0)
        options.interval_s = INTERVAL_S_DEFAULT;
    return options;
}
