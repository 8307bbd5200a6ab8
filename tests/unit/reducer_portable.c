/* The portable kernels against the oracle, which has nothing from the library, and that against results written out. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "oracle.h"
#include "reducer_support.h"

enum { COUNT = 5 };

static test_arguments arguments;
static const kolo_reducer *portable;
static uint64_t inputs[KOLO_RANKS_MAX][COUNT]; /* COUNT elements of any dtype each */
static const void *sources[KOLO_RANKS_MAX];

static void fail_element(kolo_dtype dtype, kolo_op op, uint32_t n, uint32_t ranks, size_t index, uint64_t found,
                         uint64_t due) {
    fail_msg("%s %s n=%u ranks=%u element %zu is %" PRIx64 ", should be %" PRIx64 "; --seed %" PRIu64,
             dtype_name(dtype), op_name(op), n, ranks, index, found, due, arguments.seed);
}

/* Folds random inputs of each style and compares each element with the oracle's. */
static void check_fold(kolo_dtype dtype, kolo_op op, uint32_t n, uint64_t *state) {
    for (int style = 0; style < FILL_STYLES; style++) {
        uint32_t ranks = random_below(state, 2) ? n : 1 + (uint32_t)random_below(state, KOLO_RANKS_MAX);
        for (uint32_t i = 0; i < n; i++)
            fill(dtype, (fill_style)style, inputs[i], COUNT, state);
        uint64_t results[COUNT], due[COUNT];
        portable->kernels[dtype][op].fold(results, sources, n, COUNT, ranks);
        oracle_fold(dtype, op, sources, (int)n, (int)ranks, COUNT, due);
        for (size_t index = 0; index < COUNT; index++) {
            uint64_t found = bits_at(dtype, results, index), wanted = bits_at(dtype, due, index);
            if (found != wanted)
                fail_element(dtype, op, n, ranks, index, found, wanted);
        }
    }
}

static void check_all_n(kolo_dtype dtype, kolo_op op) {
    const uint32_t many[] = {63, 64, 65, 100, 127, 129, 511, 1000, 1023, KOLO_RANKS_MAX};
    uint64_t state = arguments.seed ^ (uint64_t)dtype << 8 ^ (uint64_t)op;
    for (uint32_t n = 2; n <= 40; n++)
        check_fold(dtype, op, n, &state);
    for (size_t i = 0; i < sizeof many / sizeof *many; i++)
        check_fold(dtype, op, many[i], &state);
}

static void test_integers(void **state) {
    (void)state;
    for (int dtype = 0; dtype < KOLO_DTYPES; dtype++) {
        for (int op = 0; op < KOLO_OPS && !dtype_is_float((kolo_dtype)dtype); op++)
            if (op_fits((kolo_op)op, (kolo_dtype)dtype))
                check_all_n((kolo_dtype)dtype, (kolo_op)op);
    }
}

static void test_floats(void **state) {
    (void)state;
    for (int dtype = 0; dtype < KOLO_DTYPES; dtype++) {
        for (int op = 0; op < KOLO_OPS && dtype_is_float((kolo_dtype)dtype); op++)
            if (op_fits((kolo_op)op, (kolo_dtype)dtype))
                check_all_n((kolo_dtype)dtype, (kolo_op)op);
    }
}

/* The inputs of test_floats tell the tree from another order: summed from left to right they often differ. */
static void test_inputs_show_the_order(void **state) {
    (void)state;
    const uint32_t ns[] = {4, 5, 6, 7, 8, 9, 16, 100};
    uint64_t random = arguments.seed;
    for (size_t k = 0; k < sizeof ns / sizeof *ns; k++) {
        uint32_t differing = 0;
        for (int trial = 0; trial < 100; trial++) {
            for (uint32_t i = 0; i < ns[k]; i++)
                fill(KOLO_F32, FILL_NUMBERS, inputs[i], COUNT, &random);
            uint64_t from_left = bits_at(KOLO_F32, inputs[0], 0), due = 0;
            for (uint32_t i = 1; i < ns[k]; i++)
                oracle_fold(KOLO_F32, KOLO_SUM, (const void *[]){&from_left, inputs[i]}, 2, 2, 1, &from_left);
            oracle_fold(KOLO_F32, KOLO_SUM, sources, (int)ns[k], (int)ns[k], 1, &due);
            differing += from_left != due;
        }
        if (differing < 10)
            fail_msg("of 100 sums of %u inputs only %u depend on the order; --seed %" PRIu64, ns[k], differing,
                     arguments.seed);
    }
}

/* A few results written out, by which kernels and oracle are held alike. */
static void test_known_results(void **state) {
    (void)state;
    const struct {
        kolo_dtype dtype;
        kolo_op op;
        uint64_t a, b, due;
    } known[] = {
        {KOLO_I8, KOLO_SUM, 0x7f, 0x01, 0x80},                    /* 127 + 1 wraps to -128 */
        {KOLO_U16, KOLO_PROD, 0xffff, 0xffff, 0x0001},            /* and not by way of int, where it would overflow */
        {KOLO_I32, KOLO_AVG, 0xfffffffc, 0xffffffff, 0xfffffffe}, /* -5 / 2 is -2: toward zero */
        {KOLO_I64, KOLO_AVG, UINT64_C(1) << 63, 0, UINT64_C(3) << 62},
        {KOLO_F32, KOLO_SUM, 0x3f800000, 0x33800000, 0x3f800000}, /* 1 + 2^-24: a tie, to even */
        {KOLO_F32, KOLO_SUM, 0x7f800000, 0xff800000, 0x7fc00000}, /* inf - inf: x86 would give 0xffc00000 */
        {KOLO_F32, KOLO_MIN, 0x00000000, 0x80000000, 0x80000000}, /* -0 is below +0 */
        {KOLO_F32, KOLO_MAX, 0x80000000, 0x00000000, 0x00000000},
        {KOLO_F32, KOLO_MAX, 0x3f800000, 0xff812345, 0x7fc00000}, /* a NaN wins, and loses sign and payload */
        {KOLO_F16, KOLO_SUM, 0x7bff, 0x4c00, 0x7c00},             /* 65504 + 16: a tie, to infinity */
        {KOLO_F16, KOLO_SUM, 0x7bff, 0x4bff, 0x7bff},             /* and just below it */
        {KOLO_F16, KOLO_PROD, 0x0001, 0x3800, 0x0000},            /* half the least subnormal: a tie, to zero */
        {KOLO_F16, KOLO_PROD, 0x0003, 0x3800, 0x0002},            /* one and a half of it: a tie, to two */
        {KOLO_BF16, KOLO_SUM, 0x3f80, 0x3b80, 0x3f80},            /* 1 + 2^-8: a tie, to even */
        {KOLO_BF16, KOLO_PROD, 0x0080, 0x3f00, 0x0040},           /* a subnormal is kept */
        {KOLO_F64, KOLO_MIN, UINT64_C(0x7ff0000000000001), 0, UINT64_C(0x7ff8000000000000)},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        const void *const pair[] = {&known[i].a, &known[i].b};
        uint64_t result = 0, due = 0;
        portable->kernels[known[i].dtype][known[i].op].fold(&result, pair, 2, 1, 2);
        oracle_fold(known[i].dtype, known[i].op, pair, 2, 2, 1, &due);
        if (result != known[i].due)
            fail_element(known[i].dtype, known[i].op, 2, 2, i, result, known[i].due);
        if (due != known[i].due)
            fail_msg("the oracle says %" PRIx64 " of known result %zu", due, i);
    }
}

int main(int argc, char **argv) {
    arguments = test_arguments_read(argc, argv);
    portable = kolo_reducer_select(0);
    for (int i = 0; i < KOLO_RANKS_MAX; i++)
        sources[i] = inputs[i];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_results),
        cmocka_unit_test(test_integers),
        cmocka_unit_test(test_inputs_show_the_order),
        cmocka_unit_test(test_floats),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
