/* A job that is stopped as a whole for longer than its deadlines, and continued, goes on: in calls, whatever the ranks
 * do while they wait, in a creation and in kolo_comm_shrink. (One rank that is stopped while the others wait for it is
 * named at the deadline: see failure_test.c and causes_test.c.) */
#include <signal.h>
#include <stdlib.h>

#include "harness.h"

enum { TIMEOUT_MS = 500, STOPPED_MS = 1300, STOPS = 3, LATE_MS = 60 };

static void await_counter(uint64_t value) {
    while (counter_add(0) < value)
        sleep_ms(1);
}

/* The counter comes to the number of ranks when all are about to wait; the parent raises it after each stop. */
static void stop_all(const struct team *team, const pid_t *pids, int stops) {
    await_counter((uint64_t)team->ranks);
    for (int stop = 0; stop < stops; stop++) {
        sleep_ms(LATE_MS);
        for (int i = 0; i < team->ranks; i++)
            kill(pids[i], SIGSTOP);
        sleep_ms(patience_ms(STOPPED_MS));
        for (int i = 0; i < team->ranks; i++)
            kill(pids[i], SIGCONT);
        counter_add(1);
    }
}

static void stop_several_times(const struct team *team, const pid_t *pids) {
    stop_all(team, pids, STOPS);
}

static void stop_once(const struct team *team, const pid_t *pids) {
    stop_all(team, pids, 1);
}

/* Rank 0 keeps the others waiting in each call, and says with it whether there is another one. */
static void run_calls(struct rank *rank) {
    int32_t over = 0, sum = 0;
    counter_add(1);
    while (sum == 0) {
        if (rank->rank == 0) {
            sleep_ms(LATE_MS);
            over = counter_add(0) == (uint64_t)rank->ranks + STOPS;
        }
        if (!expect_status(rank, kolo_allreduce(rank->comm, &over, &sum, 1, KOLO_I32, KOLO_SUM), 0,
                           "kolo_allreduce of a job that was stopped"))
            return;
    }
}

static void run_creation(struct rank *rank) {
    rank->options.create_timeout_ms = patience_ms(TIMEOUT_MS);
    counter_add(1);
    if (rank->rank == *(const int *)rank->team->argument)
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

int main(int argc, char **argv) {
    static const char *const waits[] = {"auto", "spin", "yield", "sleep"};
    harness_begin(argc, argv, "Stops and continues all ranks of a job.");
    for (int ranks = 2; ranks <= 3; ranks++) {
        if (!wants_ranks(ranks))
            continue;
        struct team team = {.ranks = ranks, .timeout_ms = patience_ms(TIMEOUT_MS), .run = run_calls};
        team.meanwhile = stop_several_times;
        for (size_t i = 0; i < sizeof waits / sizeof *waits; i++) {
            setenv("KOLO_WAIT", waits[i], 1);
            harness_run(&team);
        }
        unsetenv("KOLO_WAIT");
        team.meanwhile = stop_once;
        team.run = run_shrink;
        harness_run(&team);
        team.run = run_creation;
        team.creates_itself = true;
        for (int late = 0; late < 2; late++) {
            team.argument = &late;
            harness_run(&team);
        }
    }
    return harness_end();
}
