/* Ranks that make different calls: every rank gets KOLO_ERR_MISMATCH, in that call or in one of the next ones if it had
 * nobody to wait for, and the message names both ranks and both calls. Nobody gets wrong numbers without an error. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kolo_fusion.h"
#include "kolo_tools.h"
#include "collective_shapes.h"
#include "harness.h"
#include "named_call.h"

HARNESS_RANKS_DISAGREE

/* Where blocks have counts of their own: which of them are one element longer than the call's count. */
enum longer {
    LONGER_NONE,
    LONGER_FIRST,
    LONGER_SENT,
    LONGER_EXPECTED
}; /* rank 0's; all that go to, or come from, others */

struct call {
    kolo_collective collective;
    size_t count;
    kolo_dtype dtype;
    int op_or_root;
    int root; /* of a reduce */
    enum longer longer;
};

#define CALL(collective_, count_, dtype_, op_or_root_)                                                                 \
    { .collective = (collective_), .count = (count_), .dtype = (dtype_), .op_or_root = (op_or_root_) }

static const struct mismatch {
    const char *what;
    struct call common;
    struct call odd; /* of one rank */
} mismatches[] = {
    {"count", CALL(KOLO_ALLREDUCE, 1000, KOLO_F32, KOLO_SUM), CALL(KOLO_ALLREDUCE, 1001, KOLO_F32, KOLO_SUM)},
    {"count in one line", CALL(KOLO_ALLREDUCE, 2, KOLO_F32, KOLO_SUM), CALL(KOLO_ALLREDUCE, 3, KOLO_F32, KOLO_SUM)},
    {"lines or slots", CALL(KOLO_ALLREDUCE, 4, KOLO_F32, KOLO_SUM), CALL(KOLO_ALLREDUCE, 50000, KOLO_F32, KOLO_SUM)},
    {"slots or lines", CALL(KOLO_ALLREDUCE, 50000, KOLO_F32, KOLO_SUM), CALL(KOLO_ALLREDUCE, 4, KOLO_F32, KOLO_SUM)},
    {"number of chunks", CALL(KOLO_ALLREDUCE, 9000, KOLO_F32, KOLO_SUM),
     CALL(KOLO_ALLREDUCE, 50000, KOLO_F32, KOLO_SUM)},
    {"nothing", CALL(KOLO_ALLREDUCE, 0, KOLO_F32, KOLO_SUM), CALL(KOLO_ALLREDUCE, 1, KOLO_F32, KOLO_SUM)},
    {"dtype", CALL(KOLO_ALLREDUCE, 8000, KOLO_F32, KOLO_SUM), CALL(KOLO_ALLREDUCE, 8000, KOLO_I32, KOLO_SUM)},
    {"dtype's size", CALL(KOLO_ALLREDUCE, 8000, KOLO_F64, KOLO_SUM), CALL(KOLO_ALLREDUCE, 8000, KOLO_I8, KOLO_SUM)},
    {"op", CALL(KOLO_ALLREDUCE, 9000, KOLO_F32, KOLO_SUM), CALL(KOLO_ALLREDUCE, 9000, KOLO_F32, KOLO_MAX)},
    {"op of a few", CALL(KOLO_ALLREDUCE, 3, KOLO_F32, KOLO_SUM), CALL(KOLO_ALLREDUCE, 3, KOLO_F32, KOLO_AVG)},
    {"barrier", CALL(KOLO_ALLREDUCE, 3, KOLO_F32, KOLO_SUM), CALL(KOLO_BARRIER, 0, KOLO_U8, 0)},
    {"barrier in place of slots", CALL(KOLO_ALLREDUCE, 9000, KOLO_F32, KOLO_SUM), CALL(KOLO_BARRIER, 0, KOLO_U8, 0)},
    {"broadcast", CALL(KOLO_ALLREDUCE, 3, KOLO_F32, KOLO_SUM), CALL(KOLO_BROADCAST, 3, KOLO_F32, 0)},
    {"broadcast in place of slots", CALL(KOLO_ALLREDUCE, 9000, KOLO_F32, KOLO_SUM),
     CALL(KOLO_BROADCAST, 9000, KOLO_F32, 1)},
    {"broadcast or barrier", CALL(KOLO_BARRIER, 0, KOLO_U8, 0), CALL(KOLO_BROADCAST, 3, KOLO_F32, 0)},
    {"barrier in place of broadcast", CALL(KOLO_BROADCAST, 30, KOLO_F32, 0), CALL(KOLO_BARRIER, 0, KOLO_U8, 0)},
    {"broadcast's count", CALL(KOLO_BROADCAST, 30, KOLO_F32, 0), CALL(KOLO_BROADCAST, 31, KOLO_F32, 0)},
    {"broadcast's chunks", CALL(KOLO_BROADCAST, 30, KOLO_F32, 0), CALL(KOLO_BROADCAST, 50000, KOLO_F32, 0)},
    {"broadcast's dtype", CALL(KOLO_BROADCAST, 30, KOLO_F32, 0), CALL(KOLO_BROADCAST, 30, KOLO_U32, 0)},
    {"broadcast's root", CALL(KOLO_BROADCAST, 30, KOLO_F32, 0), CALL(KOLO_BROADCAST, 30, KOLO_F32, 1)},
    {"large broadcast's root", CALL(KOLO_BROADCAST, 50000, KOLO_F32, 1), CALL(KOLO_BROADCAST, 50000, KOLO_F32, 0)},
    {"all-gather", CALL(KOLO_ALLREDUCE, 3, KOLO_F32, KOLO_SUM), CALL(KOLO_ALLGATHER, 3, KOLO_F32, 0)},
    {"all-gather in place of slots", CALL(KOLO_ALLREDUCE, 9000, KOLO_F32, KOLO_SUM),
     CALL(KOLO_ALLGATHER, 9000, KOLO_F32, 0)},
    {"all-gather's count", CALL(KOLO_ALLGATHER, 30, KOLO_F32, 0), CALL(KOLO_ALLGATHER, 31, KOLO_F32, 0)},
    {"all-gather's chunks", CALL(KOLO_ALLGATHER, 9000, KOLO_F32, 0), CALL(KOLO_ALLGATHER, 50, KOLO_F32, 0)},
    {"all-gather's dtype", CALL(KOLO_ALLGATHER, 9000, KOLO_F32, 0), CALL(KOLO_ALLGATHER, 9000, KOLO_U32, 0)},
    {"broadcast in place of all-gather", CALL(KOLO_ALLGATHER, 9000, KOLO_F32, 0),
     CALL(KOLO_BROADCAST, 9000, KOLO_F32, 0)},
    {"broadcast's root and chunks", CALL(KOLO_BROADCAST, 30, KOLO_F32, 0), CALL(KOLO_BROADCAST, 50000, KOLO_F32, 1)},
};

enum {
    MISMATCHES = sizeof mismatches / sizeof *mismatches,
    CALLS_BEFORE = 3,
    CALLS_AFTER = 6,
    COUNT_MAX = 50001,
    BLOCK_MAX = 13200, /* doubles of one block */
    RANKS_MAX = 5,
    CALLS_AHEAD = 60, /* that may return 0 before a mismatch: kolo_collectives.h says so of kolo_broadcast */
    CALLS = CALLS_AHEAD + 1
};

struct setup {
    const struct mismatch *mismatch;
    int odd_rank;
};

static void apply_nothing(void *context, size_t first, size_t count, const void *gradients, void *parameters) {
    (void)context, (void)first, (void)count, (void)gradients, (void)parameters;
}

/* Which of the two buffers has a block of each rank. */
static bool sends_blocks(kolo_collective collective) {
    return collective_shapes[collective].sends_blocks;
}

static bool takes_blocks(kolo_collective collective) {
    return (collective_shapes[collective].takes_blocks && !sends_blocks(collective)) ||
           collective == KOLO_ALLREDUCE_APPLY;
}

/* `data` and `blocks` have room for a block of each rank. Of tensors there are two and an empty one; where the first is
 * longer, the second is shorter. */
static int make_call(kolo_comm *comm, const struct call *call, void *data, void *blocks) {
    const int self = kolo_comm_rank(comm), root = call->op_or_root;
    const kolo_collective collective = call->collective;
    const size_t first = call->count / 3 + (call->longer == LONGER_FIRST);
    const kolo_tensor tensors[] = {{(float *)data + COUNT_MAX / 2, first}, {NULL, 0}, {data, call->count - first}};
    size_t sent[RANKS_MAX], expected[RANKS_MAX];
    for (int rank = 0; rank < RANKS_MAX; rank++) {
        const size_t count = call->count + (call->longer == LONGER_FIRST && rank == 0);
        sent[rank] = count + (call->longer == LONGER_SENT && rank != self);
        expected[rank] = count + (call->longer == LONGER_EXPECTED && rank != self);
    }
    kolo_call made = {.collective = collective,
                      .dtype = call->dtype,
                      .op = (kolo_op)call->op_or_root,
                      .root = collective == KOLO_REDUCE ? call->root : root,
                      .send = sends_blocks(collective) ? blocks : data,
                      .recv = takes_blocks(collective) ? blocks : data,
                      .count = call->count,
                      .send_counts = sent,
                      .recv_counts = expected,
                      .tensors = tensors,
                      .ntensors = 3,
                      .function = apply_nothing};
    if (collective == KOLO_GATHERV)
        made.count = sent[root];
    else if (collective == KOLO_SCATTERV)
        made.count = expected[root];
    return named_call_make(comm, &made);
}

/* Whether a rank knows the counts of those blocks alone that it sends and receives. */
static bool is_unequal(kolo_collective collective) {
    return collective == KOLO_GATHERV || collective == KOLO_SCATTERV || collective == KOLO_ALLTOALLV;
}

/* Whether the calls differ only in the count of a block that two ranks alone know. */
static bool differ_in_counts(const struct call *common, const struct call *odd) {
    return common->collective == odd->collective && is_unequal(odd->collective) && common->dtype == odd->dtype &&
           common->op_or_root == odd->op_or_root;
}

/* Both calls, or both counts. */
static void expect_words(struct rank *rank, const struct mismatch *mismatch) {
    char sent[32], expected[48], sent_back[32], expected_back[48];
    if (!differ_in_counts(&mismatch->common, &mismatch->odd)) {
        expect_message(rank, mismatch->what, "disagree", "calls", NULL);
        return;
    }
    const size_t common = mismatch->common.count, odd = mismatch->odd.count + (mismatch->odd.longer != LONGER_NONE);
    snprintf(sent, sizeof sent, "sends %zu elements", common);
    snprintf(expected, sizeof expected, "expects %zu (", odd);
    snprintf(sent_back, sizeof sent_back, "sends %zu elements", odd);
    snprintf(expected_back, sizeof expected_back, "expects %zu (", common);
    const char *message = kolo_error_message();
    expect(rank,
           (strstr(message, sent) && strstr(message, expected)) ||
               (strstr(message, sent_back) && strstr(message, expected_back)),
           "%s: the message does not give the counts, %zu and %zu: %s", mismatch->what, common, odd, message);
}

static void run_mismatch(struct rank *rank) {
    const struct setup *setup = rank->team->argument;
    const struct mismatch *mismatch = setup->mismatch;
    const bool odd = rank->rank == setup->odd_rank;
    void *data = calloc(RANKS_MAX * BLOCK_MAX, sizeof(double)), *blocks = calloc(RANKS_MAX * BLOCK_MAX, sizeof(double));
    int status = 0;
    /* A rank that is slow may hear of the mismatch while it is still in a call before that one. */
    for (int i = 0; status == 0 && i <= CALLS_BEFORE + CALLS_AFTER; i++)
        status = make_call(rank->comm, odd && i == CALLS_BEFORE ? &mismatch->odd : &mismatch->common, data, blocks);
    if (status == 0)
        status = kolo_barrier(rank->comm);
    if (expect(rank, status == KOLO_ERR_MISMATCH, "%s, odd rank %d: status %d (%s)", mismatch->what, setup->odd_rank,
               status, status ? kolo_error_message() : "no error"))
        expect_words(rank, mismatch);
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
    free(blocks);
}

static void run_algorithm(int ranks, kolo_algorithm algorithm) {
    for (int i = 0; i < MISMATCHES; i++)
        for (int odd_rank = 0; odd_rank < ranks; odd_rank++) {
            const struct setup setup = {&mismatches[i], odd_rank};
            if ((mismatches[i].common.collective != KOLO_ALLREDUCE && algorithm != KOLO_ALGORITHM_ONESHOT) ||
                (arguments.quick && (i + odd_rank + ranks) % 3))
                continue;
            harness_run(&(struct team){
                .ranks = ranks, .algorithm = algorithm, .slot_bytes = 8192, .run = run_mismatch, .argument = &setup});
        }
}

/* Two lanes share each call: the message has the counts of whole blocks, not those of a lane's slices. */
static void run_sliced(struct rank *rank) {
    rank->options.threads = 2;
    if (expect_status(rank, kolo_comm_create(&rank->comm, &rank->options), 0, "kolo_comm_create") &&
        expect(rank, info_of(rank->comm).lanes == 2, "%d lanes", info_of(rank->comm).lanes))
        run_mismatch(rank);
}

/* Counts for which the failure has no room. Nothing of the blocks but their first chunks is touched. */
static void run_huge(struct rank *rank) {
    const size_t counts[2] = {1, SIZE_MAX >> 33}, bytes = 2 * counts[1];
    uint8_t *data = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (data == MAP_FAILED)
        return; /* this machine lets nobody reserve so much */
    const bool is_root = rank->rank == 0;
    int status = kolo_gatherv(rank->comm, data, is_root ? counts[0] : counts[1] + 1, data, counts, NULL, KOLO_U8, 0);
    if (status == 0)
        status = kolo_barrier(rank->comm);
    expect_status(rank, status, KOLO_ERR_MISMATCH, "huge blocks");
    expect_message(rank, "huge blocks", "sends 2147483647 or more elements", "expects 2147483647 or more (", NULL);
    munmap(data, bytes);
}

/* A collective, in lines and in slots. */
enum { SMALL = 3, LARGE = 3000, SLICED = 65600 };

/* Those that have data. */
enum { FAMILY = KOLO_ALLOC - KOLO_BROADCAST };

static kolo_collective family(uint32_t index) {
    return (kolo_collective)(KOLO_BROADCAST + index);
}

static void run_pair(int ranks, int odd_rank, const char *what, struct call common, struct call odd) {
    char text[96];
    snprintf(text, sizeof text, "%s of %zu, %s of %zu, other %s", kolo_name(KOLO_NAME_COLLECTIVE, common.collective),
             common.count, kolo_name(KOLO_NAME_COLLECTIVE, odd.collective), odd.count, what);
    const struct mismatch mismatch = {text, common, odd};
    const struct setup setup = {&mismatch, odd_rank};
    const bool is_sliced = common.count == SLICED;
    harness_run(&(struct team){.ranks = ranks,
                               .slot_bytes = 8192,
                               .creates_itself = is_sliced,
                               .run = is_sliced ? run_sliced : run_mismatch,
                               .argument = &setup});
}

/* Each collective in place of each other one. */
static void run_other_collectives(int ranks) {
    for (uint32_t i = 0; i < FAMILY * FAMILY; i++) {
        const kolo_collective common = family(i / FAMILY), odd = family(i % FAMILY);
        const size_t count = i % 2 ? SMALL : LARGE;
        if (common != odd && !(arguments.quick && (i + (uint32_t)ranks) % 5))
            run_pair(ranks, (int)(i / 2) % ranks, "collective", (struct call)CALL(common, count, KOLO_F32, 0),
                     (struct call)CALL(odd, count, KOLO_F32, 0));
    }
}

/* Each with another count, dtype, op or root. */
static void run_other_arguments(int ranks, int odd_rank, kolo_collective collective, size_t count) {
    const struct call common = CALL(collective, count, KOLO_F32, 0);
    struct call odd = common;
    odd.count = count + 1;
    run_pair(ranks, odd_rank, "count", common, odd);
    odd.count = count == SMALL ? LARGE : SMALL;
    run_pair(ranks, odd_rank, "size", common, odd);
    odd = common;
    odd.dtype = KOLO_I32;
    run_pair(ranks, odd_rank, "dtype", common, odd);
    odd = common;
    odd.op_or_root = 1;
    if (kolo_collective_has(collective) & (KOLO_HAS_OP | KOLO_HAS_ROOT))
        run_pair(ranks, odd_rank, "op or root", common, odd);
    odd = common;
    odd.root = 1;
    if (collective == KOLO_REDUCE)
        run_pair(ranks, odd_rank, "root", common, odd);
}

/* Counts of some blocks alone. A rank's block for itself is not one of them, so a call in which a rank sends to others
 * alone, or receives, may be right. */
static void run_other_blocks(int ranks, int odd_rank, kolo_collective collective, size_t count) {
    const struct call common = CALL(collective, count, KOLO_F32, 0);
    struct call odd = common;
    odd.longer = LONGER_FIRST;
    if (collective == KOLO_ALLGATHERV || collective == KOLO_REDUCE_SCATTERV || collective == KOLO_ALLREDUCE_MANY)
        run_pair(ranks, odd_rank, "block", common, odd);
    odd.longer = LONGER_SENT;
    if (collective == KOLO_ALLTOALLV || (collective == KOLO_GATHERV && odd_rank != 0) ||
        (collective == KOLO_SCATTERV && odd_rank == 0))
        run_pair(ranks, odd_rank, "blocks sent", common, odd);
    odd.longer = LONGER_EXPECTED;
    if (collective == KOLO_ALLTOALLV || (collective == KOLO_GATHERV && odd_rank == 0) ||
        (collective == KOLO_SCATTERV && odd_rank != 0))
        run_pair(ranks, odd_rank, "blocks expected", common, odd);
}

static void run_family(int ranks) {
    run_other_collectives(ranks);
    for (uint32_t i = 0; i < FAMILY; i++)
        for (int odd_rank = 0; odd_rank < ranks; odd_rank++) {
            if (arguments.quick && (i + (uint32_t)(odd_rank + ranks)) % 3)
                continue;
            run_other_arguments(ranks, odd_rank, family(i), SMALL);
            run_other_arguments(ranks, odd_rank, family(i), LARGE);
            run_other_blocks(ranks, odd_rank, family(i), SMALL);
            run_other_blocks(ranks, odd_rank, family(i), LARGE);
            if (ranks == 2 && is_unequal(family(i)))
                run_other_blocks(ranks, odd_rank, family(i), SLICED);
        }
}

/* Ranks that differ in every call from some one on, and of which some or all wait for nobody: they broadcast, scatter,
 * or send to the next rank as the root. */
static const struct own_roots {
    const char *what;
    size_t counts[2];  /* of ranks with even and odd numbers */
    bool even_follow;  /* those with even numbers name rank 0, all others themselves; else all name themselves */
    struct call first; /* made by all before that */
    int calls;         /* and so many of these, then a barrier */
    kolo_collective collective;
    int shift; /* the root is so many ranks after the one that is named above */
} own_roots[] = {
    {"own roots", {100, 100}, false, CALL(KOLO_BARRIER, 0, KOLO_U8, 0), CALLS, KOLO_BROADCAST, 0},
    {"own roots of nothing", {0, 0}, false, CALL(KOLO_BARRIER, 0, KOLO_U8, 0), CALLS, KOLO_BROADCAST, 0},
    {"own roots after broadcasts", {100, 100}, false, CALL(KOLO_BROADCAST, 100, KOLO_I32, 0), CALLS, KOLO_BROADCAST, 0},
    {"own roots after slots",
     {100, 100},
     false,
     CALL(KOLO_ALLREDUCE, 50000, KOLO_I32, KOLO_SUM),
     CALLS,
     KOLO_BROADCAST,
     0},
    {"own roots, some large", {100, 50000}, false, CALL(KOLO_BARRIER, 0, KOLO_U8, 0), CALLS, KOLO_BROADCAST, 0},
    {"own roots, large", {50000, 50000}, false, CALL(KOLO_BROADCAST, 50000, KOLO_I32, 1), CALLS, KOLO_BROADCAST, 0},
    {"own roots, small", {4, 4}, false, CALL(KOLO_BARRIER, 0, KOLO_U8, 0), CALLS, KOLO_BROADCAST, 0},
    {"own roots, small after small", {4, 90}, false, CALL(KOLO_BROADCAST, 4, KOLO_I32, 1), CALLS, KOLO_BROADCAST, 0},
    {"own roots, small and large", {4, 50000}, false, CALL(KOLO_BROADCAST, 4, KOLO_I32, 0), CALLS, KOLO_BROADCAST, 0},
    {"own roots of small reductions", {4, 4}, false, CALL(KOLO_SCAN, 4, KOLO_I32, KOLO_SUM), CALLS, KOLO_REDUCE, 0},
    {"own roots of small gathers", {4, 4}, false, CALL(KOLO_SCATTER, 4, KOLO_I32, 1), CALLS, KOLO_GATHER, 0},
    {"own roots of small scatters", {4, 4}, false, CALL(KOLO_GATHER, 4, KOLO_I32, 1), CALLS, KOLO_SCATTER, 0},
    {"two and more roots", {100, 100}, true, CALL(KOLO_BROADCAST, 100, KOLO_I32, 1), CALLS, KOLO_BROADCAST, 0},
    {"two and more roots, some large",
     {20000, 100},
     true,
     CALL(KOLO_BROADCAST, 100, KOLO_I32, 0),
     CALLS,
     KOLO_BROADCAST,
     0},
    {"own roots, then a barrier", {100, 100}, false, CALL(KOLO_BROADCAST, 100, KOLO_I32, 0), 1, KOLO_BROADCAST, 0},
    {"own roots, then a barrier late",
     {100, 9000},
     false,
     CALL(KOLO_ALLREDUCE, 9000, KOLO_I32, KOLO_SUM),
     4,
     KOLO_BROADCAST,
     0},
    {"own roots of scatters", {3000, 3000}, false, CALL(KOLO_SCATTER, 3000, KOLO_I32, 0), CALLS, KOLO_SCATTER, 0},
    {"own roots of gathers", {3000, 3000}, false, CALL(KOLO_GATHER, 3000, KOLO_I32, 0), CALLS, KOLO_GATHER, 0},
    {"next as root of gathers", {500, 500}, false, CALL(KOLO_BARRIER, 0, KOLO_U8, 0), CALLS, KOLO_GATHER, 1},
    {"next as root of large gathers", {3000, 9000}, false, CALL(KOLO_GATHER, 500, KOLO_I32, 1), CALLS, KOLO_GATHER, 1},
    {"next as root of reductions", {500, 500}, false, CALL(KOLO_ALLTOALL, 500, KOLO_I32, 0), CALLS, KOLO_REDUCE, 1},
    {"next as root of gathers, then a barrier",
     {500, 500},
     false,
     CALL(KOLO_GATHER, 500, KOLO_I32, 0),
     1,
     KOLO_GATHER,
     1},
};

static void run_own_roots(struct rank *rank) {
    const struct own_roots *what = rank->team->argument;
    const bool follows = what->even_follow && rank->rank % 2 == 0;
    const int root = ((follows ? 0 : rank->rank) + what->shift) % rank->ranks;
    const kolo_collective collective = what->collective;
    const struct call own = {.collective = collective,
                             .count = what->counts[rank->rank % 2],
                             .dtype = KOLO_I32,
                             .op_or_root = collective == KOLO_REDUCE ? KOLO_SUM : root,
                             .root = root};
    void *data = calloc(COUNT_MAX, sizeof(double)), *blocks = calloc(RANKS_MAX * BLOCK_MAX, sizeof(double));
    int status = 0, ended = 0;
    for (int i = 0; status == 0 && i < CALLS_BEFORE; i++)
        status = make_call(rank->comm, &what->first, data, blocks);
    while (status == 0 && ended < what->calls) {
        status = make_call(rank->comm, &own, data, blocks);
        ended += status == 0;
    }
    if (status == 0)
        status = kolo_barrier(rank->comm);
    if (expect(rank, status == KOLO_ERR_MISMATCH && ended <= CALLS_AHEAD, "%s: status %d after %d calls (%s)",
               what->what, status, ended, status ? kolo_error_message() : "no error"))
        expect_message(rank, what->what, "disagree", "calls", kolo_name(KOLO_NAME_COLLECTIVE, collective), ", root ",
                       NULL);
    kolo_failure failure = {.failure_bytes = sizeof failure};
    kolo_comm_failure(rank->comm, &failure);
    expect(rank, failure.call == CALLS_BEFORE + 1 && !strstr(failure.message, "earlier"),
           "%s: the failure does not name the first call that differs: %s", what->what, failure.message);
    free(data);
    free(blocks);
}

static void run_all_own_roots(int ranks) {
    for (size_t i = 0; i < sizeof own_roots / sizeof *own_roots; i++)
        harness_run(
            &(struct team){.ranks = ranks, .slot_bytes = 8192, .run = run_own_roots, .argument = &own_roots[i]});
}

/* Ranks that divide the same elements differently. */
static void run_divisions(struct rank *rank) {
    float *data = calloc(COUNT_MAX, sizeof *data);
    const size_t first = 10 + (rank->rank == 1);
    const kolo_tensor tensors[] = {{data, first}, {data + first, COUNT_MAX - first}};
    expect_status(rank, kolo_allreduce_many(rank->comm, tensors, 2, KOLO_F32, KOLO_SUM), KOLO_ERR_MISMATCH,
                  "other divisions");
    expect_message(rank, "other divisions", "disagree", "; tensors[0].count is ", NULL);
    free(data);
}

enum { LISTED = 5000 };

static const struct list {
    kolo_collective collective;
    bool is_shorter; /* on the last rank, by one; else its last tensor, or block 1, is longer by one */
    const char *name, *value, *elsewhere;
} lists[] = {{KOLO_ALLREDUCE_MANY, false, "tensors[4999].count", "2", "1"},
             {KOLO_ALLREDUCE_MANY, true, "ntensors", "4999", "5000"},
             {KOLO_ALLGATHERV, false, "counts[1]", "11", "10"},
             {KOLO_REDUCE_SCATTERV, false, "counts[1]", "11", "10"}};

/* Lists of one rank that differ in their length or in one number: all ranks are told which. */
static void run_lists(struct rank *rank) {
    const struct list *list = rank->team->argument;
    const bool is_odd = rank->rank == rank->ranks - 1, is_longer = is_odd && !list->is_shorter;
    float *data = calloc(LISTED + 1, sizeof *data), *recv = calloc(LISTED + 1, sizeof *recv);
    kolo_tensor *tensors = calloc(LISTED, sizeof *tensors);
    size_t counts[RANKS_MAX];
    for (int i = 0; i < rank->ranks; i++)
        counts[i] = 10 + (is_longer && i == 1);
    for (int i = 0; i < LISTED; i++)
        tensors[i] = (kolo_tensor){data + i, 1 + (is_longer && i == LISTED - 1)};
    const int status =
        list->collective == KOLO_ALLREDUCE_MANY
            ? kolo_allreduce_many(rank->comm, tensors, LISTED - (is_odd && list->is_shorter), KOLO_F32, KOLO_SUM)
        : list->collective == KOLO_ALLGATHERV
            ? kolo_allgatherv(rank->comm, data, recv, counts, NULL, KOLO_F32)
            : kolo_reduce_scatterv(rank->comm, data, recv, counts, KOLO_F32, KOLO_SUM);
    if (expect_status(rank, status, KOLO_ERR_MISMATCH, list->name))
        expect_difference(rank, list->name, list->value, rank->ranks - 1, list->elsewhere);
    free(data);
    free(recv);
    free(tensors);
}

/* Stays in its wait until rank 0 has got its error. */
static int keep_silent(void *context) {
    int looks = 0;
    while (event_ns() == 0 && looks++ < 20000)
        usleep(1000);
    *(bool *)context |= event_ns() == 0;
    return 0;
}

/* A rank that does not come to show what it passes: the others do without. */
static void run_silent(struct rank *rank) {
    float data[RANKS_MAX * 16] = {0}, recv[RANKS_MAX * 16];
    size_t counts[RANKS_MAX];
    bool is_awaited = false;
    const kolo_hooks hooks = {.hooks_bytes = sizeof hooks, .interrupt = keep_silent, .context = &is_awaited};
    for (int i = 0; i < rank->ranks; i++)
        counts[i] = 10 + (i == 0 && rank->rank == 1);
    if (rank->rank == 1)
        kolo_comm_set_hooks(rank->comm, &hooks);
    else
        usleep(100000); /* it is there before the others, if the machine lets it */
    const int status = kolo_allgatherv(rank->comm, data, recv, counts, NULL, KOLO_F32);
    if (rank->rank == 0)
        event_set();
    if (rank->rank == 1)
        kolo_comm_set_hooks(rank->comm, NULL);
    expect(rank, !is_awaited, "the others wait for this rank for 20 s");
    if (expect_status(rank, status, KOLO_ERR_MISMATCH, "a rank that is silent"))
        expect_message(rank, "a rank that is silent", "disagree", "calls", NULL);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv, "Lets one rank make another call than the others.");
    for (int ranks = 2; ranks <= 4; ranks++)
        for (kolo_algorithm algorithm = KOLO_ALGORITHM_ONESHOT; algorithm < KOLO_ALGORITHMS; algorithm++)
            if (wants_ranks(ranks) && wants_algorithm(algorithm))
                run_algorithm(ranks, algorithm);
    for (int ranks = 2; ranks <= 4; ranks++)
        if (wants_ranks(ranks))
            run_family(ranks);
    for (int ranks = 2; ranks <= RANKS_MAX; ranks++)
        if (wants_ranks(ranks)) {
            run_all_own_roots(ranks);
            harness_run(&(struct team){.ranks = ranks, .run = run_divisions});
            for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
                harness_run(&(struct team){.ranks = ranks, .run = run_lists, .argument = &lists[i]});
        }
    if (wants_ranks(2))
        harness_run(&(struct team){.ranks = 2, .run = run_huge});
    if (wants_ranks(3))
        harness_run(&(struct team){.ranks = 3, .run = run_silent});
    return harness_end();
}
