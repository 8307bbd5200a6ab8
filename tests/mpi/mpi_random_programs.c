/* Random MPI programs: messages, one-sided access, collectives in the foreground and in the background, and
 * communicators that come and go, mixed so that ranks wait in a collective while others need the MPI's progress from
 * them.
 *
 *     mpirun -n 3 ./mpi_random_programs [--seed S] [--programs N] [--events N] [--limit SECONDS] [--quick]
 *                                  [--windows 0] [--strict]
 *
 * --strict: kolo makes all collectives, so that what the MPIs do wrong is tested, too.
 *
 * A program that fails, or that takes longer than the limit, prints its seed and the command that repeats it. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mpi_random_program.h"
#include "mpi_testing.h"
#include "splitmix64.h"

static int limit_s = 60, events = 40;

static void describe(const struct state *state, char *text, size_t bytes) {
    snprintf(text, bytes,
             "seed %llu, event %d (%s, communicator %d); to repeat: mpirun -n %d mpi_random_programs --seed %llu "
             "--programs 1 --events %d",
             (unsigned long long)state->seed, state->event.position, state->doing, state->event.group, world_size,
             (unsigned long long)state->seed, events);
}

void require(const struct state *state, bool right, const char *format, ...) {
    char text[400], where[300];
    va_list arguments;
    if (right)
        return;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    describe(state, where, sizeof where);
    fail("%s: %s", where, text);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

void require_success(const struct state *state, int code, const char *function) {
    char words[MPI_MAX_ERROR_STRING] = "";
    int length;
    if (code != MPI_SUCCESS)
        MPI_Error_string(code, words, &length);
    require(state, code == MPI_SUCCESS, "%s: %s", function, words);
}

int32_t random_number(uint64_t draw, int source, int index) {
    return (int32_t)((draw ^ (uint64_t)source * 0x9e3779b1) * 2654435761u + (uint64_t)index * 40503);
}

int32_t *random_numbers(uint64_t draw, int source, int count) {
    int32_t *numbers = malloc(sizeof *numbers * (size_t)(count + 1));
    for (int i = 0; i < count; i++)
        numbers[i] = random_number(draw, source, i);
    return numbers;
}

uint64_t group_draw(const struct state *state, int which) {
    const struct group *group = &state->groups[state->event.group];
    int lowest = group->members[0];
    for (int i = 1; i < group->size; i++)
        lowest = group->members[i] < lowest ? group->members[i] : lowest;
    uint64_t draw = state->event.draws[which] + (uint64_t)lowest * 977;
    return random_next(&draw);
}

/* What may happen, and how often out of all weights. */
static const struct {
    const char *name;
    void (*run)(struct state *);
    int weight;
} kinds[] = {{"a collective", run_collective, 30},    {"a collective in the background", run_background_collective, 10},
             {"a message", run_message, 24},          {"an exchange", run_exchange, 10},
             {"messages from any", run_wildcards, 8}, {"one-sided access", run_window, 18},
             {"making communicators", run_group, 6}};

/* --windows 0: no one-sided access, which not every MPI has between machines. */
static long with_windows = 1;

static int weight_of(size_t kind) {
    return kinds[kind].run == run_window && !with_windows ? 0 : kinds[kind].weight;
}

static void run_event(struct state *state, uint64_t *plan) {
    static char where[300];
    int exist[GROUPS_MAX], groups = 0, weights = 0, kind = 0;
    for (int i = 0; i < GROUPS_MAX; i++)
        if (state->groups[i].exists)
            exist[groups++] = i;
    state->event.group = exist[random_below(plan, (uint64_t)groups)];
    for (int i = 0; i < 4; i++)
        state->event.draws[i] = random_next(plan);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        weights += weight_of(i);
    int draw = (int)random_below(plan, (uint64_t)weights);
    while (draw >= weight_of((size_t)kind))
        draw -= weight_of((size_t)kind++);
    state->doing = kinds[kind].name;
    describe(state, where, sizeof where);
    watch(limit_s, where);
    kinds[kind].run(state);
    state->doing = "completing what was begun";
    if (random_below(&state->mine, 4) == 0 || state->pendings > PENDING_MAX / 2)
        complete_some(state);
    if (random_below(&state->mine, 16) == 0)
        usleep((unsigned)random_below(&state->mine, 1500));
}

static void run_program(struct state *state) {
    uint64_t plan = state->seed;
    random_next(&plan);
    state->mine = state->seed * 31 + (uint64_t)world_rank;
    struct group *world = &state->groups[0];
    *world = (struct group){.exists = true, .comm = MPI_COMM_WORLD, .size = world_size, .rank = world_rank};
    for (int i = 0; i < world_size; i++)
        world->members[i] = i;
    for (state->event.position = 0; state->event.position < events; state->event.position++)
        run_event(state, &plan);
    state->doing = "the end";
    complete_all(state);
    end_windows(state);
    end_groups(state);
    const char *problem = regions_end();
    require(state, !problem, "%s", problem);
}

static long option(int argc, char **argv, const char *name, long otherwise) {
    for (int i = 1; i + 1 < argc; i++)
        if (strcmp(argv[i], name) == 0)
            return strtol(argv[i + 1], NULL, 10);
    return otherwise;
}

int main(int argc, char **argv) {
    static struct state state;
    bool quick = false;
    for (int i = 1; i < argc; i++) {
        quick |= strcmp(argv[i], "--quick") == 0;
        is_strict |= strcmp(argv[i], "--strict") == 0;
    }
    job_begin(&argc, &argv, MPI_THREAD_SINGLE);
    if (world_size > MPI_RANKS_MAX) {
        fail("at most %d ranks", MPI_RANKS_MAX);
        return job_end();
    }
    const uint64_t first = (uint64_t)option(argc, argv, "--seed", 1);
    const int programs = (int)option(argc, argv, "--programs", quick ? 30 : 200);
    limit_s = (int)option(argc, argv, "--limit", limit_s);
    events = (int)option(argc, argv, "--events", events);
    with_windows = option(argc, argv, "--windows", 1);
    for (int i = 0; i < programs; i++) {
        state.seed = first + (uint64_t)i;
        run_program(&state);
    }
    watch(limit_s, "MPI_Finalize");
    if (world_rank == 0)
        printf("%d programs, seeds %llu and on\n", programs, (unsigned long long)first);
    return job_end();
}
