/* Broadcast gives every rank the root's bytes, whatever the root, size and dtype, also when roots run ahead of the
 * others and other collectives come in between. No rank leaves a barrier before the last has entered it. */
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "oracle.h"

enum { SLOT_BYTES = 4096, GUARD_BYTES = 32, GUARD = 0x5a };

static bool broadcast_once(const struct rank *rank, uint32_t index, kolo_dtype dtype, size_t count, int root) {
    const size_t bytes = count * kolo_dtype_bytes(dtype), offset = index % 17;
    unsigned char *memory = malloc(bytes + 2 * GUARD_BYTES), *expected = malloc(bytes + 1);
    unsigned char *buffer = memory + offset;
    memset(memory, GUARD, bytes + 2 * GUARD_BYTES);
    input_fill(INPUT_BITS, dtype, KOLO_SUM, expected, count, random_seed(index, (uint64_t)root));
    if (rank->rank == root)
        memcpy(buffer, expected, bytes);
    int status = kolo_broadcast(rank->comm, buffer, count, dtype, root);
    bool right = expect_status(rank, status, 0, "kolo_broadcast") &&
                 expect(rank, memcmp(buffer, expected, bytes) == 0, "case %u: %zu %s from root %d: wrong data", index,
                        count, kolo_name(KOLO_NAME_DTYPE, dtype), root);
    for (size_t i = 0; right && i < bytes + 2 * GUARD_BYTES; i++)
        right = expect(rank, memory[i] == GUARD || (i >= offset && i < offset + bytes),
                       "case %u: written beside the buffer", index);
    free(memory);
    free(expected);
    return right;
}

static void run_sizes(struct rank *rank) {
    static const size_t counts[] = {0, 1, 7, 511, 512, 513, 5000};
    uint32_t index = 0;
    for (int root = 0; root < rank->ranks; root++)
        for (kolo_dtype dtype = root % 3; dtype < KOLO_DTYPES; dtype += 3)
            for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
                if (!broadcast_once(rank, index++, dtype, counts[i], root))
                    return;
}

static bool allreduce_once(const struct rank *rank, uint32_t index, size_t count) {
    uint32_t *data = malloc((count + 1) * sizeof *data);
    const uint32_t expected = (uint32_t)(rank->ranks * (rank->ranks - 1) / 2) + (uint32_t)rank->ranks * index;
    for (size_t i = 0; i < count; i++)
        data[i] = (uint32_t)rank->rank + index;
    int status = kolo_allreduce(rank->comm, data, data, count, KOLO_U32, KOLO_SUM);
    bool right = expect_status(rank, status, 0, "kolo_allreduce");
    for (size_t i = 0; right && i < count; i++)
        right = expect(rank, data[i] == expected, "case %u: all-reduce: element %zu is wrong", index, i);
    free(data);
    return right;
}

/* Random calls, the same on all ranks, of which some come late now and then. */
static void run_mixed(struct rank *rank) {
    uint64_t random = random_seed(1, (uint64_t)rank->ranks), delays = random_seed(2, (uint64_t)rank->rank);
    for (uint32_t index = 0; index < (arguments.quick ? 60 : 600); index++) {
        const uint64_t draw = random_next(&random), kind = draw % 8;
        const size_t count = (draw >> 8) % 4 ? (draw >> 16) % 100 : (draw >> 16) % 8000;
        const int root = (int)((draw >> 40) % (uint64_t)rank->ranks);
        bool right = true;
        if (random_below(&delays, 100) == 0)
            sleep_ms((int64_t)random_below(&delays, 4));
        if (kind < 5)
            right = broadcast_once(rank, index, (kolo_dtype)(draw >> 32 & 7), count, root);
        else if (kind < 7)
            right = allreduce_once(rank, index, count);
        else
            right = expect_status(rank, kolo_barrier(rank->comm), 0, "kolo_barrier");
        if (!right)
            return;
    }
}

static void run_barriers(struct rank *rank) {
    uint64_t delays = random_seed(3, (uint64_t)rank->rank);
    const uint64_t ranks = (uint64_t)rank->ranks;
    for (uint64_t round = 1; round <= (arguments.quick ? 50 : 500); round++) {
        if (random_below(&delays, 50) == 0)
            sleep_ms((int64_t)random_below(&delays, 3));
        counter_add(1);
        if (!expect_status(rank, kolo_barrier(rank->comm), 0, "kolo_barrier") ||
            !expect(rank, counter_add(0) >= round * ranks, "left barrier %llu before all had come",
                    (unsigned long long)round))
            return;
    }
}

int main(int argc, char **argv) {
    static const int counts[] = {1, 2, 3, 4, 7, 16};
    static void (*const runs[])(struct rank *) = {run_sizes, run_mixed, run_barriers};
    harness_begin(argc, argv, "Checks broadcasts and barriers, alone and mixed with all-reduces.");
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        for (int algorithm = 0; algorithm < KOLO_ALGORITHMS; algorithm++) {
            const size_t begin = algorithm == 0 ? 0 : 1, end = algorithm == 0 ? 3 : 2; /* only mixed ones have one */
            for (size_t run = begin; run < end; run++)
                if (wants_ranks(counts[i]) && wants_algorithm((kolo_algorithm)algorithm) &&
                    (counts[i] <= 4 || algorithm == 0))
                    harness_run(&(struct team){.ranks = counts[i],
                                               .algorithm = (kolo_algorithm)algorithm,
                                               .slot_bytes = SLOT_BYTES,
                                               .run = runs[run]});
        }
    return harness_end();
}
