/* The definitions that the files for arm64 give the templates, as instance_template.h lists them. */
#ifndef KOLO_REDUCE_ISA_NEON_VECTORS_H
#define KOLO_REDUCE_ISA_NEON_VECTORS_H

#include "reduce/template/vector_types.h"
#include "reduce/template/partial_access.h"

#include <arm_neon.h>

static ALWAYS_INLINE vector canonical_f32(vector x) {
    float32x4_t nan = vreinterpretq_f32_u32(vdupq_n_u32(0x7fc00000));
    return (vector)vbslq_f32(vceqq_f32((float32x4_t)x, (float32x4_t)x), (float32x4_t)x, nan);
}

static ALWAYS_INLINE vector canonical_f64(vector x) {
    float64x2_t nan = vreinterpretq_f64_u64(vdupq_n_u64(0x7ff8000000000000));
    return (vector)vbslq_f64(vceqq_f64((float64x2_t)x, (float64x2_t)x), (float64x2_t)x, nan);
}

static ALWAYS_INLINE bool is_any_set(vector x) {
    return vmaxvq_u32((uint32x4_t)x) != 0;
}

#endif
