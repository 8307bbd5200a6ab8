/* One instance of the kernels of optimizers. Included once by each instruction set's file, which has defined what
 * reduce/template/instance_template.h asks for of load_partial, store_partial, canonical_f32 and canonical_f64, and
 *
 *   sqrt_f32, sqrt_f64   of each element, correctly rounded
 *   VECTOR_BYTES         of one vector
 *   INSTANCE             the kolo_steps that is defined here
 *   INSTANCE_NAME        its name, a string */
#include "reduce/steps/steps.h"
#include "reduce/template/vector_access.h"

#define DOUBLES (VECTOR_BYTES / sizeof(double)) /* of one vector */
typedef float f32_half __attribute__((vector_size(VECTOR_BYTES / 2)));

#define REAL       float
#define REALS      f32v
#define WIDENED    f32_half
#define NAME(verb) verb##_f32
#include "reduce/steps/vector_steps.h"
#undef REAL
#undef REALS
#undef WIDENED
#undef NAME

#define REAL       double
#define REALS      f64v
#define WIDENED    f64v
#define NAME(verb) verb##_f64
#include "reduce/steps/vector_steps.h"

const kolo_steps INSTANCE = {
    INSTANCE_NAME, {sgd_f32, sgd_f64}, {adam_f32, adam_f64}, {adagrad_f32, adagrad_f64}, {squares_f32, squares_f64}};
