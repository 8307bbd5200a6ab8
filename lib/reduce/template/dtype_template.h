/* The kernels of one dtype. Included by instance_template.h once per dtype; parameters, undefined again here:
 *
 *   DTYPE     the enumerator without KOLO_, as in U8; functions end in it
 *   KIND      UNSIGNED, SIGNED, FLOAT or HALF
 *   ELEMENT   C type of an element in memory
 *   QUOTIENT  integers of up to 32 bits only: macro of an element and a divisor, C's x / ranks
 *
 * and for the templates of an op:
 *
 *   WIDENED   1: a vector of elements is combined as a pair of vectors of F32; 0: as it is */

#ifdef QUOTIENT
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

#define WIDENED 0 /* no 16-bit float either, which needs no arithmetic here */
#define OP      MIN
#include "reduce/template/fold_template.h"
#include "reduce/template/finish_template.h"
#include "reduce/template/chain_template.h"
#include "reduce/template/partial_template.h"
#undef OP
#define OP MAX
#include "reduce/template/fold_template.h"
#include "reduce/template/finish_template.h"
#include "reduce/template/chain_template.h"
#include "reduce/template/partial_template.h"
#undef OP
#undef WIDENED
#define WIDENED (KIND == HALF)
#define OP      AVG
#include "reduce/template/fold_template.h"
#include "reduce/template/finish_template.h"
#undef OP
#if KIND != SIGNED
#define OP SUM
#include "reduce/template/fold_template.h"
#include "reduce/template/finish_template.h"
#include "reduce/template/chain_template.h"
#include "reduce/template/partial_template.h"
#undef OP
#define OP PROD
#include "reduce/template/fold_template.h"
#include "reduce/template/finish_template.h"
#include "reduce/template/chain_template.h"
#include "reduce/template/partial_template.h"
#undef OP
#endif
#if KIND == UNSIGNED
#define OP BAND
#include "reduce/template/fold_template.h"
#include "reduce/template/finish_template.h"
#include "reduce/template/chain_template.h"
#include "reduce/template/partial_template.h"
#undef OP
#define OP BOR
#include "reduce/template/fold_template.h"
#include "reduce/template/finish_template.h"
#include "reduce/template/chain_template.h"
#include "reduce/template/partial_template.h"
#undef OP
#define OP BXOR
#include "reduce/template/fold_template.h"
#include "reduce/template/finish_template.h"
#include "reduce/template/chain_template.h"
#include "reduce/template/partial_template.h"
#undef OP
#endif

#undef WIDENED
#undef DTYPE
#undef KIND
#undef ELEMENT
#undef QUOTIENT
