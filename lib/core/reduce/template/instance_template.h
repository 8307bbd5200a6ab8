/* One instance of the core's kernels, which each instruction set's file in isa/ makes of its vectors. That file has
 * included what vector_types.h asks for, and defined
 *
 *   INSTANCE       the kolo_reducer that is defined here
 *   INSTANCE_NAME  its name, a string */
#include "reduce/exact/exact_arithmetic.h"
#include "reduce/exact/exact_element.h"
#include "reduce/halves.h"
#include "reduce/instances.h"
#include "reduce/kernel_table.h"
#include "reduce/steps/steps_template.h"
#include "reduce/template/template_names.h"
#include "reduce/template/vector_access.h"
#include "reduce/template/vector_arithmetic.h"
#include "training/compress/compress_template.h"

#define DTYPE_TEMPLATE    "reduce/template/dtype_template.h"
#define OP_TEMPLATE       "reduce/template/op_template.h"
#define EXACT_OP_TEMPLATE "reduce/exact/exact_op_template.h"
#include "reduce/each_dtype.h"

const kolo_reducer INSTANCE = {.name = INSTANCE_NAME, .kernels = KERNELS, .steps = &steps, .compressor = &compressor};
