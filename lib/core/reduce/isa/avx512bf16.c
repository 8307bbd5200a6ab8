/* The folds of BF16 that round, for CPUs that have AVX512-BF16 beside what the instance avx512 needs. One instruction
 * rounds two vectors of F32. It does what the specification says except for NaNs, whose payload it keeps, and
 * subnormals, which it takes for zeros whatever MXCSR says. Such results are rounded by hand. */
#include "reduce/isa/avx512_vectors.h"
#include "reduce/instances.h"
#include "reduce/template/template_names.h"
#include "reduce/template/vector_access.h"
#include "reduce/template/vector_arithmetic.h"

/* Classes of VFPCLASSPS: quiet NaNs, subnormals, signalling NaNs. */
enum { BY_HAND = 0x01 | 0x20 | 0x80 };

/* Reads, of each 128 bits, the lower four elements and the upper four: unpacked above zeros they are F32 at once. The
 * vector is forced through a register, since compilers would load it twice. */
static ALWAYS_INLINE pair read_BF16(const unsigned char *from, size_t bytes) {
    const __m512i zeros = _mm512_setzero_si512();
    __m512i x = (__m512i)load(from, bytes);
    __asm__("" : "+v"(x));
    return (pair){(vector)_mm512_unpacklo_epi16(zeros, x), (vector)_mm512_unpackhi_epi16(zeros, x)};
}

/* Returns the elements that the instruction gets wrong, as a number in a general register. The compiler is not told
 * that the number comes from a mask: it would combine masks on the one port that classifies. */
static ALWAYS_INLINE uint32_t lanes_by_hand(vector x) {
    uint32_t lanes = _mm512_fpclass_ps_mask((__m512)x, BY_HAND);
    __asm__("" : "+r"(lanes));
    return lanes;
}

static ALWAYS_INLINE vector round_by_hand(pair x) {
    u32v first = round_to_bf16(canonical_f32(x.first)), second = round_to_bf16(canonical_f32(x.second));
    return (vector)_mm512_packus_epi32((__m512i)(first >> 16), (__m512i)(second >> 16));
}

static ALWAYS_INLINE vector result_BF16(pair x) {
    if (__builtin_expect((lanes_by_hand(x.first) | lanes_by_hand(x.second)) != 0, 0))
        return round_by_hand(x);
    const __m512i order = _mm512_setr_epi64(0, 4, 1, 5, 2, 6, 3, 7); /* the result of `first` is in the lower half */
    return (vector)_mm512_permutexvar_epi64(order, (__m512i)_mm512_cvtne2ps_pbh((__m512)x.second, (__m512)x.first));
}

#define DTYPE   BF16
#define KIND    HALF
#define ELEMENT uint16_t
#define WIDENED 1
#define OP      SUM
#include "reduce/template/fold_template.h"
#undef OP
#define OP PROD
#include "reduce/template/fold_template.h"
#undef OP
#define OP AVG
#include "reduce/template/fold_template.h"

const struct kolo_folds kolo_folds_avx512bf16[KOLO_OPS] = {[KOLO_SUM] = {fold_BF16_SUM, fold_to_both_BF16_SUM},
                                                           [KOLO_PROD] = {fold_BF16_PROD, fold_to_both_BF16_PROD},
                                                           [KOLO_AVG] = {fold_BF16_AVG, fold_to_both_BF16_AVG}};
