#include "oracle.h"

#include <math.h>
#include <string.h>

#include "splitmix64.h"

enum { RANKS_MAX = KOLO_RANKS_MAX };

bool order_matters(kolo_dtype dtype, kolo_op op) {
    return dtype >= KOLO_F16 && (op == KOLO_SUM || op == KOLO_PROD || op == KOLO_AVG);
}

uint64_t hash_bytes(const void *bytes, size_t length) {
    const unsigned char *at = bytes;
    uint64_t hash = length, word;
    for (; length >= sizeof word; at += sizeof word, length -= sizeof word) {
        memcpy(&word, at, sizeof word);
        hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
        hash ^= hash >> 29;
    }
    for (; length; at++, length--)
        hash = (hash ^ *at) * UINT64_C(0x100000001b3);
    return hash;
}

size_t first_difference(const void *a, const void *b, size_t length) {
    const unsigned char *left = a, *right = b;
    if (length == 0 || memcmp(a, b, length) == 0)
        return length;
    size_t i = 0;
    while (left[i] == right[i])
        i++;
    return i;
}

static const unsigned char sizes[KOLO_DTYPES] = {
    [KOLO_I8] = 1,  [KOLO_U8] = 1,  [KOLO_I16] = 2, [KOLO_U16] = 2,  [KOLO_I32] = 4, [KOLO_U32] = 4,
    [KOLO_I64] = 8, [KOLO_U64] = 8, [KOLO_F16] = 2, [KOLO_BF16] = 2, [KOLO_F32] = 4, [KOLO_F64] = 8};

/* A copy of a constant size is a move, and this is where such tests spend their time. */
static void copy_element(kolo_dtype dtype, void *to, const void *from) {
    switch (sizes[dtype]) {
    case 1:
        memcpy(to, from, 1);
        break;
    case 2:
        memcpy(to, from, 2);
        break;
    case 4:
        memcpy(to, from, 4);
        break;
    default:
        memcpy(to, from, 8);
    }
}

static uint64_t bits_at(kolo_dtype dtype, const void *elements, size_t index) {
    uint64_t bits = 0; /* all supported machines are little-endian */
    copy_element(dtype, &bits, (const char *)elements + index * sizes[dtype]);
    return bits;
}

static void bits_store(kolo_dtype dtype, void *elements, size_t index, uint64_t bits) {
    copy_element(dtype, (char *)elements + index * sizes[dtype], &bits);
}

/* Floats of 16 bits, by arithmetic on the values that they stand for. */

static float f16_value(uint64_t half) {
    const int exponent = half >> 10 & 31, fraction = half & 1023;
    const float sign = half & 0x8000 ? -1.0f : 1.0f;
    if (exponent == 31)
        return fraction ? NAN : sign * INFINITY;
    return sign * (exponent ? ldexpf((float)(1024 + fraction), exponent - 25) : ldexpf((float)fraction, -24));
}

static uint64_t f16_nearest(float value) {
    const uint64_t sign = signbit(value) ? 0x8000 : 0;
    if (isnan(value))
        return 0x7e00;
    if (isinf(value))
        return sign | 0x7c00;
    if (value == 0)
        return sign;
    int exponent;
    frexpf(value, &exponent); /* of a value below 2^exponent, the last place is 2^(exponent - 11), but 2^-24 at least */
    const int last = exponent - 11 > -24 ? exponent - 11 : -24;
    const double places = rint(ldexp(fabs((double)value), -last));
    const double rounded = ldexp(places, last);
    if (rounded >= 65536)
        return sign | 0x7c00;
    /* Numbers of the format, counted from zero, are in the order of their bits. */
    return sign | (uint64_t)(last == -24 ? places : places + (double)(last + 24) * 1024);
}

static float bf16_value(uint64_t half) {
    const uint32_t bits = (uint32_t)half << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint64_t bf16_nearest(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if (isnan(value))
        return 0x7fc0;
    const uint32_t below = bits >> 16, rest = bits & 0xffff;
    return below + (rest > 0x8000 || (rest == 0x8000 && below % 2));
}

/* One element. Each function folds values[0 .. n-1] pairwise, level by level: neighbours first, then neighbouring
 * pairs, with what is left over carried along. That is the tree which splits at the largest power of two below the
 * count. */

static float combine_f32(kolo_op op, float a, float b) {
    if (op == KOLO_SUM || op == KOLO_AVG)
        return a + b;
    if (op == KOLO_PROD)
        return a * b;
    if (isnan(a) || isnan(b))
        return NAN;
    const bool a_first = a < b || (a == b && signbit(a));
    return a_first == (op == KOLO_MIN) ? a : b;
}

static float fold_f32(kolo_op op, float *values, int n, int ranks) {
    for (; n > 1; n = (n + 1) / 2) {
        for (int i = 0; i < n / 2; i++)
            values[i] = combine_f32(op, values[2 * i], values[2 * i + 1]);
        if (n % 2)
            values[n / 2] = values[n - 1];
    }
    return op == KOLO_AVG ? values[0] / (float)ranks : values[0];
}

static double combine_f64(kolo_op op, double a, double b) {
    if (op == KOLO_SUM || op == KOLO_AVG)
        return a + b;
    if (op == KOLO_PROD)
        return a * b;
    if (isnan(a) || isnan(b))
        return (double)NAN;
    const bool a_first = a < b || (a == b && signbit(a));
    return a_first == (op == KOLO_MIN) ? a : b;
}

static double fold_f64(kolo_op op, double *values, int n, int ranks) {
    for (; n > 1; n = (n + 1) / 2) {
        for (int i = 0; i < n / 2; i++)
            values[i] = combine_f64(op, values[2 * i], values[2 * i + 1]);
        if (n % 2)
            values[n / 2] = values[n - 1];
    }
    return op == KOLO_AVG ? values[0] / ranks : values[0];
}

static bool is_signed(kolo_dtype dtype) {
    return dtype == KOLO_I8 || dtype == KOLO_I16 || dtype == KOLO_I32 || dtype == KOLO_I64;
}

/* The number that the low bits stand for, in the 64 bits of a wider integer. */
static uint64_t widened(kolo_dtype dtype, uint64_t bits) {
    const unsigned unused = 64 - 8u * sizes[dtype];
    return is_signed(dtype) ? (uint64_t)((int64_t)(bits << unused) >> unused) : bits << unused >> unused;
}

static uint64_t combine_integers(kolo_dtype dtype, kolo_op op, uint64_t a, uint64_t b) {
    const bool less = is_signed(dtype) ? (int64_t)a < (int64_t)b : a < b;
    switch (op) {
    case KOLO_PROD:
        return a * b;
    case KOLO_MIN:
        return less ? a : b;
    case KOLO_MAX:
        return less ? b : a;
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

static uint64_t fold_integers(kolo_dtype dtype, kolo_op op, const uint64_t *bits, int n, int ranks) {
    uint64_t result = widened(dtype, bits[0]); /* any order gives the same */
    for (int i = 1; i < n; i++)
        result = combine_integers(dtype, op, result, widened(dtype, bits[i]));
    result = widened(dtype, result);
    if (op != KOLO_AVG)
        return result;
    return is_signed(dtype) ? (uint64_t)((int64_t)result / ranks) : result / (uint64_t)ranks;
}

static uint64_t reduce_f64(kolo_op op, const uint64_t *bits, int n, int ranks) {
    double values[RANKS_MAX];
    for (int i = 0; i < n; i++)
        memcpy(&values[i], &bits[i], sizeof values[i]);
    const double result = fold_f64(op, values, n, ranks);
    uint64_t result_bits;
    memcpy(&result_bits, &result, sizeof result_bits);
    return isnan(result) ? UINT64_C(0x7ff8000000000000) : result_bits;
}

static uint64_t reduce_f32(kolo_op op, const uint64_t *bits, int n, int ranks) {
    float values[RANKS_MAX];
    for (int i = 0; i < n; i++)
        memcpy(&values[i], &bits[i], sizeof values[i]);
    const float result = fold_f32(op, values, n, ranks);
    uint32_t result_bits;
    memcpy(&result_bits, &result, sizeof result_bits);
    return isnan(result) ? UINT32_C(0x7fc00000) : result_bits;
}

static uint64_t reduce_halves(kolo_dtype dtype, kolo_op op, const uint64_t *bits, int n, int ranks) {
    float values[RANKS_MAX];
    for (int i = 0; i < n; i++)
        values[i] = dtype == KOLO_F16 ? f16_value(bits[i]) : bf16_value(bits[i]);
    const float result = fold_f32(op, values, n, ranks);
    return dtype == KOLO_F16 ? f16_nearest(result) : bf16_nearest(result);
}

/* SUM_EXACT: the true sum as a count for each power of two, made into a number of one bit for each, and rounded. */

enum { POWERS = 2300, POWERS_BELOW = 1, POWERS_ABOVE = 80 }; /* with room for sums of many */

static const unsigned fraction_bits[KOLO_DTYPES] = {[KOLO_F16] = 10, [KOLO_BF16] = 7, [KOLO_F32] = 23, [KOLO_F64] = 52};

/* How many powers a sum may have, from below the unit of subnormals on. */
static int powers_of(kolo_dtype dtype) {
    const int fraction = (int)fraction_bits[dtype], exponent_bits = 8 * sizes[dtype] - 1 - fraction;
    return POWERS_BELOW + (1 << exponent_bits) + fraction + POWERS_ABOVE;
}

static void count_bits(int *counts, kolo_dtype dtype, uint64_t fraction, uint64_t exponent, int sign) {
    if (exponent > 0)
        fraction |= UINT64_C(1) << fraction_bits[dtype];
    const int power = POWERS_BELOW + (exponent > 0 ? (int)exponent - 1 : 0);
    for (int i = 0; i <= (int)fraction_bits[dtype]; i++)
        counts[power + i] += sign * (int)(fraction >> i & 1);
}

/* Carries, so that each count is 0 or 1. False: the number is negative. */
static bool settle(int *counts, int powers) {
    int carry = 0;
    for (int i = 0; i < powers; i++) {
        const int count = counts[i] + carry;
        counts[i] = count & 1;
        carry = (count - counts[i]) / 2;
    }
    return carry == 0;
}

static uint64_t round_counts(const int *counts, kolo_dtype dtype) {
    const int fraction = (int)fraction_bits[dtype], least = POWERS_BELOW;
    const uint64_t infinity = (UINT64_C(1) << (8 * sizes[dtype] - 1)) - (UINT64_C(1) << fraction);
    int top = powers_of(dtype) - 1, rest = 0;
    while (top >= 0 && !counts[top])
        top--;
    const int unit = top - fraction > least ? top - fraction : least;
    uint64_t places = 0;
    for (int i = top; i >= unit; i--)
        places = 2 * places + (uint64_t)counts[i];
    for (int i = 0; i < unit - 1; i++)
        rest |= counts[i];
    if (counts[unit - 1] && (rest || places % 2))
        places++;
    /* Numbers of the format, counted from zero, are in the order of their bits. */
    const uint64_t bits = places + ((uint64_t)(unit - least) << fraction);
    return unit - least < 5000 && bits < infinity ? bits : infinity;
}

static uint64_t sum_exactly(kolo_dtype dtype, const uint64_t *bits, int n) {
    const unsigned fraction = fraction_bits[dtype], sign_at = 8u * sizes[dtype] - 1;
    const uint64_t infinity = (UINT64_C(1) << sign_at) - (UINT64_C(1) << fraction);
    const int powers = powers_of(dtype);
    int counts[POWERS], others = 0, specials[3] = {0};
    for (int sign = 1;; sign = -1) { /* negated, if the sum turns out to be negative */
        memset(counts, 0, (size_t)powers * sizeof *counts);
        for (int i = 0; i < n; i++) {
            const uint64_t size = bits[i] & ((UINT64_C(1) << sign_at) - 1);
            const bool is_negative = bits[i] >> sign_at & 1;
            others += size != 0 || !is_negative;
            if (size >= infinity)
                specials[size > infinity ? 0 : is_negative ? 1 : 2] = 1;
            else
                count_bits(counts, dtype, size & ((UINT64_C(1) << fraction) - 1), size >> fraction,
                           is_negative ? -sign : sign);
        }
        if (specials[0] || (specials[1] && specials[2]))
            return infinity | UINT64_C(1) << (fraction - 1);
        if (specials[1] || specials[2])
            return infinity | (uint64_t)specials[1] << sign_at;
        if (!settle(counts, powers))
            continue;
        const uint64_t result = round_counts(counts, dtype);
        return result | (uint64_t)(sign < 0 || others == 0) << sign_at;
    }
}

static uint64_t reduce_element(kolo_dtype dtype, kolo_op op, const uint64_t *bits, int n, int ranks) {
    if (op == KOLO_SUM_EXACT)
        return sum_exactly(dtype, bits, n);
    switch (dtype) {
    case KOLO_F64:
        return reduce_f64(op, bits, n, ranks);
    case KOLO_F32:
        return reduce_f32(op, bits, n, ranks);
    case KOLO_F16:
    case KOLO_BF16:
        return reduce_halves(dtype, op, bits, n, ranks);
    default:
        return fold_integers(dtype, op, bits, n, ranks);
    }
}

void oracle_fold(kolo_dtype dtype, kolo_op op, const void *const *inputs, int n, int ranks, size_t count,
                 void *expected) {
    uint64_t bits[RANKS_MAX];
    for (size_t i = 0; i < count; i++) {
        for (int input = 0; input < n; input++)
            bits[input] = bits_at(dtype, inputs[input], i);
        bits_store(dtype, expected, i, n == 1 ? bits[0] : reduce_element(dtype, op, bits, n, ranks));
    }
}

void oracle_reduce(kolo_dtype dtype, kolo_op op, const void *const *inputs, int ranks, size_t count, void *expected) {
    oracle_fold(dtype, op, inputs, ranks, ranks, count, expected);
}

/* Inputs. */

/* Bits of a float or the limits of an integer where kernels go wrong: a base, to which a draw adds some bits and a
 * sign. */
struct special {
    uint64_t base, drawn, signs;
};

static void describe_specials(kolo_dtype dtype, struct special specials[8]) {
    const unsigned fraction = fraction_bits[dtype];
    const uint64_t top = UINT64_C(1) << (8u * sizes[dtype] - 1), unit = UINT64_C(1) << fraction;
    const uint64_t infinity = top - unit, payload = unit - 1;
    const uint64_t integers[8] = {0, 1, UINT64_MAX, top, top - 1, 2, 0, UINT64_MAX - 1};
    const struct special floats[8] = {{0, 0, top}, /* zero */
                                      {infinity, 0, top},
                                      {infinity | 1, payload, top}, /* NaN, quiet or signalling */
                                      {0, payload, top},            /* subnormal */
                                      {infinity - 1, 0, top},       /* greatest */
                                      {unit, 0, top},               /* least normal */
                                      {0, UINT64_MAX, 0},
                                      {0, UINT64_MAX, 0}};
    for (int i = 0; i < 8; i++)
        specials[i] = fraction ? floats[i] : (struct special){.base = integers[i]};
}

static uint64_t special_bits(const struct special specials[8], uint64_t draw) {
    const struct special *special = &specials[draw % 8];
    return special->base | (draw >> 9 & special->drawn) | (special->signs & -(draw >> 8 & 1));
}

static uint64_t near_bits(kolo_dtype dtype, uint64_t draw) {
    const unsigned fraction = fraction_bits[dtype], sign_at = 8u * sizes[dtype] - 1;
    if (fraction == 0)
        return draw;
    const uint64_t one = (UINT64_C(1) << (sign_at - fraction - 1)) - 1, exponent = one - 5 + (draw >> 54) % 10;
    return draw >> 63 << sign_at | exponent << fraction | (draw & ((UINT64_C(1) << fraction) - 1));
}

/* Small whole numbers for sums and averages, powers of two for products. */
static uint64_t exact_bits(kolo_dtype dtype, kolo_op op, uint64_t draw) {
    static const double factors[] = {1, -1, 2, 0.5, 1, -1, 1, 1};
    const int64_t whole = (int64_t)(draw % 7) - 3;
    const double value = op == KOLO_PROD ? factors[draw % 8] : (double)whole;
    uint64_t bits = 0;
    float narrow = (float)value;
    switch (dtype) {
    case KOLO_F64:
        memcpy(&bits, &value, sizeof value);
        return bits;
    case KOLO_F32:
        memcpy(&bits, &narrow, sizeof narrow);
        return bits;
    case KOLO_F16:
        return f16_nearest(narrow);
    case KOLO_BF16:
        return bf16_nearest(narrow);
    default:
        return (uint64_t)whole;
    }
}

void input_fill(input_style style, kolo_dtype dtype, kolo_op op, void *elements, size_t count, uint64_t seed) {
    struct special specials[8];
    uint64_t exact[8];
    const unsigned exacts = op == KOLO_PROD && fraction_bits[dtype] ? 8 : 7; /* exact_bits has so many */
    describe_specials(dtype, specials);
    for (unsigned i = 0; i < exacts; i++)
        exact[i] = exact_bits(dtype, op, i);
    for (size_t i = 0; i < count; i++) {
        uint64_t bits = random_next(&seed);
        if (style == INPUT_SPECIAL)
            bits = bits >> 62 ? special_bits(specials, bits) : bits;
        else if (style == INPUT_NEAR)
            bits = near_bits(dtype, bits);
        else if (style == INPUT_EXACT)
            bits = exact[bits % exacts];
        bits_store(dtype, elements, i, bits);
    }
}
