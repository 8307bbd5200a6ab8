/* A rank that dies in the middle of all-reduces, or leaves while it is still needed: every other rank returns
 * KOLO_ERR_PEER_DEAD, which names it, within a second; then KOLO_ERR_STATE; and destroying works. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness.h"

enum end { END_KILLED, END_EXIT, END_DESTROY, ENDS };

struct end_of_rank {
    enum end end;
    int victim;
    size_t count;
};

enum { CALLS_MIN = 20, NOTICED_MS_MAX = 1000 };

static const size_t counts[] = {6, 300, 60000}; /* one line, several lines, many slots */

static int allreduce_once(const struct rank *rank, size_t count, float *data) {
    for (size_t i = 0; i < count; i++)
        data[i] = 1;
    return kolo_allreduce(rank->comm, data, data, count, KOLO_F32, KOLO_SUM);
}

static void check_survivor(const struct rank *rank, int victim, int status, float *data) {
    char named[32];
    kolo_failure failure = {.failure_bytes = sizeof failure};
    snprintf(named, sizeof named, "rank %d (pid", victim);
    if (!expect_status(rank, status, KOLO_ERR_PEER_DEAD, "kolo_allreduce"))
        return;
    expect_message(rank, "kolo_allreduce", named, NULL);
    expect_prompt(rank, now_ns() - event_ns(), NOTICED_MS_MAX, "noticed the end");
    expect_status(rank, kolo_comm_failure(rank->comm, &failure), 0, "kolo_comm_failure");
    expect(rank, failure.status == KOLO_ERR_PEER_DEAD && failure.rank == victim, "the failure is %d of rank %d",
           failure.status, failure.rank);
    expect(rank, strstr(failure.message, named) != NULL, "the failure's message is \"%s\"", failure.message);
    expect_status(rank, kolo_allreduce(rank->comm, data, data, 1, KOLO_F32, KOLO_SUM), KOLO_ERR_STATE,
                  "the next kolo_allreduce");
    expect_message(rank, "the next kolo_allreduce", named, NULL);
    expect_status(rank, kolo_barrier(rank->comm), KOLO_ERR_STATE, "the next kolo_barrier");
    expect_status(rank, kolo_broadcast(rank->comm, data, 1, KOLO_F32, 0), KOLO_ERR_STATE, "the next kolo_broadcast");
    expect_status(rank, kolo_comm_abort(rank->comm, 1), KOLO_ERR_STATE, "kolo_comm_abort");
}

/* The victim ends of itself (or goes on until it is killed); the others go on until they notice. */
static void run_until_end(struct rank *rank) {
    const struct end_of_rank *what = rank->team->argument;
    float *data = malloc((what->count + 1) * sizeof *data);
    int status = 0;
    for (int call = 0; status == 0; call++) {
        status = allreduce_once(rank, what->count, data);
        if (call == CALLS_MIN)
            counter_add(1);
        if (call < CALLS_MIN || rank->rank != what->victim || what->end == END_KILLED)
            continue;
        event_set();
        if (what->end == END_EXIT)
            _exit(0);
        break; /* the harness destroys */
    }
    if (rank->rank != what->victim)
        check_survivor(rank, what->victim, status, data);
    free(data);
    if (rank->rank == what->victim && what->end == END_DESTROY) {
        kolo_comm_destroy(rank->comm);
        rank->comm = NULL;
        while (counter_add(0) < 2 * (uint64_t)rank->ranks - 1) /* lives on until the others have noticed */
            sleep_ms(1);
    } else {
        counter_add(1);
    }
}

static void kill_victim(const struct team *team, const pid_t *pids) {
    static uint64_t random = 0;
    const struct end_of_rank *what = team->argument;
    const int64_t deadline_ns = now_ns() + patience_ms(60000) * 1000000;
    while (counter_add(0) < (uint64_t)team->ranks && now_ns() < deadline_ns)
        sleep_ms(1);
    random += arguments.seed;
    usleep((useconds_t)random_below(&random, 3000));
    event_set();
    kill(pids[what->victim], SIGKILL);
}

static void run_end(int ranks, kolo_algorithm algorithm, const struct end_of_rank *what) {
    if (arguments.threads && what->end != END_DESTROY)
        return;
    harness_run(&(struct team){.ranks = ranks,
                               .algorithm = algorithm,
                               .slot_bytes = 8192,
                               .victim = what->end == END_KILLED ? what->victim + 1 : 0,
                               .run = run_until_end,
                               .argument = what,
                               .meanwhile = what->end == END_KILLED ? kill_victim : NULL});
}

int main(int argc, char **argv) {
    harness_begin(argc, argv, "Ends each rank in turn in the middle of all-reduces.");
    for (int ranks = 2; ranks <= 4; ranks++)
        for (kolo_algorithm algorithm = KOLO_ALGORITHM_ONESHOT; algorithm < KOLO_ALGORITHMS; algorithm++)
            for (int victim = 0; victim < ranks; victim++)
                for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
                    struct end_of_rank what = {END_KILLED, victim, counts[i]};
                    if (!wants_ranks(ranks) || !wants_algorithm(algorithm) ||
                        (arguments.quick && ((size_t)victim + i + algorithm) % 3))
                        continue;
                    run_end(ranks, algorithm, &what);
                    what.end = i % 2 ? END_EXIT : END_DESTROY;
                    run_end(ranks, algorithm, &what);
                }
    return harness_end();
}
