/* Conversions of the 16-bit floats, in every instance: each of the 65536 values widened, and narrowed again from
 * itself, from the halfway points beside it, from their neighbours, and from random numbers; and folds of which one
 * result is a NaN, a subnormal or another that may be rounded apart from the rest. */
#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "cpu/features.h"
#include "reducer_support.h"

enum { VALUES = 65536, BATCH = 8192, RANDOM_BATCHES = 256 };
enum {
    FOLDED = 209, /* elements: a block of four vectors of any instance, two more, and a rest */
    SOURCES_MAX = 3
};

static test_arguments arguments;
static uint16_t all_values[VALUES];
static float widened[VALUES];
static float batch[BATCH];
static uint16_t narrowed[BATCH], least[BATCH];

static double f16_value(uint16_t bits) {
    double fraction = bits & 0x3ff;
    int exponent = bits >> 10 & 0x1f;
    double magnitude = exponent == 0 ? ldexp(fraction, -24) : ldexp(1024 + fraction, exponent - 25);
    return bits & 0x8000 ? -magnitude : magnitude;
}

static uint32_t float_as_bits(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static float bits_as_float(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* A NaN keeps its payload, at the upper end of the wider fraction, and is quiet. */
static uint32_t f16_widened(uint16_t bits) {
    uint32_t sign = (uint32_t)(bits & 0x8000) << 16, fraction = bits & 0x3ff;
    if ((bits & 0x7c00) != 0x7c00)
        return float_as_bits((float)f16_value(bits));
    return sign | 0x7f800000 | (fraction ? 0x00400000 | fraction << 13 : 0);
}

/* The nearest value of the format, found by rounding in units of its last place; nearbyint takes ties to even. */
static uint16_t nearest(float value, int bias, int fraction_bits) {
    uint16_t sign = float_as_bits(value) >> 31 ? 0x8000 : 0;
    uint16_t infinity = (uint16_t)((2 * bias + 1) << fraction_bits);
    if (isnan(value))
        return infinity | (uint16_t)(1 << (fraction_bits - 1));
    if (isinf(value) || value == 0)
        return sign | (value == 0 ? 0 : infinity);
    int exponent = ilogb(value) < 1 - bias ? 1 - bias : ilogb(value);
    double units = nearbyint(ldexp(fabs((double)value), fraction_bits - exponent));
    double bits = ldexp(exponent + bias - 1, fraction_bits) + units;
    return sign | (bits < infinity ? (uint16_t)bits : infinity);
}

static uint16_t nearest_of(kolo_dtype dtype, float value) {
    return dtype == KOLO_F16 ? nearest(value, 15, 10) : nearest(value, 127, 7);
}

static void test_widening(void **state) {
    (void)state;
    const kolo_reducer *reducer;
    for (uint32_t index = 0; (reducer = kolo_reducer_at(kolo_cpu_features(), index)); index++) {
        for (int dtype = KOLO_F16; dtype <= KOLO_BF16; dtype++) {
            reducer->kernels[dtype][KOLO_SUM].widen(widened, all_values, VALUES);
            for (uint32_t i = 0; i < VALUES; i++) {
                uint32_t found = float_as_bits(widened[i]),
                         due = dtype == KOLO_F16 ? f16_widened((uint16_t)i) : i << 16;
                if (found != due)
                    fail_msg("%s: %s %04" PRIx32 " widened is %08" PRIx32 ", should be %08" PRIx32, reducer->name,
                             dtype_name((kolo_dtype)dtype), i, found, due);
            }
        }
    }
}

/* The maximum of a number and minus infinity is the number: what is left of the last hop of a chain is the rounding. */
static void check_narrowing(const kolo_reducer *reducer, kolo_dtype dtype) {
    reducer->kernels[dtype][KOLO_MAX].chain_end(narrowed, batch, least, BATCH, 1);
    for (size_t i = 0; i < BATCH; i++) {
        uint16_t due = nearest_of(dtype, batch[i]);
        if (narrowed[i] != due)
            fail_msg("%s: %08" PRIx32 " narrowed to %s is %04x, should be %04x; --seed %" PRIu64, reducer->name,
                     float_as_bits(batch[i]), dtype_name(dtype), narrowed[i], due, arguments.seed);
    }
}

/* What is near the value `bits`: itself, halfway to the next one and two steps to either side of that, and the floats
 * beside this value and the next. */
static void fill_neighbours(kolo_dtype dtype, uint16_t bits, float *around) {
    float here = bits_as_float(dtype == KOLO_F16 ? f16_widened(bits) : (uint32_t)bits << 16);
    float next = bits_as_float(dtype == KOLO_F16 ? f16_widened(bits + 1) : (uint32_t)(bits + 1) << 16);
    if ((bits & 0x7fff) == 0x7bff && dtype == KOLO_F16)
        next = bits & 0x8000 ? -65536.0f : 65536.0f;
    uint32_t halfway = (uint32_t)(((uint64_t)float_as_bits(here) + float_as_bits(next)) / 2);
    if (dtype == KOLO_F16)
        halfway = float_as_bits((float)(((double)here + next) / 2));
    around[0] = here;
    for (uint32_t i = 0; i < 5; i++)
        around[1 + i] = bits_as_float(halfway + i - 2);
    around[6] = bits_as_float(float_as_bits(here) + 1);
    around[7] = bits_as_float(float_as_bits(next) - 1);
}

static void check_all_neighbours(const kolo_reducer *reducer, kolo_dtype dtype) {
    const uint32_t around = 8;
    for (uint32_t first = 0; first < VALUES; first += BATCH / around) {
        for (uint32_t i = 0; i < BATCH / around; i++)
            fill_neighbours(dtype, (uint16_t)(first + i), batch + i * around);
        check_narrowing(reducer, dtype);
    }
}

static void test_narrowing(void **state) {
    (void)state;
    const kolo_reducer *reducer;
    for (uint32_t index = 0; (reducer = kolo_reducer_at(kolo_cpu_features(), index)); index++) {
        for (int dtype = KOLO_F16; dtype <= KOLO_BF16; dtype++) {
            for (size_t i = 0; i < BATCH; i++)
                least[i] = dtype == KOLO_F16 ? 0xfc00 : 0xff80;
            check_all_neighbours(reducer, (kolo_dtype)dtype);
            uint64_t random = arguments.seed;
            for (uint64_t k = 0; k < RANDOM_BATCHES / arguments.thin + 1; k++) {
                fill(KOLO_F32, k % 2 ? FILL_BITS : FILL_NUMBERS, batch, BATCH, &random);
                check_narrowing(reducer, (kolo_dtype)dtype);
            }
        }
    }
}

/* Elements of the sources whose result is special. The third is what changes least in the other two. */
typedef struct special {
    const char *name;
    uint16_t elements[2];
} special;

enum { SPECIALS = 14 };

static void fill_specials(kolo_dtype dtype, special *specials) {
    const float_format format = format_of(dtype);
    const unsigned fraction_bits = format.fraction_bits;
    const uint16_t minus = 0x8000, least_normal = (uint16_t)(1 << fraction_bits);
    const uint16_t one = (uint16_t)(format.bias << fraction_bits);
    const uint16_t infinity = (uint16_t)((2 * format.bias + 1) << fraction_bits);
    const uint16_t nan = (uint16_t)format.canonical_nan;
    const uint16_t small = (uint16_t)((format.bias / 2 - 1) << fraction_bits); /* its square is subnormal */
    const special all[SPECIALS] = {
        {"a quiet NaN with a payload", {nan | 5, one}},
        {"a negative NaN", {one, minus | nan}},
        {"a signalling NaN", {infinity | 1, one}},
        {"infinities of both signs", {infinity, minus | infinity}},
        {"an infinity", {one, minus | infinity}},
        {"the largest number twice", {infinity - 1, infinity - 1}},
        {"the least subnormal and zero", {1, 0}},
        {"a negative subnormal and one", {minus | (least_normal - 1), one}},
        {"subnormals whose sum is normal", {least_normal - 1, least_normal - 1}},
        {"normal numbers that cancel to a subnormal", {least_normal + 1, minus | least_normal}},
        {"normal numbers that cancel to zero", {least_normal, minus | least_normal}},
        {"the least normal number twice", {least_normal, least_normal}},
        {"factors of a subnormal", {small, minus | (small + 1)}},
        {"negative zeros", {minus, minus}}};
    memcpy(specials, all, sizeof all);
}

/* One special element at each place among numbers near 1. */
static void check_places(const kolo_reducer *reducer, kolo_dtype dtype, kolo_op op, uint32_t n, const special *odd) {
    static uint16_t inputs[SOURCES_MAX][FOLDED], found[FOLDED], due[FOLDED];
    const void *const sources[SOURCES_MAX] = {inputs[0], inputs[1], inputs[2]};
    const uint16_t neutral = op == KOLO_PROD ? nearest_of(dtype, 1) : nearest_of(dtype, -0.0f);
    const uint16_t elements[SOURCES_MAX] = {odd->elements[0], odd->elements[1], neutral};
    uint64_t random = arguments.seed;
    for (size_t at = 0; at < FOLDED; at++) {
        for (uint32_t i = 0; i < n; i++) {
            fill(dtype, FILL_NUMBERS, inputs[i], FOLDED, &random);
            inputs[i][at] = elements[i];
        }
        kolo_reducer_at(0, 0)->kernels[dtype][op].fold(due, sources, n, FOLDED, n);
        reducer->kernels[dtype][op].fold(found, sources, n, FOLDED, n);
        for (size_t i = 0; i < FOLDED; i++) {
            if (found[i] != due[i])
                fail_msg("%s: %s %s of %u with %s at %zu: element %zu is %04x, should be %04x; --seed %" PRIu64,
                         reducer->name, dtype_name(dtype), op_name(op), n, odd->name, at, i, found[i], due[i],
                         arguments.seed);
        }
    }
}

static void test_special_among_normal(void **state) {
    (void)state;
    const kolo_op rounded[] = {KOLO_SUM, KOLO_PROD, KOLO_AVG};
    special specials[SPECIALS];
    const kolo_reducer *reducer;
    for (uint32_t index = 1; (reducer = kolo_reducer_at(kolo_cpu_features(), index)); index++) {
        for (int dtype = KOLO_F16; dtype <= KOLO_BF16; dtype++) {
            fill_specials((kolo_dtype)dtype, specials);
            for (size_t k = 0; k < 3 * SPECIALS; k++) {
                for (uint32_t n = 1; n <= SOURCES_MAX; n++)
                    check_places(reducer, (kolo_dtype)dtype, rounded[k / SPECIALS], n, &specials[k % SPECIALS]);
            }
        }
    }
}

int main(int argc, char **argv) {
    arguments = test_arguments_read(argc, argv);
    for (uint32_t i = 0; i < VALUES; i++)
        all_values[i] = (uint16_t)i;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_widening),
        cmocka_unit_test(test_narrowing),
        cmocka_unit_test(test_special_among_normal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
