/* The kernels of one dtype. Included by instance_template.h once per dtype; parameters, undefined again here:
 *
 *   DTYPE     the enumerator without KOLO_, as in U8; functions end in it
 *   KIND      UNSIGNED, SIGNED, FLOAT or HALF
 *   ELEMENT   C type of an element in memory
 *   QUOTIENT  integers only: function or macro of an element and a divisor, C's x / ranks */

#if KIND == UNSIGNED || KIND == SIGNED
static ALWAYS_INLINE vector DTYPE_NAME(divide)(vector x, divisor by) {
    ELEMENT lanes[VECTOR_BYTES / sizeof(ELEMENT)];
    memcpy(lanes, &x, sizeof lanes);
    for (size_t i = 0; i < sizeof lanes / sizeof *lanes; i++)
        lanes[i] = (ELEMENT)QUOTIENT(lanes[i], by);
    memcpy(&x, lanes, sizeof lanes);
    return x;
}
#endif

#if KIND != HALF /* halves.h has the others */
static void DTYPE_NAME(widen)(void *acc_out, const void *source, size_t count) {
    memmove(acc_out, source, count * sizeof(ELEMENT));
}
#endif

#define OP MIN
#include "reduce/fold_template.h"
#include "reduce/chain_template.h"
#undef OP
#define OP MAX
#include "reduce/fold_template.h"
#include "reduce/chain_template.h"
#undef OP
#define OP AVG
#include "reduce/fold_template.h"
#undef OP
#if KIND != SIGNED
#define OP SUM
#include "reduce/fold_template.h"
#include "reduce/chain_template.h"
#undef OP
#define OP PROD
#include "reduce/fold_template.h"
#include "reduce/chain_template.h"
#undef OP
#endif
#if KIND == UNSIGNED
#define OP BAND
#include "reduce/fold_template.h"
#include "reduce/chain_template.h"
#undef OP
#define OP BOR
#include "reduce/fold_template.h"
#include "reduce/chain_template.h"
#undef OP
#define OP BXOR
#include "reduce/fold_template.h"
#include "reduce/chain_template.h"
#undef OP
#endif

#undef DTYPE
#undef KIND
#undef ELEMENT
#undef QUOTIENT
