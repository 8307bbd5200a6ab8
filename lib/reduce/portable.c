/* The portable instance, which specifies the others: one element at a time, in the order that reducer.h gives. */
#include "reduce/instances.h"

#include <math.h>
#include <string.h>

#include "reduce/float16.h"
#include "reduce/kernel_names.h"

/* The operations, in the widest type of each kind. Integers are computed modulo 2^64 and stored modulo 2^width, which
 * is how a sum or product of that width wraps. */

static inline uint64_t combine_u64(kolo_op op, uint64_t a, uint64_t b) {
    switch (op) {
    case KOLO_PROD:
        return a * b;
    case KOLO_MIN:
        return a < b ? a : b;
    case KOLO_MAX:
        return a > b ? a : b;
    case KOLO_BAND:
        return a & b;
    case KOLO_BOR:
        return a | b;
    case KOLO_BXOR:
        return a ^ b;
    default: /* SUM and AVG */
        return a + b;
    }
}

static inline int64_t combine_i64(kolo_op op, int64_t a, int64_t b) {
    switch (op) {
    case KOLO_MIN:
        return a < b ? a : b;
    case KOLO_MAX:
        return a > b ? a : b;
    default: /* the same bits as unsigned, where overflow is defined */
        return (int64_t)combine_u64(op, (uint64_t)a, (uint64_t)b);
    }
}

static inline uint64_t average_u64(uint64_t sum, uint32_t ranks) {
    return sum / ranks;
}

static inline int64_t average_i64(int64_t sum, uint32_t ranks) {
    return sum / (int64_t)ranks;
}

static inline uint64_t canonical_u64(uint64_t result) {
    return result;
}

static inline int64_t canonical_i64(int64_t result) {
    return result;
}

static inline float combine_f32(kolo_op op, float a, float b) {
    switch (op) {
    case KOLO_PROD:
        return a * b;
    case KOLO_MIN:
    case KOLO_MAX:
        if (isnan(a) || isnan(b))
            return NAN;
        if (a == b) /* the same number, or zeros that may differ in sign */
            return (op == KOLO_MIN) == (signbit(a) != 0) ? a : b;
        return (op == KOLO_MIN) == (a < b) ? a : b;
    default: /* SUM and AVG */
        return a + b;
    }
}

static inline float average_f32(float sum, uint32_t ranks) {
    return sum / (float)ranks;
}

static inline float canonical_f32(float result) {
    return isnan(result) ? f32_from_bits(0x7fc00000) : result;
}

static inline double combine_f64(kolo_op op, double a, double b) {
    switch (op) {
    case KOLO_PROD:
        return a * b;
    case KOLO_MIN:
    case KOLO_MAX:
        if (isnan(a) || isnan(b))
            return NAN;
        if (a == b) /* the same number, or zeros that may differ in sign */
            return (op == KOLO_MIN) == (signbit(a) != 0) ? a : b;
        return (op == KOLO_MIN) == (a < b) ? a : b;
    default: /* SUM and AVG */
        return a + b;
    }
}

static inline double average_f64(double sum, uint32_t ranks) {
    return sum / ranks;
}

static inline double canonical_f64(double result) {
    const uint64_t nan_bits = UINT64_C(0x7ff8000000000000);
    if (isnan(result))
        memcpy(&result, &nan_bits, sizeof result);
    return result;
}

static uint32_t power_of_two_below(uint32_t n) {
    uint32_t power = 1;
    while (power < n - power)
        power *= 2;
    return power;
}

enum { BLOCK_ELEMENTS = 256 }; /* combined at a time, in arrays small enough for the stack at any depth of the tree */

/* What the templates call the operations above. */
#define WIDE_NAME(verb) PASTE2(verb, WIDE)

#define DTYPE     I8
#define ELEMENT   int8_t
#define ACC       int8_t
#define WIDE      i64
#define BITWISE   1
#define WIDENED   0
#define WIDEN(x)  (x)
#define NARROW(x) (x)
#include "reduce/portable_dtype.h"

#define DTYPE     U8
#define ELEMENT   uint8_t
#define ACC       uint8_t
#define WIDE      u64
#define BITWISE   1
#define WIDENED   0
#define WIDEN(x)  (x)
#define NARROW(x) (x)
#include "reduce/portable_dtype.h"

#define DTYPE     I16
#define ELEMENT   int16_t
#define ACC       int16_t
#define WIDE      i64
#define BITWISE   1
#define WIDENED   0
#define WIDEN(x)  (x)
#define NARROW(x) (x)
#include "reduce/portable_dtype.h"

#define DTYPE     U16
#define ELEMENT   uint16_t
#define ACC       uint16_t
#define WIDE      u64
#define BITWISE   1
#define WIDENED   0
#define WIDEN(x)  (x)
#define NARROW(x) (x)
#include "reduce/portable_dtype.h"

#define DTYPE     I32
#define ELEMENT   int32_t
#define ACC       int32_t
#define WIDE      i64
#define BITWISE   1
#define WIDENED   0
#define WIDEN(x)  (x)
#define NARROW(x) (x)
#include "reduce/portable_dtype.h"

#define DTYPE     U32
#define ELEMENT   uint32_t
#define ACC       uint32_t
#define WIDE      u64
#define BITWISE   1
#define WIDENED   0
#define WIDEN(x)  (x)
#define NARROW(x) (x)
#include "reduce/portable_dtype.h"

#define DTYPE     I64
#define ELEMENT   int64_t
#define ACC       int64_t
#define WIDE      i64
#define BITWISE   1
#define WIDENED   0
#define WIDEN(x)  (x)
#define NARROW(x) (x)
#include "reduce/portable_dtype.h"

#define DTYPE     U64
#define ELEMENT   uint64_t
#define ACC       uint64_t
#define WIDE      u64
#define BITWISE   1
#define WIDENED   0
#define WIDEN(x)  (x)
#define NARROW(x) (x)
#include "reduce/portable_dtype.h"

#define DTYPE     F32
#define ELEMENT   float
#define ACC       float
#define WIDE      f32
#define BITWISE   0
#define WIDENED   0
#define WIDEN(x)  (x)
#define NARROW(x) (x)
#include "reduce/portable_dtype.h"

#define DTYPE     F64
#define ELEMENT   double
#define ACC       double
#define WIDE      f64
#define BITWISE   0
#define WIDENED   0
#define WIDEN(x)  (x)
#define NARROW(x) (x)
#include "reduce/portable_dtype.h"

#define DTYPE     F16
#define ELEMENT   uint16_t
#define ACC       float
#define WIDE      f32
#define BITWISE   0
#define WIDENED   1
#define WIDEN(x)  f32_from_f16(x)
#define NARROW(x) f16_from_f32(x)
#include "reduce/portable_dtype.h"

#define DTYPE     BF16
#define ELEMENT   uint16_t
#define ACC       float
#define WIDE      f32
#define BITWISE   0
#define WIDENED   1
#define WIDEN(x)  f32_from_bf16(x)
#define NARROW(x) bf16_from_f32(x)
#include "reduce/portable_dtype.h"

/* The table; `acc` is the accumulation type, and `finish` what folds partial results of it to the dtype. */
#define KERNEL(dtype, op, finish, element, acc, acc_type)                                                              \
    [KOLO_##op] = {fold_##dtype##_##op,                                                                                \
                   fold_to_both_##dtype##_##op,                                                                        \
                   chain_##dtype##_##op,                                                                               \
                   chain_end_##dtype##_##op,                                                                           \
                   widen_##dtype,                                                                                      \
                   fold_partial_##dtype##_##op,                                                                        \
                   fold_partial_##acc##_##op,                                                                          \
                   finish##_##dtype##_##op,                                                                            \
                   sizeof(element),                                                                                    \
                   sizeof(acc_type)}
#define NO_KERNEL(dtype, op, element, acc_type)                                                                        \
    [KOLO_##op] = {.widen = widen_##dtype, .element_bytes = sizeof(element), .acc_bytes = sizeof(acc_type)}
#define ARITHMETIC_KERNELS(dtype, finish, element, acc, acc_type)                                                      \
    KERNEL(dtype, SUM, finish, element, acc, acc_type), KERNEL(dtype, PROD, finish, element, acc, acc_type),           \
        KERNEL(dtype, MIN, finish, element, acc, acc_type), KERNEL(dtype, MAX, finish, element, acc, acc_type),        \
        KERNEL(dtype, AVG, finish, element, acc, acc_type)
#define INTEGER_ROW(dtype, element)                                                                                    \
    [KOLO_##dtype] = {                                                                                                 \
        ARITHMETIC_KERNELS(dtype, fold, element, dtype, element), KERNEL(dtype, BAND, fold, element, dtype, element),  \
        KERNEL(dtype, BOR, fold, element, dtype, element), KERNEL(dtype, BXOR, fold, element, dtype, element)}
#define FLOAT_ROW(dtype, finish, element, acc, acc_type)                                                               \
    [KOLO_##dtype] = {ARITHMETIC_KERNELS(dtype, finish, element, acc, acc_type),                                       \
                      NO_KERNEL(dtype, BAND, element, acc_type), NO_KERNEL(dtype, BOR, element, acc_type),             \
                      NO_KERNEL(dtype, BXOR, element, acc_type)}

const kolo_reducer kolo_reducer_portable = {
    .name = "portable",
    .kernels = {INTEGER_ROW(I8, int8_t), INTEGER_ROW(U8, uint8_t), INTEGER_ROW(I16, int16_t),
                INTEGER_ROW(U16, uint16_t), INTEGER_ROW(I32, int32_t), INTEGER_ROW(U32, uint32_t),
                INTEGER_ROW(I64, int64_t), INTEGER_ROW(U64, uint64_t), FLOAT_ROW(F16, finish, uint16_t, F32, float),
                FLOAT_ROW(BF16, finish, uint16_t, F32, float), FLOAT_ROW(F32, fold, float, F32, float),
                FLOAT_ROW(F64, fold, double, F64, double)},
};
