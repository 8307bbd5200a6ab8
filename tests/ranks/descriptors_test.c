/* Descriptors: a thousand communicators of sixteen ranks fit what a process may have by default, and leave the program
 * most of it; and a program that closes descriptors which are not its own, and opens others in their place, is not
 * taken for dead, nor takes others for it, still finds who dies, and keeps its own files. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"

static int allreduce_once(kolo_comm *comm) {
    float data[6] = {1};
    return kolo_allreduce(comm, data, data, 6, KOLO_F32, KOLO_SUM);
}

/* Many communicators. */

enum { LIMIT = 1024, MANY = 1000, MANY_NAMED = 200, QUICKER = 10, OTHER = 48 /* kept for tools, standard streams */ };

static void run_many(struct rank *rank) {
    const int count = (rank->team->by_descriptor ? MANY : MANY_NAMED) / (arguments.quick ? QUICKER : 1);
    kolo_comm **comms = calloc((size_t)count, sizeof *comms);
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = LIMIT;
    setrlimit(RLIMIT_NOFILE, &limit);
    for (int i = 0; i < count; i++) {
        char job[160];
        kolo_options options = rank->options;
        snprintf(job, sizeof job, "%s-%d", options.job ? options.job : "", i);
        if (options.job)
            options.job = job;
        if (!expect_status(rank, kolo_comm_create(&comms[i], &options), 0, "kolo_comm_create") ||
            !expect_status(rank, allreduce_once(comms[i]), 0, "kolo_allreduce"))
            break;
    }
    expect(rank, open_descriptors() <= rank->ranks + OTHER, "%d communicators of %d ranks take %d descriptors", count,
           rank->ranks, open_descriptors());
    for (int i = 0; i < count; i++)
        kolo_comm_destroy(comms[i]);
    free(comms);
}

/* Ranks 0 and 1 keep a communicator. Rank 0 makes others with rank 2, which keeps none, one after the other: what they
 * took for the time of each is given back. */
static void run_partners(struct rank *rank) {
    enum { KEPT, PARTNERS = 20, FIRST_FEW = 2 };
    kolo_comm *kept = NULL, *comm;
    int descriptors = 0;
    for (int i = KEPT; i <= PARTNERS; i++) {
        char job[160];
        kolo_options options = rank->options;
        snprintf(job, sizeof job, "%s-%d", options.job, i);
        options.job = job;
        options.size = 2;
        options.rank = rank->rank != 0;
        if (rank->rank == (i == KEPT ? 2 : 1))
            continue;
        if (!expect_status(rank, kolo_comm_create(i == KEPT ? &kept : &comm, &options), 0, "kolo_comm_create"))
            break;
        if (i > KEPT)
            expect_status(rank, allreduce_once(comm), 0, "kolo_allreduce");
        if (i > KEPT)
            kolo_comm_destroy(comm);
        if (i == FIRST_FEW)
            descriptors = open_descriptors();
    }
    if (rank->rank == 0 && !arguments.threads)
        expect(rank, open_descriptors() == descriptors, "%d descriptors after %d communicators, %d after %d",
               descriptors, FIRST_FEW, open_descriptors(), PARTNERS);
    if (kept)
        expect_status(rank, allreduce_once(kept), 0, "kolo_allreduce in what is kept");
    kolo_comm_destroy(kept);
}

/* A program that was started without standard streams may print: none of its descriptors may be in their place. */
static void run_without_streams(struct rank *rank) {
    enum { STREAMS = 3, APART = 100 };
    kolo_comm *comm = NULL, *copy = NULL;
    int event = -1, status[3], taken = 0;
    for (int fd = 0; fd < STREAMS; fd++)
        expect(rank, fcntl(fd, F_DUPFD_CLOEXEC, APART) == APART + fd, "no duplicate of %d", fd);
    for (int fd = 0; fd < STREAMS; fd++)
        close(fd);
    status[0] = kolo_comm_create(&comm, &rank->options);
    status[1] = status[0] ? status[0] : kolo_comm_dup(comm, &copy);
    status[2] = status[1] ? status[1] : kolo_comm_eventfd(copy, &event);
    for (int fd = 0; fd < STREAMS; fd++)
        taken += fcntl(fd, F_GETFD) >= 0;
    for (int fd = 0; fd < STREAMS; fd++)
        dup2(APART + fd, fd);
    expect(rank, status[2] == 0, "status %d: %s", status[2], kolo_error_message());
    expect(rank, taken == 0 && event >= STREAMS, "%d of the standard streams taken, event %d", taken, event);
    kolo_comm_destroy(copy);
    kolo_comm_destroy(comm);
}

/* Closed descriptors. */

enum replacement { LEFT_CLOSED, FILE_, EVENT, PIDFD, REPLACEMENTS };

static const char *const replacement_names[] = {"nothing", "files", "eventfds", "pidfds"};

enum { FIRST = 3, NUMBERS = 60, CALLS = 5, QUIET_MS = 300, NOTICED_MS_MAX = 1000 };

struct closing {
    enum replacement replacement;
    bool later_dies; /* rank 1 is killed at the end; else all is well */
};

static pid_t bystander; /* which the replaced pidfds stand for */

static int open_replacement(enum replacement replacement) {
    switch (replacement) {
    case FILE_:
        return open("/dev/null", O_RDONLY | O_CLOEXEC);
    case EVENT:
        return eventfd(0, EFD_CLOEXEC);
    case PIDFD:
        return (int)syscall(SYS_pidfd_open, bystander, 0);
    default:
        return -1;
    }
}

static struct stat replaced[NUMBERS];

/* Closes all that it did not open itself, and a few things that it did. */
static void replace(const struct rank *rank, enum replacement replacement) {
    for (int i = 0; i < NUMBERS; i++)
        close(FIRST + i);
    for (int i = 0; i < NUMBERS && replacement != LEFT_CLOSED; i++) {
        const int fd = open_replacement(replacement);
        expect(rank, fd == FIRST + i && fstat(fd, &replaced[i]) == 0, "number %d opened as %d", FIRST + i, fd);
    }
}

static void check_replaced(const struct rank *rank, enum replacement replacement) {
    struct stat found;
    for (int i = 0; i < NUMBERS && replacement != LEFT_CLOSED; i++)
        expect(rank,
               fstat(FIRST + i, &found) == 0 && found.st_dev == replaced[i].st_dev &&
                   found.st_ino == replaced[i].st_ino,
               "descriptor %d of %s is closed or another one", FIRST + i, replacement_names[replacement]);
}

static void run_closing(struct rank *rank) {
    const struct closing *closing = rank->team->argument;
    kolo_comm *comm;
    char named[32];
    if (!expect_status(rank, kolo_comm_create(&comm, &rank->options), 0, "kolo_comm_create"))
        return;
    for (int i = 0; i < CALLS; i++)
        expect_status(rank, allreduce_once(comm), 0, "kolo_allreduce");
    if (rank->rank == 0) {
        bystander = fork();
        if (bystander == 0) {
            pause();
            _exit(0);
        }
        replace(rank, closing->replacement);
    }
    if (rank->rank == 1)
        sleep_ms(QUIET_MS); /* the others look who lives */
    expect_status(rank, allreduce_once(comm), 0, "kolo_allreduce with descriptors closed");
    if (closing->later_dies && rank->rank == 1) {
        sleep_ms(50);
        event_set();
        raise(SIGKILL);
    }
    const int status = allreduce_once(comm);
    const int64_t late_ns = now_ns() - event_ns();
    if (expect_status(rank, status, closing->later_dies ? KOLO_ERR_PEER_DEAD : 0, "the last kolo_allreduce") &&
        status < 0) {
        snprintf(named, sizeof named, "rank %d (pid", 1);
        expect_message(rank, replacement_names[closing->replacement], named, NULL);
        expect_prompt(rank, late_ns, NOTICED_MS_MAX, "noticed");
    }
    kolo_comm_destroy(comm);
    if (rank->rank == 0) {
        check_replaced(rank, closing->replacement);
        kill(bystander, SIGKILL);
        waitpid(bystander, NULL, 0);
    }
}

int main(int argc, char **argv) {
    harness_begin(argc, argv, "Counts descriptors, and takes them away.");
    for (int replacement = 0; replacement < REPLACEMENTS; replacement++)
        for (int dies = 0; dies < 2; dies++) {
            const struct closing closing = {(enum replacement)replacement, dies};
            harness_run(&(struct team){.ranks = 3,
                                       .slot_bytes = 8192,
                                       .by_descriptor = replacement % 2,
                                       .creates_itself = true,
                                       .victim = dies ? 2 : 0,
                                       .run = run_closing,
                                       .argument = &closing});
        }
    harness_run(&(struct team){.ranks = 3, .slot_bytes = 4096, .creates_itself = true, .run = run_partners});
    if (!arguments.threads)
        harness_run(&(struct team){.ranks = 2, .creates_itself = true, .run = run_without_streams});
    for (int by_descriptor = 0; by_descriptor < 2; by_descriptor++)
        harness_run(&(struct team){
            .ranks = 16, .slot_bytes = 4096, .by_descriptor = by_descriptor, .creates_itself = true, .run = run_many});
    return harness_end();
}
