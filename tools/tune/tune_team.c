#include "tune_team.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "binding.h"
#include "messages.h"

static sigset_t awaited, original;

/* A signal that is ignored, as nohup makes it, stays so. */
static bool is_ignored(int signal) {
    struct sigaction action;
    return sigaction(signal, NULL, &action) == 0 && action.sa_handler == SIG_IGN;
}

int tune_team_block_signals(void) {
    const int ending[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    signal(SIGCHLD, SIG_DFL); /* ignored, it would take away what waitpid is to tell */
    sigemptyset(&awaited);
    sigaddset(&awaited, SIGCHLD);
    for (size_t i = 0; i < sizeof ending / sizeof *ending; i++)
        if (!is_ignored(ending[i]))
            sigaddset(&awaited, ending[i]);
    if (sigprocmask(SIG_BLOCK, &awaited, &original) == 0)
        return 0;
    return message_print("cannot block signals: %s", strerror(errno));
}

bool tune_team_binds(int ranks, bool unbound) {
    struct binding binding;
    const bool binds = binding_choose(&binding, ranks, unbound ? BIND_NONE : BIND_AUTO) == 0 && binding.ranks != NULL;
    binding_close(&binding);
    return binds;
}

/* In the child. */
static _Noreturn void be_rank(const tune_job *job, int rank, struct binding *binding, pid_t parent) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) /* it ended before the line above took effect */
        _exit(EXIT_FAILURE);
    signal(SIGINT, SIG_IGN); /* the terminal's go to all of us: the parent ends its ranks */
    signal(SIGQUIT, SIG_IGN);
    sigprocmask(SIG_SETMASK, &original, NULL);
    const int rc = binding->ranks != NULL ? binding_apply(&binding->ranks[rank]) : 0;
    binding_settle(binding);
    if (rc < 0) {
        message_print("rank %d cannot be bound: %s: use --unbound", rank, strerror(-rc));
        _exit(EXIT_FAILURE);
    }
    _exit(tune_measure(job, rank));
}

static int start_ranks(const tune_job *job, struct binding *binding, pid_t *pids) {
    const pid_t parent = getpid();
    fflush(NULL);
    for (int rank = 0; rank < job->space->ranks; rank++) {
        pids[rank] = fork();
        if (pids[rank] == 0)
            be_rank(job, rank, binding, parent);
        if (pids[rank] < 0) {
            message_print("cannot start %d ranks: %s", job->space->ranks, strerror(errno));
            pids[rank] = 0;
            return -1;
        }
    }
    return 0;
}

/* Tells what became of a rank; true if it did its part. */
static bool judge(const tune_job *job, int rank, int wait_status) {
    if (WIFSIGNALED(wait_status))
        message_print("rank %d of %d was ended by signal %d (%s)", rank, job->space->ranks, WTERMSIG(wait_status),
                      strsignal(WTERMSIG(wait_status)));
    return wait_status == 0;
}

/* Waits for those that have ended. Returns how many that are, or -1 if any of them failed: the first may have ended for
 * what happened to another. */
static int collect(const tune_job *job, pid_t *pids) {
    bool good = true;
    int ended = 0;
    for (int rank = 0; rank < job->space->ranks; rank++) {
        int wait_status;
        if (pids[rank] <= 0 || waitpid(pids[rank], &wait_status, WNOHANG) != pids[rank])
            continue;
        pids[rank] = 0;
        ended++;
        good = judge(job, rank, wait_status) && good;
    }
    return good ? ended : -1;
}

static int await_ranks(const tune_job *job, pid_t *pids) {
    for (int left = job->space->ranks; left > 0;) {
        const int ended = collect(job, pids);
        if (ended < 0) {
            collect(job, pids); /* who died while the survivor was found */
            return -1;
        }
        left -= ended;
        const int signal = left > 0 ? sigwaitinfo(&awaited, NULL) : SIGCHLD;
        if (signal > 0 && signal != SIGCHLD)
            return signal;
    }
    return 0;
}

static void end_ranks(const tune_job *job, const pid_t *pids) {
    for (int rank = 0; rank < job->space->ranks; rank++)
        if (pids[rank] > 0)
            kill(pids[rank], SIGKILL);
    for (int rank = 0; rank < job->space->ranks; rank++)
        while (pids[rank] > 0 && waitpid(pids[rank], NULL, 0) < 0 && errno == EINTR)
            ;
}

int tune_team_run(const tune_job *job, bool unbound) {
    struct binding binding;
    const int rc = binding_choose(&binding, job->space->ranks, unbound ? BIND_NONE : BIND_AUTO);
    if (rc < 0)
        return message_print("cannot choose CPUs for the ranks: %s", strerror(-rc));
    pid_t pids[KOLO_RANKS_MAX] = {0};
    int result = start_ranks(job, &binding, pids);
    binding_settle(&binding);
    if (result == 0)
        result = await_ranks(job, pids);
    end_ranks(job, pids);
    binding_close(&binding);
    return result;
}
