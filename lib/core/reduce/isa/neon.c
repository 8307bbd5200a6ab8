/* The instance for arm64, whose minimum and maximum are those of IEEE 754-2019. */
#define VECTOR_BYTES 16
#include "reduce/isa/neon_vectors.h"

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

#define INSTANCE         kolo_reducer_neon
#define INSTANCE_NAME    "neon"
#define CANONICAL_IN_F32 0
#include "reduce/template/instance_template.h"
