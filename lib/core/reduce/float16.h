/* Conversions of one element between binary32 and the two 16-bit formats, in integer arithmetic. The vector instances
 * must agree with them. Narrowing rounds to nearest, ties to even, and turns every NaN into the positive quiet NaN
 * without payload. Widening is exact; a NaN keeps sign and payload, and a binary16 NaN becomes quiet. */
#pragma once

#include <stdint.h>
#include <string.h>

static inline uint32_t f32_bits(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float f32_from_bits(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* binary16: 1 sign bit, 5 of exponent (bias 15), 10 of fraction. */
static inline float f32_from_F16(uint16_t half) {
    uint32_t sign = (uint32_t)(half & 0x8000) << 16;
    uint32_t exponent = (half >> 10) & 0x1f;
    uint32_t fraction = half & 0x3ff;
    if (exponent == 0) /* zero or subnormal: a multiple of 2^-24 */
        return f32_from_bits(sign | f32_bits((float)fraction * 0x1p-24f));
    if (exponent == 0x1f)
        return f32_from_bits(sign | 0x7f800000 | fraction << 13 | (fraction ? 0x400000 : 0));
    return f32_from_bits(sign | (exponent + 127 - 15) << 23 | fraction << 13);
}

static inline uint16_t F16_from_f32(float value) {
    uint32_t bits = f32_bits(value);
    uint16_t sign = bits >> 16 & 0x8000;
    uint32_t magnitude = bits & 0x7fffffff;
    if (magnitude > 0x7f800000)
        return 0x7e00;
    if (magnitude >= f32_bits(65520.0f)) /* halfway between the largest number, 65504, and what would follow it */
        return sign | 0x7c00;
    if (magnitude < f32_bits(0x1p-14f)) /* a multiple of 2^-24, which is the unit in the last place of 0.5 */
        return sign | (uint16_t)(f32_bits(f32_from_bits(magnitude) + 0.5f) - f32_bits(0.5f));
    uint32_t rounded = magnitude + 0xfff + (magnitude >> 13 & 1);
    return sign | (uint16_t)((rounded >> 13) - ((127 - 15) << 10));
}

/* bfloat16: the upper half of a binary32. */
static inline float f32_from_BF16(uint16_t half) {
    return f32_from_bits((uint32_t)half << 16);
}

static inline uint16_t BF16_from_f32(float value) {
    uint32_t bits = f32_bits(value);
    uint32_t rounded = bits + 0x7fff + (bits >> 16 & 1);
    return value != value ? 0x7fc0 : (uint16_t)(rounded >> 16);
}
