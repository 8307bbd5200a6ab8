/* What the kernels compute on whole vectors. Each function takes the dtype or op as a constant and is inlined, so that
 * one case of it remains. */
#ifndef KOLO_REDUCE_VECTOR_ARITHMETIC_H
#define KOLO_REDUCE_VECTOR_ARITHMETIC_H

#include "reduce/reducer.h"
#include "reduce/vector_types.h"

/* A mask has all bits of a lane set, or none. One function a width: compilers make a blend of it only where mask and
 * operands have the same type. */
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

/* Lane by lane, a < b ? yes : no; for integers. */
static ALWAYS_INLINE vector select_less(kolo_dtype dtype, vector a, vector b, vector yes, vector no) {
    switch (dtype) {
    case KOLO_I8:
        return select_8((i8v)((i8v)a < (i8v)b), yes, no);
    case KOLO_U8:
        return select_8((i8v)((u8v)a < (u8v)b), yes, no);
    case KOLO_I16:
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

static ALWAYS_INLINE vector minimum(kolo_dtype dtype, vector a, vector b) {
    if (dtype == KOLO_F32)
        return minimum_f32(a, b);
    if (dtype == KOLO_F64)
        return minimum_f64(a, b);
    return select_less(dtype, a, b, a, b);
}

static ALWAYS_INLINE vector maximum(kolo_dtype dtype, vector a, vector b) {
    if (dtype == KOLO_F32)
        return maximum_f32(a, b);
    if (dtype == KOLO_F64)
        return maximum_f64(a, b);
    return select_less(dtype, a, b, b, a);
}

/* Signed integers are summed and multiplied as unsigned ones: the same bits, and overflow is defined. */
static ALWAYS_INLINE vector sum(kolo_dtype dtype, vector a, vector b) {
    switch (dtype) {
    case KOLO_I8:
    case KOLO_U8:
        return (vector)((u8v)a + (u8v)b);
    case KOLO_I16:
    case KOLO_U16:
        return (vector)((u16v)a + (u16v)b);
    case KOLO_I32:
    case KOLO_U32:
        return (vector)((u32v)a + (u32v)b);
    case KOLO_I64:
    case KOLO_U64:
        return (vector)((u64v)a + (u64v)b);
    case KOLO_F64:
        return (vector)((f64v)a + (f64v)b);
    default: /* F32 */
        return (vector)((f32v)a + (f32v)b);
    }
}

static ALWAYS_INLINE vector product(kolo_dtype dtype, vector a, vector b) {
    switch (dtype) {
    case KOLO_I8:
    case KOLO_U8:
        return (vector)((u8v)a * (u8v)b);
    case KOLO_I16:
    case KOLO_U16:
        return (vector)((u16v)a * (u16v)b);
    case KOLO_I32:
    case KOLO_U32:
        return (vector)((u32v)a * (u32v)b);
    case KOLO_I64:
    case KOLO_U64:
        return (vector)((u64v)a * (u64v)b);
    case KOLO_F64:
        return (vector)((f64v)a * (f64v)b);
    default: /* F32 */
        return (vector)((f32v)a * (f32v)b);
    }
}

static ALWAYS_INLINE vector combine(kolo_dtype dtype, kolo_op op, vector a, vector b) {
    switch (op) {
    case KOLO_PROD:
        return product(dtype, a, b);
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
    default: /* SUM and AVG */
        return sum(dtype, a, b);
    }
}

/* Every NaN becomes the positive quiet one without payload. */
static ALWAYS_INLINE vector canonical(kolo_dtype dtype, vector x) {
    if (dtype == KOLO_F32)
        return canonical_f32(x);
    if (dtype == KOLO_F64)
        return canonical_f64(x);
    return x;
}

/* The divisor of an average. */
typedef struct divisor {
    uint32_t ranks;
    uint64_t reciprocal; /* floor((2^64 - 1) / ranks) */
} divisor;

static ALWAYS_INLINE divisor divisor_of(kolo_op op, uint32_t ranks) {
    return op == KOLO_AVG ? (divisor){ranks, UINT64_MAX / ranks} : (divisor){0, 0};
}

static ALWAYS_INLINE vector divide_F32(vector x, divisor by) {
    return (vector)((f32v)x / (float)by.ranks);
}

static ALWAYS_INLINE vector divide_F64(vector x, divisor by) {
    return (vector)((f64v)x / (double)by.ranks);
}

/* The upper half of the product with the reciprocal is the quotient or one less. */
static ALWAYS_INLINE uint64_t quotient_u64(uint64_t x, divisor by) {
    uint64_t quotient = (uint64_t)((unsigned __int128)x * by.reciprocal >> 64);
    return quotient + (x - quotient * by.ranks >= by.ranks);
}

static ALWAYS_INLINE int64_t quotient_i64(int64_t x, divisor by) {
    uint64_t sign = x < 0 ? UINT64_MAX : 0;
    uint64_t magnitude = ((uint64_t)x ^ sign) - sign;
    return (int64_t)((quotient_u64(magnitude, by) ^ sign) - sign);
}

#endif
