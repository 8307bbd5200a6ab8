/* The kernels of optimizers for AVX2. */
#define VECTOR_BYTES 32
#include "reduce/template/vector_types.h"
#include "reduce/template/partial_access.h"

#include <immintrin.h>

static ALWAYS_INLINE vector canonical_f32(vector x) {
    __m256 nan = _mm256_castsi256_ps(_mm256_set1_epi32(0x7fc00000));
    return (vector)_mm256_blendv_ps((__m256)x, nan, _mm256_cmp_ps((__m256)x, (__m256)x, _CMP_UNORD_Q));
}

static ALWAYS_INLINE vector canonical_f64(vector x) {
    __m256d nan = _mm256_castsi256_pd(_mm256_set1_epi64x(0x7ff8000000000000));
    return (vector)_mm256_blendv_pd((__m256d)x, nan, _mm256_cmp_pd((__m256d)x, (__m256d)x, _CMP_UNORD_Q));
}

static ALWAYS_INLINE vector sqrt_f32(vector x) {
    return (vector)_mm256_sqrt_ps((__m256)x);
}

static ALWAYS_INLINE vector sqrt_f64(vector x) {
    return (vector)_mm256_sqrt_pd((__m256d)x);
}

#define INSTANCE      kolo_steps_avx2
#define INSTANCE_NAME "avx2"
#include "reduce/optimizers/steps_template.h"
