/* The instances of the kernels. Each has a file, and reducer_choice.c chooses between them. */
#ifndef KOLO_REDUCE_INSTANCES_H
#define KOLO_REDUCE_INSTANCES_H

#include "reduce/reducer.h"

extern const kolo_reducer kolo_reducer_portable;

#if defined(__x86_64__)
extern const kolo_reducer kolo_reducer_avx2;
extern const kolo_reducer kolo_reducer_avx512;

/* The folds of BF16 that replace those of kolo_reducer_avx512; NULL for an op that they would not make faster. */
extern const struct kolo_folds {
    kolo_fold_fn *fold;
    kolo_fold_to_both_fn *fold_to_both;
} kolo_folds_avx512bf16[KOLO_OPS];
#elif defined(__aarch64__)
extern const kolo_reducer kolo_reducer_neon;
#endif

#endif
