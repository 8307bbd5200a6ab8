/* The kernels of optimizers for arm64. */
#define VECTOR_BYTES 16
#include "reduce/isa/neon_vectors.h"

static ALWAYS_INLINE vector sqrt_f32(vector x) {
    return (vector)vsqrtq_f32((float32x4_t)x);
}

static ALWAYS_INLINE vector sqrt_f64(vector x) {
    return (vector)vsqrtq_f64((float64x2_t)x);
}

#define INSTANCE      kolo_steps_neon
#define INSTANCE_NAME "neon"
#include "reduce/steps/steps_template.h"
