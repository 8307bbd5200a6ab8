/* One instance of all kernels. Each instruction set's file includes this template once. It has defined the operations
 * that the compiler's vector extension lacks,
 *
 *   load_partial, store_partial    the first bytes of a vector, and nothing beside them
 *   minimum_f32, maximum_f32       of IEEE 754-2019, but any NaN may stand for another, and likewise for f64
 *   canonical_f32                  every NaN becomes the positive quiet one without payload, and likewise for f64
 *   unpack_F16, pack_F16           VECTOR_BYTES bytes of binary16 from and to a pair, elements in order
 *   is_any_set                     whether any bit of a vector is
 *   interleave_f32                 of a pair, the first element of each, then the second of each, and so on
 *   sign_bits                      of the elements of F32, as an integer, element 0 in bit 0
 *
 * and the parameters
 *
 *   VECTOR_BYTES      of one vector
 *   INSTANCE          the kolo_reducer that is defined here
 *   INSTANCE_NAME     its name, a string
 *   CANONICAL_IN_F32  1: two of canonical_f32 are faster than a comparison and a choice of 16-bit elements */
#include "reduce/exact/exact_arithmetic.h"
#include "reduce/exact/exact_element.h"
#include "reduce/halves.h"
#include "reduce/instances.h"
#include "reduce/kernel_table.h"
#include "reduce/template/template_names.h"
#include "reduce/template/vector_access.h"
#include "reduce/template/vector_arithmetic.h"
#include "training/compress/compress_template.h"

#define DTYPE_TEMPLATE    "reduce/template/dtype_template.h"
#define OP_TEMPLATE       "reduce/template/op_template.h"
#define EXACT_OP_TEMPLATE "reduce/exact/exact_op_template.h"
#include "reduce/each_dtype.h"

const kolo_reducer INSTANCE = {.name = INSTANCE_NAME, .kernels = KERNELS, .compressor = &compressor};
