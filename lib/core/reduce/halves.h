/* Halves, the 16-bit floats: a vector of them is read as a pair in F32 and packed again, and whole arrays are widened
 * and narrowed, elements in order. A quiet NaN stays one when it is packed; an array that is narrowed holds no NaN
 * except the canonical one. Whole arrays have functions of their own, which keeps the kernels that call them small. */
#pragma once

#include "reduce/float16.h"
#include "reduce/template/vector_access.h"
#include "reduce/template/vector_arithmetic.h"

static ALWAYS_INLINE pair read_F16(const unsigned char *from, size_t bytes) {
    if (bytes == VECTOR_BYTES)
        return unpack_F16(from);
    vector some = load_partial(from, bytes);
    return unpack_F16((const unsigned char *)&some);
}

/* Reads the even elements and the odd ones, so that no element changes its place, here or when they are packed. */
static ALWAYS_INLINE pair read_BF16(const unsigned char *from, size_t bytes) {
    u32v x = (u32v)load(from, bytes);
    return (pair){(vector)(x << 16), (vector)(x & 0xffff0000)};
}

static ALWAYS_INLINE vector pack_BF16(pair x) {
    return (vector)(round_to_bf16(x.first) >> 16 | (round_to_bf16(x.second) & 0xffff0000));
}

static ALWAYS_INLINE pair canonical_pair(pair x) {
    return (pair){canonical(KOLO_F32, x.first), canonical(KOLO_F32, x.second)};
}

/* Returns what is stored of a pair: rounded, with every NaN the canonical one. */
static ALWAYS_INLINE vector result_F16(pair x) {
    return CANONICAL_IN_F32 ? pack_F16(canonical_pair(x)) : canonical(KOLO_F16, pack_F16(x));
}

static ALWAYS_INLINE vector result_BF16(pair x) {
    return CANONICAL_IN_F32 ? pack_BF16(canonical_pair(x)) : canonical(KOLO_BF16, pack_BF16(x));
}

/* Returns a pair, as it was read, with its elements in order. */
static ALWAYS_INLINE pair in_order_F16(pair x) {
    return x;
}

static ALWAYS_INLINE pair in_order_BF16(pair x) {
    return interleave_f32(x);
}

static __attribute__((noinline)) void widen_F16(void *acc_out, const void *source, size_t count) {
    const size_t bytes = count * sizeof(uint16_t);
    for (size_t at = 0; at < bytes; at += VECTOR_BYTES) {
        size_t step = bytes - at < VECTOR_BYTES ? bytes - at : VECTOR_BYTES;
        pair widened = read_F16((const unsigned char *)source + at, step);
        store_pair((unsigned char *)acc_out + 2 * at, widened, 2 * step);
    }
}

static __attribute__((noinline)) void narrow_F16(void *dst, const void *source, size_t count) {
    const size_t bytes = count * sizeof(uint16_t);
    for (size_t at = 0; at < bytes; at += VECTOR_BYTES) {
        size_t step = bytes - at < VECTOR_BYTES ? bytes - at : VECTOR_BYTES;
        vector narrowed = pack_F16(load_pair((const unsigned char *)source + 2 * at, 2 * step));
        store((unsigned char *)dst + at, narrowed, step);
    }
}

/* Widens an array. Compilers find the vectors here by themselves. */
static __attribute__((noinline)) void widen_BF16(void *acc_out, const void *source, size_t count) {
    for (size_t i = 0; i < count; i++) {
        uint16_t element;
        memcpy(&element, (const char *)source + i * sizeof element, sizeof element);
        float widened = f32_from_BF16(element);
        memcpy((char *)acc_out + i * sizeof widened, &widened, sizeof widened);
    }
}

static __attribute__((noinline)) void narrow_BF16(void *dst, const void *source, size_t count) {
    for (size_t i = 0; i < count; i++) {
        float value;
        memcpy(&value, (const char *)source + i * sizeof value, sizeof value);
        uint16_t narrowed = BF16_from_f32(value);
        memcpy((char *)dst + i * sizeof narrowed, &narrowed, sizeof narrowed);
    }
}
