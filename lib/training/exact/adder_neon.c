/* The adder for arm64. */
#define VECTOR_BYTES 16
#include "reduce/isa/neon_vectors.h"

static ALWAYS_INLINE vector maximum_u32(vector a, vector b) {
    return (vector)vmaxq_u32((uint32x4_t)a, (uint32x4_t)b);
}

static ALWAYS_INLINE vector minimum_u32(vector a, vector b) {
    return (vector)vminq_u32((uint32x4_t)a, (uint32x4_t)b);
}

static ALWAYS_INLINE vector doubles_of(const unsigned char *from) {
    return (vector)vcvt_f64_f32(vreinterpret_f32_u8(vld1_u8(from)));
}

#define INSTANCE      kolo_adder_neon
#define INSTANCE_NAME "neon"
#include "training/exact/adder_template.h"
