/* The kernels of one dtype, with the parameters of each_dtype.h. */

#if (KIND == UNSIGNED || KIND == SIGNED) && BITS <= 32
/* The division of small integers as the next wider float is exact: rounding lifts no quotient to an integer. */
static ALWAYS_INLINE vector DTYPE_NAME(divide)(vector x, divisor by) {
    ELEMENT lanes[VECTOR_BYTES / sizeof(ELEMENT)];
    memcpy(lanes, &x, sizeof lanes);
    for (size_t i = 0; i < sizeof lanes / sizeof *lanes; i++)
#if BITS < 32
        lanes[i] = (ELEMENT)(int32_t)((float)lanes[i] / (float)by.ranks);
#else
        lanes[i] = (ELEMENT)((double)lanes[i] / by.ranks);
#endif
    memcpy(&x, lanes, sizeof lanes);
    return x;
}
#endif

#if KIND != HALF /* halves.h has the others */
static void DTYPE_NAME(widen)(void *acc_out, const void *source, size_t count) {
    memmove(acc_out, source, count * sizeof(ELEMENT));
}
#endif

#include "reduce/each_op.h"

#undef DTYPE
#undef KIND
#undef ELEMENT
#undef BITS
