/* The portable instance of the kernels of training, which specifies the others; and which of them is used. */
#include "training/kernels/training_kernels.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "reduce/float16.h"

static inline float element(const void *values, size_t i) {
    float value;
    memcpy(&value, (const char *)values + i * sizeof value, sizeof value);
    return value;
}

static inline void set_element(void *values, size_t i, float value) {
    memcpy((char *)values + i * sizeof value, &value, sizeof value);
}

static inline float canonical(float x) {
    return isnan(x) ? f32_from_bits(0x7fc00000) : x;
}

/* x[i] */
static inline float owed(const void *values, const void *residual, size_t i) {
    return canonical(residual ? element(values, i) + element(residual, i) : element(values, i));
}

static inline float left(float x, float sent) {
    const float rest = x - sent;
    return isfinite(rest) ? rest : 0.0f;
}

static inline void to_halves(bool is_bf16, void *halves, const void *values, void *residual, size_t count) {
    for (size_t i = 0; i < count; i++) {
        const float x = owed(values, residual, i);
        const uint16_t half = is_bf16 ? BF16_from_f32(x) : F16_from_f32(x);
        memcpy((char *)halves + i * sizeof half, &half, sizeof half);
        if (residual)
            set_element(residual, i, left(x, is_bf16 ? f32_from_BF16(half) : f32_from_F16(half)));
    }
}

static void to_bf16(void *halves, const void *values, void *residual, size_t count) {
    to_halves(true, halves, values, residual, count);
}

static void to_f16(void *halves, const void *values, void *residual, size_t count) {
    to_halves(false, halves, values, residual, count);
}

static float to_signs(void *words, const void *values, void *residual, size_t count) {
    float sums[KOLO_SIGNS_LANES] = {0};
    uint64_t signs[KOLO_SIGNS_BLOCK / KOLO_SIGNS_WORD] = {0};
    for (size_t i = 0; i < count; i++) {
        const float x = owed(values, residual, i);
        sums[i % KOLO_SIGNS_LANES] += fabsf(x);
        signs[i / KOLO_SIGNS_WORD] |= (uint64_t)(signbit(x) != 0) << i % KOLO_SIGNS_WORD;
    }
    for (size_t half = KOLO_SIGNS_LANES / 2; half > 0; half /= 2)
        for (size_t lane = 0; lane < half; lane++)
            sums[lane] += sums[lane + half];
    const float mean = canonical(sums[0] / (float)count);
    for (size_t i = 0; residual && i < count; i++) {
        const float x = owed(values, residual, i);
        set_element(residual, i, left(x, signbit(x) ? -mean : mean));
    }
    memcpy(words, signs, (count + KOLO_SIGNS_WORD - 1) / KOLO_SIGNS_WORD * sizeof *signs);
    return mean;
}

static void from_signs(void *values, const void *words, float magnitude, size_t count) {
    for (size_t i = 0; i < count; i++) {
        uint64_t word;
        memcpy(&word, (const char *)words + i / KOLO_SIGNS_WORD * sizeof word, sizeof word);
        const uint32_t sign = (uint32_t)(word >> i % KOLO_SIGNS_WORD & 1) << 31;
        set_element(values, i, f32_from_bits(f32_bits(magnitude) ^ sign));
    }
}

static size_t collect(uint32_t *indices, size_t room, const void *values, size_t count, uint32_t least) {
    size_t found = 0;
    for (size_t i = 0; i < count; i++) {
        if ((f32_bits(element(values, i)) & INT32_MAX) < least)
            continue;
        if (found < room)
            indices[found] = (uint32_t)i;
        found++;
    }
    return found;
}

static void add_f32(int64_t *words, const void *values, size_t count) {
    for (size_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, (const char *)values + i * sizeof bits, sizeof bits);
        kolo_wide_add_f32(words, bits);
    }
}

static void add_f64(int64_t *words, const void *values, size_t count) {
    for (size_t i = 0; i < count; i++) {
        uint64_t bits;
        memcpy(&bits, (const char *)values + i * sizeof bits, sizeof bits);
        kolo_wide_add_f64(words, bits);
    }
}

const kolo_training_kernels kolo_training_kernels_portable = {.to_bf16 = to_bf16,
                                                              .to_f16 = to_f16,
                                                              .to_signs = to_signs,
                                                              .from_signs = from_signs,
                                                              .collect = collect,
                                                              .add_f32 = add_f32,
                                                              .add_f64 = add_f64};

const kolo_training_kernels *kolo_training_kernels_of(const kolo_reducer *reducer) {
    static const kolo_training_kernels *const instances[] = {
        [KOLO_ISA_PORTABLE] = &kolo_training_kernels_portable,
#if defined(__x86_64__)
        [KOLO_ISA_AVX2] = &kolo_training_kernels_avx2,
        [KOLO_ISA_AVX512] = &kolo_training_kernels_avx512,
#elif defined(__aarch64__)
        [KOLO_ISA_NEON] = &kolo_training_kernels_neon,
#endif
    };
    return instances[reducer->isa];
}
