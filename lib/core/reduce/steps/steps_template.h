/* One instance of the kernels of optimizers, as part of the core's (template/instance_template.h): it defines `steps`.
 */
#include "reduce/steps/steps.h"
#include "reduce/template/vector_access.h"

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
