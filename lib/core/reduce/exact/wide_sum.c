/* Carries in wide sums, their rounding, and KOLO_SUM_EXACT of one element by them. */
#include "reduce/exact/wide_sum.h"

#include <string.h>

#include "reduce/float16.h"

/* Shapes of the floats: bits of the fraction that are stored, and of the exponent. */
static const struct shape {
    int fraction_bits;
    int exponent_bits;
} shapes[KOLO_DTYPES] = {[KOLO_F16] = {10, 5}, [KOLO_BF16] = {7, 8}, [KOLO_F32] = {23, 8}, [KOLO_F64] = {52, 11}};

void kolo_wide_carry(int64_t *words, kolo_dtype dtype) {
    const uint32_t digits = kolo_wide_digits(dtype);
    int64_t carry = 0;
    for (uint32_t i = 0; i + 1 < digits; i++) {
        const int64_t digit = words[i] + carry;
        words[i] = digit & UINT32_MAX;
        carry = (digit - words[i]) / (INT64_C(1) << KOLO_WIDE_DIGIT_BITS); /* the division has no remainder */
    }
    words[digits - 1] += carry;
    for (uint32_t i = digits; i < digits + KOLO_WIDE_MARKS; i++)
        words[i] = words[i] != 0;
    if (words[digits + KOLO_WIDE_OTHER])
        words[digits + KOLO_WIDE_MINUS_ZERO] = 0;
}

/* Takes the digits' magnitude. Returns their sign: true for a negative number. */
static bool take_magnitude(const int64_t *words, uint32_t digits, uint32_t *magnitude) {
    int64_t carry = 0;
    for (uint32_t i = 0; i < digits; i++) {
        const int64_t digit = words[i] + carry;
        magnitude[i] = (uint32_t)digit;
        carry = (digit - magnitude[i]) / (INT64_C(1) << KOLO_WIDE_DIGIT_BITS);
    }
    uint64_t add = 1;
    for (uint32_t i = 0; carry < 0 && i < digits; i++) {
        add += (uint32_t)~magnitude[i];
        magnitude[i] = (uint32_t)add;
        add >>= KOLO_WIDE_DIGIT_BITS;
    }
    return carry < 0;
}

/* Returns bits place .. place + count - 1 of a magnitude, which has two more digits, of zero; count is from 1 to 63. */
static uint64_t bits_at(const uint32_t *magnitude, uint32_t place, uint32_t count) {
    const uint32_t *digit = magnitude + place / KOLO_WIDE_DIGIT_BITS, shift = place % KOLO_WIDE_DIGIT_BITS;
    const uint64_t lower = (digit[0] | (uint64_t)digit[1] << KOLO_WIDE_DIGIT_BITS) >> shift;
    const uint64_t upper = shift ? (uint64_t)digit[2] << (64 - shift) : 0;
    return (lower | upper) & ((UINT64_C(1) << count) - 1);
}

static bool is_any_below(const uint32_t *magnitude, uint32_t place) {
    for (uint32_t i = 0; i < place / KOLO_WIDE_DIGIT_BITS; i++)
        if (magnitude[i])
            return true;
    return magnitude[place / KOLO_WIDE_DIGIT_BITS] & ((1u << place % KOLO_WIDE_DIGIT_BITS) - 1);
}

/* Returns a magnitude other than zero, rounded, without its sign. In a float's bits the exponent stands above the
 * fraction, so that a fraction rounded up carries into the exponent, and the largest number into infinity. */
static uint64_t round_magnitude(const uint32_t *magnitude, uint32_t digits, int low, const struct shape *shape) {
    const int least = 2 - (1 << (shape->exponent_bits - 1)) - shape->fraction_bits; /* the unit of subnormals */
    const uint64_t infinity = ((UINT64_C(1) << shape->exponent_bits) - 1) << shape->fraction_bits;
    uint32_t top = digits - 1;
    while (!magnitude[top])
        top--;
    const int highest = low + (int)top * KOLO_WIDE_DIGIT_BITS + 31 - __builtin_clz(magnitude[top]);
    const int unit = highest - shape->fraction_bits > least ? highest - shape->fraction_bits : least;
    const uint32_t place = (uint32_t)(unit - low);
    uint64_t fraction = bits_at(magnitude, place, (uint32_t)shape->fraction_bits + 1);
    if (bits_at(magnitude, place - 1, 1) && ((fraction & 1) || is_any_below(magnitude, place - 1)))
        fraction++;
    if (unit - least >= 1 << shape->exponent_bits)
        return infinity;
    const uint64_t bits = ((uint64_t)(unit - least) << shape->fraction_bits) + fraction;
    return bits < infinity ? bits : infinity;
}

uint64_t kolo_wide_round(const int64_t *words, kolo_dtype dtype) {
    const struct shape *shape = &shapes[dtype];
    const uint32_t digits = kolo_wide_digits(dtype);
    const int64_t *marks = words + digits;
    const uint64_t sign = UINT64_C(1) << (shape->fraction_bits + shape->exponent_bits);
    const uint64_t infinity = sign - (UINT64_C(1) << shape->fraction_bits);
    uint32_t magnitude[KOLO_WIDE_DIGITS_F64 + 2] = {0}, any = 0;
    if (marks[KOLO_WIDE_NAN] || (marks[KOLO_WIDE_PLUS_INFINITY] && marks[KOLO_WIDE_MINUS_INFINITY]))
        return infinity | UINT64_C(1) << (shape->fraction_bits - 1);
    if (marks[KOLO_WIDE_PLUS_INFINITY] || marks[KOLO_WIDE_MINUS_INFINITY])
        return infinity | (marks[KOLO_WIDE_MINUS_INFINITY] ? sign : 0);
    const bool is_negative = take_magnitude(words, digits, magnitude);
    for (uint32_t i = 0; i < digits; i++)
        any |= magnitude[i];
    if (!any)
        return marks[KOLO_WIDE_MINUS_ZERO] && !marks[KOLO_WIDE_OTHER] ? sign : 0;
    return round_magnitude(magnitude, digits, kolo_wide_low(dtype), shape) | (is_negative ? sign : 0);
}

static uint32_t f32_at(kolo_dtype dtype, const void *source, size_t index) {
    uint32_t bits;
    uint16_t half;
    if (dtype == KOLO_F32) {
        memcpy(&bits, (const char *)source + index * sizeof bits, sizeof bits);
        return bits;
    }
    memcpy(&half, (const char *)source + index * sizeof half, sizeof half);
    return f32_bits(dtype == KOLO_F16 ? f32_from_F16(half) : f32_from_BF16(half));
}

uint64_t kolo_exact_element(kolo_dtype dtype, kolo_dtype source_dtype, const void *const *sources, uint32_t n,
                            size_t index) {
    int64_t words[KOLO_WIDE_WORDS_F64];
    memset(words, 0, kolo_wide_words(dtype) * sizeof *words);
    for (uint32_t i = 0; i < n; i++) {
        if (dtype == KOLO_F64) {
            uint64_t bits;
            memcpy(&bits, (const char *)sources[i] + index * sizeof bits, sizeof bits);
            kolo_wide_add_f64(words, bits);
        } else {
            kolo_wide_add_f32(words, f32_at(source_dtype, sources[i], index));
        }
    }
    return kolo_wide_round(words, dtype);
}
