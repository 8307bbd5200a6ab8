/* The tree gives the bits of oneshot, whatever its levels: rank counts that fill the groups and that do not, messages
 * for lines, for one slot and for many, and other collectives between. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "oracle.h"

enum { MIB = 1 << 20, SLOT_BYTES = 64 << 10 };

/* How the ranks of a team make the calls. */
struct setting {
    kolo_algorithm algorithm;
    const char *variable; /* KOLO_ALGO, of which the levels count */
    size_t slot_bytes;
};

static const kolo_dtype dtypes[] = {KOLO_F32, KOLO_BF16, KOLO_I8, KOLO_I64, KOLO_F64, KOLO_F16};
static const kolo_op ops[] = {KOLO_SUM, KOLO_AVG, KOLO_MAX};
static const size_t sizes_bytes[] = {0, 8, 48, 104, 216, 440, 4096, (64 << 10) + 40, MIB + 24};

enum {
    DTYPES = sizeof dtypes / sizeof *dtypes,
    OPS = sizeof ops / sizeof *ops,
    SIZES = sizeof sizes_bytes / sizeof *sizes_bytes,
    CASES = SIZES * DTYPES * OPS,
    LARGE_BYTES = 32 << 10
};

/* Calls between, so that slots, steps and lines are handed from one algorithm to the next. */
static bool call_others(const struct rank *rank, uint32_t index) {
    uint32_t value = index;
    int status = 0;
    if (index % 3 == 0)
        status = kolo_barrier(rank->comm);
    if (status == 0 && index % 4 == 0)
        status = kolo_broadcast(rank->comm, &value, 1, KOLO_U32, (int)index % rank->ranks);
    return expect_status(rank, status, 0, "a collective between") &&
           expect(rank, value == index, "case %u: broadcast gave %u", index, value);
}

static bool run_case(const struct rank *rank, uint32_t index, uint32_t *results, kolo_dtype dtype, kolo_op op,
                     size_t bytes) {
    const size_t count = bytes / kolo_dtype_bytes(dtype);
    const uint64_t seed = random_seed(index, (uint64_t)rank->rank);
    const bool in_place = index % 2;
    unsigned char *send = malloc(bytes + 1), *recv = in_place ? send : malloc(bytes + 1);
    if (!send || !recv)
        abort();
    input_fill(index % 5 ? INPUT_BITS : INPUT_SPECIAL, dtype, op, send, count, seed);
    const int status = kolo_allreduce(rank->comm, send, recv, count, dtype, op);
    const bool ok = expect_status(rank, status, 0, "kolo_allreduce");
    if (ok)
        record_result(rank, (*results)++, hash_bytes(recv, count * kolo_dtype_bytes(dtype)));
    if (!in_place)
        free(recv);
    free(send);
    return ok && call_others(rank, index);
}

/* Few of the large cases and more of the small ones, other ones for another number of ranks. */
static bool wants_case(int ranks, uint32_t index, size_t bytes) {
    const bool many = ranks > 8;
    const uint32_t step = bytes >= LARGE_BYTES ? (many ? 17 : 13) : many ? 7 : 5;
    return (index + (uint32_t)ranks) % (arguments.quick ? 7 * step : step) == 0;
}

static void run_cases(struct rank *rank) {
    uint32_t index = 0, results = 0;
    for (size_t size = 0; size < SIZES; size++)
        for (size_t dtype = 0; dtype < DTYPES; dtype++)
            for (size_t op = 0; op < OPS; op++, index++)
                if (wants_case(rank->ranks, index, sizes_bytes[size]) &&
                    !run_case(rank, index, &results, dtypes[dtype], ops[op], sizes_bytes[size]))
                    return;
    kolo_stats stats = {.stats_bytes = sizeof stats};
    kolo_comm_stats(rank->comm, &stats);
    expect(rank, stats.calls_by_algorithm[rank->team->algorithm] > 0, "%s never ran",
           kolo_name(KOLO_NAME_ALGORITHM, rank->team->algorithm));
}

static void run_settings(int ranks) {
    static const struct setting settings[] = {
        {KOLO_ALGORITHM_ONESHOT, "tree:none", SLOT_BYTES}, {KOLO_ALGORITHM_TREE, "tree:none", SLOT_BYTES},
        {KOLO_ALGORITHM_TREE, "tree:2", SLOT_BYTES},       {KOLO_ALGORITHM_TREE, "auto:4", SLOT_BYTES},
        {KOLO_ALGORITHM_TREE, "tree:8", SLOT_BYTES},       {KOLO_ALGORITHM_TREE, "auto:2:8", SLOT_BYTES},
        {KOLO_ALGORITHM_TREE, "tree:4:8", 4 * SLOT_BYTES}, {KOLO_ALGORITHM_TREE, "auto:2:4", SLOT_BYTES},
        {KOLO_ALGORITHM_TREE, "tree:2:4:8", SLOT_BYTES},   {KOLO_ALGORITHM_TREE, "auto:2:4:8:16", SLOT_BYTES},
        {KOLO_ALGORITHM_TREE, "tree:4:16", 4096},          {KOLO_ALGORITHM_TREE, "", SLOT_BYTES},
    };
    uint64_t first[CASES] = {0};
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        const struct setting *setting = &settings[i];
        const char *levels = strchr(setting->variable, ':');
        if (levels && atoi(levels + 1) >= ranks) /* no level at all, as in the second setting */
            continue;
        setenv("KOLO_ALGO", setting->variable, 1);
        harness_run(&(struct team){
            .ranks = ranks, .algorithm = setting->algorithm, .slot_bytes = setting->slot_bytes, .run = run_cases});
        for (uint32_t index = 0; index < CASES; index++) {
            if (i == 0)
                first[index] = recorded_result(index);
            expect(NULL, recorded_result(index) == first[index],
                   "%d ranks, KOLO_ALGO=%s, result %u: other bits than oneshot", ranks, setting->variable, index);
        }
    }
}

int main(int argc, char **argv) {
    static const int counts[] = {2, 3, 4, 5, 7, 8, 12, 16, 17};
    harness_begin(argc, argv, "Compares the tree's results with those of oneshot, for many shapes of tree.");
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        if (wants_ranks(counts[i]))
            run_settings(counts[i]);
    return harness_end();
}
