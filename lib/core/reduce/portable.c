/* The portable instance, one element at a time, in the order that reducer.h gives. It specifies the others. */
#include <math.h>
#include <string.h>

#include "reduce/instances.h"
#include "reduce/exact/wide_sum.h"
#include "reduce/float16.h"
#include "reduce/steps/steps.h"

/* The operations, in the widest type of each kind. Integers are computed modulo 2^64 and stored modulo 2^width. */

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
    default: /* as unsigned: the same bits, and overflow is defined */
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

enum { BLOCK_ELEMENTS = 256 }; /* combined at a time: their arrays fit the stack at any depth of the tree */

/* The names that the templates have for the operations above. */
#define WIDE_NAME(verb) PASTE2(verb, WIDE)

#define DTYPE_TEMPLATE    "reduce/portable_dtype.h"
#define OP_TEMPLATE       "reduce/portable_op.h"
#define EXACT_OP_TEMPLATE "reduce/exact/portable_exact_op.h"
#include "reduce/each_dtype.h"

const kolo_reducer kolo_reducer_portable = {
    .name = "portable", .isa = KOLO_ISA_PORTABLE, .kernels = KERNELS, .steps = &kolo_steps_portable};
