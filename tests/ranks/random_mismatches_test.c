/* One rank makes another call than the others, drawn from a seed: random_program.h says what is expected. */
#include "random_program.h"

HARNESS_RANKS_DISAGREE

enum { CASES = 60, CASES_QUICK = 15, RANKS_MAX = 6, FIXED_SEEDS = 6 };

static void run(struct rank *rank) {
    const int *progress = rank->team->argument;
    rank->options.progress = *progress;
    if (expect_status(rank, kolo_comm_create(&rank->comm, &rank->options), 0, "kolo_comm_create"))
        mismatches_run(rank, arguments.quick ? CASES_QUICK : CASES, false, NULL);
    kolo_comm_destroy(rank->comm);
    rank->comm = NULL;
}

static void run_seed(uint64_t seed) {
    harness_seed(seed);
    uint64_t random = random_seed(302, 0);
    const int ranks = 2 + (int)random_below(&random, RANKS_MAX - 1);
    const int progress = random_below(&random, 3) ? -1 : 1;
    const uint64_t algorithm = random_below(&random, 2 * KOLO_ALGORITHMS);
    struct team team = {.ranks = arguments.ranks ? arguments.ranks : ranks,
                        .slot_bytes = random_below(&random, 2) ? 4096 : 16384,
                        .algorithm = arguments.algorithm >= 0      ? (kolo_algorithm)arguments.algorithm
                                     : algorithm < KOLO_ALGORITHMS ? (kolo_algorithm)algorithm
                                                                   : KOLO_ALGORITHM_AUTO,
                        .creates_itself = true,
                        .run = run,
                        .argument = &progress};
    harness_run(&team);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv, "Lets one rank make another call; with --seed those of that seed.");
    const uint64_t seed = arguments.seed;
    program_begin();
    for (uint64_t fixed = 1; !arguments.seeded && fixed <= FIXED_SEEDS; fixed++)
        run_seed(fixed);
    run_seed(seed);
    return harness_end();
}
