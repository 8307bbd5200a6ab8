/* The portable adder, and the choice of an instance. */
#include <string.h>

#include "cpu/features.h"
#include "training/exact/adder.h"

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

const kolo_adder kolo_adder_portable = {"portable", add_f32, add_f64};

/* Each instance with the feature that it needs, the best one last. */
static const struct {
    uint32_t feature;
    const kolo_adder *adder;
} instances[] = {
    {0, &kolo_adder_portable},
#if defined(__x86_64__)
    {KOLO_CPU_AVX2, &kolo_adder_avx2},
    {KOLO_CPU_AVX512, &kolo_adder_avx512},
#elif defined(__aarch64__)
    {KOLO_CPU_NEON, &kolo_adder_neon},
#endif
};

const kolo_adder *kolo_adder_at(uint32_t features, uint32_t index) {
    for (size_t i = 0; i < sizeof instances / sizeof *instances; i++)
        if ((features & instances[i].feature) == instances[i].feature && index-- == 0)
            return instances[i].adder;
    return NULL;
}

const kolo_adder *kolo_adder_select(uint32_t features) {
    const kolo_adder *best = NULL, *next;
    for (uint32_t i = 0; (next = kolo_adder_at(features, i)); i++)
        best = next;
    return best;
}
