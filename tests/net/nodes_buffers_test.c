/* When a call between nodes has failed its buffers are the caller's again: nothing writes into them any more, and
 * nobody else's result is made of what they hold then. The last node is stopped amid a large all-reduce, and continued
 * when the others have given up; or killed, while the others still send each other; or another thread of it aborts. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "node_files.h"
#include "losses.h"

enum { COUNT = 1 << 20, CALLS_MAX = 100000, TIMEOUT_MS = 150, WATCHED_MS = 60, TRIALS = 4, PATTERN = 0x5a };

enum way { STOPPED, KILLED, ABORTED };

struct setup {
    enum way way;
    int trial;
    int node_of[HARNESS_RANKS_MAX];
};

/* Lets the last rank get on with some calls first. */
static void let_begin(const struct setup *setup, int ranks) {
    await_counter((uint64_t)ranks);
    sleep_ms(5 + (int64_t)(random_seed(2, (uint64_t)setup->trial) % 15));
}

static void *abort_later(void *argument) {
    const struct rank *rank = argument;
    let_begin(rank->team->argument, rank->ranks);
    kolo_comm_abort(rank->comm, 1);
    return NULL;
}

static void disturb(const struct team *team, const pid_t *pids) {
    const struct setup *setup = team->argument;
    const uint64_t ranks = (uint64_t)team->ranks;
    const pid_t last = pids[team->ranks - 1];
    if (setup->way == ABORTED)
        return;
    let_begin(setup, team->ranks);
    kill(last, setup->way == STOPPED ? SIGSTOP : SIGKILL);
    if (setup->way == KILLED)
        return;
    await_counter(2 * ranks - 1);
    kill(last, SIGCONT);
}

static void fill(float *data, int rank) {
    for (size_t i = 0; i < COUNT; i++)
        data[i] = (float)(i % 1000 + (size_t)rank);
}

static bool is_sum(const float *data, int ranks) {
    for (size_t i = 0; i < COUNT; i++)
        if (data[i] != (float)(i % 1000 * (size_t)ranks + (size_t)(ranks * (ranks - 1) / 2)))
            return false;
    return true;
}

static bool has_pattern(const void *data) {
    const unsigned char *bytes = data;
    for (size_t i = 0; i < COUNT * sizeof(float); i++)
        if (bytes[i] != PATTERN)
            return false;
    return true;
}

static void sum_until_failure(struct rank *rank, float *send, float *recv) {
    int status = 0;
    fill(send, rank->rank);
    for (int call = 0; status == 0 && call < CALLS_MAX; call++) {
        status = kolo_allreduce(rank->comm, send, recv, COUNT, KOLO_F32, KOLO_SUM);
        if (status == 0 && !expect(rank, is_sum(recv, rank->ranks), "call %d has a wrong result", call))
            return;
    }
    memset(recv, PATTERN, COUNT * sizeof *recv);
    memset(send, PATTERN, COUNT * sizeof *send);
    counter_add(1);
    expect(rank,
           status == KOLO_ERR_TIMEOUT || status == KOLO_ERR_PEER_DEAD || status == KOLO_ERR_ABORTED ||
               status == KOLO_ERR_STATE,
           "status %d", status);
    sleep_ms(WATCHED_MS);
    expect(rank, has_pattern(recv) && has_pattern(send), "a buffer was written to after its call had failed");
}

static void run(struct rank *rank) {
    const struct setup *setup = rank->team->argument;
    kolo_options options = rank->options;
    float *send = malloc(COUNT * sizeof *send), *recv = malloc(COUNT * sizeof *recv);
    const bool aborts = setup->way == ABORTED && rank->rank == rank->ranks - 1;
    pthread_t thread;
    nodes_place(&options, setup->node_of[rank->rank]);
    if (expect_status(rank, kolo_comm_create(&rank->comm, &options), 0, "kolo_comm_create") &&
        expect(rank, !aborts || pthread_create(&thread, NULL, abort_later, rank) == 0, "no thread")) {
        counter_add(1);
        sum_until_failure(rank, send, recv);
        if (aborts)
            pthread_join(thread, NULL);
    }
    kolo_comm_destroy(rank->comm);
    rank->comm = NULL;
    free(send);
    free(recv);
}

/* Of these algorithms results arrive in the caller's buffer. */
static void run_trial(const char *transport, enum way way, int trial) {
    static const char *const algorithms[] = {"mesh", "ring", "tree"};
    char links[64];
    struct setup setup = {.way = way, .trial = trial};
    const int ranks =
        nodes_lay_out(way == STOPPED ? (const int[NODES_MAX]){1, 1} : (const int[NODES_MAX]){1, 1, 1}, setup.node_of);
    nodes_meet_at("127.0.0.1");
    setenv("KOLO_NET_ALGO", algorithms[trial % 3], 1);
    snprintf(links, sizeof links, "%s,streams:%d,threads:%d%s", transport, trial % 2 ? 4 : 1, trial % 3 == 2 ? 2 : 1,
             trial % 4 == 3 ? ",zero_copy" : "");
    setenv("KOLO_NET", links, 1);
    if (wants_ranks(ranks))
        harness_run(&(struct team){.ranks = ranks,
                                   .slot_bytes = 4 << 20,
                                   .timeout_ms = way == STOPPED ? patience_ms(TIMEOUT_MS) : 0,
                                   .victim = way == KILLED ? ranks : 0,
                                   .creates_itself = true,
                                   .run = run,
                                   .argument = &setup,
                                   .meanwhile = disturb});
}

int main(int argc, char **argv) {
    static const char *const transports[] = {"auto", "poll"};
    harness_begin(argc, argv, "Looks at the buffers of calls between nodes that have failed.");
    setenv("KOLO_SECRET", "none", 1);
    nodes_open();
    for (int trial = 0; trial < (arguments.quick ? 2 : TRIALS); trial++)
        for (int transport = 0; transport < 2; transport++) {
            run_trial(transports[transport], STOPPED, trial);
            run_trial(transports[transport], KILLED, trial);
            run_trial(transports[transport], ABORTED, trial);
        }
    return harness_end();
}
