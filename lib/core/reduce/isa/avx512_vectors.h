/* AVX-512 F, BW, DQ and VL: what vector_types.h asks for. */
#pragma once

#define VECTOR_BYTES     64
#define CANONICAL_IN_F32 1

#include "reduce/template/vector_types.h"

#include <immintrin.h>

static ALWAYS_INLINE __mmask64 first_bytes(size_t bytes) {
    return ~UINT64_C(0) >> (64 - bytes);
}

/* Loads the first `bytes` bytes, 1 to VECTOR_BYTES, and zeros. */
static ALWAYS_INLINE vector load_partial(const unsigned char *from, size_t bytes) {
    return (vector)_mm512_maskz_loadu_epi8(first_bytes(bytes), from);
}

static ALWAYS_INLINE void store_partial(unsigned char *to, vector value, size_t bytes) {
    _mm512_mask_storeu_epi8(to, first_bytes(bytes), (__m512i)value);
}

/* VFIXUPIMM replaces numbers by a word of four bits for each class of them: here NaNs, of classes 0 and 1, by the
 * destination, and all others by the source. */
enum { NANS_BY_DESTINATION = 0x11111100 };

static ALWAYS_INLINE vector canonical_f32(vector x) {
    __m512 nan = _mm512_castsi512_ps(_mm512_set1_epi32(0x7fc00000));
    return (vector)_mm512_fixupimm_ps(nan, (__m512)x, _mm512_set1_epi32(NANS_BY_DESTINATION), 0);
}

static ALWAYS_INLINE vector canonical_f64(vector x) {
    __m512d nan = _mm512_castsi512_pd(_mm512_set1_epi64(0x7ff8000000000000));
    return (vector)_mm512_fixupimm_pd(nan, (__m512d)x, _mm512_set1_epi64(NANS_BY_DESTINATION), 0);
}

/* The instruction returns its second operand where one is a NaN or both are zeros. So the results of both orders hold
 * all that is needed: ORed, they are -0 if either zero is, and still a NaN if either operand is. */
static ALWAYS_INLINE vector minimum_f32(vector a, vector b) {
    __m512 x = (__m512)a, y = (__m512)b;
    return (vector)_mm512_or_ps(_mm512_min_ps(x, y), _mm512_min_ps(y, x));
}

static ALWAYS_INLINE vector minimum_f64(vector a, vector b) {
    __m512d x = (__m512d)a, y = (__m512d)b;
    return (vector)_mm512_or_pd(_mm512_min_pd(x, y), _mm512_min_pd(y, x));
}

/* The maximum is -0 only if both signs are: each bit is the majority of both orders' bits and 0 for the sign, else
 * 1. */
enum { MAJORITY = 0xe8 };

static ALWAYS_INLINE vector maximum_f32(vector a, vector b) {
    __m512i one = _mm512_castps_si512(_mm512_max_ps((__m512)a, (__m512)b));
    __m512i other = _mm512_castps_si512(_mm512_max_ps((__m512)b, (__m512)a));
    return (vector)_mm512_ternarylogic_epi32(one, other, _mm512_set1_epi32(INT32_MAX), MAJORITY);
}

static ALWAYS_INLINE vector maximum_f64(vector a, vector b) {
    __m512i one = _mm512_castpd_si512(_mm512_max_pd((__m512d)a, (__m512d)b));
    __m512i other = _mm512_castpd_si512(_mm512_max_pd((__m512d)b, (__m512d)a));
    return (vector)_mm512_ternarylogic_epi64(one, other, _mm512_set1_epi64(INT64_MAX), MAJORITY);
}

static ALWAYS_INLINE bool is_any_set(vector x) {
    return _mm512_test_epi32_mask((__m512i)x, (__m512i)x) != 0;
}

/* Unpacks the lower half of the elements first. */
static ALWAYS_INLINE pair unpack_F16(const unsigned char *from) {
    const __m256i *halves = (const __m256i *)from;
    return (pair){(vector)_mm512_cvtph_ps(_mm256_loadu_si256(halves)),
                  (vector)_mm512_cvtph_ps(_mm256_loadu_si256(halves + 1))};
}

static ALWAYS_INLINE vector pack_F16(pair x) {
    __m256i low = _mm512_cvtps_ph((__m512)x.first, _MM_FROUND_TO_NEAREST_INT);
    __m256i high = _mm512_cvtps_ph((__m512)x.second, _MM_FROUND_TO_NEAREST_INT);
    return (vector)_mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
}

static ALWAYS_INLINE pair interleave_f32(pair x) {
    const __m512i lower = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    const __m512i upper = _mm512_add_epi32(lower, _mm512_set1_epi32(8));
    return (pair){(vector)_mm512_permutex2var_epi32((__m512i)x.first, lower, (__m512i)x.second),
                  (vector)_mm512_permutex2var_epi32((__m512i)x.first, upper, (__m512i)x.second)};
}

static ALWAYS_INLINE uint32_t sign_bits(vector x) {
    return _mm512_movepi32_mask((__m512i)x);
}

static ALWAYS_INLINE vector sqrt_f32(vector x) {
    return (vector)_mm512_sqrt_ps((__m512)x);
}

static ALWAYS_INLINE vector sqrt_f64(vector x) {
    return (vector)_mm512_sqrt_pd((__m512d)x);
}

static ALWAYS_INLINE vector maximum_u32(vector a, vector b) {
    return (vector)_mm512_max_epu32((__m512i)a, (__m512i)b);
}

static ALWAYS_INLINE vector minimum_u32(vector a, vector b) {
    return (vector)_mm512_min_epu32((__m512i)a, (__m512i)b);
}

static ALWAYS_INLINE vector doubles_of(const unsigned char *from) {
    return (vector)_mm512_cvtps_pd(_mm256_loadu_ps((const float *)from));
}
