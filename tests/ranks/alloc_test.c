/* Buffers of kolo_alloc: reduced directly with the bits that the oracle wants, anywhere in them, mixed with buffers of
 * the caller's own; freed in any order, accounted for, given back; refused alike on all ranks where there is no room;
 * and ranks that disagree in them find out. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"
#include "oracle.h"

enum { CASES = 160, BUFFERS = 5, BYTES_MAX = 600000 };

/* What a case does, drawn alike on all ranks. */
struct plan {
    kolo_dtype dtype;
    kolo_op op;
    size_t count;
    size_t send_offset, recv_offset; /* elements */
    bool in_place;
    int private_rank; /* the one that passes memory of its own; -1: none does */
};

static struct plan draw_plan(const struct rank *rank, uint64_t *random) {
    static const size_t counts[] = {0, 1, 13, 300, 1000, 9000, 70000};
    const uint64_t draw = random_next(random);
    struct plan plan = {.dtype = (kolo_dtype)(draw % KOLO_DTYPES), .op = (kolo_op)(draw / 16 % KOLO_OPS)};
    if (!kolo_op_supports(plan.op, plan.dtype))
        plan.op = KOLO_SUM;
    plan.count = counts[draw / 256 % 7] + draw / 4096 % 3;
    plan.send_offset = draw >> 20 & 31;
    plan.recv_offset = draw >> 25 & 31;
    plan.in_place = draw >> 30 & 1;
    plan.private_rank = draw >> 31 & 3 ? -1 : (int)((draw >> 40) % (uint64_t)rank->ranks);
    return plan;
}

static bool check_result(const struct rank *rank, uint32_t index, const struct plan *plan, const void *recv) {
    const size_t bytes = plan->count * kolo_dtype_bytes(plan->dtype);
    void *inputs[HARNESS_RANKS_MAX], *expected = malloc(bytes + 1);
    for (int peer = 0; peer < rank->ranks; peer++) {
        inputs[peer] = malloc(bytes + 1);
        input_fill(INPUT_SPECIAL, plan->dtype, plan->op, inputs[peer], plan->count, random_seed((uint64_t)peer, index));
    }
    oracle_reduce(plan->dtype, plan->op, (const void *const *)inputs, rank->ranks, plan->count, expected);
    const size_t at = first_difference(recv, expected, bytes);
    const bool right = expect(rank, at == bytes, "case %" PRIu32 ": %zu %s, %s: byte %zu is wrong", index, plan->count,
                              kolo_name(KOLO_NAME_DTYPE, plan->dtype), kolo_name(KOLO_NAME_OP, plan->op), at);
    for (int peer = 0; peer < rank->ranks; peer++)
        free(inputs[peer]);
    free(expected);
    return right;
}

static bool reduce_once(const struct rank *rank, uint32_t index, uint64_t *random, unsigned char *const *buffers) {
    const struct plan plan = draw_plan(rank, random);
    const size_t element_bytes = kolo_dtype_bytes(plan.dtype), bytes = plan.count * element_bytes;
    unsigned char *own = plan.private_rank == rank->rank ? malloc(2 * bytes + 2) : NULL;
    unsigned char *send = own ? own : buffers[0] + plan.send_offset * element_bytes;
    unsigned char *recv = own ? own + bytes + 1 : buffers[1] + plan.recv_offset * element_bytes;
    if (plan.in_place)
        recv = send;
    input_fill(INPUT_SPECIAL, plan.dtype, plan.op, send, plan.count, random_seed((uint64_t)rank->rank, index));
    const int status = kolo_allreduce(rank->comm, send, recv, plan.count, plan.dtype, plan.op);
    bool right = expect_status(rank, status, 0, "kolo_allreduce");
    if (right)
        record_result(rank, index, hash_bytes(recv, bytes));
    if (right && index % (uint32_t)rank->ranks == (uint32_t)rank->rank) /* the others have the same result */
        right = check_result(rank, index, &plan, recv);
    free(own);
    return right;
}

static uint64_t calls_by(const struct rank *rank, kolo_algorithm algorithm) {
    kolo_stats stats = {.stats_bytes = sizeof stats};
    kolo_comm_stats(rank->comm, &stats);
    return stats.calls_by_algorithm[algorithm];
}

static void run_reductions(struct rank *rank) {
    uint64_t random = random_seed(1, (uint64_t)rank->ranks);
    unsigned char *buffers[2];
    for (int i = 0; i < 2; i++)
        if (!expect_status(rank, kolo_alloc(rank->comm, BYTES_MAX, (void **)&buffers[i]), 0, "kolo_alloc"))
            return;
    for (uint32_t index = 0; index < (arguments.quick ? CASES / 4 : CASES); index++) {
        if (!reduce_once(rank, index, &random, buffers))
            return;
        if (index % 10 == 9 && !expect_status(rank, kolo_barrier(rank->comm), 0, "kolo_barrier"))
            return;
    }
    if (rank->ranks > 1)
        expect(rank, calls_by(rank, KOLO_ALGORITHM_DIRECT) >= (arguments.quick ? 1 : 5),
               "only %" PRIu64 " calls were direct", calls_by(rank, KOLO_ALGORITHM_DIRECT));
}

/* Allocates, fills, frees in an order of each round's own, and finds every buffer as it left it. */
static void run_any_order(struct rank *rank) {
    uint64_t random = random_seed(2, 0);
    for (int round = 0; round < 12; round++) {
        unsigned char *buffers[BUFFERS];
        uint64_t bytes[BUFFERS], total = 0, order[BUFFERS];
        for (int i = 0; i < BUFFERS; i++) {
            bytes[i] = 1 + random_below(&random, i == 0 ? 3 << 20 : 20000);
            order[i] = random_next(&random);
            if (!expect_status(rank, kolo_alloc(rank->comm, bytes[i], (void **)&buffers[i]), 0, "kolo_alloc"))
                return;
            expect(rank, (uintptr_t)buffers[i] % 4096 == 0 && buffers[i][0] == 0 && buffers[i][bytes[i] - 1] == 0,
                   "buffer %d is not aligned or not zeroed", i);
            memset(buffers[i], i + 1 + rank->rank, bytes[i]);
            total += bytes[i];
        }
        kolo_stats stats = {.stats_bytes = sizeof stats};
        kolo_comm_stats(rank->comm, &stats);
        expect(rank, stats.buffer_bytes >= total && stats.buffer_bytes <= total + (2 << 20) + BUFFERS * 4096,
               "%" PRIu64 " bytes were asked for, %" PRIu64 " are accounted for", total, stats.buffer_bytes);
        for (int freed = 0; freed < BUFFERS; freed++) {
            int next = 0;
            for (int i = 1; i < BUFFERS; i++)
                next = order[i] > order[next] ? i : next;
            const unsigned char value = (unsigned char)(next + 1 + rank->rank);
            expect(rank, buffers[next][0] == value && buffers[next][bytes[next] - 1] == value,
                   "buffer %d was overwritten", next);
            expect_status(rank, kolo_free(rank->comm, buffers[next]), 0, "kolo_free");
            order[next] = 0;
        }
        kolo_comm_stats(rank->comm, &stats);
        expect(rank, stats.buffer_bytes == 0, "%" PRIu64 " bytes are left after all were freed", stats.buffer_bytes);
    }
}

static void run_bad_arguments(struct rank *rank) {
    unsigned char *buffer, *none = NULL;
    expect_status(rank, kolo_alloc(NULL, 10, (void **)&buffer), KOLO_ERR_ARG, "kolo_alloc without a communicator");
    expect_status(rank, kolo_alloc(rank->comm, 10, NULL), KOLO_ERR_ARG, "kolo_alloc without a buffer");
    expect_status(rank, kolo_alloc(rank->comm, 0, (void **)&none), KOLO_ERR_ARG, "kolo_alloc of 0 bytes");
    expect_status(rank, kolo_alloc(rank->comm, SIZE_MAX, (void **)&none), KOLO_ERR_ARG, "kolo_alloc of SIZE_MAX");
    /* More than any machine has, less than can be addressed: refused by all, and all go on. */
    expect_status(rank, kolo_alloc(rank->comm, (size_t)1 << 39, (void **)&none), KOLO_ERR_NO_SPACE,
                  "kolo_alloc of 2^39");
    expect_message(rank, "2^39 bytes", "kolo_alloc", NULL);
    if (rank->rank == 0)
        expect_message(rank, "2^39 bytes", "available", "549755813888", NULL);
    expect(rank, none == NULL, "a failed kolo_alloc set the buffer");
    if (!expect_status(rank, kolo_alloc(rank->comm, 10000, (void **)&buffer), 0, "kolo_alloc after a failure"))
        return;
    expect_status(rank, kolo_free(rank->comm, buffer + 1), KOLO_ERR_ARG, "kolo_free of the inside of a buffer");
    expect_message(rank, "not a buffer", "kolo_free", "no buffer of kolo_alloc", NULL);
    expect_status(rank, kolo_free(rank->comm, NULL), 0, "kolo_free of NULL");
    expect_status(rank, kolo_free(NULL, buffer), KOLO_ERR_ARG, "kolo_free without a communicator");
    expect_status(rank, kolo_barrier(rank->comm), 0, "kolo_barrier after errors");
    expect_status(rank, kolo_free(rank->comm, buffer), 0, "kolo_free");
    expect_status(rank, kolo_free(rank->comm, buffer), KOLO_ERR_ARG, "kolo_free twice");
}

/* One rank asks for other bytes, or frees another buffer, than the rest. A slow rank may hear of it while it is still
 * in a call before. */
static void run_mismatch(struct rank *rank) {
    const bool frees = rank->team->argument != NULL, odd = rank->rank == 1;
    void *first, *second;
    int status = kolo_alloc(rank->comm, odd && !frees ? 5000 : 4000, &first);
    if (frees && status == 0)
        status = kolo_alloc(rank->comm, 4000, &second);
    if (frees && status == 0)
        status = kolo_free(rank->comm, odd ? second : first);
    if (frees && status == 0)
        status = kolo_barrier(rank->comm);
    expect_status(rank, status, KOLO_ERR_MISMATCH, frees ? "freeing different buffers" : "allocating different bytes");
    expect_message(rank, "mismatch", "disagree", frees ? "calls" : "alloc of 4000 bytes",
                   frees ? NULL : "alloc of 5000 bytes", NULL);
}

/* A child of fork has the buffers, but not the right to use them; the parent's stay. */
static void run_forked(struct rank *rank) {
    unsigned char *buffer;
    void *more;
    if (!expect_status(rank, kolo_alloc(rank->comm, 10000, (void **)&buffer), 0, "kolo_alloc"))
        return;
    memset(buffer, 7, 10000);
    const pid_t child = fork();
    if (child == 0) {
        const bool refused =
            kolo_free(rank->comm, buffer) == KOLO_ERR_STATE && kolo_alloc(rank->comm, 10, &more) == KOLO_ERR_STATE;
        kolo_comm_destroy(rank->comm);
        _exit(refused ? 0 : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    expect(rank, WIFEXITED(status) && WEXITSTATUS(status) == 0, "the forked child could use the communicator");
    expect(rank, buffer[0] == 7 && buffer[9999] == 7, "the forked child took the parent's buffer away");
    expect_status(rank, kolo_barrier(rank->comm), 0, "kolo_barrier");
}

static void run_teams(int ranks) {
    static void (*const runs[])(struct rank *) = {run_reductions, run_any_order, run_bad_arguments,
                                                  run_mismatch,   run_mismatch,  run_forked};
    static const char frees;
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        const bool needs_peers = runs[i] == run_mismatch, needs_processes = runs[i] == run_forked;
        if ((needs_peers && ranks == 1) || (needs_processes && arguments.threads))
            continue;
        harness_run(&(struct team){
            .ranks = ranks, .by_descriptor = ranks % 2, .run = runs[i], .argument = i == 4 ? &frees : NULL});
    }
}

int main(int argc, char **argv) {
    static const int counts[] = {1, 2, 3, 4, 7, 16};
    harness_begin(argc, argv, "Checks buffers of kolo_alloc and what is reduced in them.");
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        if (wants_ranks(counts[i]))
            run_teams(counts[i]);
    return harness_end();
}
