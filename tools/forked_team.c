#include "forked_team.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

void *forked_team_allocate(size_t bytes) {
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

void forked_team_free(void *memory, size_t bytes) {
    if (memory != NULL)
        munmap(memory, bytes);
}

pid_t forked_process_start(int (*work)(void *argument, int index), void *argument, int index) {
    const pid_t parent = getpid();
    fflush(NULL);
    const pid_t pid = fork();
    if (pid != 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) /* it ended before the line above took effect */
        raise(SIGKILL);
    _exit(work(argument, index));
}

/* A pid is 0 once its process has been waited for, and may then be somebody else's. */
static void end_all(const pid_t *pids, int count) {
    for (int i = 0; i < count; i++)
        if (pids[i] > 0)
            kill(pids[i], SIGKILL);
}

static int index_of(const pid_t *pids, int count, pid_t pid) {
    int index = 0;
    while (index < count && pids[index] != pid)
        index++;
    return index;
}

/* Waits for all. After the first failure it looks who else has ended already: one that a signal has ended tells more
 * than those that notice its loss. */
static int await_all(pid_t *pids, int count, forked_failure *failure) {
    bool failed = false, killed = false;
    for (int left = count; left > 0;) {
        int status;
        const pid_t pid = waitpid(-1, &status, failed && !killed ? WNOHANG : 0);
        const int index = pid > 0 ? index_of(pids, count, pid) : count;
        if (pid < 0 && errno != EINTR)
            return -errno;
        if (pid == 0) {
            end_all(pids, count);
            killed = true;
        }
        if (index == count)
            continue; /* also for a child from before this program's start */
        pids[index] = 0;
        left--;
        if (status != 0 && !killed && (!failed || WIFSIGNALED(status)))
            *failure = (forked_failure){index, status};
        failed |= status != 0;
    }
    return failed;
}

int forked_team_run(int count, int (*work)(void *argument, int index), void *argument, forked_failure *failure) {
    pid_t *pids = calloc((size_t)count, sizeof *pids);
    int forked = 0, error = pids ? 0 : ENOMEM;
    signal(SIGCHLD, SIG_DFL); /* ignored, it would take away what waitpid is to tell */
    while (error == 0 && forked < count) {
        const pid_t pid = forked_process_start(work, argument, forked);
        if (pid > 0)
            pids[forked++] = pid;
        else
            error = errno;
    }
    if (error != 0)
        end_all(pids, forked);
    const int result = await_all(pids, forked, failure);
    free(pids);
    return error != 0 ? -error : result;
}
