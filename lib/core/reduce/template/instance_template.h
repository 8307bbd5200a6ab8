/* One instance of the core's kernels, which each instruction set's file in isa/ makes of its vectors. That file has
 * included what vector_types.h asks for, and defined
 *
 *   INSTANCE       the kolo_reducer that is defined here
 *   INSTANCE_NAME  its name, a string
 *   INSTANCE_ISA   the instruction set, of enum kolo_isa */
#include "reduce/exact/exact_arithmetic.h"
#include "reduce/exact/wide_sum.h"
#include "reduce/halves.h"
#include "reduce/instances.h"
#include "reduce/steps/steps.h"
#include "reduce/template/template_names.h"
#include "reduce/template/vector_access.h"
#include "reduce/template/vector_arithmetic.h"

#define DTYPE_TEMPLATE    "reduce/template/dtype_template.h"
#define OP_TEMPLATE       "reduce/template/op_template.h"
#define EXACT_OP_TEMPLATE "reduce/exact/exact_op_template.h"
#include "reduce/each_dtype.h"

/* The kernels of optimizers. */
#define DOUBLES (VECTOR_BYTES / sizeof(double)) /* of one vector */
typedef float f32_half __attribute__((vector_size(VECTOR_BYTES / 2)));

#define REAL       float
#define REALS      f32v
#define TO_WIDEN   f32_half
#define NAME(verb) verb##_f32
#include "reduce/steps/vector_steps.h"
#undef REAL
#undef REALS
#undef TO_WIDEN
#undef NAME

#define REAL       double
#define REALS      f64v
#define TO_WIDEN   f64v
#define NAME(verb) verb##_f64
#include "reduce/steps/vector_steps.h"

static const kolo_steps steps = {
    {sgd_f32, sgd_f64}, {adam_f32, adam_f64}, {adagrad_f32, adagrad_f64}, {squares_f32, squares_f64}};

const kolo_reducer INSTANCE = {.name = INSTANCE_NAME, .isa = INSTANCE_ISA, .kernels = KERNELS, .steps = &steps};
