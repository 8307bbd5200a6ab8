/* SPDX-License-Identifier: Apache-2.0 */
#include "top_options.h"

#include <stdlib.h>
#include <string.h>

#include "command_line.h"

#define INTERVAL_S_MIN 0.01
#define INTERVAL_S_MAX 3600.0

enum { OPTION_INTERVAL = 256, OPTION_ONCE, OPTION_JSON };

static const struct option long_options[] = {
    {"interval", required_argument, NULL, OPTION_INTERVAL},
    {"once", no_argument, NULL, OPTION_ONCE},
    {"json", no_argument, NULL, OPTION_JSON},
    {"help", no_argument, NULL, 'h'},
    {"version", no_argument, NULL, 'v'},
    {NULL, 0, NULL, 0},
};

static const char help_text[] =
    "usage: kolo-top [OPTION...] PID|JOB\n"
    "\n"
    "Shows what the ranks of a running job do, whom they wait for, and who keeps them waiting. PID is that of a rank, "
    "or "
    "of\n"
    "what started the ranks: kolorun, mpirun, a shell. JOB is the name under which they met (KOLO_JOB); jobs of "
    "kolorun\n"
    "have none. Only jobs of the same user can be looked at. The job does not notice: nothing is written, stopped or\n"
    "waited for.\n"
    "\n"
    "  --interval S   seconds from one reading to the next (default 1)\n"
    "  --once         read twice, an interval apart, show what lies between, and end\n"
    "  --json         print an object a reading, each on a line of its own, instead of tables\n"
    "  --version      print the version\n"
    "  --help         print this\n"
    "\n"
    "Columns\n"
    "  *          the straggler: for whom the others waited longest in this interval, less what it waited itself\n"
    "  state      between calls, in call, waiting (beyond spinning), stopped, left (has destroyed the communicator), "
    "ended\n"
    "  call       the present or last call, and its number\n"
    "  algbw      bytes of messages a second, of calls that have ended\n"
    "  waiting    share of the interval spent in waits beyond spinning\n"
    "  waits for  the rank for which it is waiting, or waited longest in its last 64 calls in this interval\n"
    "\n"
    "JSON\n"
    "  interval_s, and communicators, a list of: job, file, offset (the segment's inode and place in it), "
    "segment_bytes,\n"
    "  state (running, broken, ended), failure (null or status, rank, reporter), straggler (a rank or null) and ranks, "
    "a\n"
    "  list of: rank, pid, process (state letter as in /proc; null: ended), state, calls (begun), calls_ended, steps,\n"
    "  call (null or number, collective, count, dtype, op, root, for_s: since when it runs, null if that is not known "
    "or\n"
    "  it has ended), calls_per_s, bytes_per_s, payload_bytes, sent_bytes, received_bytes, waited_s (since creation),\n"
    "  waiting_share, waits_for, waits_s (now; null: for nobody), waited_most_for (in the interval), awaited_share "
    "(what\n"
    "  the others waited for it, as a share of the interval; above 1 if several did).\n"
    "  When a call runs since is known of messages of 256 KiB or more, and of calls that had to wait beyond spinning.\n"
    "\n"
    "Exit status: 0, also when the job ends meanwhile; 1 where there is nothing to look at; 2 for a wrong option.\n"
    "\n"
    "example: kolorun -n 2 kolo-train & sleep 5; kolo-top --once $!\n";

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
    top_options options = {.interval_s = 1};
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
    if (!options.target)
        command_line_refuse(&line, "give a process or the name of a job");
    return options;
}
