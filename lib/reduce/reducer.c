#include "reduce/reducer.h"

#include "cpu/features.h"
#include "reduce/copy.h"
#include "reduce/instances.h"

/* Each instance with the feature that it needs, the best one last. */
static const struct {
    uint32_t feature;
    const kolo_reducer *reducer;
} instances[] = {
    {0, &kolo_reducer_portable},
#if defined(__x86_64__)
    {KOLO_CPU_AVX2, &kolo_reducer_avx2},
    {KOLO_CPU_AVX512, &kolo_reducer_avx512},
#elif defined(__aarch64__)
    {KOLO_CPU_NEON, &kolo_reducer_neon},
#endif
};

enum { INSTANCES = sizeof instances / sizeof *instances };

const kolo_reducer *kolo_reducer_at(uint32_t features, uint32_t index) {
    for (int i = 0; i < INSTANCES; i++) {
        if ((features & instances[i].feature) == instances[i].feature && index-- == 0)
            return instances[i].reducer;
    }
    return NULL;
}

const kolo_reducer *kolo_reducer_select(uint32_t features) {
    const kolo_reducer *best = &kolo_reducer_portable;
    kolo_copy_select();
    for (int i = 0; i < INSTANCES; i++) {
        if ((features & instances[i].feature) == instances[i].feature)
            best = instances[i].reducer;
    }
    return best;
}
