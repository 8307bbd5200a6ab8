/* The portable kernels of one dtype. Included by portable.c once per dtype; parameters, undefined again here:
 *
 *   DTYPE      the enumerator without KOLO_, as in U8; functions end in it
 *   ELEMENT    C type of an element in memory
 *   ACC        C type of accumulation
 *   WIDE       which functions compute: combine_<WIDE>, average_<WIDE>, canonical_<WIDE>
 *   BITWISE    1: the dtype has BAND, BOR and BXOR
 *   WIDENED    1: ACC is float and ELEMENT is not; those of F32 have been included before
 *   WIDEN(x)   ELEMENT to ACC
 *   NARROW(x)  ACC to ELEMENT */

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

#define OP SUM
#include "reduce/portable_op.h"
#define OP PROD
#include "reduce/portable_op.h"
#define OP MIN
#include "reduce/portable_op.h"
#define OP MAX
#include "reduce/portable_op.h"
#define OP AVG
#include "reduce/portable_op.h"
#if BITWISE
#define OP BAND
#include "reduce/portable_op.h"
#define OP BOR
#include "reduce/portable_op.h"
#define OP BXOR
#include "reduce/portable_op.h"
#endif

#undef DTYPE
#undef ELEMENT
#undef ACC
#undef WIDE
#undef BITWISE
#undef WIDENED
#undef WIDEN
#undef NARROW
