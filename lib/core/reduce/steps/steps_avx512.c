/* The kernels of optimizers for AVX-512 F, BW, DQ and VL. */
#define VECTOR_BYTES 64
#include "reduce/isa/avx512_vectors.h"

static ALWAYS_INLINE vector sqrt_f32(vector x) {
    return (vector)_mm512_sqrt_ps((__m512)x);
}

static ALWAYS_INLINE vector sqrt_f64(vector x) {
    return (vector)_mm512_sqrt_pd((__m512d)x);
}

#define INSTANCE      kolo_steps_avx512
#define INSTANCE_NAME "avx512"
#include "reduce/steps/steps_template.h"
