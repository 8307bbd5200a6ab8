/* The portable kernels of optimizers, one element at a time, as steps.h says. They specify the others. */
#include <math.h>
#include <string.h>

#include "reduce/steps/steps.h"

#define REAL       float
#define NAME(verb) verb##_f32
#define SQRT       sqrtf
#include "reduce/steps/portable_steps.h"
#undef REAL
#undef NAME
#undef SQRT

#define REAL       double
#define NAME(verb) verb##_f64
#define SQRT       sqrt
#include "reduce/steps/portable_steps.h"

double kolo_steps_power(double base, uint64_t exponent) {
    double power = 1;
    for (; exponent; exponent >>= 1, base *= base)
        if (exponent & 1)
            power *= base;
    return power;
}

double kolo_steps_root(double value) {
    return sqrt(value);
}

const kolo_steps kolo_steps_portable = {
    {sgd_f32, sgd_f64}, {adam_f32, adam_f64}, {adagrad_f32, adagrad_f64}, {squares_f32, squares_f64}};
