/* The kernels of optimizers for arm64. */
#define VECTOR_BYTES 16
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

static ALWAYS_INLINE vector sqrt_f32(vector x) {
    return (vector)vsqrtq_f32((float32x4_t)x);
}

static ALWAYS_INLINE vector sqrt_f64(vector x) {
    return (vector)vsqrtq_f64((float64x2_t)x);
}

#define INSTANCE      kolo_steps_neon
#define INSTANCE_NAME "neon"
#include "reduce/optimizers/steps_template.h"
