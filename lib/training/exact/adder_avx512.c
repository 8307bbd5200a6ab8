/* The adder for AVX-512 F, BW, DQ and VL. */
#define VECTOR_BYTES 64
#include "reduce/isa/avx512_vectors.h"

static ALWAYS_INLINE vector maximum_u32(vector a, vector b) {
    return (vector)_mm512_max_epu32((__m512i)a, (__m512i)b);
}

static ALWAYS_INLINE vector minimum_u32(vector a, vector b) {
    return (vector)_mm512_min_epu32((__m512i)a, (__m512i)b);
}

static ALWAYS_INLINE vector doubles_of(const unsigned char *from) {
    return (vector)_mm512_cvtps_pd(_mm256_loadu_ps((const float *)from));
}

#define INSTANCE      kolo_adder_avx512
#define INSTANCE_NAME "avx512"
#include "training/exact/adder_template.h"
