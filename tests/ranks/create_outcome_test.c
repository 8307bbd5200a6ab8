/* A creation ends in the same way on all ranks. One gives up at the worst moment, when it has attached and nobody but
 * rank 0 can say whether all have; or fails for want of memory before the others have come. The others either have a
 * communicator that works, with it, or soon know which rank has given up, and why. */
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "harness.h"
#include "shm/layout.h"

enum { ROUNDS = 60, ROUNDS_QUICK = 15, CREATE_MS = 20000, KNOWN_MS = 1000, LATE_MS = 100 };

static bool have_come(const struct rank *rank, int fd) {
    uint64_t word = 0;
    bool have = pread(fd, &word, sizeof word, offsetof(struct kolo_job_header, offer)) == (ssize_t)sizeof word && word;
    for (int other = 2; have && other < rank->ranks; other++) {
        const size_t member = sizeof(struct kolo_job_header) + (size_t)other * sizeof(struct kolo_job_member);
        have = pread(fd, &word, sizeof word, (off_t)(member + offsetof(struct kolo_job_member, epoch))) ==
                   (ssize_t)sizeof word &&
               word;
    }
    return have;
}

/* Waits until rank 0 has offered the segment and all but rank 1, the caller, have come. */
static bool await_others(const struct rank *rank) {
    char path[160];
    bool have = false;
    snprintf(path, sizeof path, "/dev/shm/kolo-%u-%s", (unsigned)geteuid(), rank->options.job ? rank->options.job : "");
    for (const int64_t begin_ns = now_ns(); !have && now_ns() - begin_ns < patience_ms(CREATE_MS) * 1000000;) {
        const int fd = rank->options.job ? open(path, O_RDONLY | O_CLOEXEC) : rank->options.shm_fd;
        have = have_come(rank, fd);
        if (fd >= 0 && rank->options.job)
            close(fd);
        if (!have)
            sleep_ms(1);
    }
    return expect(rank, have, "the others did not come");
}

/* What every rank must then have: a communicator that works; or `wanted`, at once, with a message that names the
 * culprit. */
static void check_outcome(const struct rank *rank, kolo_comm *comm, int status, int culprit, int wanted) {
    char name[32];
    record_result(rank, 0, status == 0);
    snprintf(name, sizeof name, "rank %d", culprit);
    expect(rank, (now_ns() - event_ns()) / 1000000 < patience_ms(KNOWN_MS), "knew %lld ms after rank %d had begun",
           (long long)((now_ns() - event_ns()) / 1000000), culprit);
    if (status == 0)
        expect_status(rank, kolo_barrier(comm), 0, "kolo_barrier");
    else if (expect_status(rank, status, wanted, "kolo_comm_create") && rank->rank != culprit)
        expect_message(rank, "kolo_comm_create", name, NULL);
    kolo_comm_destroy(comm);
}

/* Rank 1 has no time at all, but comes when all that it needs is there. */
static void run_hasty(struct rank *rank) {
    kolo_comm *comm = NULL;
    rank->options.create_timeout_ms = patience_ms(CREATE_MS);
    if (rank->rank == 1) {
        if (!await_others(rank))
            return;
        rank->options.create_timeout_ms = 0;
        event_set();
    }
    const int status = kolo_comm_create(&comm, &rank->options);
    check_outcome(rank, comm, status, 1, KOLO_ERR_TIMEOUT);
}

/* One rank may not write, or map, as much as it takes. */
struct shortage {
    int rank;
    int resource;
};

static void run_short(struct rank *rank) {
    const struct shortage *shortage = rank->team->argument;
    kolo_comm *comm = NULL;
    struct rlimit before, limit;
    rank->options.create_timeout_ms = patience_ms(CREATE_MS);
    if (rank->rank == shortage->rank) {
        while (counter_add(0) < (uint64_t)rank->ranks - 1)
            sleep_ms(1);
        sleep_ms(LATE_MS); /* the others look for it by now */
        getrlimit(shortage->resource, &before);
        limit = before;
        limit.rlim_cur = 2 * KOLO_PAGE_BYTES;
        setrlimit(shortage->resource, &limit);
        event_set();
    } else {
        counter_add(1);
    }
    const int status = kolo_comm_create(&comm, &rank->options);
    if (rank->rank == shortage->rank)
        setrlimit(shortage->resource, &before);
    check_outcome(rank, comm, status, shortage->rank, KOLO_ERR_NO_SPACE);
    expect(rank, status != 0, "a communicator came of it");
}

int main(int argc, char **argv) {
    harness_begin(argc, argv, "Creates communicators that one rank gives up.");
    for (int round = 0; round < (arguments.quick ? ROUNDS_QUICK : ROUNDS); round++)
        for (int by_descriptor = 0; by_descriptor < 2; by_descriptor++)
            harness_run(&(struct team){.ranks = 2 + round % 3,
                                       .slot_bytes = 4096,
                                       .by_descriptor = by_descriptor,
                                       .creates_itself = true,
                                       .run = run_hasty});
    static const struct shortage writing = {0, RLIMIT_FSIZE};
    for (int by_descriptor = 0; by_descriptor < (arguments.threads ? 0 : 2); by_descriptor++)
        harness_run(&(struct team){.ranks = 3,
                                   .slot_bytes = 65536,
                                   .by_descriptor = by_descriptor,
                                   .creates_itself = true,
                                   .run = run_short,
                                   .argument = &writing});
    return harness_end();
}
