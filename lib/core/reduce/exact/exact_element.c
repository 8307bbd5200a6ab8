/* KOLO_SUM_EXACT of one element, by a wide sum. */
#include "reduce/exact/exact_element.h"

#include <string.h>

#include "reduce/exact/wide_sum.h"
#include "reduce/float16.h"

static uint32_t f32_at(kolo_dtype dtype, const void *source, size_t index) {
    uint32_t bits;
    uint16_t half;
    if (dtype == KOLO_F32) {
        memcpy(&bits, (const char *)source + index * sizeof bits, sizeof bits);
        return bits;
    }
    memcpy(&half, (const char *)source + index * sizeof half, sizeof half);
    return f32_bits(dtype == KOLO_F16 ? f32_from_F16(half) : f32_from_BF16(half));
}

uint64_t kolo_exact_element(kolo_dtype dtype, kolo_dtype source_dtype, const void *const *sources, uint32_t n,
                            size_t index) {
    int64_t words[KOLO_WIDE_WORDS_F64];
    memset(words, 0, kolo_wide_words(dtype) * sizeof *words);
    for (uint32_t i = 0; i < n; i++) {
        if (dtype == KOLO_F64) {
            uint64_t bits;
            memcpy(&bits, (const char *)sources[i] + index * sizeof bits, sizeof bits);
            kolo_wide_add_f64(words, bits);
        } else {
            kolo_wide_add_f32(words, f32_at(source_dtype, sources[i], index));
        }
    }
    return kolo_wide_round(words, dtype);
}
