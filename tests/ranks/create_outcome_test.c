/* A creation ends in the same way on all ranks. One gives up at the worst moment, when it has attached and nobody but
 * rank 0 can say whether all have; or fails for want of memory before the others have come. The others either have a
 * communicator that works, with it, or soon know which rank has given up, and why. */
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "harness.h"
#include "job_file.h"

enum { ROUNDS = 60, ROUNDS_QUICK = 15, CREATE_MS = 20000, KNOWN_MS = 1000, LATE_MS = 100 };

/* What every rank must then have: a communicator that works; or `wanted`, at once, with a message that names the
 * culprit. */
static void check_outcome(const struct rank *rank, kolo_comm *comm, int status, int culprit, int wanted) {
    char name[32];
    record_result(rank, 0, status == 0);
    snprintf(name, sizeof name, "rank %d", culprit);
    expect_prompt(rank, now_ns() - event_ns(), KNOWN_MS, "knew what had come of it");
    if (status == 0)
        expect_status(rank, kolo_barrier(comm), 0, "kolo_barrier");
    else if (expect_status(rank, status, wanted, "kolo_comm_create") && rank->rank != culprit)
        expect_message(rank, "kolo_comm_create", name, NULL);
    kolo_comm_destroy(comm);
}

/* Rank 1 has hardly any time, but comes when all that it needs is there. */
static void run_hasty(struct rank *rank) {
    kolo_comm *comm = NULL;
    rank->options.create_timeout_ms = patience_ms(CREATE_MS);
    if (rank->rank == 1) {
        if (!await_job(rank, &rank->options, ((UINT64_C(1) << rank->ranks) - 1) & ~UINT64_C(2)))
            return;
        rank->options.create_timeout_ms = 1;
        event_set();
    }
    const int status = kolo_comm_create(&comm, &rank->options);
    check_outcome(rank, comm, status, 1, KOLO_ERR_TIMEOUT);
}

/* One rank may not write, or open, as much as it takes. */
struct shortage {
    int rank;
    int resource;
    rlim_t limit;
    int status;
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
        limit.rlim_cur = shortage->limit;
        setrlimit(shortage->resource, &limit);
        event_set();
    } else {
        counter_add(1);
    }
    const int status = kolo_comm_create(&comm, &rank->options);
    if (rank->rank == shortage->rank)
        setrlimit(shortage->resource, &before);
    check_outcome(rank, comm, status, shortage->rank, shortage->status);
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
    static const struct shortage writing = {0, RLIMIT_FSIZE, 2 * KOLO_PAGE_BYTES, KOLO_ERR_NO_SPACE};
    static const struct shortage opening[] = {{0, RLIMIT_NOFILE, 3, KOLO_ERR_SYSTEM},
                                              {2, RLIMIT_NOFILE, 3, KOLO_ERR_SYSTEM}};
    const struct shortage *const shortages[] = {&writing, &writing, &opening[0], &opening[1]};
    for (int i = 0; i < (arguments.threads ? 0 : 4); i++)
        harness_run(&(struct team){.ranks = 3,
                                   .slot_bytes = 65536,
                                   .by_descriptor = i > 0, /* by name a rank that opens nothing cannot tell anybody */
                                   .creates_itself = true,
                                   .run = run_short,
                                   .argument = shortages[i]});
    return harness_end();
}
