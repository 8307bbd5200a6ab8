/* kolo-top: what the ranks of a running job do, seen from outside through kolo_watch.h. */
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <termios.h>
#include <unistd.h>

#include "base/new_file.h"
#include "command_line.h"
#include "messages.h"
#include "now.h"
#include "top_report.h"
#include "top_sample.h"

/* The terminal that kolo-top runs in, of which there is one: single keys, and a screen that is left as it was found,
 * also by a signal. Such signals are blocked, and come as input. */
static struct {
    bool taken;
    struct termios found;
    sigset_t signals;
    int signal_fd;
} terminal;

/* Keys come one by one, and are not shown. */
static void take_keyboard(void) {
    struct termios single = terminal.found;
    single.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    single.c_cc[VMIN] = 0;
    single.c_cc[VTIME] = 0;
    tcsetattr(STDIN_FILENO, TCSANOW, &single);
}

/* Takes over the keyboard where standard input and output are a terminal, and this process is in its foreground.
 * Without one, keys are not read and signals act as they always do. */
static void terminal_open(void) {
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP};
    if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO) || tcgetpgrp(STDIN_FILENO) != getpgrp() ||
        tcgetattr(STDIN_FILENO, &terminal.found) < 0)
        return;
    sigemptyset(&terminal.signals);
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        sigaddset(&terminal.signals, signals[i]);
    terminal.signal_fd = signalfd(-1, &terminal.signals, SFD_CLOEXEC);
    if (terminal.signal_fd < 0)
        return;
    sigprocmask(SIG_BLOCK, &terminal.signals, NULL);
    terminal.taken = true;
    take_keyboard();
}

/* Gives the keyboard back, and lets signals act. */
static void terminal_close(void) {
    if (!terminal.taken)
        return;
    tcsetattr(STDIN_FILENO, TCSANOW, &terminal.found);
    sigprocmask(SIG_UNBLOCK, &terminal.signals, NULL);
}

/* Lets a signal end or stop the program. If it goes on, it takes the keyboard again. */
static void take_signal(void) {
    struct signalfd_siginfo info;
    if (read(terminal.signal_fd, &info, sizeof info) != (ssize_t)sizeof info)
        return;
    raise((int)info.ssi_signo);
    terminal_close();
    sigprocmask(SIG_BLOCK, &terminal.signals, NULL);
    if (tcgetpgrp(STDIN_FILENO) == getpgrp())
        take_keyboard();
}

static bool reads_quit(void) {
    char keys[64];
    const ssize_t got = read(STDIN_FILENO, keys, sizeof keys);
    return got > 0 && (memchr(keys, 'q', (size_t)got) || memchr(keys, 'Q', (size_t)got));
}

/* Waits, or less long after a signal: what is on the screen is old then. False if the key q quits. */
static bool terminal_wait(double seconds) {
    enum { KEYBOARD, SIGNALS, INPUTS };
    const double end_s = now_s() + seconds;
    struct pollfd inputs[INPUTS] = {{.fd = terminal.taken ? STDIN_FILENO : -1, .events = POLLIN},
                                    {.fd = terminal.taken ? terminal.signal_fd : -1, .events = POLLIN}};
    for (double left_s = seconds; left_s > 0; left_s = end_s - now_s()) {
        if (poll(inputs, INPUTS, (int)(left_s * 1000) + 1) <= 0)
            continue;
        if (inputs[SIGNALS].revents != 0) {
            take_signal();
            return true;
        }
        if (reads_quit())
            return false;
        if (inputs[KEYBOARD].revents & ~POLLIN) /* the terminal has gone; a signal will tell */
            inputs[KEYBOARD].fd = -1;
    }
    return true;
}

#define FIRST_INTERVAL_S  0.2 /* so that something is on the screen soon */
#define SEARCH_INTERVAL_S 5   /* for communicators that have come since: a look at all processes of the user */

static struct {
    double interval_s;
    bool once;
    bool json;
    bool prometheus;
    const char *file; /* NULL: standard output */
} options = {.interval_s = 1};

static const command_option table[] = {
    {"--interval S", "seconds from one reading to the next (default 1)", TO_NUMBER(options.interval_s, 0.01, 3600)},
    {"--once", "read twice, an interval apart, show what happened between, and end", TO_FLAG(options.once)},
    {"--json", "print an object for each reading, on a line of its own, instead of tables; for the list, one object",
     TO_FLAG(options.json)},
    {"--prometheus", "read once, and print counters in Prometheus' text format; without PID or JOB of all your jobs",
     TO_FLAG(options.prometheus)},
    {"-o, --output FILE", "replace FILE by the output of --prometheus, or of --once --json, as soon as it is complete",
     TO_TEXT(options.file)},
};

static command_line line = {
    .program = "kolo-top",
    .before =
        "usage: kolo-top\n"
        "       kolo-top [OPTION...] PID|JOB\n"
        "\n"
        "Shows running jobs. Without PID or JOB it lists yours. With one it shows what its ranks do, whom they wait "
        "for, and who keeps them waiting, in collectives and on the tables of a parameter server; the key q quits. PID "
        "is that of a rank, or of what started the ranks: "
        "kolorun, "
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
        "  cpu      CPU time that its process used, spinning included, as a share of one CPU. Where wait and cpu of a "
        "rank with one thread are above 100% together, its waits took at least the rest\n"
        "  spin     of that, at most, in waits of more than some 20 us in which the rank did not sleep\n"
        "  for      the rank for which it is waiting, or waited longest in its last 64 calls in this interval\n"
        "  call     number of the present or last call, and what it is\n"
        "\n"
        "Columns of tables\n"
        "  *        the slowest worker: the one whose clock is lowest\n"
        "  state    working, waiting (in kolo_table_clock or kolo_table_wait), serving, stopped, left (has destroyed "
        "the table), ended\n"
        "  clock    clocks that it has ended\n"
        "  ahead    how many more than the slowest worker\n"
        "  pulls/s  pieces of rows a second that it pulled; pushes/s: that it pushed; applies/s: whose updates it "
        "applied, whoever had pushed them\n"
        "  wait     share of the interval in which it waited for other workers\n"
        "  for      the rank for which it is waiting\n"
        "A table's second line says how many workers wait for the slowest one.\n"
        "\n"
        "On a terminal, what needs attention is coloured; NO_COLOR=1 switches colours off.\n"
        "\n"
        "JSON\n"
        "  interval_s, and communicators, a list of: job, file, offset (the segment's inode and place in it), "
        "segment_bytes, state (running, broken, ended), age_s (of its oldest process), read_s (when, by "
        "CLOCK_MONOTONIC), failure (null or status, rank, reporter), straggler (a rank "
        "or null), tables and ranks, a list of: rank, pid, process (state letter as in /proc; null: ended), state, "
        "calls (begun), calls_ended, steps, call (null or number, collective, count, dtype, op, root, for_s: since "
        "when it runs, null if that is not known or it has ended), collectives (those that have ended, a list of: "
        "collective, calls, payload_bytes), calls_per_s, bytes_per_s, payload_bytes, sent_bytes, received_bytes, "
        "waited_s (since creation), waiting_share, waits_for, waits_s (now; null: for nobody), "
        "waited_most_for (in the interval), awaited_share (what the others waited for it, as a share of the "
        "interval; above 1 if several did), cpu_s (of its process), cpu_share (of one CPU), spun_s (in all waits of "
        "more than some 20 us, without sleep), "
        "spinning_share (of the interval) and, with --once, last_calls, a list of: number, collective, count, dtype, "
        "op, root, began_s, ended_s (by CLOCK_MONOTONIC; "
        "null: not known), "
        "waited_for, waited_s (of its longest wait).\n"
        "  tables is a list of: name, file (inode), state (running, ended, other version, damaged), layout and, unless "
        "it cannot be read, rows, shards, servers, memory_bytes, staleness (null: asynchronous), slowest_rank (null: "
        "no worker is left), slowest_clock, fastest_clock, waiting (how many workers wait for the slowest) and ranks, "
        "a list of: rank, pid, process, state, server (true or false), clock, ahead (null: it has left, or is a "
        "server), waits_for, waits_s, pulled, pushed, applied, pulled_per_s, pushed_per_s, applied_per_s, waited_s "
        "(in waits that are over), waiting_share.\n"
        "  How long a call has run is known of messages of 256 KiB or more, and of calls that had to wait beyond "
        "spinning.\n"
        "  The list: jobs, a list of: job, pid (of its first rank), ranks (on this machine), communicators, state "
        "(running, stopped, broken), age_s.\n"
        "\n"
        "Prometheus\n"
        "  Labels are kolo_job, communicator (file+offset), rank; of tables table and file, too. A cron job for the "
        "textfile collector of Prometheus' node_exporter runs: kolo-top --prometheus -o DIRECTORY/kolo.prom\n"
        "\n"
        "Exit status: 0 done, also when the job ends meanwhile; 1 if there is no such job; 2 for a wrong option.\n"
        "\n"
        "example: KOLO_JOB=digits kolorun -n 2 kolo-train & sleep 5; kolo-top digits",
};

static void report(FILE *to, const top_sample *sample) {
    if (options.prometheus)
        top_report_prometheus(to, sample);
    else
        top_report_json(to, sample, options.once);
}

/* False with a message. */
static bool report_to_file(const top_sample *sample) {
    struct kolo_new_file file = {.message = "out of memory"};
    char *text = NULL;
    size_t bytes = 0;
    FILE *to = open_memstream(&text, &bytes);
    bool good = to != NULL;
    if (to) {
        report(to, sample);
        good = !ferror(to);
        good = fclose(to) == 0 && good;
    }
    good = good && kolo_new_file_write(&file, options.file, 0666, text, bytes) == 0 && kolo_new_file_name(&file) == 0;
    if (!good)
        message_print("%s", file.message);
    free(text);
    return good;
}

/* False where it cannot be written. */
static bool show(const top_sample *sample) {
    if (options.file)
        return report_to_file(sample);
    if (options.json || options.prometheus)
        report(stdout, sample);
    else {
        if (!options.once && isatty(STDOUT_FILENO))
            fputs("\033[H\033[2J", stdout);
        top_report_table(sample);
        if (terminal.taken)
            puts("q quits");
    }
    return message_unless_written() == 0;
}

/* Shows one interval after another until all communicators are over; the program's exit status. */
static int follow(top_watch *watched) {
    top_sample before, sample = {0};
    double search_s = now_s() + SEARCH_INTERVAL_S;
    bool good = top_sample_take(&before, watched, &sample), over = false;
    double interval_s = !options.once && FIRST_INTERVAL_S < options.interval_s ? FIRST_INTERVAL_S : options.interval_s;
    while (good && !over && terminal_wait(interval_s)) {
        interval_s = options.interval_s;
        good = top_sample_take(&sample, watched, &before);
        good = good && show(&sample);
        over = options.once;
        if (good && !over && (now_s() >= search_s || top_sample_over(&sample))) {
            search_s = now_s() + SEARCH_INTERVAL_S;
            over = top_watch_search(watched) < 0;
            if (over)
                fputs("kolo-top: the job has ended\n", stderr);
        }
        top_sample_free(&before);
        before = sample;
    }
    top_sample_free(&before);
    return good ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* Shows one reading, which counters need no other beside; the program's exit status. */
static int show_now(const top_watch *watched) {
    const top_sample none = {0};
    top_sample sample;
    const bool good = top_sample_take(&sample, watched, &none) && show(&sample);
    top_sample_free(&sample);
    return good ? EXIT_SUCCESS : EXIT_FAILURE;
}

static void check_options(const char *target) {
    if (options.prometheus && (options.json || command_line_has(&line, "--interval")))
        command_line_refuse(&line, "--prometheus reads once, in a format of its own: neither --json nor --interval");
    if (options.file && !options.prometheus && !(options.json && options.once))
        command_line_refuse(&line, "--output is for --prometheus, and for --once --json");
    if (!target && !options.prometheus && (options.once || command_line_has(&line, "--interval")))
        command_line_refuse(&line, "--once and --interval are for one job: give a process or a job's name");
}

int main(int argc, char **argv) {
    const char *target = *command_line_read(&line, argc, argv);
    top_watch watched;
    check_options(target);
    if (!target && !options.prometheus)
        return top_list_print(options.json);
    if (top_watch_open(&watched, target) < 0) {
        message_print("%s; kolo-top alone lists your jobs", kolo_error_message());
        return EXIT_FAILURE;
    }
    if (options.prometheus) {
        const int exit_code = show_now(&watched);
        kolo_watch_close(watched.watch);
        return exit_code;
    }
    top_report_set_colour(!options.json && terminal_has_colour(STDOUT_FILENO));
    if (!options.once && !options.json)
        terminal_open();
    const int exit_code = follow(&watched);
    kolo_watch_close(watched.watch);
    terminal_close();
    return exit_code;
}
