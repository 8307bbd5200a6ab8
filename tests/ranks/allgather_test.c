/* All-gather gives every rank the blocks of all ranks in their order, whatever the size and dtype, in place and out of
 * place, at any alignment, also with other collectives in between. */
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "oracle.h"

enum { SLOT_BYTES = 4096, GUARD_BYTES = 32, GUARD = 0x5a };

struct gather {
    uint32_t index;
    kolo_dtype dtype;
    size_t count;
    bool in_place;
};

static bool check(const struct rank *rank, const struct gather *call, const unsigned char *memory, size_t offset) {
    const size_t bytes = call->count * kolo_dtype_bytes(call->dtype), all = bytes * (size_t)rank->ranks;
    unsigned char *block = malloc(bytes + 1);
    bool right = true;
    for (int peer = 0; right && peer < rank->ranks; peer++) {
        input_fill(INPUT_BITS, call->dtype, KOLO_SUM, block, call->count, random_seed(call->index, (uint64_t)peer));
        const size_t at = first_difference(memory + offset + (size_t)peer * bytes, block, bytes);
        right =
            expect(rank, at == bytes, "case %u: %zu %s%s: byte %zu of the block of rank %d is wrong", call->index,
                   call->count, kolo_name(KOLO_NAME_DTYPE, call->dtype), call->in_place ? " in place" : "", at, peer);
    }
    bool intact = true;
    for (size_t i = 0; i < 2 * GUARD_BYTES; i++)
        intact = intact && memory[i < offset ? i : i + all] == GUARD;
    right = expect(rank, intact, "case %u: written beside the buffer", call->index) && right;
    free(block);
    return right;
}

static bool allgather_once(const struct rank *rank, const struct gather *call) {
    const size_t bytes = call->count * kolo_dtype_bytes(call->dtype), offset = call->index % 17;
    const size_t all = bytes * (size_t)rank->ranks;
    unsigned char *memory = malloc(all + 2 * GUARD_BYTES), *own = malloc(bytes + GUARD_BYTES);
    unsigned char *recv = memory + offset;
    unsigned char *send = call->in_place ? recv + (size_t)rank->rank * bytes : own + call->index % 5;
    memset(memory, GUARD, all + 2 * GUARD_BYTES);
    input_fill(INPUT_BITS, call->dtype, KOLO_SUM, send, call->count, random_seed(call->index, (uint64_t)rank->rank));
    const int status = kolo_allgather(rank->comm, send, recv, call->count, call->dtype);
    const bool right = expect_status(rank, status, 0, "kolo_allgather") && check(rank, call, memory, offset);
    free(memory);
    free(own);
    return right;
}

static void run_sizes(struct rank *rank) {
    static const size_t counts[] = {0, 1, 6, 7, 55, 56, 440, 441, 511, 512, 513, 4096, 5000, 20000};
    const size_t large = rank->ranks > 9 ? 2 : 0; /* of many ranks there are many blocks to check */
    const kolo_dtype stride = arguments.quick ? 5 : rank->ranks > 4 ? 3 : 1;
    uint32_t index = 0;
    for (kolo_dtype dtype = (kolo_dtype)rank->ranks % stride; dtype < KOLO_DTYPES; dtype += stride)
        for (size_t i = 0; i + large < sizeof counts / sizeof *counts; i++)
            for (int in_place = 0; in_place < 2; in_place++)
                if (!allgather_once(rank, &(struct gather){index++, dtype, counts[i], in_place}))
                    return;
}

/* Random calls, the same on all ranks, of which some come late now and then. */
static void run_mixed(struct rank *rank) {
    uint64_t random = random_seed(1, (uint64_t)rank->ranks), delays = random_seed(2, (uint64_t)rank->rank);
    for (uint32_t index = 0; index < (arguments.quick ? 30 : 200); index++) {
        const uint64_t draw = random_next(&random);
        const size_t count = (draw >> 8) % 4 ? (draw >> 16) % 100 : (draw >> 16) % 8000;
        uint32_t sum = 0, ranks = (uint32_t)rank->ranks, data[40] = {1};
        bool right = true;
        if (random_below(&delays, 100) == 0)
            sleep_ms((int64_t)random_below(&delays, 4));
        switch (draw % 8) {
        case 0:
            right = expect_status(rank, kolo_barrier(rank->comm), 0, "kolo_barrier");
            break;
        case 1:
            right = expect_status(rank, kolo_allreduce(rank->comm, data, data, 40, KOLO_U32, KOLO_SUM), 0,
                                  "kolo_allreduce") &&
                    expect(rank, data[0] == ranks, "case %u: the all-reduce's sum is %u", index, data[0]);
            break;
        case 2:
            sum = index;
            right = expect_status(rank, kolo_broadcast(rank->comm, &sum, 1, KOLO_U32, (int)(index % ranks)), 0,
                                  "kolo_broadcast");
            break;
        default:
            right = allgather_once(
                rank, &(struct gather){index, (kolo_dtype)((draw >> 32) % KOLO_DTYPES), count, draw >> 40 & 1});
        }
        if (!right)
            return;
    }
}

int main(int argc, char **argv) {
    static const int counts[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 33};
    harness_begin(argc, argv, "Checks all-gathers, alone and mixed with other collectives.");
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        for (int algorithm = 0; algorithm < KOLO_ALGORITHMS; algorithm++) {
            struct team team = {.ranks = counts[i], .algorithm = (kolo_algorithm)algorithm, .slot_bytes = SLOT_BYTES};
            if (!wants_ranks(counts[i]) || !wants_algorithm((kolo_algorithm)algorithm))
                continue;
            team.run = run_sizes;
            if (algorithm == KOLO_ALGORITHM_AUTO)
                harness_run(&team);
            team.run = run_mixed;
            if (algorithm == KOLO_ALGORITHM_AUTO || counts[i] <= 4)
                harness_run(&team);
        }
    return harness_end();
}
