/* The kernels of optimizers for AVX2. */
#define VECTOR_BYTES 32
#include "reduce/isa/avx2_vectors.h"

static ALWAYS_INLINE vector sqrt_f32(vector x) {
    return (vector)_mm256_sqrt_ps((__m256)x);
}

static ALWAYS_INLINE vector sqrt_f64(vector x) {
    return (vector)_mm256_sqrt_pd((__m256d)x);
}

#define INSTANCE      kolo_steps_avx2
#define INSTANCE_NAME "avx2"
#include "reduce/steps/steps_template.h"
