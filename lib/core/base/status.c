/* The message of each thread's last failed call, and the lines of the log. */
#include "base/status.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { MESSAGE_BYTES = 1024 };

static _Thread_local char message[MESSAGE_BYTES];

const char *kolo_error_message(void) {
    return message;
}

/* Keeps a message. Where the message quotes another one that begins with the same rank, the rank is named only once. */
static void keep(const char *text) {
    int outer, inner, at = 0, end = 0;
    if (sscanf(text, "rank %d: %nrank %d:%n", &outer, &at, &inner, &end) == 2 && end && inner == outer)
        text += at;
    snprintf(message, sizeof message, "%s", text);
}

int kolo_fail(int status, const char *format, ...) {
    /* The arguments may quote the present message, so the new one is built beside it. */
    char text[MESSAGE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    keep(text);
    return status;
}

int kolo_fail_system(int errno_value, const char *format, ...) {
    char text[MESSAGE_BYTES - 160], all[MESSAGE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    char limit[96] = "";
    struct rlimit files;
    if (errno_value == EMFILE && getrlimit(RLIMIT_NOFILE, &files) == 0)
        snprintf(limit, sizeof limit, ": this process may open %llu: raise it (ulimit -n)",
                 (unsigned long long)files.rlim_cur);
    snprintf(all, sizeof all, "%s: %s%s", text, strerror(errno_value), limit);
    keep(all);
    return KOLO_ERR_SYSTEM;
}

/* sigabbrev_np would do this, but neither musl nor glibc before 2.32 has it. */
const char *kolo_signal_name(int number) {
    static const char *const names[] = {
        [SIGHUP] = "HUP",       [SIGINT] = "INT",     [SIGQUIT] = "QUIT", [SIGILL] = "ILL",   [SIGTRAP] = "TRAP",
        [SIGABRT] = "ABRT",     [SIGBUS] = "BUS",     [SIGFPE] = "FPE",   [SIGKILL] = "KILL", [SIGUSR1] = "USR1",
        [SIGSEGV] = "SEGV",     [SIGUSR2] = "USR2",   [SIGPIPE] = "PIPE", [SIGALRM] = "ALRM", [SIGTERM] = "TERM",
        [SIGCHLD] = "CHLD",     [SIGCONT] = "CONT",   [SIGSTOP] = "STOP", [SIGTSTP] = "TSTP", [SIGTTIN] = "TTIN",
        [SIGTTOU] = "TTOU",     [SIGURG] = "URG",     [SIGXCPU] = "XCPU", [SIGXFSZ] = "XFSZ", [SIGVTALRM] = "VTALRM",
        [SIGPROF] = "PROF",     [SIGWINCH] = "WINCH", [SIGIO] = "POLL",   [SIGPWR] = "PWR",   [SIGSYS] = "SYS",
        [SIGSTKFLT] = "STKFLT",
    };
    return number > 0 && (size_t)number < sizeof names / sizeof *names ? names[number] : NULL;
}

void kolo_text_add(char *text, size_t room, const char *format, ...) {
    const size_t used = strlen(text);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text + used, room - used, format, arguments);
    va_end(arguments);
}

void kolo_log(kolo_log_level limit, kolo_log_level level, int rank, const char *format, ...) {
    if (level > limit)
        return;
    char text[1160] = "", line[1200];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    char prefix[32];
    const int prefix_bytes = snprintf(prefix, sizeof prefix, "rank %d: ", rank);
    const bool is_named = strncmp(text, prefix, (size_t)prefix_bytes) == 0; /* as most messages of failures */
    const int length = snprintf(line, sizeof line, "kolo: %s%s\n", is_named ? "" : prefix, text);
    /* A log that cannot be written is ignored: nothing can be done about it. */
    ssize_t ignored = write(STDERR_FILENO, line, (size_t)length);
    (void)ignored;
}
