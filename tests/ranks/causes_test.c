/* Why a rank is missing: each way to end, to leave, to be stopped or to stall is told apart, by every other rank in the
 * same words; long waits are warned about; and a process of which only the first thread has ended is not dead. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"

enum { CALLS = 20, TIMEOUT_MS = 700, NOTICED_MS_MAX = 3000 };

enum act { ACT_SIGNAL, ACT_EXIT, ACT_DESTROY, ACT_STOP, ACT_SLEEP, ACT_SPIN };

static const struct ending {
    enum act act;
    int number; /* signal or exit status */
    int status;
    kolo_cause cause;
    const char *words;
} endings[] = {
    {ACT_SIGNAL, SIGKILL, KOLO_ERR_PEER_DEAD, KOLO_CAUSE_KILLED, "was killed by signal 9 (SIGKILL)"},
    {ACT_SIGNAL, SIGTERM, KOLO_ERR_PEER_DEAD, KOLO_CAUSE_KILLED, "was killed by signal 15 (SIGTERM)"},
    {ACT_SIGNAL, SIGSEGV, KOLO_ERR_PEER_DEAD, KOLO_CAUSE_KILLED, "was killed by signal 11 (SIGSEGV)"},
    {ACT_EXIT, 0, KOLO_ERR_PEER_DEAD, KOLO_CAUSE_EXITED, "exited with status 0 without kolo_comm_destroy"},
    {ACT_EXIT, 37, KOLO_ERR_PEER_DEAD, KOLO_CAUSE_EXITED, "exited with status 37 without kolo_comm_destroy"},
    {ACT_DESTROY, 0, KOLO_ERR_PEER_DEAD, KOLO_CAUSE_LEFT, "has left the communicator"},
    {ACT_STOP, SIGSTOP, KOLO_ERR_TIMEOUT, KOLO_CAUSE_STOPPED, "is stopped (by a signal such as SIGSTOP"},
    {ACT_SLEEP, 0, KOLO_ERR_TIMEOUT, KOLO_CAUSE_STALLED, "is sleeping"},
    {ACT_SPIN, 0, KOLO_ERR_TIMEOUT, KOLO_CAUSE_STALLED, "is running"},
};

struct setup {
    const struct ending *ending;
    int victim;
    bool reaped_at_once; /* the victim's parent waits for it without delay */
};

static bool tells_after_wait; /* the kernel says how a process ended after its parent has waited for it */

/* Asks as the library does, but of a child that has been waited for for certain. */
static bool kernel_tells_after_wait(void) {
    struct {
        uint64_t mask, rest[7];
    } info = {.mask = 1 << 3};
    const pid_t pid = fork();
    if (pid == 0)
        _exit(0);
    const int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    waitpid(pid, NULL, 0);
    const bool tells = pidfd >= 0 && ioctl(pidfd, _IOWR(0xff, 11, info), &info) == 0 && (info.mask & 1 << 3);
    close(pidfd);
    return tells;
}

static int allreduce_once(kolo_comm *comm) {
    float data[6] = {1};
    return kolo_allreduce(comm, data, data, 6, KOLO_F32, KOLO_SUM);
}

static bool make_calls(const struct rank *rank) {
    for (int i = 0; i < CALLS; i++)
        if (!expect_timely(rank, rank->comm, allreduce_once(rank->comm), 0, -1, "kolo_allreduce"))
            return false;
    return true;
}

static void wake_up(int number) {
    (void)number;
}

/* Spins until the others have noticed; or sleeps, in one piece, or it might just be waking up when they look, until the
 * parent wakes it. */
static void be_late(const struct rank *rank, bool spins) {
    const int64_t end_ns = now_ns() + 20000 * INT64_C(1000000);
    signal(SIGUSR1, wake_up);
    if (!spins)
        sleep_ms(20000);
    while (counter_add(0) < (uint64_t)rank->ranks - 1 && now_ns() < end_ns)
        ;
}

/* The victim's part: ends, or comes back long after the deadline. */
static void act(struct rank *rank, const struct ending *ending) {
    event_set();
    switch (ending->act) {
    case ACT_SIGNAL:
        signal(ending->number, SIG_DFL);
        setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
        raise(ending->number);
        break;
    case ACT_EXIT:
        _exit(ending->number);
    case ACT_DESTROY:
        kolo_comm_destroy(rank->comm);
        rank->comm = NULL;
        while (counter_add(0) < (uint64_t)rank->ranks - 1) /* lives on until the others have noticed */
            sleep_ms(1);
        return;
    case ACT_STOP: /* the parent lets it go on */
        raise(ending->number);
        break;
    case ACT_SLEEP:
        be_late(rank, false);
        break;
    case ACT_SPIN:
        be_late(rank, true);
        break;
    }
    int status = 0; /* what the others wrote before they gave up still counts */
    for (int call = 0; status == 0 && call < CALLS; call++)
        status = allreduce_once(rank->comm);
    expect_status(rank, status, KOLO_ERR_TIMEOUT, "the late rank's kolo_allreduce");
}

static void run_ending(struct rank *rank) {
    const struct setup *setup = rank->team->argument;
    const struct ending *ending = setup->ending;
    kolo_failure failure = {.failure_bytes = sizeof failure};
    char named[160];
    if (!make_calls(rank)) {
        counter_add(1);
        return;
    }
    if (rank->rank == setup->victim) {
        act(rank, ending);
        return;
    }
    int status = 0;
    while (status == 0)
        status = allreduce_once(rank->comm);
    const int64_t late_ns = now_ns() - event_ns();
    kolo_comm_failure(rank->comm, &failure);
    counter_add(1);
    if (!expect_timely(rank, rank->comm, status, ending->status, setup->victim, ending->words))
        return;
    expect_prompt(rank, late_ns, NOTICED_MS_MAX + TIMEOUT_MS, "noticed");
    const bool ended = ending->act == ACT_SIGNAL || ending->act == ACT_EXIT;
    if (ended && failure.cause == KOLO_CAUSE_ENDED && !tells_after_wait && setup->reaped_at_once) {
        expect_message(rank, ending->words, "has ended", NULL);
    } else {
        snprintf(named, sizeof named, "%s", ending->words);
        expect_message(rank, ending->words, named, NULL);
        expect(rank, failure.cause == ending->cause, "%s: the cause is %d", ending->words, (int)failure.cause);
        expect(rank, !ended || failure.code == ending->number, "%s: the code is %d", ending->words, failure.code);
    }
    snprintf(named, sizeof named, "rank %d (pid", setup->victim);
    expect_message(rank, ending->words, named,
                   ended || ending->act == ACT_DESTROY ? "found by rank" : "has begun 20 calls", NULL);
}

/* The parent: leaves the victim a zombie until the others have noticed, or waits for it at once. */
static void attend(const struct team *team, const pid_t *pids) {
    const struct setup *setup = team->argument;
    const bool ends = setup->ending->act == ACT_SIGNAL || setup->ending->act == ACT_EXIT;
    const uint64_t others = (uint64_t)team->ranks - 1;
    siginfo_t info;
    const int64_t deadline_ns = now_ns() + patience_ms(20000) * 1000000;
    if (ends && setup->reaped_at_once)
        while (now_ns() < deadline_ns && waitid(P_PID, (id_t)pids[setup->victim], &info, WEXITED | WNOWAIT) < 0)
            ;
    else
        while (now_ns() < deadline_ns && counter_add(0) < others)
            sleep_ms(1);
    if (setup->ending->act == ACT_STOP)
        kill(pids[setup->victim], SIGCONT);
    if (setup->ending->act == ACT_SLEEP)
        kill(pids[setup->victim], SIGUSR1);
}

static void run_endings(int ranks) {
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
        for (int reaped = 0; reaped < 2; reaped++) {
            if (reaped && endings[i].status == KOLO_ERR_TIMEOUT)
                continue;
            /* The harness waits for the ranks in order: for rank 0 as soon as attend has returned. */
            const struct setup setup = {&endings[i], reaped ? 0 : ranks - 1, reaped};
            harness_run(&(struct team){.ranks = ranks,
                                       .timeout_ms = endings[i].status == KOLO_ERR_TIMEOUT ? TIMEOUT_MS : 0,
                                       .victim = setup.victim + 1,
                                       .run = run_ending,
                                       .argument = &setup,
                                       .meanwhile = attend});
        }
}

/* Rank 2 is late with a message for which rank 1 waits, and rank 0 waits for rank 1: rank 2 is named. */
static void run_behind_message(struct rank *rank) {
    char sign = 0;
    int status = 0;
    if (!make_calls(rank))
        return;
    if (rank->rank == 2) {
        const int64_t end_ns = now_ns() + patience_ms(20000) * 1000000;
        while (counter_add(0) < 2 && now_ns() < end_ns)
            sleep_ms(1);
        expect_status(rank, allreduce_once(rank->comm), KOLO_ERR_TIMEOUT, "the late rank's kolo_allreduce");
        return;
    }
    kolo_comm_set_timeout(rank->comm, patience_ms(20000));
    if (rank->rank == 1) {
        expect_status(rank, kolo_send(rank->comm, &sign, 1, KOLO_U8, 0, 0), 0, "kolo_send");
        status = kolo_recv(rank->comm, &sign, 1, KOLO_U8, 2, 0, NULL);
    } else {
        expect_status(rank, kolo_recv(rank->comm, &sign, 1, KOLO_U8, 1, 0, NULL), 0, "kolo_recv");
        kolo_comm_set_timeout(rank->comm, TIMEOUT_MS);
        status = allreduce_once(rank->comm);
    }
    counter_add(1);
    expect_timely(rank, rank->comm, status, KOLO_ERR_TIMEOUT, 2, "behind a message");
}

/* Warnings. */

enum { WARN_MS = 100, LATE_MS = 1000 };

static size_t count_words(const char *text, const char *words) {
    size_t count = 0;
    for (; (text = strstr(text, words)); text++)
        count++;
    return count;
}

/* How many warnings there are in a wait that takes so long: after WARN_MS, and then whenever it has become twice as
 * long.
 */
static size_t warnings_in(int64_t wait_ms) {
    size_t count = 0;
    for (int64_t ms = WARN_MS; ms <= wait_ms; ms *= 2)
        count++;
    return count;
}

/* Rank 0 is late; what rank 1 writes to its log is read back. */
static void run_warned(struct rank *rank) {
    const bool silent = rank->team->argument != NULL;
    char log[8192] = "";
    const int file = memfd_create("log", MFD_CLOEXEC), terminal = dup(STDERR_FILENO);
    setenv("KOLO_LOG", silent ? "warn,stall:0" : "warn,stall:100", 1);
    if (!expect_status(rank, kolo_comm_create(&rank->comm, &rank->options), 0, "kolo_comm_create"))
        return;
    make_calls(rank);
    fflush(stderr);
    dup2(file, STDERR_FILENO);
    while (rank->rank == 0 && counter_add(0) == 0) /* until rank 1 goes to wait */
        sleep_ms(1);
    if (rank->rank == 0)
        sleep_ms(LATE_MS);
    else
        counter_add(1);
    const int64_t begin_ns = now_ns();
    const int status = allreduce_once(rank->comm);
    const int64_t wait_ms = (now_ns() - begin_ns) / 1000000;
    dup2(terminal, STDERR_FILENO);
    expect_status(rank, status, 0, "a slow kolo_allreduce");
    const ssize_t length = pread(file, log, sizeof log - 1, 0);
    const size_t warnings = count_words(log, "has waited");
    /* What is due is said at the next look, which a busy machine puts off. */
    const size_t most = rank->rank == 0 || silent ? 0 : warnings_in(wait_ms), least = most > 2 ? 2 : most;
    expect(rank, length >= 0 && warnings >= least && warnings <= most, "%zu warnings in %lld ms:\n%s", warnings,
           (long long)wait_ms, log);
    if (warnings)
        expect(rank,
               strstr(log, "in call 21 (allreduce of 6 f32, sum) for rank 0 (pid ") &&
                   strstr(log, "which is sleeping") && strstr(log, "rank 0: call 20, step") &&
                   strstr(log, "rank 1: call 21, step"),
               "the warning is:\n%s", log);
    kolo_comm_destroy(rank->comm);
    rank->comm = NULL;
}

/* A process whose first thread has ended lives as long as another one does. */
static void *go_on(void *argument) {
    struct rank *rank = argument;
    sleep_ms(300); /* the others sleep in the kernel by now, and have looked at this process */
    make_calls(rank);
    kolo_comm_destroy(rank->comm);
    fflush(NULL);
    _exit(0);
}

static void run_without_first_thread(struct rank *rank) {
    pthread_t thread;
    make_calls(rank);
    if (rank->rank != 0) {
        make_calls(rank);
    } else if (expect(rank, pthread_create(&thread, NULL, go_on, rank) == 0, "pthread_create")) {
        pthread_exit(NULL);
    }
}

int main(int argc, char **argv) {
    harness_begin(argc, argv, "Lets ranks end, stop and stall in every way, and reads what the others say of it.");
    tells_after_wait = kernel_tells_after_wait();
    for (int ranks = 2; ranks <= 3; ranks++)
        if (wants_ranks(ranks) && !(arguments.quick && ranks == 2))
            run_endings(ranks);
    harness_run(&(struct team){.ranks = 2, .creates_itself = true, .run = run_warned});
    harness_run(&(struct team){.ranks = 2, .creates_itself = true, .run = run_warned, .argument = "silent"});
    harness_run(&(struct team){.ranks = 3, .run = run_without_first_thread});
    harness_run(&(struct team){.ranks = 3, .timeout_ms = TIMEOUT_MS, .victim = 2 + 1, .run = run_behind_message});
    return harness_end();
}
