/* Random programs of thousands of calls, drawn from a seed: every collective, dtype, op and root, and messages between
 * two ranks, blocking and in the background, with and without a progress thread, by lanes, in memory of kolo_alloc and
 * elsewhere, on communicators that come and go meanwhile. Every result has the bits of the sequential reference. In
 * some programs a rank is late, gives up, leaves, dies or aborts: what has status 0 is right all the same, and memory
 * of calls that are over is the ranks' own. */
#include "random_program.h"

enum { CALLS = 2000, CALLS_OF_MANY = 400, CALLS_QUICK = 150, FEW_RANKS = 6, LOSSES = 40, LOSSES_QUICK = 8 };

/* 2 ranks, 3, 4, 5, 9 and 16, with all ways of waiting and buffers that all ranks see. */
static const uint64_t fixed_seeds[] = {20, 25, 48, 53, 45, 59, 28};

/* Without --seed all are the same each time: what fails does not hang on chance. */
enum { FIXED_SEEDS = sizeof fixed_seeds / sizeof *fixed_seeds, LAST_SEED = 1101 };

static void run(struct rank *rank) {
    const struct program *program = rank->team->argument;
    rank->options.progress = program->waits == WAITS_ANYHOW ? 1 : -1;
    rank->options.threads = program->lanes;
    if (expect_status(rank, kolo_comm_create(&rank->comm, &rank->options), 0, "kolo_comm_create"))
        program_run(rank, rank->comm, program);
    kolo_comm_destroy(rank->comm);
    rank->comm = NULL;
}

static void run_seed(uint64_t seed, bool loses) {
    struct program program = {.calls = arguments.calls};
    struct team team = {.creates_itself = true, .run = run, .argument = &program};
    harness_seed(seed);
    program_draw(&program, &team);
    if (program.calls == 0)
        program.calls = arguments.quick || loses ? CALLS_QUICK : team.ranks > FEW_RANKS ? CALLS_OF_MANY : CALLS;
    if (loses)
        program_draw_loss(&program, &team);
    program_tell(&program, &team);
    harness_run(&team);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv, "Runs random programs; with --seed the one of that seed, else those of some seeds.");
    const uint64_t seed = arguments.seeded ? arguments.seed : LAST_SEED;
    program_begin();
    for (int i = 0; !arguments.seeded && i < FIXED_SEEDS; i++)
        run_seed(fixed_seeds[i], false);
    run_seed(seed, false);
    for (int i = 0; !arguments.threads && i < (arguments.seeded ? 1 : arguments.quick ? LOSSES_QUICK : LOSSES); i++)
        run_seed(seed + (uint64_t)i, true);
    return harness_end();
}
