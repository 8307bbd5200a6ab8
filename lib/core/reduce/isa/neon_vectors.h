/* arm64: what vector_types.h asks for. Minimum and maximum are those of IEEE 754-2019. */
#pragma once

#define VECTOR_BYTES     16
#define CANONICAL_IN_F32 0

#include "reduce/template/vector_types.h"
#include "reduce/template/partial_access.h"

#include <arm_neon.h>

static ALWAYS_INLINE vector canonical_f32(vector x) {
    float32x4_t nan = vreinterpretq_f32_u32(vdupq_n_u32(0x7fc00000));
    return (vector)vbslq_f32(vceqq_f32((float32x4_t)x, (float32x4_t)x), (float32x4_t)x, nan);
}

static ALWAYS_INLINE vector canonical_f64(vector x) {
    float64x2_t nan = vreinterpretq_f64_u64(vdupq_n_u64(0x7ff8000000000000));
    return (vector)vbslq_f64(vceqq_f64((float64x2_t)x, (float64x2_t)x), (float64x2_t)x, nan);
}

static ALWAYS_INLINE bool is_any_set(vector x) {
    return vmaxvq_u32((uint32x4_t)x) != 0;
}

static ALWAYS_INLINE vector minimum_f32(vector a, vector b) {
    return (vector)vminq_f32((float32x4_t)a, (float32x4_t)b);
}

static ALWAYS_INLINE vector minimum_f64(vector a, vector b) {
    return (vector)vminq_f64((float64x2_t)a, (float64x2_t)b);
}

static ALWAYS_INLINE vector maximum_f32(vector a, vector b) {
    return (vector)vmaxq_f32((float32x4_t)a, (float32x4_t)b);
}

static ALWAYS_INLINE vector maximum_f64(vector a, vector b) {
    return (vector)vmaxq_f64((float64x2_t)a, (float64x2_t)b);
}

/* Unpacks the lower half of the elements first. */
static ALWAYS_INLINE pair unpack_F16(const unsigned char *from) {
    float16x8_t halves = (float16x8_t)load_whole(from);
    return (pair){(vector)vcvt_f32_f16(vget_low_f16(halves)), (vector)vcvt_high_f32_f16(halves)};
}

static ALWAYS_INLINE vector pack_F16(pair x) {
    return (vector)vcvt_high_f16_f32(vcvt_f16_f32((float32x4_t)x.first), (float32x4_t)x.second);
}

static ALWAYS_INLINE pair interleave_f32(pair x) {
    return (pair){(vector)vzip1q_u32((uint32x4_t)x.first, (uint32x4_t)x.second),
                  (vector)vzip2q_u32((uint32x4_t)x.first, (uint32x4_t)x.second)};
}

static ALWAYS_INLINE uint32_t sign_bits(vector x) {
    const int32x4_t place = {0, 1, 2, 3};
    return vaddvq_u32(vshlq_u32(vshrq_n_u32((uint32x4_t)x, 31), place));
}

static ALWAYS_INLINE vector sqrt_f32(vector x) {
    return (vector)vsqrtq_f32((float32x4_t)x);
}

static ALWAYS_INLINE vector sqrt_f64(vector x) {
    return (vector)vsqrtq_f64((float64x2_t)x);
}

static ALWAYS_INLINE vector maximum_u32(vector a, vector b) {
    return (vector)vmaxq_u32((uint32x4_t)a, (uint32x4_t)b);
}

static ALWAYS_INLINE vector minimum_u32(vector a, vector b) {
    return (vector)vminq_u32((uint32x4_t)a, (uint32x4_t)b);
}

static ALWAYS_INLINE vector doubles_of(const unsigned char *from) {
    return (vector)vcvt_f64_f32(vreinterpret_f32_u8(vld1_u8(from)));
}
