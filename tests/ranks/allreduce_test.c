/* kolo_allreduce gives what the oracle says, bit by bit: every dtype, op and algorithm, many rank counts, counts around
 * every threshold, any alignment, in place and not; it leaves `send` and what surrounds `recv` alone. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "oracle.h"

enum { GUARD_BYTES = 64, GUARD = 0xa5, SLOT_BYTES = 4096 };

struct call {
    uint32_t index; /* of the call within its team */
    kolo_dtype dtype;
    kolo_op op;
    size_t count;
    input_style style;
    bool in_place;
    size_t send_offset; /* from an aligned address, below GUARD_BYTES */
    size_t recv_offset;
    bool against_oracle; /* on this rank; the others must have the same result */
};

/* A buffer with room for an offset, and guards round the elements. */
static unsigned char *guarded(size_t bytes, size_t offset, unsigned char **elements) {
    unsigned char *memory = aligned_alloc(GUARD_BYTES, (bytes / GUARD_BYTES + 4) * GUARD_BYTES);
    if (!memory)
        abort();
    memset(memory, GUARD, (bytes / GUARD_BYTES + 4) * GUARD_BYTES);
    *elements = memory + GUARD_BYTES + offset;
    return memory;
}

static bool guards_intact(const unsigned char *memory, const unsigned char *elements, size_t bytes) {
    const unsigned char *end = memory + (bytes / GUARD_BYTES + 4) * GUARD_BYTES;
    for (const unsigned char *at = memory; at < elements; at++)
        if (*at != GUARD)
            return false;
    for (const unsigned char *at = elements + bytes; at < end; at++)
        if (*at != GUARD)
            return false;
    return true;
}

static void check_result(const struct rank *rank, const struct call *call, const unsigned char *recv) {
    const size_t bytes = call->count * kolo_dtype_bytes(call->dtype);
    unsigned char *inputs[HARNESS_RANKS_MAX], *expected = malloc(bytes + 1);
    for (int peer = 0; peer < rank->ranks; peer++) {
        inputs[peer] = malloc(bytes + 1);
        input_fill(call->style, call->dtype, call->op, inputs[peer], call->count,
                   random_seed((uint64_t)peer, call->index));
    }
    oracle_reduce(call->dtype, call->op, (const void *const *)inputs, rank->ranks, call->count, expected);
    const size_t at = first_difference(recv, expected, bytes) / kolo_dtype_bytes(call->dtype);
    expect(rank, at == call->count, "case %" PRIu32 ": %zu %s, %s, style %d: element %zu is wrong", call->index,
           call->count, kolo_name(KOLO_NAME_DTYPE, call->dtype), kolo_name(KOLO_NAME_OP, call->op), (int)call->style,
           at);
    for (int peer = 0; peer < rank->ranks; peer++)
        free(inputs[peer]);
    free(expected);
}

static int run_call(const struct rank *rank, const struct call *call) {
    const size_t bytes = call->count * kolo_dtype_bytes(call->dtype);
    const uint64_t seed = random_seed((uint64_t)rank->rank, call->index);
    unsigned char *send, *recv, *sent = malloc(bytes + 1);
    unsigned char *send_memory = guarded(bytes, call->send_offset, &send);
    unsigned char *recv_memory = guarded(bytes, call->recv_offset, &recv);
    input_fill(call->style, call->dtype, call->op, sent, call->count, seed);
    memcpy(call->in_place ? recv : send, sent, bytes);
    int status = kolo_allreduce(rank->comm, call->in_place ? recv : send, recv, call->count, call->dtype, call->op);
    if (expect_status(rank, status, 0, "kolo_allreduce")) {
        expect(rank, call->in_place || memcmp(send, sent, bytes) == 0, "case %" PRIu32 ": send was changed",
               call->index);
        expect(rank, guards_intact(recv_memory, recv, bytes), "case %" PRIu32 ": written beside recv", call->index);
        record_result(rank, call->index, hash_bytes(recv, bytes));
        if (call->against_oracle)
            check_result(rank, call, recv);
    }
    free(send_memory);
    free(recv_memory);
    free(sent);
    return status;
}

/* Bytes at which the way of a message changes, or might: one line, a few, sets of lines, a slot, more slots than there
 * are. */
static const size_t edges_bytes[] = {48, 56, 8 * 56 - 8, 64 * 56 - 8, SLOT_BYTES, 5 * SLOT_BYTES};

enum {
    EDGES = sizeof edges_bytes / sizeof *edges_bytes,
    RANDOM_COUNTS = 3,
    THRESHOLD_COUNTS = 3 + 3 * EDGES + RANDOM_COUNTS
};

static size_t threshold_count(size_t index, size_t element_bytes, uint64_t *random) {
    if (index < 3)
        return index;
    if (index < 3 + 3 * EDGES)
        return edges_bytes[(index - 3) / 3] / element_bytes + (index - 3) % 3 - 1;
    return random_below(random, 10 * SLOT_BYTES / element_bytes);
}

/* With floats in ring order only exact inputs have one right result. */
static input_style choose_style(const struct rank *rank, kolo_dtype dtype, kolo_op op, uint64_t *random) {
    if (rank->team->algorithm == KOLO_ALGORITHM_RING && order_matters(dtype, op) && rank->ranks > 1)
        return INPUT_EXACT;
    return (input_style)random_below(random, INPUT_STYLES);
}

static int run_random_call(const struct rank *rank, uint32_t index, kolo_dtype dtype, kolo_op op, size_t count,
                           uint64_t *random) {
    const uint64_t draw = random_next(random);
    const struct call call = {.index = index,
                              .dtype = dtype,
                              .op = op,
                              .count = count,
                              .style = choose_style(rank, dtype, op, random),
                              .in_place = draw & 1,
                              .send_offset = draw >> 1 & 1 ? 0 : draw >> 8 & 63,
                              .recv_offset = draw >> 1 & 1 ? 0 : draw >> 16 & 63,
                              .against_oracle = index % (uint32_t)rank->ranks == (uint32_t)rank->rank};
    return run_call(rank, &call);
}

/* How many counts a dtype and op goes through: all thresholds with sums, else a random few. */
static size_t counts_of(int ranks, kolo_op op) {
    const size_t counts = ranks > 8 ? 1 : op != KOLO_SUM ? 3 : ranks > 5 ? 8 : THRESHOLD_COUNTS;
    return arguments.quick ? (counts + 7) / 8 : counts;
}

static int run_kernel(const struct rank *rank, kolo_dtype dtype, kolo_op op, uint32_t *index, uint64_t *random) {
    const size_t counts = counts_of(rank->ranks, op);
    int status = 0;
    for (size_t i = 0; status == 0 && i < counts; i++) {
        const size_t which = counts == THRESHOLD_COUNTS ? i : random_below(random, THRESHOLD_COUNTS);
        const size_t count = threshold_count(which, kolo_dtype_bytes(dtype), random);
        status = run_random_call(rank, (*index)++, dtype, op, count, random);
    }
    return status;
}

static void run_all_kernels(struct rank *rank) {
    uint64_t random = random_seed(1000, (uint64_t)rank->ranks * KOLO_ALGORITHMS + rank->team->algorithm);
    uint32_t index = 0;
    for (kolo_dtype dtype = 0; dtype < KOLO_DTYPES; dtype++)
        for (kolo_op op = 0; op < KOLO_OPS; op++)
            if (kolo_op_supports(op, dtype) && run_kernel(rank, dtype, op, &index, &random) < 0)
                return;
}

/* Ring sums of floats of any bits: no order is promised, but all ranks must hold the same. */
static void run_agreement(struct rank *rank) {
    uint64_t random = random_seed(2000, (uint64_t)rank->ranks);
    static const kolo_dtype dtypes[] = {KOLO_F16, KOLO_BF16, KOLO_F32, KOLO_F64};
    static const kolo_op ops[] = {KOLO_SUM, KOLO_PROD, KOLO_AVG};
    for (uint32_t index = 0; index < 24; index++) {
        struct call call = {.index = index,
                            .dtype = dtypes[index % 4],
                            .op = ops[index % 3],
                            .count = random_below(&random, 6000),
                            .style = index % 2 ? INPUT_BITS : INPUT_SPECIAL};
        if (run_call(rank, &call) < 0)
            return;
    }
}

/* Several megabytes through slots of the default size. */
static void run_large(struct rank *rank) {
    uint64_t random = random_seed(3000, (uint64_t)rank->ranks);
    static const kolo_dtype dtypes[] = {KOLO_F32, KOLO_BF16};
    for (uint32_t index = 0; index < 2; index++) {
        const size_t bytes = (arguments.quick ? 0 : 5 << 20) + random_below(&random, 1 << 20);
        const kolo_dtype dtype = dtypes[index];
        const kolo_op op = dtype == KOLO_F32 ? KOLO_SUM : KOLO_AVG;
        if (run_random_call(rank, index, dtype, op, bytes / kolo_dtype_bytes(dtype), &random) < 0)
            return;
    }
}

static void run_teams(int ranks, kolo_algorithm algorithm) {
    struct team team = {.ranks = ranks, .algorithm = algorithm, .slot_bytes = SLOT_BYTES, .run = run_all_kernels};
    team.by_descriptor = ranks % 2;
    harness_run(&team);
    if (algorithm == KOLO_ALGORITHM_RING) {
        team.run = run_agreement;
        harness_run(&team);
    }
    team.run = run_large;
    team.slot_bytes = 0;
    if (arguments.quick ? ranks == 3 : ranks <= 4)
        harness_run(&team);
}

int main(int argc, char **argv) {
    static const int counts[] = {1, 2, 3, 4, 5, 7, 8, 16, 33, 64};
    harness_begin(argc, argv, "Compares every all-reduce with an oracle, bit by bit.");
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        for (int algorithm = 0; algorithm < KOLO_ALGORITHMS; algorithm++) {
            const bool large = counts[i] > (arguments.quick ? 5 : 33); /* one algorithm has to do */
            if (wants_ranks(counts[i]) && wants_algorithm((kolo_algorithm)algorithm) &&
                (!large || arguments.ranks || algorithm == KOLO_ALGORITHM_MESH))
                run_teams(counts[i], (kolo_algorithm)algorithm);
        }
    return harness_end();
}
