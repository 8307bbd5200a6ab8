/* The promise of the same bits: for the same inputs the result is the same whatever the algorithm (but for the ring's
 * order), the slot size, the kernels, the alignment, in place or not, and whatever floating-point environment a rank
 * has set; which that rank finds again afterwards. */
#include <fenv.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "harness.h"
#include "oracle.h"

/* Ways of making one and the same call. */
enum way { WAY_PLAIN, WAY_IN_PLACE, WAY_UNALIGNED, WAY_FLUSHING, WAY_ROUNDING_UP, WAYS };

static const char *const way_names[WAYS] = {"plain", "in place", "unaligned", "flushing subnormals", "rounding up"};

/* What the ranks of a team share. */
struct setting {
    kolo_algorithm algorithm;
    size_t slot_bytes;
    const char *cpu; /* KOLO_CPU; NULL: another one on each rank */
};

static const struct setting settings[] = {
    {KOLO_ALGORITHM_ONESHOT, 4096, "portable"},
    {KOLO_ALGORITHM_ONESHOT, 0, "avx2,neon"},
    {KOLO_ALGORITHM_MESH, 4096, "avx512bf16,avx512,avx2,neon"},
    {KOLO_ALGORITHM_MESH, 12288, "portable"},
    {KOLO_ALGORITHM_CENTRAL, 8192, "avx2,neon"},
    {KOLO_ALGORITHM_CENTRAL, 0, "avx512,avx2,neon"},
    {KOLO_ALGORITHM_AUTO, 4096, "avx2"},
    {KOLO_ALGORITHM_AUTO, 0, ""},
    {KOLO_ALGORITHM_MESH, 8192, NULL},
    {KOLO_ALGORITHM_ONESHOT, 4096, NULL},
};

enum { SETTINGS = sizeof settings / sizeof *settings, CASES = 5 * 5 * 3, QUICK_STEP = 7 };

static uint32_t set_environment(enum way way) {
    uint32_t control = 0;
    if (way == WAY_ROUNDING_UP)
        fesetround(FE_UPWARD);
#if defined(__x86_64__)
    if (way == WAY_FLUSHING)
        _mm_setcsr(_mm_getcsr() | 0x8040); /* flush results to zero, take subnormal operands for zero */
    control = _mm_getcsr() & ~UINT32_C(0x3f);
#endif
    return control;
}

static void reset_environment(const struct rank *rank, enum way way, uint32_t control) {
    expect(rank, way != WAY_ROUNDING_UP || fegetround() == FE_UPWARD, "the rounding mode was changed");
#if defined(__x86_64__)
    expect(rank, (_mm_getcsr() & ~UINT32_C(0x3f)) == control, "MXCSR was changed");
    _mm_setcsr(0x1f80);
#else
    (void)control;
#endif
    fesetround(FE_TONEAREST);
}

static int run_way(const struct rank *rank, enum way way, kolo_dtype dtype, kolo_op op, size_t count, uint64_t seed,
                   uint64_t *result) {
    const size_t bytes = count * kolo_dtype_bytes(dtype), offset = way == WAY_UNALIGNED ? 1 + seed % 63 : 0;
    unsigned char *send = aligned_alloc(64, (bytes / 64 + 2) * 64), *recv = aligned_alloc(64, (bytes / 64 + 2) * 64);
    if (!send || !recv)
        abort();
    unsigned char *from = send + offset, *to = way == WAY_IN_PLACE ? from : recv + 63 - offset;
    input_fill(seed % 3 ? INPUT_BITS : INPUT_SPECIAL, dtype, op, from, count, seed);
    const enum way environment = rank->rank % 2 ? way : WAY_PLAIN; /* ranks may differ in it */
    const uint32_t control = set_environment(environment);
    const int status = kolo_allreduce(rank->comm, from, to, count, dtype, op);
    reset_environment(rank, environment, control);
    *result = hash_bytes(to, bytes);
    free(send);
    free(recv);
    return status;
}

static void run_ways(const struct rank *rank, uint32_t index, kolo_dtype dtype, kolo_op op, size_t count) {
    const uint64_t seed = random_seed(index, (uint64_t)rank->rank);
    uint64_t plain = 0, result;
    for (int way = 0; way < WAYS; way++) {
        if (!expect_status(rank, run_way(rank, (enum way)way, dtype, op, count, seed, &result), 0, "kolo_allreduce"))
            return;
        if (way == WAY_PLAIN)
            plain = result;
        expect(rank, result == plain, "case %u, %zu %s, %s: other bits when %s", index, count,
               kolo_name(KOLO_NAME_DTYPE, dtype), kolo_name(KOLO_NAME_OP, op), way_names[way]);
    }
    record_result(rank, index, plain);
}

static void run_cases(struct rank *rank) {
    static const kolo_dtype dtypes[] = {KOLO_F16, KOLO_BF16, KOLO_F32, KOLO_F64, KOLO_I16};
    static const size_t counts[] = {3, 700, 9000};
    const uint32_t step = arguments.quick ? QUICK_STEP : 1;
    const struct setting *setting = rank->team->argument;
    static const char *const masks[] = {"portable", "avx2,neon", ""};
    if (!arguments.threads)
        setenv("KOLO_CPU", setting->cpu ? setting->cpu : masks[rank->rank % 3], 1);
    if (!expect_status(rank, kolo_comm_create(&rank->comm, &rank->options), 0, "kolo_comm_create"))
        return;
    for (uint32_t i = 0; i < CASES; i += step)
        run_ways(rank, i / step, dtypes[i % 5], (kolo_op)(i / 5 % 5), counts[i / 25]);
    kolo_comm_destroy(rank->comm);
}

static void run_settings(int ranks) {
    uint64_t first[CASES] = {0};
    for (int i = 0; i < SETTINGS; i++) {
        const struct setting *setting = &settings[i];
        if (arguments.threads) /* one environment for all ranks */
            setenv("KOLO_CPU", setting->cpu ? setting->cpu : "", 1);
        harness_run(&(struct team){.ranks = ranks,
                                   .algorithm = setting->algorithm,
                                   .slot_bytes = setting->slot_bytes,
                                   .creates_itself = true,
                                   .run = run_cases,
                                   .argument = setting});
        for (uint32_t j = 0; j < (arguments.quick ? (CASES + QUICK_STEP - 1) / QUICK_STEP : CASES); j++) {
            if (i == 0)
                first[j] = recorded_result(j);
            expect(NULL, recorded_result(j) == first[j],
                   "%d ranks, case %u: other bits with %s, slots of %zu, KOLO_CPU %s", ranks, j,
                   kolo_name(KOLO_NAME_ALGORITHM, setting->algorithm), setting->slot_bytes,
                   setting->cpu ? setting->cpu : "different on each rank");
        }
    }
}

int main(int argc, char **argv) {
    static const int counts[] = {2, 3, 7};
    harness_begin(argc, argv, "Compares the results of the same all-reduce made in different ways.");
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        if (wants_ranks(counts[i]))
            run_settings(counts[i]);
    return harness_end();
}
