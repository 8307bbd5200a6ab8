/* The choice of the kernels of optimizers, by the instruction sets of this CPU. */
#include "cpu/features.h"
#include "reduce/steps/steps.h"

/* Each instance with the feature that it needs, the best one last. */
static const struct {
    uint32_t feature;
    const kolo_steps *steps;
} instances[] = {
    {0, &kolo_steps_portable},
#if defined(__x86_64__)
    {KOLO_CPU_AVX2, &kolo_steps_avx2},
    {KOLO_CPU_AVX512, &kolo_steps_avx512},
#elif defined(__aarch64__)
    {KOLO_CPU_NEON, &kolo_steps_neon},
#endif
};

const kolo_steps *kolo_steps_at(uint32_t features, uint32_t index) {
    for (size_t i = 0; i < sizeof instances / sizeof *instances; i++)
        if ((features & instances[i].feature) == instances[i].feature && index-- == 0)
            return instances[i].steps;
    return NULL;
}

const kolo_steps *kolo_steps_select(uint32_t features) {
    const kolo_steps *best = NULL, *next;
    for (uint32_t i = 0; (next = kolo_steps_at(features, i)); i++)
        best = next;
    return best;
}

double kolo_steps_power(double base, uint64_t exponent) {
    double power = 1;
    for (; exponent; exponent >>= 1, base *= base)
        if (exponent & 1)
            power *= base;
    return power;
}
