#include "oracle.h"

#include <math.h>
#include <string.h>

#include "splitmix64.h"

/* Here tests spend much of their time. Elements are taken in blocks, for a compiler makes vectors of loops that do the
 * same to each element of one, without branches. The thread sanitizer does not look into this file: what it sees of a
 * communicator's buffers are the functions of the C library that copy and compare, so no other code touches those. */
enum { BLOCK = 128, LEVELS = 12 };
_Static_assert(KOLO_RANKS_MAX < 1 << LEVELS, "");

bool order_matters(kolo_dtype dtype, kolo_op op) {
    return dtype >= KOLO_F16 && (op == KOLO_SUM || op == KOLO_PROD || op == KOLO_AVG);
}

enum { CHAINS = 4 }; /* of multiplications, which a processor has under way at once */

/* Of up to a block of words, and a multiple of CHAINS. */
static uint64_t hash_words(const uint64_t *words, size_t count) {
    uint64_t hashes[CHAINS] = {1, 2, 3, 4}, hash = 0;
    for (size_t i = 0; i < count; i += CHAINS)
        for (size_t chain = 0; chain < CHAINS; chain++) {
            hashes[chain] = (hashes[chain] ^ words[i + chain]) * UINT64_C(0x9e3779b97f4a7c15);
            hashes[chain] ^= hashes[chain] >> 29;
        }
    for (int i = 0; i < CHAINS; i++) {
        hash = (hash ^ hashes[i]) * UINT64_C(0x9e3779b97f4a7c15);
        hash ^= hash >> 29;
    }
    return hash;
}

uint64_t hash_bytes(const void *bytes, size_t length) {
    const unsigned char *at = bytes;
    uint64_t words[BLOCK], hash = length;
    while (length) {
        const size_t part = length < sizeof words ? length : sizeof words,
                     count = (part + 8 * CHAINS - 1) / (8 * CHAINS) * CHAINS;
        memset(words + count - CHAINS, 0, 8 * CHAINS);
        memcpy(words, at, part);
        hash = (hash ^ hash_words(words, count)) * UINT64_C(0x9e3779b97f4a7c15);
        hash ^= hash >> 29;
        at += part;
        length -= part;
    }
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

/* The bits of an element at any address. All supported machines are little-endian. */
static uint64_t bits_at(kolo_dtype dtype, const void *elements, size_t index) {
    const char *at = (const char *)elements + index * sizes[dtype];
    uint64_t bits = 0;
    switch (sizes[dtype]) { /* a copy of a constant size is a move */
    case 1:
        memcpy(&bits, at, 1);
        break;
    case 2:
        memcpy(&bits, at, 2);
        break;
    case 4:
        memcpy(&bits, at, 4);
        break;
    default:
        memcpy(&bits, at, 8);
    }
    return bits;
}

/* Stores a block's low bits, to any address. */
static void bits_store(kolo_dtype dtype, void *elements, const uint64_t *bits, size_t count) {
    union {
        uint8_t u8[BLOCK];
        uint16_t u16[BLOCK];
        uint32_t u32[BLOCK];
    } narrow;
    switch (sizes[dtype]) {
    case 1:
        for (size_t i = 0; i < count; i++)
            narrow.u8[i] = (uint8_t)bits[i];
        break;
    case 2:
        for (size_t i = 0; i < count; i++)
            narrow.u16[i] = (uint16_t)bits[i];
        break;
    case 4:
        for (size_t i = 0; i < count; i++)
            narrow.u32[i] = (uint32_t)bits[i];
        break;
    default:
        memcpy(elements, bits, count * sizeof *bits);
        return;
    }
    memcpy(elements, &narrow, count * sizes[dtype]);
}

/* condition ? a : b without a branch, which processors would often predict wrongly. */
static uint64_t choose(bool condition, uint64_t a, uint64_t b) {
    const uint64_t mask = -(uint64_t)condition;
    return (a & mask) | (b & ~mask);
}

static uint32_t f32_bits(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static float f32_value(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint64_t f64_bits(double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static double f64_value(uint64_t bits) {
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Floats of 16 bits, by arithmetic on the values that they stand for. */

static float f16_value(uint16_t half) {
    const uint32_t size = half & 0x7fff, unit = 1 << 23, bias = (127 - 15) * unit;
    const uint32_t normal = (size << 13) + bias;
    const uint32_t subnormal = f32_bits(f32_value((size << 13) + bias + unit) - 0x1p-14f);
    const uint32_t any = (uint32_t)choose(size < 0x400, subnormal, normal) + (size >= 0x7c00 ? bias : 0);
    return f32_value(any | (half & UINT32_C(0x8000)) << 16);
}

static uint16_t f16_nearest(float value) {
    const uint64_t least = 1023 - 14, sign = signbit(value) ? 0x8000 : 0;
    const double size = fabs((double)value) < 65536 ? fabs((double)value) : 65536;
    const uint64_t exponent = f64_bits(size) >> 52, last = exponent > least ? exponent : least;
    /* The last place of this number is that of the rounded one: to add it is to round, and to count places. */
    const uint64_t base = (last + 52 - 10) << 52, places = f64_bits(f64_value(base) + size) - base;
    /* Numbers of the format, counted from zero, are in the order of their bits. */
    const uint64_t bits = places + (last - least) * 1024;
    return (uint16_t)choose(isnan(value), 0x7e00, sign | bits);
}

static float bf16_value(uint16_t half) {
    return f32_value((uint32_t)half << 16);
}

static uint16_t bf16_nearest(float value) {
    const uint32_t bits = f32_bits(value), below = bits >> 16, rest = bits & 0xffff;
    return (uint16_t)choose(isnan(value), 0x7fc0, below + ((rest + below % 2) > 0x8000));
}

/* A block of one rank's elements, each in the type in which it is combined: floats of 16 bits as float. */
union row {
    uint64_t integers[BLOCK];
    float f32[BLOCK];
    double f64[BLOCK];
};

static void row_load(kolo_dtype dtype, union row *row, const void *elements, size_t count) {
    uint16_t halves[BLOCK];
    if (dtype != KOLO_F16 && dtype != KOLO_BF16) {
        memcpy(row, elements, count * sizes[dtype]);
        return;
    }
    memcpy(halves, elements, count * sizeof *halves);
    for (size_t i = 0; dtype == KOLO_F16 && i < count; i++)
        row->f32[i] = f16_value(halves[i]);
    for (size_t i = 0; dtype == KOLO_BF16 && i < count; i++)
        row->f32[i] = bf16_value(halves[i]);
}

/* Rounds floats to their type, and gives every NaN the bits of kolo's. */
static void row_store(kolo_dtype dtype, union row *row, void *elements, size_t count) {
    uint16_t halves[BLOCK];
    for (size_t i = 0; dtype == KOLO_F64 && i < count; i++)
        row->f64[i] = isnan(row->f64[i]) ? f64_value(UINT64_C(0x7ff8000000000000)) : row->f64[i];
    for (size_t i = 0; dtype == KOLO_F32 && i < count; i++)
        row->f32[i] = isnan(row->f32[i]) ? f32_value(0x7fc00000) : row->f32[i];
    for (size_t i = 0; dtype == KOLO_F16 && i < count; i++)
        halves[i] = f16_nearest(row->f32[i]);
    for (size_t i = 0; dtype == KOLO_BF16 && i < count; i++)
        halves[i] = bf16_nearest(row->f32[i]);
    memcpy(elements, dtype == KOLO_F16 || dtype == KOLO_BF16 ? (void *)halves : row, count * sizes[dtype]);
}

#define FLOAT          float
#define AS_BITS        f32_bits
#define AS_VALUE(bits) f32_value((uint32_t)(bits))
#define FIRST          first_f32
#define COMBINE        combine_f32
#define AVERAGE        average_f32
#include "oracle_floats.h"

#define FLOAT    double
#define AS_BITS  f64_bits
#define AS_VALUE f64_value
#define FIRST    first_f64
#define COMBINE  combine_f64
#define AVERAGE  average_f64
#include "oracle_floats.h"

#define INTEGER int8_t
#define COMBINE combine_i8
#define AVERAGE average_i8
#include "oracle_integers.h"

#define INTEGER uint8_t
#define COMBINE combine_u8
#define AVERAGE average_u8
#include "oracle_integers.h"

#define INTEGER int16_t
#define COMBINE combine_i16
#define AVERAGE average_i16
#include "oracle_integers.h"

#define INTEGER uint16_t
#define COMBINE combine_u16
#define AVERAGE average_u16
#include "oracle_integers.h"

#define INTEGER int32_t
#define COMBINE combine_i32
#define AVERAGE average_i32
#include "oracle_integers.h"

#define INTEGER uint32_t
#define COMBINE combine_u32
#define AVERAGE average_u32
#include "oracle_integers.h"

#define INTEGER int64_t
#define COMBINE combine_i64
#define AVERAGE average_i64
#include "oracle_integers.h"

#define INTEGER uint64_t
#define COMBINE combine_u64
#define AVERAGE average_u64
#include "oracle_integers.h"

static const struct arithmetic {
    void (*combine)(kolo_op op, void *left, const void *right, size_t count);
    void (*average)(void *row, int ranks, size_t count);
} arithmetics[KOLO_DTYPES] = {
    [KOLO_I8] = {combine_i8, average_i8},    [KOLO_U8] = {combine_u8, average_u8},
    [KOLO_I16] = {combine_i16, average_i16}, [KOLO_U16] = {combine_u16, average_u16},
    [KOLO_I32] = {combine_i32, average_i32}, [KOLO_U32] = {combine_u32, average_u32},
    [KOLO_I64] = {combine_i64, average_i64}, [KOLO_U64] = {combine_u64, average_u64},
    [KOLO_F16] = {combine_f32, average_f32}, [KOLO_BF16] = {combine_f32, average_f32},
    [KOLO_F32] = {combine_f32, average_f32}, [KOLO_F64] = {combine_f64, average_f64},
};

/* Folds the inputs pairwise: neighbours first, then neighbouring pairs, with what is left over carried along. That is
 * the tree which splits at the largest power of two below the count. On the stack of rows lie the folds of 2^k inputs
 * each, for each bit k of how many there have been. */
static void fold_block(kolo_dtype dtype, kolo_op op, const void *const *inputs, int n, int ranks, size_t first,
                       size_t count, void *expected) {
    const struct arithmetic *arithmetic = &arithmetics[dtype];
    union row rows[LEVELS];
    int depth = 0;
    for (int input = 0; input < n; input++) {
        row_load(dtype, &rows[depth++], (const char *)inputs[input] + first * sizes[dtype], count);
        for (int done = input + 1; done % 2 == 0; done /= 2, depth--)
            arithmetic->combine(op, &rows[depth - 2], &rows[depth - 1], count);
    }
    for (; depth > 1; depth--)
        arithmetic->combine(op, &rows[depth - 2], &rows[depth - 1], count);
    if (op == KOLO_AVG)
        arithmetic->average(rows, ranks, count);
    row_store(dtype, rows, (char *)expected + first * sizes[dtype], count);
}

/* SUM_EXACT: the true sum as a number of many digits, and rounded. */

enum { POWERS_BELOW = 1, POWERS_ABOVE = 80, DIGIT_BITS = 32, DIGITS = 72 }; /* with room for sums of many */

static const unsigned fraction_bits[KOLO_DTYPES] = {[KOLO_F16] = 10, [KOLO_BF16] = 7, [KOLO_F32] = 23, [KOLO_F64] = 52};

/* How many digits a sum may have, from below the unit of subnormals on. */
static int digits_of(kolo_dtype dtype) {
    const int fraction = (int)fraction_bits[dtype], exponent_bits = 8 * sizes[dtype] - 1 - fraction;
    return (POWERS_BELOW + (1 << exponent_bits) + fraction + POWERS_ABOVE) / DIGIT_BITS + 1;
}

static void add_number(int64_t *digits, kolo_dtype dtype, uint64_t fraction, uint64_t exponent, bool is_negative) {
    if (exponent > 0)
        fraction |= UINT64_C(1) << fraction_bits[dtype];
    const int power = POWERS_BELOW + (exponent > 0 ? (int)exponent - 1 : 0), shift = power % DIGIT_BITS;
    const int64_t sign = is_negative ? -1 : 1;
    int64_t *at = digits + power / DIGIT_BITS;
    at[0] += sign * (int64_t)(uint32_t)(fraction << shift);
    at[1] += sign * (int64_t)(uint32_t)(fraction >> (DIGIT_BITS - shift));
    at[2] += sign * (int64_t)(fraction >> DIGIT_BITS >> (DIGIT_BITS - shift));
}

/* Carries, so that each digit is below 2^32. False: the number is negative, and too large by a power above all digits.
 */
static bool settle(int64_t *digits, int count) {
    int64_t carry = 0;
    for (int i = 0; i < count; i++) {
        const int64_t digit = digits[i] + carry;
        digits[i] = (uint32_t)digit;
        carry = (digit - digits[i]) / (INT64_C(1) << DIGIT_BITS);
    }
    return carry == 0;
}

/* 64 bits from a power on. */
static uint64_t bits_from(const int64_t *digits, int power) {
    const int64_t *at = digits + power / DIGIT_BITS;
    const int shift = power % DIGIT_BITS;
    const uint64_t low = (uint64_t)at[0] | (uint64_t)at[1] << DIGIT_BITS;
    return low >> shift | (uint64_t)at[2] << (DIGIT_BITS - shift) << DIGIT_BITS;
}

static uint64_t round_digits(const int64_t *digits, kolo_dtype dtype) {
    const int fraction = (int)fraction_bits[dtype], least = POWERS_BELOW;
    const uint64_t infinity = (UINT64_C(1) << (8 * sizes[dtype] - 1)) - (UINT64_C(1) << fraction);
    int top = digits_of(dtype) * DIGIT_BITS - 1;
    while (top >= 0 && digits[top / DIGIT_BITS] == 0)
        top -= DIGIT_BITS;
    while (top >= 0 && !(digits[top / DIGIT_BITS] >> top % DIGIT_BITS & 1))
        top--;
    const int unit = top - fraction > least ? top - fraction : least, below = unit - 1;
    uint64_t places = bits_from(digits, unit);
    int64_t rest = digits[below / DIGIT_BITS] & ((INT64_C(1) << below % DIGIT_BITS) - 1);
    for (int i = 0; i < below / DIGIT_BITS; i++)
        rest |= digits[i];
    if ((bits_from(digits, below) & 1) && (rest || places % 2))
        places++;
    /* Numbers of the format, counted from zero, are in the order of their bits. */
    const uint64_t bits = places + ((uint64_t)(unit - least) << fraction);
    return bits < infinity ? bits : infinity;
}

static uint64_t sum_exactly(kolo_dtype dtype, const uint64_t *bits, int n) {
    const unsigned fraction = fraction_bits[dtype], sign_at = 8u * sizes[dtype] - 1;
    const uint64_t infinity = (UINT64_C(1) << sign_at) - (UINT64_C(1) << fraction);
    const int count = digits_of(dtype);
    int64_t digits[DIGITS + 2] = {0}; /* the last two remain 0 */
    bool others = false, specials[3] = {false};
    for (int i = 0; i < n; i++) {
        const uint64_t size = bits[i] & ((UINT64_C(1) << sign_at) - 1);
        const bool is_negative = bits[i] >> sign_at & 1;
        others |= size != 0 || !is_negative;
        if (size >= infinity)
            specials[size > infinity ? 0 : is_negative ? 1 : 2] = true;
        else
            add_number(digits, dtype, size & ((UINT64_C(1) << fraction) - 1), size >> fraction, is_negative);
    }
    if (specials[0] || (specials[1] && specials[2]))
        return infinity | UINT64_C(1) << (fraction - 1);
    if (specials[1] || specials[2])
        return infinity | (uint64_t)specials[1] << sign_at;
    const bool is_negative = !settle(digits, count);
    if (is_negative) {
        for (int i = 0; i < count; i++)
            digits[i] = -digits[i];
        settle(digits, count);
    }
    return round_digits(digits, dtype) | (uint64_t)(is_negative || !others) << sign_at;
}

static void sum_block(kolo_dtype dtype, const void *const *inputs, int n, size_t first, size_t count, void *expected) {
    uint64_t bits[KOLO_RANKS_MAX], sums[BLOCK];
    for (size_t i = 0; i < count; i++) {
        for (int input = 0; input < n; input++)
            bits[input] = bits_at(dtype, inputs[input], first + i);
        sums[i] = sum_exactly(dtype, bits, n);
    }
    bits_store(dtype, (char *)expected + first * sizes[dtype], sums, count);
}

void oracle_fold(kolo_dtype dtype, kolo_op op, const void *const *inputs, int n, int ranks, size_t count,
                 void *expected) {
    if (n == 1) {
        memcpy(expected, inputs[0], count * sizes[dtype]);
        return;
    }
    for (size_t first = 0; first < count; first += BLOCK) {
        const size_t block = count - first < BLOCK ? count - first : BLOCK;
        if (op == KOLO_SUM_EXACT)
            sum_block(dtype, inputs, n, first, block, expected);
        else
            fold_block(dtype, op, inputs, n, ranks, first, block, expected);
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
    const float narrow = (float)value;
    switch (dtype) {
    case KOLO_F64:
        return f64_bits(value);
    case KOLO_F32:
        return f32_bits(narrow);
    case KOLO_F16:
        return f16_nearest(narrow);
    case KOLO_BF16:
        return bf16_nearest(narrow);
    default:
        return (uint64_t)whole;
    }
}

enum { DRAWN = 2 * BLOCK, RUN = 32 };

/* The first DRAWN units of bytes are drawn: fills the others with runs of those, from places that are drawn. That takes
 * a small part of the time that it would take to draw them all. */
static void fill_rest(void *bytes, size_t unit, size_t length, uint64_t *seed) {
    char *to = bytes;
    const size_t run = RUN * unit;
    for (size_t at = DRAWN * unit; at < length; at += run)
        memcpy(to + at, to + random_below(seed, DRAWN - RUN + 1) * unit, length - at < run ? length - at : run);
}

void random_fill(void *bytes, size_t length, uint64_t seed) {
    uint64_t words[DRAWN];
    const size_t drawn = length < sizeof words ? length : sizeof words;
    for (size_t i = 0; i * sizeof *words < drawn; i++)
        words[i] = random_next(&seed);
    memcpy(bytes, words, drawn);
    fill_rest(bytes, sizeof *words, length, &seed);
}

/* Draws up to a block of elements. */
static void draw_block(input_style style, kolo_dtype dtype, kolo_op op, void *elements, size_t count, uint64_t *seed) {
    struct special specials[8];
    uint64_t exact[8], bits[BLOCK];
    const bool are_factors = op == KOLO_PROD && fraction_bits[dtype]; /* exact_bits has 8 of these, else 7 */
    describe_specials(dtype, specials);
    for (unsigned i = 0; style == INPUT_EXACT && i < 8; i++)
        exact[i] = exact_bits(dtype, op, i);
    for (size_t i = 0; i < count; i++)
        bits[i] = random_next(seed);
    for (size_t i = 0; style == INPUT_SPECIAL && i < count; i++)
        bits[i] = choose(bits[i] >> 62, special_bits(specials, bits[i]), bits[i]);
    for (size_t i = 0; style == INPUT_NEAR && i < count; i++)
        bits[i] = near_bits(dtype, bits[i]);
    for (size_t i = 0; style == INPUT_EXACT && i < count; i++)
        bits[i] = exact[are_factors ? bits[i] % 8 : bits[i] % 7];
    bits_store(dtype, elements, bits, count);
}

void input_fill(input_style style, kolo_dtype dtype, kolo_op op, void *elements, size_t count, uint64_t seed) {
    const size_t size = sizes[dtype];
    if (style == INPUT_BITS) {
        random_fill(elements, count * size, seed);
        return;
    }
    for (size_t at = 0; at < count && at < DRAWN; at += BLOCK)
        draw_block(style, dtype, op, (char *)elements + at * size, count - at < BLOCK ? count - at : BLOCK, &seed);
    fill_rest(elements, size, count * size, &seed);
}
