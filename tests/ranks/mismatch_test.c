/* Ranks that make different calls: every rank gets KOLO_ERR_MISMATCH, in that call or in one of the next ones if it had
 * nobody to wait for, and the message names both ranks and both calls. Nobody gets wrong numbers without an error. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"

struct call {
    kolo_collective collective;
    size_t count;
    kolo_dtype dtype;
    int op_or_root;
};

static const struct mismatch {
    const char *what;
    struct call common;
    struct call odd; /* of one rank */
} mismatches[] = {
    {"count", {KOLO_ALLREDUCE, 1000, KOLO_F32, KOLO_SUM}, {KOLO_ALLREDUCE, 1001, KOLO_F32, KOLO_SUM}},
    {"count in one line", {KOLO_ALLREDUCE, 2, KOLO_F32, KOLO_SUM}, {KOLO_ALLREDUCE, 3, KOLO_F32, KOLO_SUM}},
    {"lines or slots", {KOLO_ALLREDUCE, 4, KOLO_F32, KOLO_SUM}, {KOLO_ALLREDUCE, 50000, KOLO_F32, KOLO_SUM}},
    {"slots or lines", {KOLO_ALLREDUCE, 50000, KOLO_F32, KOLO_SUM}, {KOLO_ALLREDUCE, 4, KOLO_F32, KOLO_SUM}},
    {"number of chunks", {KOLO_ALLREDUCE, 9000, KOLO_F32, KOLO_SUM}, {KOLO_ALLREDUCE, 50000, KOLO_F32, KOLO_SUM}},
    {"nothing", {KOLO_ALLREDUCE, 0, KOLO_F32, KOLO_SUM}, {KOLO_ALLREDUCE, 1, KOLO_F32, KOLO_SUM}},
    {"dtype", {KOLO_ALLREDUCE, 8000, KOLO_F32, KOLO_SUM}, {KOLO_ALLREDUCE, 8000, KOLO_I32, KOLO_SUM}},
    {"dtype's size", {KOLO_ALLREDUCE, 8000, KOLO_F64, KOLO_SUM}, {KOLO_ALLREDUCE, 8000, KOLO_I8, KOLO_SUM}},
    {"op", {KOLO_ALLREDUCE, 9000, KOLO_F32, KOLO_SUM}, {KOLO_ALLREDUCE, 9000, KOLO_F32, KOLO_MAX}},
    {"op of a few", {KOLO_ALLREDUCE, 3, KOLO_F32, KOLO_SUM}, {KOLO_ALLREDUCE, 3, KOLO_F32, KOLO_AVG}},
    {"barrier", {KOLO_ALLREDUCE, 3, KOLO_F32, KOLO_SUM}, {KOLO_BARRIER, 0, KOLO_U8, 0}},
    {"barrier in place of slots", {KOLO_ALLREDUCE, 9000, KOLO_F32, KOLO_SUM}, {KOLO_BARRIER, 0, KOLO_U8, 0}},
    {"broadcast", {KOLO_ALLREDUCE, 3, KOLO_F32, KOLO_SUM}, {KOLO_BROADCAST, 3, KOLO_F32, 0}},
    {"broadcast in place of slots", {KOLO_ALLREDUCE, 9000, KOLO_F32, KOLO_SUM}, {KOLO_BROADCAST, 9000, KOLO_F32, 1}},
    {"broadcast or barrier", {KOLO_BARRIER, 0, KOLO_U8, 0}, {KOLO_BROADCAST, 3, KOLO_F32, 0}},
    {"barrier in place of broadcast", {KOLO_BROADCAST, 30, KOLO_F32, 0}, {KOLO_BARRIER, 0, KOLO_U8, 0}},
    {"broadcast's count", {KOLO_BROADCAST, 30, KOLO_F32, 0}, {KOLO_BROADCAST, 31, KOLO_F32, 0}},
    {"broadcast's chunks", {KOLO_BROADCAST, 30, KOLO_F32, 0}, {KOLO_BROADCAST, 50000, KOLO_F32, 0}},
    {"broadcast's dtype", {KOLO_BROADCAST, 30, KOLO_F32, 0}, {KOLO_BROADCAST, 30, KOLO_U32, 0}},
    {"broadcast's root", {KOLO_BROADCAST, 30, KOLO_F32, 0}, {KOLO_BROADCAST, 30, KOLO_F32, 1}},
    {"large broadcast's root", {KOLO_BROADCAST, 50000, KOLO_F32, 1}, {KOLO_BROADCAST, 50000, KOLO_F32, 0}},
    {"all-gather", {KOLO_ALLREDUCE, 3, KOLO_F32, KOLO_SUM}, {KOLO_ALLGATHER, 3, KOLO_F32, 0}},
    {"all-gather in place of slots", {KOLO_ALLREDUCE, 9000, KOLO_F32, KOLO_SUM}, {KOLO_ALLGATHER, 9000, KOLO_F32, 0}},
    {"all-gather's count", {KOLO_ALLGATHER, 30, KOLO_F32, 0}, {KOLO_ALLGATHER, 31, KOLO_F32, 0}},
    {"all-gather's chunks", {KOLO_ALLGATHER, 9000, KOLO_F32, 0}, {KOLO_ALLGATHER, 50, KOLO_F32, 0}},
    {"all-gather's dtype", {KOLO_ALLGATHER, 9000, KOLO_F32, 0}, {KOLO_ALLGATHER, 9000, KOLO_U32, 0}},
    {"broadcast in place of all-gather", {KOLO_ALLGATHER, 9000, KOLO_F32, 0}, {KOLO_BROADCAST, 9000, KOLO_F32, 0}},
    {"broadcast's root and chunks", {KOLO_BROADCAST, 30, KOLO_F32, 0}, {KOLO_BROADCAST, 50000, KOLO_F32, 1}},
};

enum {
    MISMATCHES = sizeof mismatches / sizeof *mismatches,
    CALLS_BEFORE = 3,
    CALLS_AFTER = 6,
    COUNT_MAX = 50001,
    GATHERED_MAX = 9000, /* doubles of one rank in an all-gather */
    BROADCASTS_AHEAD = 4 /* that may return 0 before a mismatch: kolo.h says so of kolo_broadcast */
};

struct setup {
    const struct mismatch *mismatch;
    int odd_rank;
};

static int make_call(kolo_comm *comm, const struct call *call, void *data) {
    static _Thread_local double gathered[4 * GATHERED_MAX];
    switch (call->collective) {
    case KOLO_ALLREDUCE:
        return kolo_allreduce(comm, data, data, call->count, call->dtype, (kolo_op)call->op_or_root);
    case KOLO_BROADCAST:
        return kolo_broadcast(comm, data, call->count, call->dtype, call->op_or_root);
    case KOLO_ALLGATHER:
        return kolo_allgather(comm, data, gathered, call->count, call->dtype);
    default:
        return kolo_barrier(comm);
    }
}

static void run_mismatch(struct rank *rank) {
    const struct setup *setup = rank->team->argument;
    const struct mismatch *mismatch = setup->mismatch;
    const bool odd = rank->rank == setup->odd_rank;
    void *data = calloc(COUNT_MAX, sizeof(double));
    int status = 0;
    /* A rank that is slow may hear of the mismatch while it is still in a call before that one. */
    for (int i = 0; status == 0 && i <= CALLS_BEFORE + CALLS_AFTER; i++)
        status = make_call(rank->comm, odd && i == CALLS_BEFORE ? &mismatch->odd : &mismatch->common, data);
    if (expect(rank, status == KOLO_ERR_MISMATCH, "%s, odd rank %d: status %d (%s)", mismatch->what, setup->odd_rank,
               status, status ? kolo_error_message() : "no error"))
        expect_message(rank, mismatch->what, "disagree", "calls", NULL);
    kolo_failure failure = {.failure_bytes = sizeof failure};
    kolo_comm_failure(rank->comm, &failure);
    expect(rank,
           failure.status == KOLO_ERR_MISMATCH &&
               (failure.rank == setup->odd_rank || failure.reporter == setup->odd_rank),
           "%s: the failure names ranks %d and %d, not the odd one, %d: %s", mismatch->what, failure.rank,
           failure.reporter, setup->odd_rank, failure.message);
    expect(rank, failure.call == CALLS_BEFORE + 1 && !strstr(failure.message, "earlier"),
           "%s, odd rank %d: the failure does not name the call: %s", mismatch->what, setup->odd_rank, failure.message);
    free(data);
}

static void run_algorithm(int ranks, kolo_algorithm algorithm) {
    for (int i = 0; i < MISMATCHES; i++)
        for (int odd_rank = 0; odd_rank < ranks; odd_rank++) {
            const struct setup setup = {&mismatches[i], odd_rank};
            /* Two ranks swap their slots in an all-gather. Where they disagree, and one does not swap, both may write
             * into one slot, of which nobody reads: the thread sanitizer sees that. */
            const bool without_algorithm =
                mismatches[i].common.collective != KOLO_ALLREDUCE || mismatches[i].odd.collective == KOLO_ALLGATHER;
            if ((without_algorithm && algorithm != KOLO_ALGORITHM_ONESHOT) ||
                (arguments.quick && (i + odd_rank + ranks) % 3))
                continue;
            harness_run(&(struct team){
                .ranks = ranks, .algorithm = algorithm, .slot_bytes = 8192, .run = run_mismatch, .argument = &setup});
        }
}

/* Ranks that differ in every call from some one on, and of which some or all wait for nobody: they broadcast. */
static const struct own_roots {
    const char *what;
    size_t counts[2];  /* of ranks with even and odd numbers */
    bool even_follow;  /* those with even numbers name rank 0, all others themselves; else all name themselves */
    struct call first; /* made by all before that */
    int calls;         /* and so many of these, then a barrier */
} own_roots[] = {
    {"own roots", {100, 100}, false, {KOLO_BARRIER, 0, KOLO_U8, 0}, 20},
    {"own roots of nothing", {0, 0}, false, {KOLO_BARRIER, 0, KOLO_U8, 0}, 20},
    {"own roots after broadcasts", {100, 100}, false, {KOLO_BROADCAST, 100, KOLO_I32, 0}, 20},
    {"own roots after slots", {100, 100}, false, {KOLO_ALLREDUCE, 50000, KOLO_I32, KOLO_SUM}, 20},
    {"own roots, some large", {100, 50000}, false, {KOLO_BARRIER, 0, KOLO_U8, 0}, 20},
    {"own roots, large", {50000, 50000}, false, {KOLO_BROADCAST, 50000, KOLO_I32, 1}, 20},
    {"two and more roots", {100, 100}, true, {KOLO_BROADCAST, 100, KOLO_I32, 1}, 20},
    {"two and more roots, some large", {20000, 100}, true, {KOLO_BROADCAST, 100, KOLO_I32, 0}, 20},
    {"own roots, then a barrier", {100, 100}, false, {KOLO_BROADCAST, 100, KOLO_I32, 0}, 1},
    {"own roots, then a barrier late",
     {100, 9000},
     false,
     {KOLO_ALLREDUCE, 9000, KOLO_I32, KOLO_SUM},
     BROADCASTS_AHEAD},
};

static void run_own_roots(struct rank *rank) {
    const struct own_roots *what = rank->team->argument;
    const bool follows = what->even_follow && rank->rank % 2 == 0;
    const struct call own = {KOLO_BROADCAST, what->counts[rank->rank % 2], KOLO_I32, follows ? 0 : rank->rank};
    void *data = calloc(COUNT_MAX, sizeof(double));
    int status = 0, ended = 0;
    for (int i = 0; status == 0 && i < CALLS_BEFORE; i++)
        status = make_call(rank->comm, &what->first, data);
    while (status == 0 && ended < what->calls) {
        status = make_call(rank->comm, &own, data);
        ended += status == 0;
    }
    if (status == 0)
        status = kolo_barrier(rank->comm);
    if (expect(rank, status == KOLO_ERR_MISMATCH && ended <= BROADCASTS_AHEAD, "%s: status %d after %d broadcasts (%s)",
               what->what, status, ended, status ? kolo_error_message() : "no error"))
        expect_message(rank, what->what, "disagree", "calls broadcast of", ", root ", NULL);
    kolo_failure failure = {.failure_bytes = sizeof failure};
    kolo_comm_failure(rank->comm, &failure);
    expect(rank, failure.call == CALLS_BEFORE + 1 && !strstr(failure.message, "earlier"),
           "%s: the failure does not name the first call that differs: %s", what->what, failure.message);
    free(data);
}

static void run_all_own_roots(int ranks) {
    for (size_t i = 0; i < sizeof own_roots / sizeof *own_roots; i++)
        harness_run(
            &(struct team){.ranks = ranks, .slot_bytes = 8192, .run = run_own_roots, .argument = &own_roots[i]});
}

int main(int argc, char **argv) {
    harness_begin(argc, argv, "Lets one rank make another call than the others.");
    for (int ranks = 2; ranks <= 4; ranks++)
        for (kolo_algorithm algorithm = KOLO_ALGORITHM_ONESHOT; algorithm < KOLO_ALGORITHMS; algorithm++)
            if (wants_ranks(ranks) && wants_algorithm(algorithm))
                run_algorithm(ranks, algorithm);
    for (int ranks = 2; ranks <= 5; ranks++)
        if (wants_ranks(ranks))
            run_all_own_roots(ranks);
    return harness_end();
}
