/* A job that is stopped as a whole for longer than its deadlines, and continued, goes on: in calls, whatever the ranks
 * do while they wait, in a creation and in kolo_comm_shrink. (One rank that is stopped while the others wait for it is
 * named at the deadline: see failure_test.c and causes_test.c.) */
#include <stdlib.h>

#include "harness.h"
#include "losses.h"

enum { TIMEOUT_MS = 500, STOPPED_MS = 1300, LATE_MS = 60 };

/* What happens to a team. */
struct setup {
    int stops;
    int late; /* to a creation: the rank that comes last */
};

static void stop(const struct team *team, const pid_t *pids) {
    const struct setup *setup = team->argument;
    stop_all(team, pids, setup->stops, LATE_MS, patience_ms(STOPPED_MS));
}

/* Rank 0 keeps the others waiting in each call, and says with it whether there is another one. */
static void run_calls(struct rank *rank) {
    const struct setup *setup = rank->team->argument;
    int32_t over = 0, sum = 0;
    counter_add(1);
    while (sum == 0) {
        if (rank->rank == 0) {
            sleep_ms(LATE_MS);
            over = counter_add(0) == (uint64_t)(rank->ranks + setup->stops);
        }
        if (!expect_status(rank, kolo_allreduce(rank->comm, &over, &sum, 1, KOLO_I32, KOLO_SUM), 0,
                           "kolo_allreduce of a job that was stopped"))
            return;
    }
}

static void run_creation(struct rank *rank) {
    const struct setup *setup = rank->team->argument;
    rank->options.create_timeout_ms = patience_ms(TIMEOUT_MS);
    counter_add(1);
    if (rank->rank == setup->late)
        await_counter((uint64_t)rank->ranks + 1);
    if (expect_status(rank, kolo_comm_create(&rank->comm, &rank->options), 0, "creating while stopped"))
        expect_status(rank, kolo_barrier(rank->comm), 0, "kolo_barrier");
}

static void run_shrink(struct rank *rank) {
    kolo_comm *shrunk = NULL;
    expect_status(rank, kolo_barrier(rank->comm), 0, "kolo_barrier");
    counter_add(1);
    if (rank->rank == 0) {
        kolo_comm_abort(rank->comm, 1);
        await_counter((uint64_t)rank->ranks + 1);
    } else {
        expect_status(rank, kolo_barrier(rank->comm), KOLO_ERR_ABORTED, "kolo_barrier");
    }
    if (expect_status(rank, kolo_comm_shrink(rank->comm, &shrunk), 0, "kolo_comm_shrink while stopped"))
        expect(rank, kolo_comm_size(shrunk) == rank->ranks, "%d ranks are left", kolo_comm_size(shrunk));
    kolo_comm_destroy(shrunk);
}

static void stop_in_calls(int ranks, const char *wait, int stops) {
    const struct setup setup = {.stops = stops};
    setenv("KOLO_WAIT", wait, 1);
    harness_run(&(struct team){.ranks = ranks,
                               .timeout_ms = patience_ms(TIMEOUT_MS),
                               .run = run_calls,
                               .meanwhile = stop,
                               .argument = &setup});
    unsetenv("KOLO_WAIT");
}

static void stop_in_shrink(int ranks) {
    const struct setup setup = {.stops = 1};
    harness_run(&(struct team){.ranks = ranks,
                               .timeout_ms = patience_ms(TIMEOUT_MS),
                               .run = run_shrink,
                               .meanwhile = stop,
                               .argument = &setup});
}

static void stop_in_creation(int ranks, int late) {
    const struct setup setup = {.stops = 1, .late = late};
    harness_run(&(struct team){.ranks = ranks,
                               .timeout_ms = patience_ms(TIMEOUT_MS),
                               .creates_itself = true,
                               .run = run_creation,
                               .meanwhile = stop,
                               .argument = &setup});
}

/* Stops take time, in which nothing else happens: no more of them than show something. */
int main(int argc, char **argv) {
    static const char *const waits[] = {"spin", "yield", "sleep"};
    harness_begin(argc, argv, "Stops and continues all ranks of a job.");
    for (int ranks = arguments.quick ? 3 : 2; ranks <= 3; ranks++) {
        if (!wants_ranks(ranks))
            continue;
        stop_in_calls(ranks, "auto", ranks == 2 ? 3 : 1);
        for (size_t i = 0; ranks == 2 && i < sizeof waits / sizeof *waits; i++)
            stop_in_calls(ranks, waits[i], 1);
        stop_in_shrink(ranks);
        for (int late = 0; late < (arguments.quick ? 1 : 2); late++)
            stop_in_creation(ranks, late);
    }
    return harness_end();
}
