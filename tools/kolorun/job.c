/* The event loop: one thread, which waits in poll for ranks that end, signals, output and deadlines.
 *
 * Ends of ranks come through pidfds gathered in an epoll instance, which reports them in the order in which
 * they happened. That order decides which rank is named: when one is killed, the others fail a moment later,
 * and kolorun may see all of it at once. SIGCHLD is there for adopted processes and for kernels without pidfds.
 *
 * After the first failure, or where the others go on (--on-failure) after kolorun's own reasons to end the job, it
 * passes through the phases below; each but the first has a deadline. */
#include "launch.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/status.h"
#include "kolo.h"
#include "processes.h"
#include "messages.h"
#include "stragglers.h"
#include "tagged_output.h"

#define TERM_TO_KILL_MS      300
#define KILL_TO_GIVING_UP_MS 10000
#define OUTPUT_REST_MS       10000
#define RESTART_AFTER_MS     200   /* time to see whether the others end, too */
#define INTERRUPT_MS         10000 /* a rank that fails within this time of a SIGINT fails because of it */
#define INTERRUPT_AGAIN_MS   3000  /* a second SIGINT within this time of the first is an order */
#define ONE_SIGNAL_MS        1000  /* two that are alike, and no SIGINT, within this time are one */
#define SIGNAL_ON_ITS_WAY_NS 10000000
#define NEVER_MS             INT64_MAX

enum phase {
    PHASE_RUNNING,
    PHASE_GRACE,       /* a rank has failed; the others may end by themselves */
    PHASE_TERMINATING, /* SIGTERM was sent */
    PHASE_KILLING,     /* SIGKILL was sent */
    PHASE_GIVEN_UP
};

enum { POLL_SIGNALS, POLL_ENDS, POLL_OUTPUT, POLL_FDS = POLL_OUTPUT + TAGGED_POLL_FDS };

struct rank_process {
    int pidfd;             /* -1: none */
    int restarts;          /* how often it has been started again, or is about to be */
    int64_t restart_at_ms; /* NEVER_MS: not to be started */
    int untold;            /* its status of waitpid, which the others are still to be told; -1: none */
};

struct job {
    const struct launch_options *options;
    struct binding *binding;
    struct launch_context context;
    pid_t pids[KOLO_RANKS_MAX]; /* of each rank; 0: ended, or never started */
    struct rank_process ranks[KOLO_RANKS_MAX];
    int running;    /* ranks that have started and not ended */
    bool finishing; /* nothing but output is waited for */
    struct epoll_event ends[KOLO_RANKS_MAX];
    int ends_fd; /* epoll over the pidfds */
    int signal_fd;
    int tell_fd; /* the ranks' file, opened anew: see base/file.h */
    enum phase phase;
    int64_t phase_deadline_ms;
    int64_t timeout_at_ms; /* NEVER_MS: none */
    int told;              /* signal for what ranks leave behind, which the ranks have been sent; 0: none */
    bool told_by_terminal; /* which sent it to its process group */
    int asked_signal;      /* the last that asked kolorun to end; 0: none */
    int64_t asked_at_ms;
    int64_t asked_deadline_ms; /* when ranks that have not ended by themselves are killed; NEVER_MS: at no time */
    int exit_code;
    int failure_code; /* of the first rank that failed; 0: none has */
    bool succeeded;   /* a rank has ended well */
};

static const int forwarded_signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT};

static int64_t now_ms(void) {
    return kolo_clock_ns() / KOLO_NS_PER_MS;
}

static void signals_read(struct job *job);

/* Writes the running ranks as "rank 3" or "ranks 0-2, 5". */
static void running_ranks_format(const struct job *job, char *text, size_t text_bytes) {
    bool running[KOLO_RANKS_MAX];
    for (int rank = 0; rank < job->options->ranks; rank++)
        running[rank] = job->pids[rank] != 0;
    message_list_format(text, text_bytes, "rank", running, job->options->ranks, job->options->first_rank);
}

static int job_signal(const struct job *job, int signal_number, bool by_terminal, enum reach reach) {
    return children_signal(job->pids, job->options->ranks, signal_number, by_terminal, reach);
}

/* What a rank that lives has started is the rank's to end. */
static void job_tell_end(struct job *job, int signal_number, bool by_terminal) {
    job->told = signal_number;
    job->told_by_terminal = by_terminal;
    job_signal(job, signal_number, by_terminal,
               job->running > 0 && job->phase == PHASE_RUNNING ? REACH_RANKS : REACH_ALL);
}

/* Begins the end of the job; only the first reason counts. */
static void job_end(struct job *job, int exit_code, int64_t grace_ms) {
    if (job->phase != PHASE_RUNNING)
        return;
    job->phase = PHASE_GRACE;
    job->phase_deadline_ms = now_ms() + grace_ms;
    job->exit_code = exit_code;
    job->told = 0;
}

static void phase_advance(struct job *job) {
    char ranks[200];
    switch (job->phase) {
    case PHASE_GRACE:
        job_tell_end(job, SIGTERM, false);
        job->phase = PHASE_TERMINATING;
        job->phase_deadline_ms = now_ms() + TERM_TO_KILL_MS;
        break;
    case PHASE_TERMINATING:
        job_tell_end(job, SIGKILL, false);
        job->phase = PHASE_KILLING;
        job->phase_deadline_ms = now_ms() + KILL_TO_GIVING_UP_MS;
        break;
    case PHASE_KILLING:
        running_ranks_format(job, ranks, sizeof ranks);
        message_print("%s did not end within %d s of SIGKILL; not waiting any longer",
                      job->running > 0 ? ranks : "what ranks left behind", KILL_TO_GIVING_UP_MS / 1000);
        job->phase = PHASE_GIVEN_UP;
        break;
    case PHASE_RUNNING:
    case PHASE_GIVEN_UP:
        break;
    }
}

/* Ends the job without giving the ranks time. */
static void job_kill(struct job *job, int exit_code) {
    job_end(job, exit_code, 0);
    job->phase = PHASE_TERMINATING;
    phase_advance(job);
}

/* Says why children could not become the program. All have the same reason as a rule: one is told, and the job ends.
 * But one that was to be started again fails as any rank does: see rank_failed. */
static void launch_failures_report(struct job *job) {
    struct launch_failure failure;
    while (launch_failure_read(&job->context, &failure)) {
        if (job->phase != PHASE_RUNNING)
            continue;
        message_print("%s", failure.text);
        if (failure.restarts == 0)
            job_end(job, failure.exit_code, 0);
    }
}

/* A job in which a rank has ended well is about to end. Whether others still run then, time will tell. */
static bool restart_plan(struct job *job, struct rank_process *process) {
    if (job->options->on_failure != FAILURE_RESTART || job->succeeded ||
        process->restarts == job->options->restarts_max)
        return false;
    process->restarts++;
    process->restart_at_ms = now_ms() + RESTART_AFTER_MS;
    return true;
}

/* Whether nobody reads any more what kolorun and its ranks print, as in `kolorun ... | head`. */
static bool reader_gone(int fd) {
    struct pollfd output = {.fd = fd};
    return poll(&output, 1, 0) > 0 && (output.revents & POLLERR) != 0;
}

/* Whether the rank failed because kolorun was asked to end, and so is not to blame. */
static bool was_asked(struct job *job, int status) {
    if (job->asked_signal == 0 && WIFSIGNALED(status) && asks_to_end(WTERMSIG(status))) {
        kolo_clock_sleep(
            SIGNAL_ON_ITS_WAY_NS); /* what the terminal sends may have reached the rank before it reaches us */
        signals_read(job);
    }
    if (job->asked_signal == 0)
        return false;
    if (WIFSIGNALED(status) && WTERMSIG(status) == job->asked_signal)
        return true;
    return !WIFSIGNALED(status) && (job->asked_signal != SIGINT || now_ms() < job->asked_at_ms + INTERRUPT_MS);
}

/* Ends the job because kolorun was asked to. Ranks that take their time have it, and no more. */
static void asked_end(struct job *job, int64_t grace_ms) {
    if (job->phase != PHASE_RUNNING)
        return;
    message_print("%s", job->asked_signal == SIGINT    ? "interrupted"
                        : job->asked_signal == SIGTERM ? "terminated"
                        : job->asked_signal == SIGHUP  ? "hung up: the terminal has gone"
                                                       : "ended by SIGQUIT");
    job_end(job, 128 + job->asked_signal, grace_ms);
    job->told = job->asked_signal;
}

static void rank_failed(struct job *job, int rank, pid_t pid, int status) {
    if (job->phase != PHASE_RUNNING)
        return;
    if (was_asked(job, status)) {
        asked_end(job, job->asked_signal == SIGINT ? job->options->grace_ms : job->asked_deadline_ms - now_ms());
        return;
    }
    if (job->phase != PHASE_RUNNING)
        return;
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGPIPE &&
        (reader_gone(STDOUT_FILENO) || reader_gone(STDERR_FILENO))) {
        job_kill(job, 128 + SIGPIPE); /* as a single program ends, before others tell of the loss of this one */
        return;
    }
    char rest[PATH_MAX + 8] = "";
    if (job->options->on_failure != FAILURE_END && job->running > 0)
        snprintf(rest, sizeof rest, "; the others go on");
    if (rest[0] != '\0' && restart_plan(job, &job->ranks[rank]))
        snprintf(rest, sizeof rest, "; the others go on, and it is started again (%d of %d)", job->ranks[rank].restarts,
                 job->options->restarts_max);
    const int number = job->options->first_rank + rank;
    if (job->options->output_folder != NULL && rest[0] == '\0') {
        const size_t used = (size_t)snprintf(rest, sizeof rest, "; see ");
        rank_files_path(rest + used, sizeof rest - used, job->options->output_folder, number, 1);
    }
    int code = WEXITSTATUS(status);
    if (WIFEXITED(status)) {
        message_print("rank %d (pid %d) exited with code %d%s", number, (int)pid, code, rest);
    } else {
        int signal_number = WTERMSIG(status);
        const char *name = kolo_signal_name(signal_number);
        message_print("rank %d (pid %d) was killed by signal %d (%s%s)%s", number, (int)pid, signal_number,
                      name != NULL ? "SIG" : "real-time", name != NULL ? name : "", rest);
        code = 128 + signal_number;
    }
    if (job->failure_code == 0)
        job->failure_code = code;
    if (job->options->on_failure == FAILURE_END)
        job_end(job, code, job->options->grace_ms);
}

/* The last rank has ended. The reader of its output, or of what kolorun says, gets some time for the rest, even past
 * the timeout. Where kolorun was asked to end, none but ranks' output is worth more than that. */
static void output_finish(struct job *job) {
    job->finishing = true;
    tagged_output_finish();
    if (job->asked_signal != 0 && !job->options->tag_output)
        job->timeout_at_ms = 0;
    if (job->timeout_at_ms < now_ms() + OUTPUT_REST_MS)
        job->timeout_at_ms = now_ms() + OUTPUT_REST_MS;
}

static void rank_ended(struct job *job, int rank, int status) {
    struct rank_process *process = &job->ranks[rank];
    const pid_t pid = job->pids[rank];
    launch_failures_report(job); /* before its exit is taken for the program's */
    if (process->pidfd >= 0) {
        /* Closing it would not be enough: a child on its way to exec may hold it too. */
        (void)epoll_ctl(job->ends_fd, EPOLL_CTL_DEL, process->pidfd, NULL);
        close(process->pidfd);
    }
    process->pidfd = -1;
    process->untold = status;
    job->pids[rank] = 0;
    job->running--;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        job->succeeded = true;
    else
        rank_failed(job, rank, pid, status);
}

static void reap_by_pidfd(struct job *job) {
    int count = epoll_wait(job->ends_fd, job->ends, job->options->ranks, 0);
    for (int i = 0; i < count; i++) {
        int rank = (int)job->ends[i].data.u32;
        int status;
        if (waitpid(job->pids[rank], &status, WNOHANG) == job->pids[rank])
            rank_ended(job, rank, status);
    }
}

static int rank_of_pid(const struct job *job, pid_t pid) {
    for (int rank = 0; rank < job->options->ranks; rank++)
        if (job->pids[rank] == pid)
            return rank;
    return -1;
}

/* Adopted processes, and ranks without a pidfd. At a rank that has one it stops: that comes in its turn. */
static void reap_others(struct job *job) {
    for (;;) { /* ends: each turn takes one of the processes that have ended */
        siginfo_t info = {0};
        int status;
        if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0)
            return;
        int rank = rank_of_pid(job, info.si_pid);
        if (rank >= 0 && job->ranks[rank].pidfd >= 0)
            return;
        if (waitpid(info.si_pid, &status, WNOHANG) != info.si_pid)
            return;
        if (rank >= 0)
            rank_ended(job, rank, status);
        else
            leftover_processes_reaped(info.si_pid);
    }
}

/* Where the job fails, what ranks leave behind when they end, such as the program of a shell script, is told what they
 * have been told, and has as much time; if nobody has been told to end and no rank is left, SIGTERM comes at once. */
static void leftovers_handle(struct job *job) {
    int left = 0;
    if (job->finishing || (job->running > 0 && job->phase == PHASE_RUNNING))
        return;
    if (job->exit_code != 0 || job->failure_code != 0) {
        job_end(job, job->exit_code, 0);
        left = job_signal(job, job->told, job->told_by_terminal, REACH_NEW);
    }
    if (job->running == 0 && left == 0)
        output_finish(job);
    else if (job->running == 0 && job->told == 0)
        job->phase_deadline_ms = now_ms();
}

/* Stops kolorun as the ranks have been: with the default action, which the kernel withholds where nobody could
 * continue us. The time until then does not count. */
static void stop_until_continued(struct job *job) {
    int64_t stopped_at_ms = now_ms();
    sigset_t stop;
    sigemptyset(&stop);
    sigaddset(&stop, SIGTSTP);
    raise(SIGTSTP);
    sigprocmask(SIG_UNBLOCK, &stop, NULL);
    sigprocmask(SIG_BLOCK, &stop, NULL);
    int64_t stopped_ms = now_ms() - stopped_at_ms;
    job->phase_deadline_ms += stopped_ms;
    if (job->timeout_at_ms != NEVER_MS)
        job->timeout_at_ms += stopped_ms;
    if (job->asked_deadline_ms != NEVER_MS)
        job->asked_deadline_ms += stopped_ms;
}

/* What the terminal sends (si_code above 0: from the kernel) has reached the ranks already, as far as they are in the
 * same process group; but of a hangup, only the session's leader is told. What another process sends may have come to
 * kolorun alone. */
static bool reached_ranks(int signal_number, int code) {
    return code > 0 && !(signal_number == SIGHUP && getsid(0) == getpid());
}

/* Ranks may use a signal to end well, and then so does the job. A second one is an order to end at once; but timeout(1)
 * sends SIGTERM to kolorun and to its process group, and a shell and the kernel each send SIGHUP. A single SIGINT has
 * no deadline: a debugger or an interpreter goes on after it. */
static void asked_to_end(struct job *job, int signal_number, int code) {
    const int64_t since_ms = job->asked_signal == signal_number ? now_ms() - job->asked_at_ms : NEVER_MS;
    const int64_t again_ms = signal_number == SIGINT ? INTERRUPT_AGAIN_MS : signal_number == SIGHUP ? 0 : NEVER_MS;
    if (job->finishing) {
        job->exit_code = 128 + signal_number; /* nobody takes the rest of the output */
        job->phase = PHASE_GIVEN_UP;
        return;
    }
    if ((since_ms < ONE_SIGNAL_MS && signal_number != SIGINT) || job->phase >= PHASE_TERMINATING)
        return;
    job->asked_signal = signal_number;
    job->asked_at_ms = now_ms();
    if (signal_number != SIGINT && job->asked_deadline_ms == NEVER_MS)
        job->asked_deadline_ms = job->asked_at_ms + job->options->signal_grace_ms;
    job_tell_end(job, signal_number, reached_ranks(signal_number, code));
    if (since_ms >= again_ms)
        return;
    asked_end(job, 0);
    if (job->phase == PHASE_GRACE)
        job->phase_deadline_ms = now_ms();
}

static void signal_handle(struct job *job, int signal_number, int code) {
    if (signal_number == SIGCHLD)
        return;
    if (asks_to_end(signal_number)) {
        asked_to_end(job, signal_number, code);
        return;
    }
    job_signal(job, signal_number, reached_ranks(signal_number, code), REACH_RANKS);
    if (signal_number == SIGTSTP)
        stop_until_continued(job);
}

static void signals_read(struct job *job) {
    struct signalfd_siginfo infos[16];
    ssize_t bytes = read(job->signal_fd, infos, sizeof infos);
    for (size_t i = 0; bytes > 0 && i < (size_t)bytes / sizeof infos[0]; i++)
        signal_handle(job, (int)infos[i].ssi_signo, infos[i].ssi_code);
}

static void output_service(struct job *job, const struct pollfd *fds) {
    int stream = 0;
    int rc = tagged_output_service(fds, &stream);
    if (rc == 0 || job->phase == PHASE_GIVEN_UP || !job->options->tag_output) /* then messages alone are lost */
        return;
    if (rc == -EPIPE) {
        if (job->running == 0 && job->exit_code == 0)
            job->exit_code = 128 + SIGPIPE;
        else if (job->phase == PHASE_RUNNING)
            job_kill(job, 128 + SIGPIPE);
        return;
    }
    message_print("cannot write standard %s: %s; ending the job", stream == STDOUT_FILENO ? "output" : "error",
                  strerror(-rc));
    if (job->exit_code == 0)
        job->exit_code = EXIT_LAUNCHER;
    job_end(job, EXIT_LAUNCHER, 0);
}

static bool job_goes_on(const struct job *job) {
    if (job->phase == PHASE_GIVEN_UP)
        return false;
    return !job->finishing || tagged_output_busy();
}

static int64_t next_deadline_ms(const struct job *job) {
    if (job->running > 0 && job->phase == PHASE_RUNNING && job->asked_deadline_ms < job->timeout_at_ms)
        return job->asked_deadline_ms;
    if (job->finishing || job->phase == PHASE_RUNNING)
        return job->timeout_at_ms;
    if (job->phase == PHASE_GRACE && job->timeout_at_ms < job->phase_deadline_ms)
        return job->timeout_at_ms;
    return job->phase_deadline_ms;
}

static void tell_stragglers(struct job *job) {
    const bool is_alone = job->options->size == job->options->ranks; /* else ranks meet elsewhere first */
    const struct watched_job seen = {.pids = job->pids,
                                     .ranks = job->options->ranks,
                                     .first_rank = job->options->first_rank,
                                     .segment_fd = is_alone ? job->context.segment_fd : -1};
    stragglers_tell(&seen);
}

static void deadline_handle(struct job *job) {
    char ranks[200];
    if (!job_goes_on(job) || now_ms() < next_deadline_ms(job))
        return;
    if (!job->finishing && job->phase != PHASE_RUNNING) {
        phase_advance(job);
        return;
    }
    running_ranks_format(job, ranks, sizeof ranks);
    if (job->running > 0 && job->asked_deadline_ms < job->timeout_at_ms) {
        message_print("%s did not end within %g s of SIG%s: killing", ranks,
                      (double)job->options->signal_grace_ms / 1000, kolo_signal_name(job->asked_signal));
        job_kill(job, 128 + job->asked_signal);
        return;
    }
    double seconds = (double)job->options->timeout_ms / 1000;
    if (job->running == 0) {
        job->phase = PHASE_GIVEN_UP;
        if (!job->options->tag_output) /* what is left is a message of kolorun's own */
            return;
        message_print("timeout after %g s: all ranks have ended, but nobody reads their output", seconds);
        job->exit_code = job->exit_code != 0 ? job->exit_code : EXIT_TIMED_OUT;
        return;
    }
    message_print("timeout after %g s: ending %s", seconds, ranks);
    tell_stragglers(job);
    job_end(job, EXIT_TIMED_OUT, 0);
}

static int64_t next_restart_ms(const struct job *job) {
    int64_t next_ms = NEVER_MS;
    for (int rank = 0; rank < job->options->ranks; rank++)
        if (job->ranks[rank].restart_at_ms < next_ms)
            next_ms = job->ranks[rank].restart_at_ms;
    return next_ms;
}

static int poll_timeout_ms(const struct job *job) {
    int64_t deadline_ms = next_deadline_ms(job);
    if (next_restart_ms(job) < deadline_ms)
        deadline_ms = next_restart_ms(job);
    if (deadline_ms == NEVER_MS)
        return -1;
    int64_t left_ms = deadline_ms - now_ms();
    if (left_ms < 0)
        return 0;
    return left_ms < 3600000 ? (int)left_ms : 3600000;
}

/* Opens what a rank's standard output and error lead to; -1: to kolorun's own. */
static int outputs_open(struct job *job, int rank, int outputs[TAGGED_STREAMS]) {
    const char *folder = job->options->output_folder;
    outputs[0] = outputs[1] = -1;
    if (job->options->tag_output)
        return tagged_output_attach(rank, outputs);
    if (folder != NULL)
        return rank_files_open(folder, job->options->first_rank + rank, job->ranks[rank].restarts > 0, outputs);
    return 0;
}

static int rank_start(struct job *job, int rank) {
    struct rank_process *process = &job->ranks[rank];
    const kolo_cpu_set *cpus = job->binding->ranks != NULL ? &job->binding->ranks[rank] : NULL;
    int outputs[TAGGED_STREAMS];
    int rc = outputs_open(job, rank, outputs);
    if (rc < 0)
        return rc;
    const pid_t pid = launch_rank(&job->context, rank, cpus, process->restarts, outputs);
    for (int i = 0; outputs[0] >= 0 && i < TAGGED_STREAMS; i++)
        close(outputs[i]);
    if (pid < 0)
        return (int)pid;
    if (job->options->report_bindings)
        binding_report(cpus, job->options->first_rank + rank, pid);
    job->pids[rank] = pid;
    process->untold = -1;
    job->running++;
    process->pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = (uint32_t)rank};
    if (process->pidfd >= 0 && epoll_ctl(job->ends_fd, EPOLL_CTL_ADD, process->pidfd, &event) != 0) {
        close(process->pidfd);
        process->pidfd = -1;
    }
    return 0;
}

/* Nobody is left for a rank to join once all have ended, or one has ended well. */
static void restarts_handle(struct job *job) {
    const bool over = job->phase != PHASE_RUNNING || job->running == 0 || job->succeeded;
    for (int rank = 0; rank < job->options->ranks; rank++) {
        struct rank_process *process = &job->ranks[rank];
        const int number = job->options->first_rank + rank;
        if (process->restart_at_ms > (over ? NEVER_MS - 1 : now_ms()))
            continue;
        process->restart_at_ms = NEVER_MS;
        const int rc = over ? 0 : rank_start(job, rank);
        if (over)
            message_print("rank %d is not started again: the job is ending", number);
        else if (rc < 0)
            message_print("cannot start rank %d again: %s; the others go on", number, strerror(-rc));
    }
}

/* Tells the ranks which of them have ended and are not to be started again. What such a rank has left running may still
 * join in its place. */
static void ends_tell(struct job *job) {
    for (int rank = 0; rank < job->options->ranks; rank++) {
        struct rank_process *process = &job->ranks[rank];
        if (process->untold < 0 || process->restart_at_ms != NEVER_MS)
            continue;
        if (job_signal(job, 0, false, REACH_ALL) > job->running)
            return;
        kolo_file_end_tell(job->tell_fd, rank, process->untold);
        process->untold = -1;
    }
}

static void job_watch(struct job *job) {
    while (job_goes_on(job)) {
        struct pollfd fds[POLL_FDS];
        fds[POLL_SIGNALS] = (struct pollfd){.fd = job->signal_fd, .events = POLLIN};
        fds[POLL_ENDS] = (struct pollfd){.fd = job->ends_fd, .events = POLLIN};
        tagged_output_prepare(fds + POLL_OUTPUT);
        if (poll(fds, POLL_FDS, poll_timeout_ms(job)) < 0) {
            if (errno == EINTR) /* stopped and continued */
                continue;
            message_print("cannot wait for the ranks: %s; ending them", strerror(errno));
            job->exit_code = EXIT_LAUNCHER;
            return;
        }
        signals_read(job);
        reap_by_pidfd(job);
        reap_others(job);
        leftovers_handle(job);
        output_service(job, fds + POLL_OUTPUT);
        restarts_handle(job);
        ends_tell(job);
        deadline_handle(job);
    }
}

/* As nohup starts programs, which are to outlive their terminal. SIGINT and SIGQUIT are forwarded also where they are
 * ignored: shells start background jobs so. */
static bool outlives_terminal(void) {
    struct sigaction action;
    return sigaction(SIGHUP, NULL, &action) == 0 && action.sa_handler == SIG_IGN;
}

static int signals_open(struct job *job) {
    sigset_t watched, blocked;
    sigemptyset(&watched);
    sigaddset(&watched, SIGCHLD);
    for (size_t i = 0; i < sizeof forwarded_signals / sizeof forwarded_signals[0]; i++)
        sigaddset(&watched, forwarded_signals[i]);
    if (outlives_terminal())
        sigdelset(&watched, SIGHUP);
    blocked = watched;
    sigaddset(&blocked, SIGPIPE); /* a reader that goes away is an error like others */
    if (sigprocmask(SIG_BLOCK, &blocked, &job->context.original_mask) != 0)
        return -errno;
    signal(SIGCHLD, SIG_DFL); /* ignored, as kolorun may have inherited it, it would hide how ranks end */
    job->signal_fd = signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK);
    return job->signal_fd >= 0 ? 0 : -errno;
}

/* Many pipes and pidfds may be needed; the ranks get the limit as it was. */
static void files_limit_raise(const struct launch_context *context) {
    struct rlimit limit = context->original_files;
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
}

static int job_open(struct job *job) {
    int ranks = job->options->ranks;
    for (int rank = 0; rank < ranks; rank++)
        job->ranks[rank] = (struct rank_process){.pidfd = -1, .restart_at_ms = NEVER_MS, .untold = -1};
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", job->context.segment_fd);
    job->tell_fd = open(path, O_RDWR | O_CLOEXEC); /* -1: nobody is told */
    job->ends_fd = epoll_create1(EPOLL_CLOEXEC);
    if (job->ends_fd < 0)
        return -errno;
    int rc = tagged_output_open(ranks, job->options->first_rank);
    if (rc == 0)
        rc = signals_open(job);
    if (rc == 0)
        rc = launch_context_open(&job->context, job->options);
    if (rc == 0)
        files_limit_raise(&job->context);
    return rc;
}

static void job_start(struct job *job) {
    for (int rank = 0; rank < job->options->ranks; rank++) {
        int rc = rank_start(job, rank);
        if (rc == 0)
            continue;
        const char *remedy = "";
        if (rc == -EAGAIN)
            remedy = " (limits: 'ulimit -u', the cgroup's pids.max)";
        else if (rc == -EMFILE)
            remedy = " (limit: 'ulimit -n'; without --tag-output fewer files are needed)";
        message_print("cannot start rank %d of %d: %s%s", job->options->first_rank + rank, job->options->size,
                      strerror(-rc), remedy);
        job_end(job, EXIT_LAUNCHER, 0);
        return;
    }
}

int job_run(const struct launch_options *options, struct binding *binding, int segment_fd) {
    static struct job job; /* what it holds is given back when kolorun ends */
    job = (struct job){.context.segment_fd = segment_fd,
                       .options = options,
                       .binding = binding,
                       .timeout_at_ms = NEVER_MS,
                       .asked_deadline_ms = NEVER_MS};
    int rc = job_open(&job);
    if (rc < 0) {
        message_print("cannot prepare the job: %s", strerror(-rc));
        return EXIT_LAUNCHER;
    }
    if (options->timeout_ms > 0)
        job.timeout_at_ms = now_ms() + options->timeout_ms;
    leftover_processes_adopt();
    job_start(&job);
    binding_settle(binding);
    job_watch(&job);
    if (!job.succeeded && job.exit_code == 0) /* the others went on */
        job.exit_code = job.failure_code;
    if (job.exit_code != 0) /* what is left where nothing was waited for but output */
        job_signal(&job, SIGKILL, false, REACH_ALL);
    return job.exit_code;
}
