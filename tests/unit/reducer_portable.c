/* The portable kernels against an independent account of what they should give: integers in 128-bit arithmetic, floats
 * by plain recursion over the tree in a wider type. */
#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

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

/* Folds random inputs of each style and compares each element with what `due` says of it. */
static void check_fold(kolo_dtype dtype, kolo_op op, uint32_t n, uint64_t *state,
                       uint64_t (*due)(kolo_dtype, kolo_op, uint32_t n, size_t index, uint32_t ranks)) {
    for (int style = 0; style < FILL_STYLES; style++) {
        uint32_t ranks = random_below(state, 2) ? n : 1 + (uint32_t)random_below(state, KOLO_RANKS_MAX);
        for (uint32_t i = 0; i < n; i++)
            fill(dtype, (fill_style)style, inputs[i], COUNT, state);
        uint64_t results[COUNT];
        portable->kernels[dtype][op].fold(results, sources, n, COUNT, ranks);
        for (size_t index = 0; index < COUNT; index++) {
            uint64_t found = bits_at(dtype, results, index), wanted = due(dtype, op, n, index, ranks);
            if (found != wanted)
                fail_element(dtype, op, n, ranks, index, found, wanted);
        }
    }
}

static void check_all_n(kolo_dtype dtype, kolo_op op,
                        uint64_t (*due)(kolo_dtype, kolo_op, uint32_t n, size_t index, uint32_t ranks)) {
    const uint32_t many[] = {63, 64, 65, 100, 127, 129, 511, 1000, 1023, KOLO_RANKS_MAX};
    uint64_t state = arguments.seed ^ (uint64_t)dtype << 8 ^ (uint64_t)op;
    for (uint32_t n = 2; n <= 40; n++)
        check_fold(dtype, op, n, &state, due);
    for (size_t i = 0; i < sizeof many / sizeof *many; i++)
        check_fold(dtype, op, many[i], &state, due);
}

/* Integers. */

static uint64_t wrapped(kolo_dtype dtype, unsigned __int128 value) {
    return (uint64_t)value & UINT64_MAX >> (64 - 8 * dtype_bytes(dtype));
}

static __int128 integer_value(kolo_dtype dtype, uint64_t bits) {
    unsigned width = 8 * (unsigned)dtype_bytes(dtype);
    bool is_negative = dtype_is_signed(dtype) && bits >> (width - 1) & 1;
    return is_negative ? (__int128)bits - ((__int128)1 << width) : (__int128)bits;
}

static __int128 integer_combine(kolo_op op, __int128 a, __int128 b) {
    switch (op) {
    case KOLO_PROD:
        return (__int128)((unsigned __int128)a * (unsigned __int128)b);
    case KOLO_MIN:
        return a < b ? a : b;
    case KOLO_MAX:
        return a > b ? a : b;
    case KOLO_BAND:
        return a & b;
    case KOLO_BOR:
        return a | b;
    case KOLO_BXOR:
        return a ^ b;
    default:
        return a + b;
    }
}

/* A sum of KOLO_RANKS_MAX values fits 128 bits and is wrapped at the end; a product is wrapped at each step. */
static uint64_t integer_due(kolo_dtype dtype, kolo_op op, uint32_t n, size_t index, uint32_t ranks) {
    __int128 value = integer_value(dtype, bits_at(dtype, inputs[0], index));
    for (uint32_t i = 1; i < n; i++) {
        value = integer_combine(op, value, integer_value(dtype, bits_at(dtype, inputs[i], index)));
        if (op == KOLO_PROD)
            value = integer_value(dtype, wrapped(dtype, (unsigned __int128)value));
    }
    uint64_t bits = wrapped(dtype, (unsigned __int128)value);
    if (op != KOLO_AVG)
        return bits;
    return wrapped(dtype, (unsigned __int128)(integer_value(dtype, bits) / (__int128)ranks));
}

static void test_integers(void **state) {
    (void)state;
    for (int dtype = 0; dtype < KOLO_DTYPES; dtype++) {
        for (int op = 0; op < KOLO_OPS && !dtype_is_float((kolo_dtype)dtype); op++)
            check_all_n((kolo_dtype)dtype, (kolo_op)op, integer_due);
    }
}

/* Floats. */

/* The value of a number; NaN for a NaN. */
static double float_value(kolo_dtype dtype, uint64_t bits) {
    float_format format = format_of(dtype);
    uint64_t fraction_mask = (UINT64_C(1) << format.fraction_bits) - 1;
    int exponent = (int)(bits >> format.fraction_bits & (2 * (uint64_t)format.bias + 1));
    double fraction = (double)(bits & fraction_mask), one = (double)(fraction_mask + 1);
    double sign = bits >> (format.bits - 1) & 1 ? -1 : 1;
    if (exponent == 2 * format.bias + 1)
        return fraction != 0 ? NAN : sign * INFINITY;
    double magnitude = exponent == 0 ? ldexp(fraction, 1 - format.bias - (int)format.fraction_bits)
                                     : ldexp(one + fraction, exponent - format.bias - (int)format.fraction_bits);
    return sign * magnitude;
}

/* The element nearest to a value, ties to even. nearbyint does the rounding, in units of the element's last place. */
static uint64_t float_bits(kolo_dtype dtype, double value) {
    float_format format = format_of(dtype);
    if (isnan(value))
        return format.canonical_nan;
    uint64_t infinity = (2 * (uint64_t)format.bias + 1) << format.fraction_bits;
    uint64_t sign = signbit(value) ? UINT64_C(1) << (format.bits - 1) : 0;
    if (isinf(value) || value == 0)
        return sign | (value == 0 ? 0 : infinity);
    int exponent;
    frexp(value, &exponent); /* the value is 0.5 .. 1 times 2^exponent */
    exponent = exponent - 1 < 1 - format.bias ? 1 - format.bias : exponent - 1;
    double units = nearbyint(ldexp(fabs(value), (int)format.fraction_bits - exponent));
    uint64_t scale = (uint64_t)(exponent + format.bias - 1) << format.fraction_bits;
    uint64_t bits = scale + (uint64_t)units; /* a normal number's leading 1 counts the exponent up, as a carry does */
    return sign | (bits < infinity ? bits : infinity);
}

/* The accumulation type's own arithmetic: computed as double, of which rounding to F32 once more changes nothing. */
static double accumulated(kolo_dtype dtype, double value) {
    return dtype == KOLO_F64 ? value : float_value(KOLO_F32, float_bits(KOLO_F32, value));
}

/* Numbers compare as integers once the negative ones are turned round: -0 is then just below +0. */
static bool comes_before(double a, double b) {
    int64_t a_bits, b_bits;
    memcpy(&a_bits, &a, sizeof a_bits);
    memcpy(&b_bits, &b, sizeof b_bits);
    a_bits = a_bits < 0 ? INT64_MIN - a_bits - 1 : a_bits;
    b_bits = b_bits < 0 ? INT64_MIN - b_bits - 1 : b_bits;
    return a_bits < b_bits;
}

static double float_combine(kolo_dtype dtype, kolo_op op, double a, double b) {
    switch (op) {
    case KOLO_PROD:
        return accumulated(dtype, a * b);
    case KOLO_MIN:
        return isnan(a) || isnan(b) ? NAN : comes_before(a, b) ? a : b;
    case KOLO_MAX:
        return isnan(a) || isnan(b) ? NAN : comes_before(a, b) ? b : a;
    default:
        return accumulated(dtype, a + b);
    }
}

/* The tree over inputs first .. first+n-1, straight from its definition. */
static double float_tree(kolo_dtype dtype, kolo_op op, uint32_t first, uint32_t n, size_t index) {
    if (n == 1)
        return float_value(dtype, bits_at(dtype, inputs[first], index));
    uint32_t left = 1;
    while (2 * left < n)
        left *= 2;
    return float_combine(dtype, op, float_tree(dtype, op, first, left, index),
                         float_tree(dtype, op, first + left, n - left, index));
}

static uint64_t float_due(kolo_dtype dtype, kolo_op op, uint32_t n, size_t index, uint32_t ranks) {
    double value = float_tree(dtype, op, 0, n, index);
    if (op == KOLO_AVG)
        value = accumulated(dtype, value / ranks);
    return float_bits(dtype, value);
}

static void test_floats(void **state) {
    (void)state;
    for (int dtype = 0; dtype < KOLO_DTYPES; dtype++) {
        for (int op = 0; op <= KOLO_AVG && dtype_is_float((kolo_dtype)dtype); op++)
            check_all_n((kolo_dtype)dtype, (kolo_op)op, float_due);
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
            double from_left = float_value(KOLO_F32, bits_at(KOLO_F32, inputs[0], 0));
            for (uint32_t i = 1; i < ns[k]; i++)
                from_left = float_combine(KOLO_F32, KOLO_SUM, from_left,
                                          float_value(KOLO_F32, bits_at(KOLO_F32, inputs[i], 0)));
            differing += from_left != float_tree(KOLO_F32, KOLO_SUM, 0, ns[k], 0);
        }
        if (differing < 10)
            fail_msg("of 100 sums of %u inputs only %u depend on the order; --seed %" PRIu64, ns[k], differing,
                     arguments.seed);
    }
}

/* A few results written out, so that the account above is itself held to something. */
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
        uint64_t result = 0;
        portable->kernels[known[i].dtype][known[i].op].fold(&result, pair, 2, 1, 2);
        if (result != known[i].due)
            fail_element(known[i].dtype, known[i].op, 2, 2, i, result, known[i].due);
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
