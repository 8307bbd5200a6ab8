/* The arithmetic of the kernels on whole vectors. Each function takes the dtype or op as a constant and is inlined, so
 * that only one case of it remains. */
#pragma once

#include "reduce/float16.h"
#include "reduce/reducer.h"
#include "reduce/template/vector_types.h"

/* Selects by a mask, which has all bits of an element set, or none. There is a function for each width: compilers make
 * a blend of it only where mask and operands have the same type. */
static ALWAYS_INLINE vector select_8(i8v mask, vector yes, vector no) {
    return (vector)(((i8v)yes & mask) | ((i8v)no & ~mask));
}

static ALWAYS_INLINE vector select_16(i16v mask, vector yes, vector no) {
    return (vector)(((i16v)yes & mask) | ((i16v)no & ~mask));
}

static ALWAYS_INLINE vector select_32(i32v mask, vector yes, vector no) {
    return (vector)(((i32v)yes & mask) | ((i32v)no & ~mask));
}

static ALWAYS_INLINE vector select_64(i64v mask, vector yes, vector no) {
    return (vector)(((i64v)yes & mask) | ((i64v)no & ~mask));
}

/* Returns, for each element, a < b ? yes : no; for integers and keys. */
static ALWAYS_INLINE vector select_less(kolo_dtype dtype, vector a, vector b, vector yes, vector no) {
    switch (dtype) {
    case KOLO_I8:
        return select_8((i8v)((i8v)a < (i8v)b), yes, no);
    case KOLO_U8:
        return select_8((i8v)((u8v)a < (u8v)b), yes, no);
    case KOLO_I16:
    case KOLO_F16: /* keys, as order_key makes them */
    case KOLO_BF16:
        return select_16((i16v)((i16v)a < (i16v)b), yes, no);
    case KOLO_U16:
        return select_16((i16v)((u16v)a < (u16v)b), yes, no);
    case KOLO_I32:
        return select_32((i32v)((i32v)a < (i32v)b), yes, no);
    case KOLO_U32:
        return select_32((i32v)((u32v)a < (u32v)b), yes, no);
    case KOLO_I64:
        return select_64((i64v)((i64v)a < (i64v)b), yes, no);
    default: /* U64 */
        return select_64((i64v)((u64v)a < (u64v)b), yes, no);
    }
}

/* Returns the bits of infinity of a 16-bit float. */
static ALWAYS_INLINE uint16_t infinity_bits(kolo_dtype dtype) {
    return dtype == KOLO_F16 ? 0x7c00 : 0x7f80;
}

static ALWAYS_INLINE vector nans_replaced(kolo_dtype dtype, i16v is_nan, vector x) {
    const uint16_t infinity = infinity_bits(dtype);
    return select_16(is_nan, (vector)((u16v){0} + (uint16_t)(infinity + (0x8000 - infinity) / 2)), x);
}

/* MIN and MAX of 16-bit floats are found among integers, the keys, which are in the order of the numbers: those with
 * the sign bit set are turned round. The NaNs would be the outermost keys at both ends. Rotated by the number of NaNs
 * of one sign, all NaNs are at the end that wins. */
static ALWAYS_INLINE uint16_t key_rotation(kolo_dtype dtype, kolo_op op) {
    uint16_t nans = 0x7fff - infinity_bits(dtype);
    return op == KOLO_MIN ? nans : (uint16_t)-nans;
}

static ALWAYS_INLINE u16v turn_negative(u16v x) {
    return x ^ ((u16v)((i16v)x >> 15) & 0x7fff);
}

static ALWAYS_INLINE vector order_key(kolo_dtype dtype, kolo_op op, vector x) {
    return (vector)(turn_negative((u16v)x) + key_rotation(dtype, op));
}

/* Returns the number with this key, or the canonical NaN. */
static ALWAYS_INLINE vector from_order_key(kolo_dtype dtype, kolo_op op, vector key) {
    const uint16_t infinity = infinity_bits(dtype);
    const int16_t largest = (int16_t)(infinity + key_rotation(dtype, KOLO_MAX)); /* MAX's key of infinity */
    const int16_t least = (int16_t)-largest - 1;                                 /* MIN's, of minus infinity */
    i16v is_nan = op == KOLO_MIN ? (i16v)((i16v)key < least) : (i16v)((i16v)key > largest);
    return nans_replaced(dtype, is_nan, (vector)turn_negative((u16v)key - key_rotation(dtype, op)));
}

static ALWAYS_INLINE vector minimum(kolo_dtype dtype, vector a, vector b) {
    return dtype == KOLO_F32   ? minimum_f32(a, b)
           : dtype == KOLO_F64 ? minimum_f64(a, b)
                               : select_less(dtype, a, b, a, b);
}

static ALWAYS_INLINE vector maximum(kolo_dtype dtype, vector a, vector b) {
    return dtype == KOLO_F32   ? maximum_f32(a, b)
           : dtype == KOLO_F64 ? maximum_f64(a, b)
                               : select_less(dtype, a, b, b, a);
}

/* Signed integers are summed and multiplied as unsigned ones: the same bits, and overflow is defined. */
static ALWAYS_INLINE vector sum_or_product(kolo_dtype dtype, bool product, vector a, vector b) {
    switch (dtype) {
    case KOLO_I8:
    case KOLO_U8:
        return (vector)(product ? (u8v)a * (u8v)b : (u8v)a + (u8v)b);
    case KOLO_I16:
    case KOLO_U16:
        return (vector)(product ? (u16v)a * (u16v)b : (u16v)a + (u16v)b);
    case KOLO_I32:
    case KOLO_U32:
        return (vector)(product ? (u32v)a * (u32v)b : (u32v)a + (u32v)b);
    case KOLO_I64:
    case KOLO_U64:
        return (vector)(product ? (u64v)a * (u64v)b : (u64v)a + (u64v)b);
    case KOLO_F64:
        return (vector)(product ? (f64v)a * (f64v)b : (f64v)a + (f64v)b);
    default: /* F32 */
        return (vector)(product ? (f32v)a * (f32v)b : (f32v)a + (f32v)b);
    }
}

static ALWAYS_INLINE vector combine(kolo_dtype dtype, kolo_op op, vector a, vector b) {
    switch (op) {
    case KOLO_MIN:
        return minimum(dtype, a, b);
    case KOLO_MAX:
        return maximum(dtype, a, b);
    case KOLO_BAND:
        return a & b;
    case KOLO_BOR:
        return a | b;
    case KOLO_BXOR:
        return a ^ b;
    default: /* PROD; SUM and AVG */
        return sum_or_product(dtype, op == KOLO_PROD, a, b);
    }
}

/* Turns every NaN into the positive quiet one without payload. */
static ALWAYS_INLINE vector canonical(kolo_dtype dtype, vector x) {
    if (dtype == KOLO_F32)
        return canonical_f32(x);
    if (dtype == KOLO_F64)
        return canonical_f64(x);
    if (dtype == KOLO_F16 || dtype == KOLO_BF16)
        return nans_replaced(dtype, (i16v)(((i16v)x & 0x7fff) > (int16_t)infinity_bits(dtype)), x);
    return x;
}

/* Makes the upper 16 bits of each element the nearest bfloat16, ties to even. Adding half a unit rounds ties up, and
 * adding less does not: where the two differ in the unit, the unit has to be even. */
static ALWAYS_INLINE u32v round_to_bf16(vector x) {
    u32v tie_up = (u32v)x + 0x8000, tie_down = (u32v)x + 0x7fff;
    return tie_up & (tie_down | 0xfffeffff);
}

/* The divisor of an average. */
typedef struct divisor {
    uint32_t ranks;
    double reciprocal;
} divisor;

static ALWAYS_INLINE divisor divisor_of(kolo_op op, uint32_t ranks) {
    return op == KOLO_AVG ? (divisor){ranks, 1.0 / ranks} : (divisor){0, 0};
}

/* Returns whether `ranks` is a power of two. Its reciprocal is then exact, so a product with it is the quotient. */
static ALWAYS_INLINE bool is_power_of_two(uint32_t ranks) {
    return (ranks & (ranks - 1)) == 0;
}

static ALWAYS_INLINE vector divide_F32(vector x, divisor by) {
    float reciprocal = f32_from_bits(f32_bits(1.0f) - ((uint32_t)__builtin_ctz(by.ranks) << 23));
    return is_power_of_two(by.ranks) ? (vector)((f32v)x * reciprocal) : (vector)((f32v)x / (float)by.ranks);
}

static ALWAYS_INLINE vector divide_F64(vector x, divisor by) {
    return is_power_of_two(by.ranks) ? (vector)((f64v)x * by.reciprocal) : (vector)((f64v)x / (double)by.ranks);
}

/* 64-bit integers are divided in two steps of 32 bits, as by hand, in doubles. An integer below 2^52 becomes a double
 * as the fraction of one with the exponent of 2^52. A dividend is below 2^42. Less half of ranks - 1, its quotient lies
 * within 1/2 - 1/(2 ranks) of the right integer. That is farther from a tie than all rounding can move it, so that
 * adding 1.5 * 2^52 rounds to that integer and leaves it in the lower bits of the fraction. */
#define TWO_52      0x1p52
#define TWO_52_BITS UINT64_C(0x4330000000000000)
#define ROUNDER     0x1.8p52

static ALWAYS_INLINE f64v double_of_integer(u64v x) {
    return (f64v)(x | TWO_52_BITS) - TWO_52;
}

static ALWAYS_INLINE f64v rounder_plus_quotient(f64v dividend, divisor by) {
    return (dividend - (by.ranks - 1) / 2.0) * by.reciprocal + ROUNDER;
}

static ALWAYS_INLINE vector divide_U64(vector x, divisor by) {
    f64v upper = double_of_integer((u64v)x >> 32), lower = double_of_integer((u64v)x & UINT32_MAX);
    f64v upper_quotient = rounder_plus_quotient(upper, by);
    f64v remainder = upper - (upper_quotient - ROUNDER) * (double)by.ranks;
    f64v lower_quotient = rounder_plus_quotient(remainder * 0x1p32 + lower, by);
    return (vector)((u64v)upper_quotient << 32 | ((u64v)lower_quotient & UINT32_MAX));
}

static ALWAYS_INLINE vector divide_I64(vector x, divisor by) {
    u64v sign = (u64v)((i64v)x < 0);
    u64v magnitude = ((u64v)x ^ sign) - sign;
    return (vector)(((u64v)divide_U64((vector)magnitude, by) ^ sign) - sign);
}
