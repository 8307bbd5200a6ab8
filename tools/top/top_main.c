/* kolo-top: what the ranks of a running job do, seen from outside through kolo_watch.h. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "command_line.h"
#include "messages.h"
#include "now.h"
#include "top_report.h"
#include "top_sample.h"

/* The terminal that kolo-top runs in: single keys, and a screen that is left as it was found, also by a signal. */

typedef enum top_event {
    TOP_EVENT_TIME, /* the time is over */
    TOP_EVENT_QUIT, /* the key q */
    TOP_EVENT_END   /* a signal that ends the program */
} top_event;

static const int ending_signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
enum { ENDING_SIGNALS = sizeof ending_signals / sizeof *ending_signals };

/* There is one terminal. Signals are blocked but for the waits, so that none comes between a look and a wait. */
static struct {
    bool taken;
    struct termios found;
    sigset_t found_signals;
} terminal;

static volatile sig_atomic_t ending_signal, stop_asked;

static void note_end(int number) {
    ending_signal = number;
}

static void note_stop(int number) {
    (void)number;
    stop_asked = 1;
}

static void set_handler(int number, void (*handler)(int)) {
    struct sigaction action = {.sa_handler = handler};
    sigemptyset(&action.sa_mask);
    sigaction(number, &action, NULL);
}

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
static void top_terminal_open(void) {
    sigset_t signals;
    if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO) || tcgetpgrp(STDIN_FILENO) != getpgrp() ||
        tcgetattr(STDIN_FILENO, &terminal.found) < 0)
        return;
    terminal.taken = true;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTSTP);
    for (int i = 0; i < ENDING_SIGNALS; i++)
        sigaddset(&signals, ending_signals[i]);
    sigprocmask(SIG_BLOCK, &signals, &terminal.found_signals);
    for (int i = 0; i < ENDING_SIGNALS; i++)
        set_handler(ending_signals[i], note_end);
    set_handler(SIGTSTP, note_stop);
    take_keyboard();
}

/* True if the key q quits. */
static bool top_terminal_has_keys(void) {
    return terminal.taken;
}

/* Stops as the terminal has asked, with the keyboard given back meanwhile. */
static void stop(void) {
    sigset_t blocked;
    stop_asked = 0;
    tcsetattr(STDIN_FILENO, TCSANOW, &terminal.found);
    set_handler(SIGTSTP, SIG_DFL);
    raise(SIGTSTP);
    sigprocmask(SIG_SETMASK, &terminal.found_signals, &blocked); /* here it stops */
    sigprocmask(SIG_SETMASK, &blocked, NULL);
    set_handler(SIGTSTP, note_stop);
    if (tcgetpgrp(STDIN_FILENO) == getpgrp())
        take_keyboard();
}

static struct timespec timespec_of(double seconds) {
    return (struct timespec){.tv_sec = (time_t)seconds, .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9)};
}

static bool reads_quit(void) {
    char keys[64];
    const ssize_t got = read(STDIN_FILENO, keys, sizeof keys);
    return got > 0 && (memchr(keys, 'q', (size_t)got) || memchr(keys, 'Q', (size_t)got));
}

/* Waits, in a terminal until something happens. */
static top_event top_terminal_wait(double seconds) {
    const double end_s = now_s() + seconds;
    for (double left_s = seconds; left_s > 0; left_s = end_s - now_s()) {
        struct pollfd keyboard = {.fd = terminal.taken ? STDIN_FILENO : -1, .events = POLLIN};
        const struct timespec left = timespec_of(left_s);
        const int ready = ppoll(&keyboard, 1, &left, terminal.taken ? &terminal.found_signals : NULL);
        if (ending_signal)
            return TOP_EVENT_END;
        if (stop_asked) {
            stop();
            return TOP_EVENT_TIME; /* what is on the screen is old */
        }
        if (ready > 0 && reads_quit())
            return TOP_EVENT_QUIT;
        if (ready > 0 && !(keyboard.revents & POLLIN)) /* the terminal has gone; a signal will tell */
            nanosleep(&left, NULL);
    }
    return TOP_EVENT_TIME;
}

/* Gives the keyboard back. If a signal is to end the program, it ends here. */
static void top_terminal_close(void) {
    if (!terminal.taken)
        return;
    terminal.taken = false;
    tcsetattr(STDIN_FILENO, TCSANOW, &terminal.found);
    for (int i = 0; i < ENDING_SIGNALS; i++)
        set_handler(ending_signals[i], SIG_DFL);
    set_handler(SIGTSTP, SIG_DFL);
    if (ending_signal)
        raise(ending_signal);
    sigprocmask(SIG_SETMASK, &terminal.found_signals, NULL); /* here it ends */
}

#define FIRST_INTERVAL_S  0.2 /* so that something is on the screen soon */
#define SEARCH_INTERVAL_S 5   /* for communicators that have come since: a look at all processes of the user */

static struct {
    double interval_s;
    bool once;
    bool json;
} options = {.interval_s = 1};

static const command_option table[] = {
    {"--interval S", "seconds from one reading to the next (default 1)", TO_NUMBER(options.interval_s, 0.01, 3600)},
    {"--once", "read twice, an interval apart, show what happened between, and end", TO_FLAG(options.once)},
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
        "On a terminal, what needs attention is coloured; NO_COLOR=1 switches colours off.\n"
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
        "Exit status: 0 done, also when the job ends meanwhile; 1 if there is no such job; 2 for a wrong option.\n"
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
