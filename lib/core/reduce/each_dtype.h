/* Includes the file DTYPE_TEMPLATE for each dtype, with these parameters, which that file undefines:
 *
 *   DTYPE    the enumerator without KOLO_, as in U8; functions end in it
 *   KIND     UNSIGNED, SIGNED, FLOAT or HALF, as instances.h explains them
 *   ELEMENT  C type of an element in memory
 *   BITS     of an element
 *
 * The halves come after F32, since their kernels call those of F32. */

#define DTYPE   U8
#define KIND    UNSIGNED
#define ELEMENT uint8_t
#define BITS    8
#include DTYPE_TEMPLATE

#define DTYPE   I8
#define KIND    SIGNED
#define ELEMENT int8_t
#define BITS    8
#include DTYPE_TEMPLATE

#define DTYPE   U16
#define KIND    UNSIGNED
#define ELEMENT uint16_t
#define BITS    16
#include DTYPE_TEMPLATE

#define DTYPE   I16
#define KIND    SIGNED
#define ELEMENT int16_t
#define BITS    16
#include DTYPE_TEMPLATE

#define DTYPE   U32
#define KIND    UNSIGNED
#define ELEMENT uint32_t
#define BITS    32
#include DTYPE_TEMPLATE

#define DTYPE   I32
#define KIND    SIGNED
#define ELEMENT int32_t
#define BITS    32
#include DTYPE_TEMPLATE

#define DTYPE   U64
#define KIND    UNSIGNED
#define ELEMENT uint64_t
#define BITS    64
#include DTYPE_TEMPLATE

#define DTYPE   I64
#define KIND    SIGNED
#define ELEMENT int64_t
#define BITS    64
#include DTYPE_TEMPLATE

#define DTYPE   F32
#define KIND    FLOAT
#define ELEMENT float
#define BITS    32
#include DTYPE_TEMPLATE

#define DTYPE   F64
#define KIND    FLOAT
#define ELEMENT double
#define BITS    64
#include DTYPE_TEMPLATE

#define DTYPE   F16
#define KIND    HALF
#define ELEMENT uint16_t
#define BITS    16
#include DTYPE_TEMPLATE

#define DTYPE   BF16
#define KIND    HALF
#define ELEMENT uint16_t
#define BITS    16
#include DTYPE_TEMPLATE
