/* Ranks that may not look into each other's processes, or find nothing there: kolo_alloc gives all of them buffers all
 * the same; scatter, allgather and all-to-all, which would read out of each other's memory, stop doing so; and what
 * comes after works. Meanwhile another user connects to every socket of theirs that shows up. */
#include <errno.h>
#include <linux/capability.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"

enum { NOBODY = 65534, STRANGER = 54323, CALLS_MAX = 100, CROWDS_MAX = 20, BUFFERS = 100, COUNT = 5000 };

enum hiding {
    NOT_DUMPABLE, /* and without the capability to look all the same */
    SETUID_ALL,
    SETUID_FIRST, /* rank 0 alone */
    SETUID_LAST,  /* the last rank alone */
    THREAD,       /* the first thread of each process has ended */
    HIDINGS
};

static const char *const hiding_names[] = {"not dumpable", "setuid", "setuid of rank 0", "setuid of the last rank",
                                           "first thread ended"};

/* Whether there is room for another crowd at a socket: its ranks may be late, and where the kernel has no room for the
 * rank that is expected, the call fails. */
static bool has_room(const char *name) {
    static struct {
        char name[64];
        int crowds;
    } known[64];
    static unsigned next;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i].name, name) == 0)
            return known[i].crowds++ < CROWDS_MAX;
    snprintf(known[next % 64].name, sizeof known->name, "%s", name);
    known[next++ % 64].crowds = 1;
    return true;
}

/* Connects to a socket often. All connections are closed in the end. */
static void crowd(const char *name, int *fds) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const size_t bytes = strlen(name);
    memcpy(address.sun_path + 1, name, bytes);
    for (int i = 0; i < CALLS_MAX; i++) {
        close(fds[i]);
        fds[i] = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
        if (connect(fds[i], (struct sockaddr *)&address, (socklen_t)(sizeof(sa_family_t) + 1 + bytes)) < 0)
            return;
    }
}

/* Another user, who looks all the time which sockets there are. */
static pid_t start_stranger(void) {
    static char line[256], name[64];
    static int fds[CALLS_MAX];
    fflush(NULL);
    const pid_t pid = fork();
    if (pid != 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (setuid(STRANGER) < 0)
        _exit(1);
    for (int i = 0; i < CALLS_MAX; i++)
        fds[i] = -1;
    for (;;) { /* until it is killed */
        FILE *sockets = fopen("/proc/net/unix", "r");
        while (sockets && fgets(line, sizeof line, sockets))
            if (sscanf(line, "%*s %*s %*s %*s %*s %*s %*s @%63s", name) == 1 && strncmp(name, "kolo-", 5) == 0 &&
                strncmp(name, "kolo-test", 9) != 0 && has_room(name))
                crowd(name, fds);
        if (sockets)
            fclose(sockets);
    }
}

static bool drop_ptrace(void) {
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2];
    if (syscall(SYS_capget, &header, data) < 0)
        return false;
    data[0].effective &= ~(1U << CAP_SYS_PTRACE);
    data[0].permitted &= ~(1U << CAP_SYS_PTRACE);
    return syscall(SYS_capset, &header, data) == 0;
}

static void hide(const struct rank *rank, enum hiding hiding) {
    const bool is_last = rank->rank == rank->ranks - 1;
    const bool changes =
        hiding == SETUID_ALL || (hiding == SETUID_FIRST && rank->rank == 0) || (hiding == SETUID_LAST && is_last);
    if (changes)
        expect(rank, setuid(NOBODY) == 0, "setuid: %s", strerror(errno));
    if (hiding == NOT_DUMPABLE)
        expect(rank, drop_ptrace() && prctl(PR_SET_DUMPABLE, 0) == 0, "hiding: %s", strerror(errno));
}

static bool reduce(const struct rank *rank, kolo_comm *comm, int32_t *buffer) {
    for (int i = 0; i < COUNT; i++)
        buffer[i] = rank->rank + i;
    if (!expect_status(rank, kolo_allreduce(comm, buffer, buffer, COUNT, KOLO_I32, KOLO_SUM), 0, "kolo_allreduce"))
        return false;
    const int32_t ranks = rank->ranks, last = COUNT - 1;
    return expect(rank, buffer[last] == ranks * (ranks - 1) / 2 + ranks * last, "the sum is %d", buffer[last]);
}

/* Whether this machine lets no process read another one's memory: a parent's, of the same user. */
static bool is_refused(void) {
    static const int32_t there = 1;
    int32_t here;
    const struct iovec local = {&here, sizeof here}, remote = {(void *)(uintptr_t)&there, sizeof there};
    return process_vm_readv(getppid(), &local, 1, &remote, 1, 0) < 0;
}

/* What rank `from` sends to rank `to`. */
static int32_t value(int from, int to, int i) {
    return 10000 * from + 1000 * to + i % 1000;
}

/* A scatter from every rank, an allgather and an all-to-all. False if a result is wrong. */
static bool exchange(const struct rank *rank, kolo_comm *comm) {
    static int32_t send[3 * COUNT], recv[3 * COUNT];
    const int self = rank->rank, ranks = rank->ranks;
    bool right = true;
    for (int to = 0; to < ranks; to++)
        for (int i = 0; i < COUNT; i++)
            send[to * COUNT + i] = value(self, to, i);
    for (int root = 0; root < ranks; root++) {
        if (!expect_status(rank, kolo_scatter(comm, send, recv, COUNT, KOLO_I32, root), 0, "kolo_scatter"))
            return false;
        for (int i = 0; i < COUNT; i++)
            right &= recv[i] == value(root, self, i);
    }
    if (!expect_status(rank, kolo_allgather(comm, send, recv, COUNT, KOLO_I32), 0, "kolo_allgather"))
        return false;
    for (int from = 0; from < ranks; from++)
        for (int i = 0; i < COUNT; i++)
            right &= recv[from * COUNT + i] == value(from, 0, i);
    if (!expect_status(rank, kolo_alltoall(comm, send, recv, COUNT, KOLO_I32), 0, "kolo_alltoall"))
        return false;
    for (int from = 0; from < ranks; from++)
        for (int i = 0; i < COUNT; i++)
            right &= recv[from * COUNT + i] == value(from, self, i);
    return expect(rank, right, "an exchange is wrong");
}

/* Exchanges twice. Ranks that cannot read find that out in the first exchange, and try no more in the second. */
static void exchange_twice(const struct rank *rank, kolo_comm *comm, bool reads) {
    kolo_stats stats = {.stats_bytes = sizeof stats};
    uint64_t direct[2] = {0, 0};
    for (int i = 0; i < 2; i++) {
        if (!exchange(rank, comm))
            return;
        kolo_comm_stats(comm, &stats);
        direct[i] = stats.calls_by_algorithm[KOLO_ALGORITHM_DIRECT];
    }
    const uint64_t calls = (uint64_t)rank->ranks + 2;
    expect(rank, reads ? direct[0] == calls && direct[1] == 2 * calls : direct[0] < calls && direct[1] == direct[0],
           "%d and %d exchanges were read", (int)direct[0], (int)direct[1]);
}

static void *run_hidden(void *argument) {
    struct rank *rank = argument;
    const enum hiding hiding = *(const enum hiding *)rank->team->argument;
    kolo_comm *comm, *copy;
    int32_t *buffers[2];
    static int32_t own[COUNT];
    if (!expect_status(rank, kolo_comm_create(&comm, &rank->options), 0, "kolo_comm_create"))
        return NULL;
    exchange_twice(rank, comm, hiding != THREAD && !is_refused());
    const int duplicated = kolo_comm_dup(comm, &copy); /* which has not found out */
    hide(rank, hiding);
    if (!expect_status(rank, duplicated, 0, "kolo_comm_dup"))
        return NULL;
    exchange_twice(rank, copy, false);
    kolo_comm_destroy(copy);
    const int descriptors = hiding == THREAD ? 0 : open_descriptors();
    for (int i = 0; i < 2; i++)
        if (!expect_status(rank, kolo_alloc(comm, COUNT * sizeof **buffers, (void **)&buffers[i]), 0,
                           hiding_names[hiding]) ||
            !reduce(rank, comm, buffers[i]))
            return NULL;
    expect(rank, hiding == THREAD || open_descriptors() == descriptors, "%s: %d descriptors before, %d after",
           hiding_names[hiding], descriptors, open_descriptors());
    kolo_free(comm, buffers[0]);
    reduce(rank, comm, own);
    for (int i = 0; i < BUFFERS; i++)
        if (!expect_status(rank, kolo_alloc(comm, sizeof own, (void **)&buffers[0]), 0, hiding_names[hiding]) ||
            !expect_status(rank, kolo_free(comm, buffers[0]), 0, "kolo_free"))
            return NULL;
    if (expect_status(rank, kolo_comm_dup(comm, &copy), 0, hiding_names[hiding])) {
        reduce(rank, copy, own);
        kolo_comm_destroy(copy);
    }
    kolo_comm_destroy(comm);
    return NULL;
}

static void *run_alone(void *rank) {
    run_hidden(rank);
    fflush(NULL);
    _exit(0);
}

/* The same where the first thread's stack is gone. */
static struct rank *keep(const struct rank *rank) {
    static enum hiding hiding;
    static struct team team;
    static struct rank kept;
    hiding = *(const enum hiding *)rank->team->argument;
    team = *rank->team;
    team.argument = &hiding;
    kept = *rank;
    kept.team = &team;
    return &kept;
}

/* In a process of its own, whose first thread may end. */
static void run_inside(struct rank *rank) {
    pthread_t thread;
    int status = -1;
    const pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        rank = keep(rank);
        if (*(const enum hiding *)rank->team->argument == THREAD && pthread_create(&thread, NULL, run_alone, rank) == 0)
            pthread_exit(NULL);
        run_alone(rank);
    }
    waitpid(pid, &status, 0);
    expect(rank, status == 0, "the rank ended with %x", status);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv, "Has ranks hide from each other.");
    unshare(CLONE_NEWNET); /* so that the stranger sees no other job's sockets, where that is allowed */
    setenv("KOLO_SINGLE_COPY", "1", 1);
    const pid_t stranger = geteuid() == 0 ? start_stranger() : -1;
    for (int hiding = 0; hiding < HIDINGS; hiding++) {
        const enum hiding argument = (enum hiding)hiding;
        const bool needs_root = hiding >= SETUID_ALL && hiding <= SETUID_LAST;
        if (!needs_root || geteuid() == 0)
            harness_run(&(struct team){.ranks = 3, .creates_itself = true, .run = run_inside, .argument = &argument});
    }
    if (stranger > 0) {
        kill(stranger, SIGKILL);
        waitpid(stranger, NULL, 0);
    }
    return harness_end();
}
