/* The instance for AVX-512 F, BW, DQ and VL. */
#define VECTOR_BYTES 64
#include "reduce/isa/avx512_vectors.h"

static ALWAYS_INLINE uint32_t sign_bits(vector x) {
    return _mm512_movepi32_mask((__m512i)x);
}

#define INSTANCE         kolo_reducer_avx512
#define INSTANCE_NAME    "avx512"
#define CANONICAL_IN_F32 1
#include "reduce/template/instance_template.h"
