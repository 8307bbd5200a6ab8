/* One instance of all kernels. Included once by each instruction set's file, which has defined what the compiler's
 * vector extension has no words for,
 *
 *   load_partial, store_partial    the first bytes of a vector, and nothing beside them
 *   minimum_f32, maximum_f32       of IEEE 754-2019, but that any NaN may stand for another, and likewise for f64
 *   canonical_f32                  every NaN becomes the positive quiet one without payload, and likewise for f64
 *   unpack_F16, pack_F16           VECTOR_BYTES bytes of binary16 from and to a pair, elements in order
 *   interleave_f32                 of a pair, the first lane of each, then the second of each, and so on
 *
 * and the parameters
 *
 *   VECTOR_BYTES      of one vector
 *   INSTANCE          the kolo_reducer that is defined here
 *   INSTANCE_NAME     its name, a string
 *   CANONICAL_IN_F32  1: two of canonical_f32 are faster than a comparison and a choice of 16-bit lanes */
#include "reduce/halves.h"
#include "reduce/instances.h"
#include "reduce/template/template_names.h"
#include "reduce/template/vector_access.h"
#include "reduce/template/vector_arithmetic.h"

/* Division of small integers as the next wider float is exact: where it does not come out even, the quotient is
 * further below the next integer than rounding can lift it. */
#define F32_QUOTIENT(x, by) ((int32_t)((float)(x) / (float)(by).ranks))
#define F64_QUOTIENT(x, by) ((double)(x) / (by).ranks)

#define DTYPE    U8
#define KIND     UNSIGNED
#define ELEMENT  uint8_t
#define QUOTIENT F32_QUOTIENT
#include "reduce/template/dtype_template.h"

#define DTYPE    I8
#define KIND     SIGNED
#define ELEMENT  int8_t
#define QUOTIENT F32_QUOTIENT
#include "reduce/template/dtype_template.h"

#define DTYPE    U16
#define KIND     UNSIGNED
#define ELEMENT  uint16_t
#define QUOTIENT F32_QUOTIENT
#include "reduce/template/dtype_template.h"

#define DTYPE    I16
#define KIND     SIGNED
#define ELEMENT  int16_t
#define QUOTIENT F32_QUOTIENT
#include "reduce/template/dtype_template.h"

#define DTYPE    U32
#define KIND     UNSIGNED
#define ELEMENT  uint32_t
#define QUOTIENT F64_QUOTIENT
#include "reduce/template/dtype_template.h"

#define DTYPE    I32
#define KIND     SIGNED
#define ELEMENT  int32_t
#define QUOTIENT F64_QUOTIENT
#include "reduce/template/dtype_template.h"

#define DTYPE   U64
#define KIND    UNSIGNED
#define ELEMENT uint64_t
#include "reduce/template/dtype_template.h"

#define DTYPE   I64
#define KIND    SIGNED
#define ELEMENT int64_t
#include "reduce/template/dtype_template.h"

#define DTYPE   F32
#define KIND    FLOAT
#define ELEMENT float
#include "reduce/template/dtype_template.h"

#define DTYPE   F64
#define KIND    FLOAT
#define ELEMENT double
#include "reduce/template/dtype_template.h"

#define DTYPE   F16
#define KIND    HALF
#define ELEMENT uint16_t
#include "reduce/template/dtype_template.h"

#define DTYPE   BF16
#define KIND    HALF
#define ELEMENT uint16_t
#include "reduce/template/dtype_template.h"

/* The table. `whole` and `part` name the functions: an average without its division is a sum. `acc` is the accumulation
 * type, and `finish` what folds partial results of it to the dtype. */
#define KERNEL(dtype, op, whole, part, acc, finish, bytes, acc_bytes)                                                  \
    [KOLO_##op] = {                                                                                                    \
        fold_##whole,       fold_to_both_##whole, chain_##part, chain_end_##whole, widen_##dtype, fold_partial_##part, \
        fold_partial_##acc, finish##_##whole,     bytes,        acc_bytes}
#define NO_KERNEL(dtype, op, bytes, wide_bytes)                                                                        \
    [KOLO_##op] = {.widen = widen_##dtype, .element_bytes = bytes, .acc_bytes = wide_bytes}
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
    }

const kolo_reducer INSTANCE = {
    .name = INSTANCE_NAME,
    .kernels = {INTEGER_ROW(I8, U8, 1), INTEGER_ROW(U8, U8, 1), INTEGER_ROW(I16, U16, 2), INTEGER_ROW(U16, U16, 2),
                INTEGER_ROW(I32, U32, 4), INTEGER_ROW(U32, U32, 4), INTEGER_ROW(I64, U64, 8), INTEGER_ROW(U64, U64, 8),
                FLOAT_ROW(F16, F32, finish_partials, 2, 4), FLOAT_ROW(BF16, F32, finish_partials, 2, 4),
                FLOAT_ROW(F32, F32, fold, 4, 4), FLOAT_ROW(F64, F64, fold, 8, 8)},
};
