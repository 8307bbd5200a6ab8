/* The instance for AVX2 with F16C. */
#define VECTOR_BYTES 32
#include "reduce/isa/avx2_vectors.h"

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

/* ANDed, the results of both orders are +0 if either zero is. That may lose a NaN, which the comparison's ones bring
 * back. */
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

#define INSTANCE         kolo_reducer_avx2
#define INSTANCE_NAME    "avx2"
#define CANONICAL_IN_F32 0
#include "reduce/template/instance_template.h"
