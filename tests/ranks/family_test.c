/* Every collective that moves or reduces blocks agrees, bit by bit, with a sequential reference: each dtype, op, root,
 * rank count, in place and out of place, at any alignment, with counts that end in the middle of a line, a chunk or a
 * piece, of equal and of unequal blocks, alone and mixed. Nothing is written beside what a rank receives. */
#include <stdlib.h>

#include "oracle.h"
#include "reference.h"

enum { SLOT_BYTES = 4096 };

static bool run_call(const struct rank *rank, const struct call *call) {
    struct prepared prepared;
    call_prepare(&prepared, call, rank->comm);
    return call_check(rank, &prepared, call_make(&prepared, rank->comm));
}

/* One case in so many is run: those of many ranks take long, as each rank computes what all of them send. */
static uint32_t stride(const struct rank *rank) {
    const uint32_t thinned = arguments.quick ? 5 : 1;
    return rank->ranks > 9 ? 23 * thinned : rank->ranks > 4 ? 7 * thinned : thinned;
}

/* Every dtype and op; counts by turns. */
static void run_dtypes(struct rank *rank) {
    static const size_t counts[] = {1, 7, 55, 0, 300, 2, 56, 1025};
    uint32_t index = 0;
    for (int kind = 0; kind < COLLECTIVES; kind++)
        for (kolo_dtype dtype = 0; dtype < KOLO_DTYPES; dtype++)
            for (kolo_op op = 0; op < (collective_shapes[kind].reduces ? KOLO_OPS : 1); op++) {
                index++;
                if (!kolo_op_supports(op, dtype) || index % stride(rank))
                    continue;
                const struct call call = {index,
                                          &collective_shapes[kind],
                                          dtype,
                                          op,
                                          (int)(index % (uint32_t)rank->ranks),
                                          counts[index % 8],
                                          index % 3 == 0 && works_in_place(&collective_shapes[kind]),
                                          NULL,
                                          NULL,
                                          0};
                if (!run_call(rank, &call))
                    return;
            }
}

/* Every root, in place and out of place, and sizes from nothing to many chunks. */
static void run_sizes(struct rank *rank) {
    static const size_t counts[] = {0, 1, 6, 48, 49, 110, 111, 512, 1000, 1023, 4100, 9001};
    const size_t large = rank->ranks > 9 ? 3 : 0; /* of many ranks there are many blocks to check */
    uint32_t index = 0;
    for (int kind = 0; kind < COLLECTIVES; kind++)
        for (size_t i = 0; i + large < sizeof counts / sizeof *counts; i++)
            for (int root = 0; root < (collective_shapes[kind].has_root ? rank->ranks : 1); root++)
                for (int in_place = 0; in_place <= works_in_place(&collective_shapes[kind]); in_place++) {
                    index++;
                    if (index % stride(rank))
                        continue;
                    const struct call call = {index,
                                              &collective_shapes[kind],
                                              index % 4 ? KOLO_F32 : KOLO_I64,
                                              KOLO_SUM,
                                              root,
                                              counts[i],
                                              in_place,
                                              NULL,
                                              NULL,
                                              0};
                    if (!run_call(rank, &call))
                        return;
                }
}

/* Random calls one after another, the same on all ranks, of which some come late now and then. */
static void run_mixed(struct rank *rank) {
    uint64_t random = random_seed(1, (uint64_t)rank->ranks), delays = random_seed(2, (uint64_t)rank->rank);
    unsigned char *shared[2] = {NULL, NULL};
    for (int i = 0; i < 2; i++)
        if (!expect_status(rank, kolo_alloc(rank->comm, SHARED_BYTES, (void **)&shared[i]), 0, "kolo_alloc"))
            return;
    for (uint32_t index = 0; index < (arguments.quick || rank->ranks > 9 ? 60u : 400u); index++) {
        const uint64_t draw = random_next(&random);
        const collective_shape *kind = &collective_shapes[draw % COLLECTIVES];
        struct call call = {index,
                            kind,
                            (kolo_dtype)((draw >> 8) % KOLO_DTYPES),
                            (kolo_op)((draw >> 16) % KOLO_AVG),
                            (int)((draw >> 24) % (uint64_t)rank->ranks),
                            draw >> 40 & 3 ? (draw >> 44) % 120 : (draw >> 44) % 3000,
                            (draw >> 42 & 1) && works_in_place(kind),
                            NULL,
                            NULL,
                            0};
        const uint64_t users = draw >> 60; /* of buffers of kolo_alloc: most often all, else every other rank */
        if (users > 5 || (users > 2 && rank->rank % 2))
            call.shared = shared;
        const bool in_ring_order = rank->team->algorithm == KOLO_ALGORITHM_RING && kind->collective == KOLO_ALLREDUCE;
        if (in_ring_order && order_matters(call.dtype, call.op))
            continue;
        if (random_below(&delays, 100) == 0)
            sleep_ms((int64_t)random_below(&delays, 3));
        if (!run_call(rank, &call))
            return;
    }
}

/* Scatter, allgather and all-to-all out of the other ranks' memory, at every size. */
static void run_single_copies(int ranks) {
    static void (*const parts[])(struct rank *) = {run_sizes, run_mixed};
    setenv("KOLO_SINGLE_COPY", "1", 1);
    for (size_t part = 0; part < sizeof parts / sizeof *parts; part++)
        harness_run(&(struct team){.ranks = ranks, .slot_bytes = SLOT_BYTES, .run = parts[part]});
    unsetenv("KOLO_SINGLE_COPY");
}

int main(int argc, char **argv) {
    static const int counts[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 33};
    static void (*const parts[])(struct rank *) = {run_dtypes, run_sizes, run_mixed};
    harness_begin(argc, argv, "Checks every collective against a sequential reference.");
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        for (int algorithm = 0; algorithm < KOLO_ALGORITHMS; algorithm++)
            for (size_t part = 0; part < 3; part++) {
                const struct team team = {.ranks = counts[i],
                                          .algorithm = (kolo_algorithm)algorithm,
                                          .slot_bytes = SLOT_BYTES,
                                          .run = parts[part]};
                const bool forced = algorithm != KOLO_ALGORITHM_AUTO;
                if (!wants_ranks(counts[i]) || !wants_algorithm((kolo_algorithm)algorithm) ||
                    (forced && (part != 2 || counts[i] > 4)))
                    continue;
                harness_run(&team);
            }
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        if (counts[i] <= 8 && wants_ranks(counts[i]) && wants_algorithm(KOLO_ALGORITHM_AUTO))
            run_single_copies(counts[i]);
    return harness_end();
}
