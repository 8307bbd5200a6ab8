/* The definitions that the files for AVX2 give the templates, as instance_template.h lists them. */
#ifndef KOLO_REDUCE_ISA_AVX2_VECTORS_H
#define KOLO_REDUCE_ISA_AVX2_VECTORS_H

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

static ALWAYS_INLINE bool is_any_set(vector x) {
    return !_mm256_testz_si256((__m256i)x, (__m256i)x);
}

#endif
