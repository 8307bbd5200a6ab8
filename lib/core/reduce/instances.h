/* The instances of the kernels: which there are, the names of their functions, and the array of kernels that each has.
 * Each instance has a file, and reducer_choice.c chooses between them. */
#pragma once

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

/* The names that the portable kernels and the templates give to the functions of a dtype and to the kernels. The
 * including file has defined DTYPE and, for a kernel's name, OP: enumerators without KOLO_, as in F32. */

#define PASTE3_(a, b, c)  a##_##b##_##c
#define PASTE3(a, b, c)   PASTE3_(a, b, c)
#define PASTE2_(a, b)     a##_##b
#define PASTE2(a, b)      PASTE2_(a, b)
#define DTYPE_NAME(verb)  PASTE2(verb, DTYPE)
#define KERNEL_NAME(verb) PASTE3(verb, DTYPE, OP)
#define F32_NAME(verb)    PASTE3(verb, F32, OP) /* of the same op */

/* The KIND of a dtype says which kernels it needs, as each_op.h has them. */
#define UNSIGNED 1 /* integer: all ops */
#define SIGNED   2 /* integer: the ops that differ from the unsigned one of its width, MIN, MAX and AVG */
#define FLOAT    3 /* all but the bit operations */
#define HALF     4 /* the same, accumulated in F32 */

/* ONE_COPY marks a kernel that other kernels call. Else gcc copies it for each constant passed, for no gain. */
#if defined(__clang__)
#define ONE_COPY __attribute__((noinline))
#else
#define ONE_COPY __attribute__((noinline, noclone))
#endif

/* The array of an instance's kernels. */

/* `whole` and `part` name the functions: an average without its division is a sum, and a signed integer's sum is that
 * of the unsigned one of its width. `acc` is the accumulation type, and `finish` folds partial results of it. */
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
