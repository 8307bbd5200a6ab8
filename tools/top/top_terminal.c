/* SPDX-License-Identifier: Apache-2.0 */
#include "top_terminal.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "now.h"

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

void top_terminal_open(void) {
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

bool top_terminal_has_keys(void) {
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

top_event top_terminal_wait(double seconds) {
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

void top_terminal_close(void) {
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
