/* The choice of the kernels, by the instruction sets of this CPU. */
#include <pthread.h>

#include "reduce/reducer.h"
#include "cpu/features.h"
#include "reduce/copy.h"
#include "reduce/instances.h"

#if defined(__x86_64__)
/* The instance avx512 with some folds of its own, put together in code for all CPUs, not in those folds' file. */
static kolo_reducer reducer_avx512bf16;

static void complete_instances(void) {
    reducer_avx512bf16 = kolo_reducer_avx512;
    reducer_avx512bf16.name = "avx512bf16";
    for (int op = 0; op < KOLO_OPS; op++) {
        const struct kolo_folds *folds = &kolo_folds_avx512bf16[op];
        if (!folds->fold)
            continue;
        reducer_avx512bf16.kernels[KOLO_BF16][op].fold = folds->fold;
        reducer_avx512bf16.kernels[KOLO_BF16][op].fold_to_both = folds->fold_to_both;
    }
}
#else
static void complete_instances(void) {}
#endif

static pthread_once_t instances_completed = PTHREAD_ONCE_INIT;

/* Each instance with the feature that it needs, the best one last. */
static const struct {
    uint32_t feature;
    const kolo_reducer *reducer;
} instances[] = {
    {0, &kolo_reducer_portable},
#if defined(__x86_64__)
    {KOLO_CPU_AVX2, &kolo_reducer_avx2},
    {KOLO_CPU_AVX512, &kolo_reducer_avx512},
    {KOLO_CPU_AVX512BF16, &reducer_avx512bf16},
#elif defined(__aarch64__)
    {KOLO_CPU_NEON, &kolo_reducer_neon},
#endif
};

enum { INSTANCES = sizeof instances / sizeof *instances };

const kolo_reducer *kolo_reducer_at(uint32_t features, uint32_t index) {
    pthread_once(&instances_completed, complete_instances);
    for (int i = 0; i < INSTANCES; i++) {
        if ((features & instances[i].feature) == instances[i].feature && index-- == 0)
            return instances[i].reducer;
    }
    return NULL;
}

const kolo_reducer *kolo_reducer_select(uint32_t features) {
    const kolo_reducer *best = NULL, *next;
    kolo_copy_select();
    kolo_take_choose(!kolo_cpu_is_intel());
    for (uint32_t i = 0; (next = kolo_reducer_at(features, i)); i++)
        best = next;
    return best;
}
