/* Includes the file OP_TEMPLATE for each op for which a dtype of this KIND needs kernels of its own, and
 * EXACT_OP_TEMPLATE for SUM_EXACT, after that for SUM. Parameters, besides those of the dtype:
 *
 *   OP       the enumerator without KOLO_, as in SUM; that file undefines it
 *   AVERAGE  1: an average; it needs no partial results of its own, since without its division it is a sum
 *   WIDENED  1: elements are widened to be combined; 0: they are combined as they are, as for the minimum of 16-bit
 *            floats */

#define AVERAGE 0
#define WIDENED 0
#define OP      MIN
#include OP_TEMPLATE
#define OP MAX
#include OP_TEMPLATE
#undef WIDENED
#define WIDENED (KIND == HALF)
#if KIND != SIGNED
#define OP SUM
#include OP_TEMPLATE
#define OP PROD
#include OP_TEMPLATE
#endif
#if KIND == FLOAT || KIND == HALF
#define OP SUM_EXACT
#include EXACT_OP_TEMPLATE
#endif
#if KIND == UNSIGNED
#define OP BAND
#include OP_TEMPLATE
#define OP BOR
#include OP_TEMPLATE
#define OP BXOR
#include OP_TEMPLATE
#endif
#undef AVERAGE
#define AVERAGE 1
#define OP      AVG
#include OP_TEMPLATE
#undef AVERAGE
#undef WIDENED
