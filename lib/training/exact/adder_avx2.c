/* The adder for AVX2. */
#define VECTOR_BYTES 32
#include "reduce/isa/avx2_vectors.h"

static ALWAYS_INLINE vector maximum_u32(vector a, vector b) {
    return (vector)_mm256_max_epu32((__m256i)a, (__m256i)b);
}

static ALWAYS_INLINE vector minimum_u32(vector a, vector b) {
    return (vector)_mm256_min_epu32((__m256i)a, (__m256i)b);
}

static ALWAYS_INLINE vector doubles_of(const unsigned char *from) {
    return (vector)_mm256_cvtps_pd(_mm_loadu_ps((const float *)from));
}

#define INSTANCE      kolo_adder_avx2
#define INSTANCE_NAME "avx2"
#include "training/exact/adder_template.h"
