/* The array of an instance's kernels, whose functions are named by kernel_names.h. */
#ifndef KOLO_REDUCE_KERNEL_TABLE_H
#define KOLO_REDUCE_KERNEL_TABLE_H

#include "reduce/kernel_names.h"
#include "reduce/reducer.h"

/* `whole` and `part` name the functions: an average without its division is a sum, and a signed integer's sum is that
 * of the unsigned one of its width. `acc` is the accumulation type, and `finish` what folds partial results of it to
 * the dtype. */
#define KERNEL(dtype, op, whole, part, acc, finish, bytes, acc_bytes)                                                  \
    [KOLO_##op] = {fold_##whole,                                                                                       \
                   fold_to_both_##whole,                                                                               \
                   chain_##part,                                                                                       \
                   chain_end_##whole,                                                                                  \
                   widen_##dtype,                                                                                      \
                   fold_partial_##part,                                                                                \
                   fold_partial_##acc,                                                                                 \
                   finish##_##whole,                                                                                   \
                   bytes,                                                                                              \
                   acc_bytes,                                                                                          \
                   false,                                                                                              \
                   false,                                                                                              \
                   false}
#define NO_KERNEL(dtype, op, bytes, wide_bytes)                                                                        \
    [KOLO_##op] = {.widen = widen_##dtype, .element_bytes = bytes, .acc_bytes = wide_bytes}
/* An op whose partial results are the inputs: it has only the functions that take those. */
#define WHOLE_KERNEL(dtype, op, last, wide_bytes, bytes)                                                               \
    [KOLO_##op] = {.fold = fold_##dtype##_##op,                                                                        \
                   .fold_to_both = fold_to_both_##dtype##_##op,                                                        \
                   .widen = widen_##dtype,                                                                             \
                   .fold_partial = fold_partial_##dtype##_##op,                                                        \
                   .finish = last##_##dtype##_##op,                                                                    \
                   .element_bytes = bytes,                                                                             \
                   .acc_bytes = wide_bytes,                                                                            \
                   .is_whole = true}
#define INTEGER_KERNEL(dtype, op, whole, part, bytes) KERNEL(dtype, op, whole, part, part, fold, bytes, bytes)
#define INTEGER_ROW(dtype, udtype, bytes)                                                                              \
    [KOLO_##dtype] = {                                                                                                 \
        INTEGER_KERNEL(dtype, SUM, udtype##_SUM, udtype##_SUM, bytes),                                                 \
        INTEGER_KERNEL(dtype, PROD, udtype##_PROD, udtype##_PROD, bytes),                                              \
        INTEGER_KERNEL(dtype, MIN, dtype##_MIN, dtype##_MIN, bytes),                                                   \
        INTEGER_KERNEL(dtype, MAX, dtype##_MAX, dtype##_MAX, bytes),                                                   \
        INTEGER_KERNEL(dtype, AVG, dtype##_AVG, udtype##_SUM, bytes),                                                  \
        INTEGER_KERNEL(dtype, BAND, udtype##_BAND, udtype##_BAND, bytes),                                              \
        INTEGER_KERNEL(dtype, BOR, udtype##_BOR, udtype##_BOR, bytes),                                                 \
        INTEGER_KERNEL(dtype, BXOR, udtype##_BXOR, udtype##_BXOR, bytes),                                              \
        NO_KERNEL(dtype, SUM_EXACT, bytes, bytes),                                                                     \
    }
#define FLOAT_ROW(dtype, acc, finish, bytes, acc_bytes)                                                                \
    [KOLO_##dtype] = {                                                                                                 \
        KERNEL(dtype, SUM, dtype##_SUM, dtype##_SUM, acc##_SUM, finish, bytes, acc_bytes),                             \
        KERNEL(dtype, PROD, dtype##_PROD, dtype##_PROD, acc##_PROD, finish, bytes, acc_bytes),                         \
        KERNEL(dtype, MIN, dtype##_MIN, dtype##_MIN, acc##_MIN, finish, bytes, acc_bytes),                             \
        KERNEL(dtype, MAX, dtype##_MAX, dtype##_MAX, acc##_MAX, finish, bytes, acc_bytes),                             \
        KERNEL(dtype, AVG, dtype##_AVG, dtype##_SUM, acc##_SUM, finish, bytes, acc_bytes),                             \
        NO_KERNEL(dtype, BAND, bytes, acc_bytes),                                                                      \
        NO_KERNEL(dtype, BOR, bytes, acc_bytes),                                                                       \
        NO_KERNEL(dtype, BXOR, bytes, acc_bytes),                                                                      \
        WHOLE_KERNEL(dtype, SUM_EXACT, finish, acc_bytes, bytes),                                                      \
    }

#define KERNELS                                                                                                        \
    {                                                                                                                  \
        INTEGER_ROW(I8, U8, 1), INTEGER_ROW(U8, U8, 1), INTEGER_ROW(I16, U16, 2), INTEGER_ROW(U16, U16, 2),            \
            INTEGER_ROW(I32, U32, 4), INTEGER_ROW(U32, U32, 4), INTEGER_ROW(I64, U64, 8), INTEGER_ROW(U64, U64, 8),    \
            FLOAT_ROW(F16, F32, finish_partials, 2, 4), FLOAT_ROW(BF16, F32, finish_partials, 2, 4),                   \
            FLOAT_ROW(F32, F32, fold, 4, 4), FLOAT_ROW(F64, F64, fold, 8, 8)                                           \
    }

#endif
