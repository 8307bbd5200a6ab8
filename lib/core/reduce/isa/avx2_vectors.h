/* AVX2 with F16C: what vector_types.h asks for. */
#pragma once

#define VECTOR_BYTES     32
#define CANONICAL_IN_F32 0

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

/* The instruction returns its second operand where one is a NaN or both are zeros. So the results of both orders hold
 * all that is needed: ORed, they are -0 if either zero is, and still a NaN if either operand is. */
static ALWAYS_INLINE vector minimum_f32(vector a, vector b) {
    __m256 x = (__m256)a, y = (__m256)b;
    return (vector)_mm256_or_ps(_mm256_min_ps(x, y), _mm256_min_ps(y, x));
}

static ALWAYS_INLINE vector minimum_f64(vector a, vector b) {
    __m256d x = (__m256d)a, y = (__m256d)b;
    return (vector)_mm256_or_pd(_mm256_min_pd(x, y), _mm256_min_pd(y, x));
}

/* ANDed, the results of both orders are +0 if either zero is. That may lose a NaN, which the comparison brings back. */
static ALWAYS_INLINE vector maximum_f32(vector a, vector b) {
    __m256 x = (__m256)a, y = (__m256)b;
    __m256 both = _mm256_and_ps(_mm256_max_ps(x, y), _mm256_max_ps(y, x));
    return (vector)_mm256_or_ps(both, _mm256_cmp_ps(x, y, _CMP_UNORD_Q));
}

static ALWAYS_INLINE vector maximum_f64(vector a, vector b) {
    __m256d x = (__m256d)a, y = (__m256d)b;
    __m256d both = _mm256_and_pd(_mm256_max_pd(x, y), _mm256_max_pd(y, x));
    return (vector)_mm256_or_pd(both, _mm256_cmp_pd(x, y, _CMP_UNORD_Q));
}

/* Unpacks the lower half of the elements first. */
static ALWAYS_INLINE pair unpack_F16(const unsigned char *from) {
    const __m128i *halves = (const __m128i *)from;
    return (pair){(vector)_mm256_cvtph_ps(_mm_loadu_si128(halves)),
                  (vector)_mm256_cvtph_ps(_mm_loadu_si128(halves + 1))};
}

static ALWAYS_INLINE vector pack_F16(pair x) {
    __m128i low = _mm256_cvtps_ph((__m256)x.first, _MM_FROUND_TO_NEAREST_INT);
    __m128i high = _mm256_cvtps_ph((__m256)x.second, _MM_FROUND_TO_NEAREST_INT);
    return (vector)_mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1);
}

static ALWAYS_INLINE pair interleave_f32(pair x) {
    __m256i outer = _mm256_unpacklo_epi32((__m256i)x.first, (__m256i)x.second); /* lanes 0, 1, 4 and 5 of each */
    __m256i inner = _mm256_unpackhi_epi32((__m256i)x.first, (__m256i)x.second);
    return (pair){(vector)_mm256_permute2x128_si256(outer, inner, 0x20),
                  (vector)_mm256_permute2x128_si256(outer, inner, 0x31)};
}

static ALWAYS_INLINE uint32_t sign_bits(vector x) {
    return (uint32_t)_mm256_movemask_ps((__m256)x);
}

static ALWAYS_INLINE vector sqrt_f32(vector x) {
    return (vector)_mm256_sqrt_ps((__m256)x);
}

static ALWAYS_INLINE vector sqrt_f64(vector x) {
    return (vector)_mm256_sqrt_pd((__m256d)x);
}

static ALWAYS_INLINE vector maximum_u32(vector a, vector b) {
    return (vector)_mm256_max_epu32((__m256i)a, (__m256i)b);
}

static ALWAYS_INLINE vector minimum_u32(vector a, vector b) {
    return (vector)_mm256_min_epu32((__m256i)a, (__m256i)b);
}

static ALWAYS_INLINE vector doubles_of(const unsigned char *from) {
    return (vector)_mm256_cvtps_pd(_mm_loadu_ps((const float *)from));
}
