/* Adders: every instance gives the sum of the portable one, digit for digit, whatever range the values have, and reads
 * nothing but them. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "cpu/features.h"
#include "reducer_support.h"
#include "training/kernels/training_kernels.h"

enum { COUNT_MAX = 300000 /* of F32 more than all blocks that are summed before the digits get them */ };

static test_arguments arguments;
static guarded area;

/* What the values are like, besides the styles of `fill`. */
enum {
    STYLE_STEPS = FILL_STYLES, /* the range changes now and then, by a little or a lot */
    STYLE_WIDE,                /* any exponent, but for infinities and NaNs */
    STYLE_SPREAD,              /* exponents that differ by up to 60 */
    STYLE_TINY,                /* subnormal and little more */
    STYLE_HUGE,                /* near the largest number */
    STYLE_CANCEL,              /* each value and its negative, at other places */
    STYLE_ZEROS,               /* of both signs, and now and then a number */
    STYLE_MINUS_ZEROS,
    STYLES
};

static uint64_t with_exponent(kolo_dtype dtype, uint64_t draw, int biased) {
    const float_format format = format_of(dtype);
    const int end = 2 * format.bias + 1; /* that of infinity */
    const uint64_t exponent = (uint64_t)(biased < 0 ? 0 : biased >= end ? end - 1 : biased);
    return draw >> 63 << (format.bits - 1) | exponent << format.fraction_bits |
           (draw & ((UINT64_C(1) << format.fraction_bits) - 1));
}

static uint64_t value_of(kolo_dtype dtype, int style, int base, uint64_t draw) {
    const int range = 2 * format_of(dtype).bias + 1, some = (int)(draw >> 52 & 1023);
    switch (style) {
    case STYLE_STEPS:
        return with_exponent(dtype, draw, base + some % 8);
    case STYLE_WIDE:
        return with_exponent(dtype, draw, (int)((draw >> 52) % (uint64_t)range));
    case STYLE_SPREAD:
        return with_exponent(dtype, draw, range / 3 + some % 60);
    case STYLE_TINY:
        return with_exponent(dtype, draw, some % 3);
    case STYLE_HUGE:
        return with_exponent(dtype, draw, range - some % 12);
    case STYLE_ZEROS:
        return some % 300 ? with_exponent(dtype, draw & UINT64_C(1) << 63, 0) : with_exponent(dtype, draw, base);
    default: /* MINUS_ZEROS */
        return with_exponent(dtype, UINT64_C(1) << 63, 0);
    }
}

static void fill_values(kolo_dtype dtype, int style, void *values, size_t count, uint64_t *random) {
    const int range = 2 * format_of(dtype).bias + 1;
    const uint64_t sign = UINT64_C(1) << (format_of(dtype).bits - 1);
    int base = range / 2;
    if (style < (int)FILL_STYLES) {
        fill(dtype, (fill_style)style, values, count, random);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        const uint64_t draw = random_next(random);
        if (draw % 700 == 0)
            base = draw & 1024 ? (int)(random_next(random) % (uint64_t)range) : base + (int)(draw >> 20) % 30 - 15;
        bits_store(dtype, values, i, value_of(dtype, style == STYLE_CANCEL ? STYLE_WIDE : style, base, draw));
    }
    for (size_t i = 0; style == STYLE_CANCEL && i < count / 2; i++)
        bits_store(dtype, values, count - 1 - i, bits_at(dtype, values, i) ^ sign);
}

static void check(kolo_dtype dtype, int style, size_t count, uint64_t *random) {
    static int64_t expected[KOLO_WIDE_WORDS_F64], found[KOLO_WIDE_WORDS_F64];
    const size_t words_bytes = kolo_wide_words(dtype) * sizeof *found;
    unsigned char *values = guarded_place(area, count * dtype_bytes(dtype), random);
    fill_values(dtype, style, values, count, random);
    memset(expected, 0, sizeof expected);
    (dtype == KOLO_F64 ? kolo_training_kernels_portable.add_f64
                       : kolo_training_kernels_portable.add_f32)(expected, values, count);
    kolo_wide_carry(expected, dtype);
    const kolo_reducer *reducer;
    for (uint32_t i = 0; (reducer = kolo_reducer_at(kolo_cpu_features(), i)); i++) {
        const kolo_training_kernels *instance = kolo_training_kernels_of(reducer);
        memset(found, 0, sizeof found);
        (dtype == KOLO_F64 ? instance->add_f64 : instance->add_f32)(found, values, count);
        kolo_wide_carry(found, dtype);
        for (uint32_t word = 0; memcmp(found, expected, words_bytes) != 0 && word < kolo_wide_words(dtype); word++)
            if (found[word] != expected[word])
                fail_msg("%s: %zu %s, style %d: word %u is %" PRIx64 ", should be %" PRIx64 "; --seed %" PRIu64,
                         reducer->name, count, dtype_name(dtype), style, word, (uint64_t)found[word],
                         (uint64_t)expected[word], arguments.seed);
    }
}

static void test_instances_agree(void **state) {
    static const size_t counts[] = {127, 128, 129, 255, 256, 257, 511, 512, 513, 1024, 1111, 5000, 20000};
    uint64_t random = arguments.seed;
    uint32_t cases = 0;
    (void)state;
    for (int dtype = KOLO_F32; dtype <= KOLO_F64; dtype++)
        for (int style = 0; style < STYLES; style++) {
            for (size_t count = 0; count < 20; count++)
                if (cases++ % arguments.thin == 0)
                    check((kolo_dtype)dtype, style, count, &random);
            for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
                if (cases++ % arguments.thin == 0)
                    check((kolo_dtype)dtype, style, counts[i], &random);
            if (style == FILL_NUMBERS || style == STYLE_STEPS)
                check((kolo_dtype)dtype, style, COUNT_MAX / (arguments.thin > 1 ? 10 : 1), &random);
        }
}

/* All values at the top of the range, of one sign: the sums of a window come as near to their limits as they can. */
static void test_limits(void **state) {
    uint64_t random = arguments.seed;
    (void)state;
    for (int dtype = KOLO_F32; dtype <= KOLO_F64; dtype++) {
        const float_format format = format_of((kolo_dtype)dtype);
        unsigned char *values = guarded_place(area, COUNT_MAX * dtype_bytes((kolo_dtype)dtype), &random);
        for (int high = 0; high < 2; high++) {
            const uint64_t largest = (uint64_t)(high ? 2 * format.bias : format.bias + 1) << format.fraction_bits;
            for (size_t i = 0; i < COUNT_MAX; i++)
                bits_store((kolo_dtype)dtype, values, i, largest + (UINT64_C(1) << format.fraction_bits) - 1 - i % 2);
            int64_t words[2][KOLO_WIDE_WORDS_F64] = {0};
            for (int which = 0; which < 2; which++) {
                const kolo_training_kernels *kernels =
                    kolo_training_kernels_of(kolo_reducer_select(which ? kolo_cpu_features() : 0));
                (dtype == KOLO_F64 ? kernels->add_f64 : kernels->add_f32)(words[which], values, COUNT_MAX);
                kolo_wide_carry(words[which], (kolo_dtype)dtype);
            }
            assert_memory_equal(words[0], words[1], sizeof words[0]);
        }
    }
}

/* Infinite beyond the largest number only if the sum is, and back from there. */
static void test_rounding(void **state) {
    (void)state;
    const uint64_t largest = UINT64_C(0x7fefffffffffffff), minus = UINT64_C(1) << 63;
    int64_t words[KOLO_WIDE_WORDS_F64] = {0};
    assert_int_equal(kolo_wide_round(words, KOLO_F64), 0); /* nothing gives +0 */
    kolo_wide_add_f64(words, minus);
    assert_int_equal(kolo_wide_round(words, KOLO_F64), minus);
    kolo_wide_add_f64(words, 0);
    assert_int_equal(kolo_wide_round(words, KOLO_F64), 0);
    for (int i = 0; i < 1000; i++)
        kolo_wide_add_f64(words, largest);
    assert_int_equal(kolo_wide_round(words, KOLO_F64), UINT64_C(0x7ff0000000000000));
    for (int i = 0; i < 1999; i++)
        kolo_wide_add_f64(words, largest | minus);
    kolo_wide_carry(words, KOLO_F64);
    kolo_wide_add_f64(words, 1);
    assert_int_equal(kolo_wide_round(words, KOLO_F64), UINT64_C(0xfff0000000000000));
    for (int i = 0; i < 998; i++)
        kolo_wide_add_f64(words, largest);
    assert_int_equal(kolo_wide_round(words, KOLO_F64), largest | minus); /* less 2^-1074 in magnitude: to nearest */
    kolo_wide_add_f64(words, largest);
    assert_int_equal(kolo_wide_round(words, KOLO_F64), 1);
}

int main(int argc, char **argv) {
    arguments = test_arguments_read(argc, argv);
    area = guarded_create(COUNT_MAX * sizeof(double));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_instances_agree),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_rounding),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    guarded_destroy(area);
    return failed;
}
