/* kolo-trace: what the ranks of a job did, from the traces that they left (kolo_trace.h). */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "command_line.h"
#include "crash_job.h"
#include "messages.h"
#include "trace_output.h"

enum { BUFFER_BYTES = 1 << 20 };

static struct {
    const char *timeline_path;
    const char *page_path;
    bool summary;
    bool json;
    bool crash;
} options;

static const command_option table[] = {
    {"-o, --output FILE",
     "write the timeline as JSON, which ui.perfetto.dev, chrome://tracing and viztracer's vizviewer open; -: to "
     "standard "
     "output",
     TO_TEXT(options.timeline_path)},
    {"--html FILE", "write the summary as one page that needs no network; -: to standard output",
     TO_TEXT(options.page_path)},
    {"--summary", "print the summary; the default without -o and --html", TO_FLAG(options.summary)},
    {"--json", "print the summary as an object of JSON", TO_FLAG(options.json)},
    {"--crash", "tell what failed, from the records *.kolodump that the ranks wrote with KOLO_DUMP",
     TO_FLAG(options.crash)},
};

static command_line line = {
    .program = "kolo-trace",
    .before =
        "usage: kolo-trace DIR|FILE... [OPTION...]\n"
        "       kolo-trace --crash DIR|FILE... [--json]\n"
        "\n"
        "Shows what the ranks of a job did, from the traces that they wrote with kolorun --trace or KOLO_TRACE: who is "
        "late, who waits for whom, what the time went into. DIR stands for all its files *.kolotrace. Of several jobs "
        "the one that began last is shown. Traces of several machines are brought to one clock. Those of killed ranks, "
        "and files that were cut or damaged, show what they have.",
    .options = table,
    .options_count = sizeof table / sizeof *table,
    .arguments_max = 4096,
    .after =
        "Summary\n"
        "  computing      outside kolo's calls, on the program's thread that makes most of them\n"
        "  communicating  in calls, without waits\n"
        "  waiting        for other ranks, also for the last one to begin the creation of a communicator\n"
        "  spin           in waits without sleep: of the time of the program's threads and progress threads together, "
        "as "
        "in the table of who waited for whom\n"
        "  last, late     to how many of the calls it comes last, and how long after the others (the median of their "
        "begins) in the median of these. Where it is late by less than a tenth of what is usual for it, that counts as "
        "chance. Creations count as calls here.\n"
        "  size from      classes of message sizes, each up to twice its least one; bytes as in nccl-tests\n"
        "  a call         from when the last rank begins to when the last one ends, on average\n"
        "  algbw, busbw   in GB/s, as in nccl-tests and kolo-perf, over that time\n"
        "  last, by       of slow calls: the rank that began last, and how late\n"
        "A rank is called late if that cost at least a hundredth of the time, and half as much again as with any other "
        "rank. What others wait for its clocks of a table counts, too: of them, who waited most.\n"
        "\n"
        "JSON (--json)\n"
        "  job, program, ranks, nodes, duration_s, without_waiting_s (if the work were spread evenly), clock_error_s "
        "(between machines; null: not known), failures, mismatches (events that do not fit together), matched_calls "
        "(known of all their ranks), straggler (a rank or null), verdict; processes, a list of: rank, pid, host, file, "
        "ended (in order), missing (in words), computing_s, communicating_s, waiting_s, spinning_s (in waits without "
        "sleep), calls, bytes, exchanged_bytes (with other machines), matched_calls, late_calls, "
        "late_median_s, late_total_s, kept_waiting_s (the most that another rank waited for its clocks of tables), "
        "hidden_share (of calls in the background; null: none), waited_for_s (for each process), waited_for_absent_s "
        "(for ranks without a trace); collectives: "
        "collective, bytes_min, calls, ended, bytes and time_s (of those that ended), busbw_gbps; slowest: collective, "
        "communicator, number, bytes, "
        "rank, begin_s, took_s, waited_s, finished, last_rank, late_s; ranges: name, count, time_s, longest_s.\n"
        "\n"
        "Crash (--crash)\n"
        "  what failed; the ranks that are missing: that ended, were stopped or wrote no record; the call that each "
        "rank was in, or its last one, and for whom it waited, how long before the record; the first call that differs "
        "between two ranks. A rank's last 64 calls are known, with more than 16 ranks 8 of one without a record. Of "
        "several jobs the one with the newest record is told of.\n"
        "  JSON: failed_communicators (how many), communicators (the first eight), a list of: job, ranks, utc_ns (of "
        "the newest record), failures (of each record: rank, status, failed_rank, message), stands (of each rank: "
        "rank, pid, state (null: not known), missing, begun and ended calls, last_call, waits_for (a rank, -1: any), "
        "waited_s), difference (null, or number and calls: rank, call, digest).\n"
        "\n"
        "Exit status: 0 done; 1 if no trace can be read, or a file cannot be written; 2 for a wrong option.\n"
        "\n"
        "examples:\n"
        "  kolorun -n 4 --trace t kolo-train; kolo-trace t --html t.html -o t.json\n"
        "  KOLO_DUMP=d kolorun -n 4 ./example; kolo-trace --crash d",
};

/* Writes a file by one of the functions of trace_output.h. */
static bool write_file(const char *path, void (*write)(FILE *to, const trace_figures *figures),
                       const trace_figures *figures) {
    static char buffer[BUFFER_BYTES];
    const bool is_standard = strcmp(path, "-") == 0;
    FILE *to = is_standard ? stdout : fopen(path, "we");
    if (!to) {
        message_print("cannot write %s: %s", path, strerror(errno));
        return false;
    }
    if (is_standard) {
        write(to, figures);
        return true;
    }
    setvbuf(to, buffer, _IOFBF, sizeof buffer);
    write(to, figures);
    const bool failed = ferror(to) != 0;
    if (fclose(to) == 0 && !failed)
        return true;
    message_print("cannot write %s: %s", path, strerror(errno));
    return false;
}

/* A trace would be lost if an option's value were forgotten: kolo-trace -o *.kolotrace. */
static void refuse_trace(const char *path) {
    const size_t length = path ? strlen(path) : 0, suffix = strlen(".kolotrace");
    if (length > suffix && strcmp(path + length - suffix, ".kolotrace") == 0)
        command_line_refuse(&line, "'%s' is a trace, and not to be written to: give the name of a new file", path);
}

int main(int argc, char **argv) {
    char **paths = command_line_read(&line, argc, argv);
    const bool standard[2] = {options.timeline_path && strcmp(options.timeline_path, "-") == 0,
                              options.page_path && strcmp(options.page_path, "-") == 0};
    if (!*paths)
        command_line_refuse(&line, "give the folder that the traces or records are in, or their names");
    if (standard[0] + standard[1] + (options.summary || options.json) > 1)
        command_line_refuse(&line, "there is one standard output: give -o, --html or --summary a file's name");
    if (options.timeline_path && options.page_path && strcmp(options.timeline_path, options.page_path) == 0)
        command_line_refuse(&line, "-o and --html cannot both go to '%s'; give one another file", options.page_path);
    if (options.crash && (options.timeline_path || options.page_path || options.summary))
        command_line_refuse(&line, "--crash goes with no other option but --json");
    if (options.crash) {
        const bool told = crash_tell(paths, options.json);
        return message_unless_written() == 0 && told ? EXIT_SUCCESS : EXIT_FAILURE;
    }
    refuse_trace(options.timeline_path);
    refuse_trace(options.page_path);
    trace_job job;
    trace_figures figures = {0};
    bool good = trace_job_open(&job, paths);
    if (good && !trace_figures_make(&figures, &job)) {
        message_print("there is not enough memory for traces of this size");
        good = false;
    }
    if (good && options.timeline_path)
        good = write_file(options.timeline_path, trace_timeline_write, &figures);
    if (good && options.page_path)
        good = write_file(options.page_path, trace_page_write, &figures);
    if (good && options.json)
        trace_summary_write_json(stdout, &figures);
    else if (good && (options.summary || (!options.timeline_path && !options.page_path)))
        trace_summary_print(&figures);
    good = message_unless_written() == 0 && good;
    trace_figures_free(&figures);
    trace_job_free(&job);
    return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
