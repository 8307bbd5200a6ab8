/* The instance for AVX2 with F16C. */
#define VECTOR_BYTES 32
#include "reduce/vector_types.h"
#include "reduce/partial_access.h"

#include <immintrin.h>

static ALWAYS_INLINE vector canonical_f32(vector x) {
    __m256 nan = _mm256_castsi256_ps(_mm256_set1_epi32(0x7fc00000));
    return (vector)_mm256_blendv_ps((__m256)x, nan, _mm256_cmp_ps((__m256)x, (__m256)x, _CMP_UNORD_Q));
}

static ALWAYS_INLINE vector canonical_f64(vector x) {
    __m256d nan = _mm256_castsi256_pd(_mm256_set1_epi64x(0x7ff8000000000000));
    return (vector)_mm256_blendv_pd((__m256d)x, nan, _mm256_cmp_pd((__m256d)x, (__m256d)x, _CMP_UNORD_Q));
}

/* The instruction gives its second operand where one is a NaN or both are zeros. The two orders together hold all that
 * is needed: ORed, they are -0 if either zero is, and still a NaN if either operand is. */
static ALWAYS_INLINE vector minimum_f32(vector a, vector b) {
    __m256 x = (__m256)a, y = (__m256)b;
    return (vector)_mm256_or_ps(_mm256_min_ps(x, y), _mm256_min_ps(y, x));
}

static ALWAYS_INLINE vector minimum_f64(vector a, vector b) {
    __m256d x = (__m256d)a, y = (__m256d)b;
    return (vector)_mm256_or_pd(_mm256_min_pd(x, y), _mm256_min_pd(y, x));
}

/* ORed, the two orders are -0 if either zero is, though +0 is due if either is; subtracting their difference, which is
 * a zero with the sign bit set in that case only, makes that right and changes no other number, nor a NaN. */
static ALWAYS_INLINE vector maximum_f32(vector a, vector b) {
    __m256 x = (__m256)a, y = (__m256)b;
    __m256 one = _mm256_max_ps(x, y), other = _mm256_max_ps(y, x);
    return (vector)_mm256_sub_ps(_mm256_or_ps(one, other), _mm256_xor_ps(one, other));
}

static ALWAYS_INLINE vector maximum_f64(vector a, vector b) {
    __m256d x = (__m256d)a, y = (__m256d)b;
    __m256d one = _mm256_max_pd(x, y), other = _mm256_max_pd(y, x);
    return (vector)_mm256_sub_pd(_mm256_or_pd(one, other), _mm256_xor_pd(one, other));
}

/* The lower half of the elements first. */
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

#define INSTANCE      kolo_reducer_avx2
#define INSTANCE_NAME "avx2"
#include "reduce/instance_template.h"
