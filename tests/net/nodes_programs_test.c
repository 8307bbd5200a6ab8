/* Random programs, mismatches and losses, those of tests/ranks, on communicators of several nodes, which here are ranks
 * of one machine that inherit different files. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "node_files.h"
#include "random_program.h"

enum { CALLS = 300, CALLS_QUICK = 60, CASES = 8, CASES_QUICK = 4, LOSSES = 30, LOSSES_QUICK = 6, LOSS_MS = 10000 };

/* The node of each rank; -1: no more ranks. */
static const int spreads[][8] = {{0, 1, -1},       {0, 0, 1, 1, -1},    {0, 1, 2, -1},         {0, 1, 1, 0, 2, -1},
                                 {0, 1, 0, 1, -1}, {0, 1, 2, 3, 4, -1}, {0, 0, 1, 2, 3, 4, -1}};

enum { SPREADS = sizeof spreads / sizeof *spreads };

struct setup {
    struct program program;
    const int *node_of;
};

static void run(struct rank *rank) {
    const struct setup *setup = rank->team->argument;
    kolo_options options = rank->options;
    nodes_place(&options, setup->node_of[rank->rank]);
    options.progress = setup->program.waits == WAITS_ANYHOW ? 1 : -1;
    options.threads = setup->program.lanes;
    if (expect_status(rank, kolo_comm_create(&rank->comm, &options), 0, "kolo_comm_create"))
        program_run(rank, rank->comm, &setup->program);
    if (rank->comm && setup->program.loss == LOSES_NOTHING)
        mismatches_run(rank, arguments.quick ? CASES_QUICK : CASES, true, setup->program.node_of);
    kolo_comm_destroy(rank->comm);
    rank->comm = NULL;
}

static void run_seed(uint64_t seed, bool loses) {
    int emptied[HARNESS_RANKS_MAX];
    harness_seed(seed);
    uint64_t random = random_seed(1, 0);
    struct setup setup = {.node_of = spreads[random_below(&random, SPREADS)],
                          .program = {.has_nodes = true,
                                      .calls = arguments.calls   ? arguments.calls
                                               : arguments.quick ? CALLS_QUICK
                                                                 : CALLS}};
    struct team team = {.creates_itself = true, .run = run, .argument = &setup};
    char links[64];
    program_draw(&setup.program, &team);
    for (team.ranks = 0; setup.node_of[team.ranks] >= 0; team.ranks++)
        ;
    team.algorithm = KOLO_ALGORITHM_AUTO;
    const bool rank_order = random_below(&random, 2);
    setup.program.node_of = rank_order ? NULL : setup.node_of;
    setenv("KOLO_NET_ORDER", rank_order ? "rank" : "node", 1);
    /* The thread sanitizer does not see that a ring of io_uring is unmapped, and another one mapped at its address. */
    const bool polls = random_below(&random, 2) || arguments.threads;
    const int threads = random_below(&random, 2) ? 1 : 2;
    snprintf(links, sizeof links, "%s,threads:%d%s", polls ? "poll" : "auto", threads,
             random_below(&random, 4) ? "" : ",zero_copy");
    setenv("KOLO_NET", links, 1);
    if (loses) {
        program_draw_loss(&setup.program, &team);
        team.timeout_ms = LOSS_MS; /* a message may wait for a rank that waits on another communicator */
    }
    program_tell(&setup.program, &team);
    nodes_lay_out((const int[NODES_MAX]){0}, emptied);
    nodes_meet_at("127.0.0.1");
    harness_run(&team);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv, "Runs random programs on several nodes; with --seed the one of that seed.");
    const uint64_t seed = arguments.seeded ? arguments.seed : 1101; /* what fails does not hang on chance */
    program_begin();
    setenv("KOLO_SECRET", "none", 1);
    nodes_open();
    for (uint64_t fixed = 1; !arguments.seeded && fixed <= SPREADS; fixed++)
        run_seed(fixed, false);
    run_seed(seed, false);
    for (int i = 0; !arguments.threads && i < (arguments.seeded ? 1 : arguments.quick ? LOSSES_QUICK : LOSSES); i++)
        run_seed(seed + (uint64_t)i, true);
    return harness_end();
}
