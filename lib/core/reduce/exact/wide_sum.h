/* A wide sum is a sum of floats as one wide fixed-point number, which holds every partial sum exactly.
 *
 * A wide sum consists of words of 64 bits. The first ones are digits: digit i counts units of 2^(low + 32 i), and may
 * be negative and larger than 32 bits, so that additions carry nothing. As every addition changes a digit by less than
 * 2^32, carries are due after 2^31 of them at the latest (kolo_wide_carry). After a carry all digits but the last are
 * from 0 to 2^32 - 1, and the last has the sign. The other words are marks: see enum kolo_wide_mark.
 *
 * So the sum of two wide sums is that of their words, as integers, in whatever order they are added. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kolo.h"

/* The lowest exponents, below the least subnormal, and the numbers of digits, 64 bits above the largest number. */
enum {
    KOLO_WIDE_LOW_F32 = -160,
    KOLO_WIDE_DIGITS_F32 = 11,
    KOLO_WIDE_LOW_F64 = -1088,
    KOLO_WIDE_DIGITS_F64 = 68,
    KOLO_WIDE_DIGIT_BITS = 32
};

/* The marks, which are the words behind the digits: a mark is not 0 if some addend was such. kolo_wide_carry makes it
 * 1, and forgets a -0 beside which there was another addend; then sums of the same addends have the same words. */
enum kolo_wide_mark {
    KOLO_WIDE_NAN,
    KOLO_WIDE_PLUS_INFINITY,
    KOLO_WIDE_MINUS_INFINITY,
    KOLO_WIDE_MINUS_ZERO,
    KOLO_WIDE_OTHER, /* than -0: without one, a sum of zero is -0 where there is a -0 */
    KOLO_WIDE_MARKS
};

enum {
    KOLO_WIDE_WORDS_F64 = KOLO_WIDE_DIGITS_F64 + KOLO_WIDE_MARKS,
    KOLO_WIDE_ADDITIONS_MAX = 1 << 29 /* between carries: leaves room for two sums to become one */
};

/* Returns the number of digits of a sum of `dtype`: that of F64 for F64, else that of F32. */
static inline uint32_t kolo_wide_digits(kolo_dtype dtype) {
    return dtype == KOLO_F64 ? KOLO_WIDE_DIGITS_F64 : KOLO_WIDE_DIGITS_F32;
}

static inline int kolo_wide_low(kolo_dtype dtype) {
    return dtype == KOLO_F64 ? KOLO_WIDE_LOW_F64 : KOLO_WIDE_LOW_F32;
}

static inline uint32_t kolo_wide_words(kolo_dtype dtype) {
    return kolo_wide_digits(dtype) + KOLO_WIDE_MARKS;
}

/* Adds, or subtracts, magnitude * 2^exponent to digits whose lowest exponent is `low`. */
static inline void kolo_wide_deposit(int64_t *digits, int low, uint64_t magnitude, int exponent, bool is_negative) {
    const uint32_t place = (uint32_t)(exponent - low);
    int64_t *digit = digits + place / KOLO_WIDE_DIGIT_BITS;
    const uint32_t shift = place % KOLO_WIDE_DIGIT_BITS;
    const uint64_t lower = magnitude << shift, upper = shift ? magnitude >> (64 - shift) : 0;
    const int64_t sign = -(int64_t)is_negative;
    digit[0] += ((int64_t)(lower & UINT32_MAX) ^ sign) - sign;
    digit[1] += ((int64_t)(lower >> KOLO_WIDE_DIGIT_BITS) ^ sign) - sign;
    digit[2] += ((int64_t)upper ^ sign) - sign;
}

/* Adds one float, given by its parts. */
static inline void kolo_wide_add_parts(int64_t *words, kolo_dtype dtype, bool is_negative, int exponent,
                                       uint64_t fraction) {
    const int fraction_bits = dtype == KOLO_F64 ? 52 : 23;
    const int exponent_end = dtype == KOLO_F64 ? 2047 : 255;
    const int least_exponent = 2 - (exponent_end + 1) / 2 - fraction_bits; /* of the unit of subnormals */
    int64_t *marks = words + kolo_wide_digits(dtype);
    const bool is_zero = exponent == 0 && fraction == 0;
    marks[is_zero && is_negative ? KOLO_WIDE_MINUS_ZERO : KOLO_WIDE_OTHER] = 1;
    if (is_zero)
        return;
    if (exponent == exponent_end) {
        marks[fraction ? KOLO_WIDE_NAN : is_negative ? KOLO_WIDE_MINUS_INFINITY : KOLO_WIDE_PLUS_INFINITY] = 1;
        return;
    }
    if (exponent > 0)
        fraction |= UINT64_C(1) << fraction_bits;
    kolo_wide_deposit(words, kolo_wide_low(dtype), fraction, least_exponent + (exponent > 0 ? exponent - 1 : 0),
                      is_negative);
}

/* Adds one float, given by its bits. That is one addition. */
static inline void kolo_wide_add_f32(int64_t *words, uint32_t bits) {
    kolo_wide_add_parts(words, KOLO_F32, bits >> 31, (int)(bits >> 23 & 255), bits & 0x7fffff);
}

static inline void kolo_wide_add_f64(int64_t *words, uint64_t bits) {
    kolo_wide_add_parts(words, KOLO_F64, bits >> 63, (int)(bits >> 52 & 2047), bits & ((UINT64_C(1) << 52) - 1));
}

/* Carries, and makes each mark 0 or 1. */
void kolo_wide_carry(int64_t *words, kolo_dtype dtype);

/* Returns the bits of the element of `dtype` nearest to the sum, ties to even; for F16 and BF16 from a sum of F32. */
uint64_t kolo_wide_round(const int64_t *words, kolo_dtype dtype);

/* KOLO_SUM_EXACT of one element, which specifies its kernels: the sum of all inputs, rounded once. */

/* Returns the bits of element `index` of a result of `dtype`. source_dtype: the same, or F32 for a 16-bit float. */
uint64_t kolo_exact_element(kolo_dtype dtype, kolo_dtype source_dtype, const void *const *sources, uint32_t n,
                            size_t index);
