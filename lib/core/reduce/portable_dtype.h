/* The portable kernels of one dtype, with the parameters of each_dtype.h. WIDE is the type in which they compute, and a
 * part of the names of the functions that do. ACC: the type of accumulation; WIDEN converts to it, NARROW from it. */

#if KIND == UNSIGNED
#define WIDE u64
#elif KIND == SIGNED
#define WIDE i64
#elif BITS == 64
#define WIDE f64
#else
#define WIDE f32
#endif

#if KIND == HALF
#define ACC       float
#define WIDEN(x)  DTYPE_NAME(f32_from)(x)
#define NARROW(x) PASTE2(DTYPE, from_f32)(x)
#else
#define ACC       ELEMENT
#define WIDEN(x)  (x)
#define NARROW(x) (x)
#endif

static inline ACC DTYPE_NAME(load)(const void *source, size_t index) {
    ELEMENT element;
    memcpy(&element, (const char *)source + index * sizeof element, sizeof element);
    return WIDEN(element);
}

static inline void DTYPE_NAME(store)(void *dst, size_t index, ACC acc) {
    ELEMENT element = NARROW(acc);
    memcpy((char *)dst + index * sizeof element, &element, sizeof element);
}

static inline ACC DTYPE_NAME(load_acc)(const void *source, size_t index) {
    ACC acc;
    memcpy(&acc, (const char *)source + index * sizeof acc, sizeof acc);
    return acc;
}

static inline void DTYPE_NAME(store_acc)(void *dst, size_t index, ACC acc) {
    memcpy((char *)dst + index * sizeof acc, &acc, sizeof acc);
}

static void DTYPE_NAME(widen)(void *acc_out, const void *source, size_t count) {
    for (size_t i = 0; i < count; i++)
        DTYPE_NAME(store_acc)(acc_out, i, DTYPE_NAME(load)(source, i));
}

#include "reduce/each_op.h"

#undef WIDE
#undef ACC
#undef WIDEN
#undef NARROW
#undef DTYPE
#undef KIND
#undef ELEMENT
#undef BITS
