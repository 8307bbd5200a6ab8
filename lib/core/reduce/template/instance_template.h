/* One instance of the core's kernels, which each instruction set's file in isa/ makes of its vectors. That file has
 * included what vector_types.h asks for, and defined
 *
 *   INSTANCE       the kolo_reducer that is defined here
 *   INSTANCE_NAME  its name, a string
 *   INSTANCE_ISA   the instruction set, of enum kolo_isa */
#include "reduce/exact/exact_arithmetic.h"
#include "reduce/exact/exact_element.h"
#include "reduce/halves.h"
#include "reduce/instances.h"
#include "reduce/kernel_table.h"
#include "reduce/steps/steps_template.h"
#include "reduce/template/template_names.h"
#include "reduce/template/vector_access.h"
#include "reduce/template/vector_arithmetic.h"

#define DTYPE_TEMPLATE    "reduce/template/dtype_template.h"
#define OP_TEMPLATE       "reduce/template/op_template.h"
#define EXACT_OP_TEMPLATE "reduce/exact/exact_op_template.h"
#include "reduce/each_dtype.h"

const kolo_reducer INSTANCE = {.name = INSTANCE_NAME, .isa = INSTANCE_ISA, .kernels = KERNELS, .steps = &steps};
