#include "fault_team.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <math.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "forked_team.h"

enum { LOOK_NS = 300000 };

struct work {
    void (*run)(const void *context, int rank);
    const void *context;
};

static int be_rank(void *of, int rank) {
    const struct work *work = of;
    work->run(work->context, rank);
    return 0;
}

void team_start(struct team *team, int ranks, void (*run)(const void *context, int rank), const void *context) {
    struct work work = {run, context};
    *team = (struct team){.ranks = ranks};
    for (int rank = 0; rank < ranks; rank++) {
        team->pids[rank] = forked_process_start(be_rank, &work, rank);
        if (team->pids[rank] < 0) {
            perror("fork");
            exit(1);
        }
    }
}

int64_t team_waited_ns(const struct team *team, int rank) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/schedstat", (int)team->pids[rank]);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    const int64_t ns = team_held_ns(fd);
    if (fd >= 0)
        close(fd);
    return ns;
}

/* What has ended still tells how long it had to wait for a processor, until it is reaped. */
static void reap(struct team *team, int rank, int options) {
    siginfo_t info = {.si_pid = 0};
    if (team->ended[rank] || waitid(P_PID, (id_t)team->pids[rank], &info, WEXITED | WNOWAIT | options) < 0 ||
        info.si_pid == 0)
        return;
    team->waited_ns[rank] = team_waited_ns(team, rank);
    team->ended[rank] = waitpid(team->pids[rank], &team->wait_status[rank], 0) == team->pids[rank];
}

bool team_await(struct team *team, int except, int64_t limit_ns) {
    const struct timespec look = {.tv_nsec = LOOK_NS};
    const int64_t begin_ns = now_ns();
    for (int64_t looked_ns = begin_ns; looked_ns - begin_ns <= limit_ns;) {
        int left = 0;
        for (int rank = 0; rank < team->ranks; rank++) {
            reap(team, rank, WNOHANG);
            left += rank != except && !team->ended[rank];
        }
        if (left == 0)
            return true;
        nanosleep(&look, NULL);
        const int64_t woken_ns = now_ns(), late_ns = woken_ns - looked_ns - LOOK_NS;
        if (late_ns > team->held_ns)
            team->held_ns = late_ns;
        looked_ns = woken_ns;
    }
    return false;
}

void team_kill(struct team *team) {
    for (int rank = 0; rank < team->ranks; rank++) {
        if (team->ended[rank])
            continue;
        kill(team->pids[rank], SIGKILL);
        reap(team, rank, 0);
    }
}

bool team_is_left(void) {
    siginfo_t info;
    return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 || errno != ECHILD;
}

int team_held_open(void) {
    return open("/proc/self/schedstat", O_RDONLY | O_CLOEXEC);
}

int64_t team_held_ns(int fd) {
    char text[128] = "";
    if (fd < 0 || pread(fd, text, sizeof text - 1, 0) <= 0)
        return 0;
    const char *second = strchr(text, ' '); /* of three numbers */
    return second ? strtoll(second, NULL, 10) : 0;
}

int64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

void team_hide(void) {
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2];
    if (syscall(SYS_capget, &header, data) < 0)
        perror("capget");
    data[0].effective &= ~(1U << CAP_SYS_PTRACE);
    if (syscall(SYS_capset, &header, data) < 0 || prctl(PR_SET_DUMPABLE, 0) < 0)
        perror("hiding");
}

void times_add(struct times *times, int64_t ns) {
    if (times->count == times->capacity) {
        times->capacity = times->capacity ? 2 * times->capacity : 256;
        times->ns = realloc(times->ns, times->capacity * sizeof *times->ns);
        if (!times->ns)
            abort();
    }
    times->ns[times->count++] = ns;
}

static int compare(const void *a, const void *b) {
    const int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;
    return (left > right) - (left < right);
}

int64_t times_percentile(struct times *times, double percent) {
    const double rank = ceil(percent / 100 * (double)times->count);
    qsort(times->ns, times->count, sizeof *times->ns, compare);
    return times->ns[rank < 1 ? 0 : (size_t)rank - 1];
}

void times_print(struct times *times, const char *name) {
    if (times->count == 0)
        return;
    printf("  %-24s %6zu   min %6.2f   median %6.2f   p99 %6.2f   max %6.2f ms\n", name, times->count,
           (double)times_percentile(times, 0) * 1e-6, (double)times_percentile(times, 50) * 1e-6,
           (double)times_percentile(times, 99) * 1e-6, (double)times_percentile(times, 100) * 1e-6);
}
