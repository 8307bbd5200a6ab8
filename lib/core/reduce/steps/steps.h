/* The kernels of optimizers: elementwise updates of parameters and state, and a sum of squares. The portable instance
 * is the specification; each other instance gives the same bits, for any length and alignment.
 *
 * They compute in the type of their elements, one operation at a time, without fused multiply-add. Every NaN that is
 * stored is the positive quiet one without payload. Formulas and the order of operations are those of PyTorch 2
 * (torch/optim/sgd.py, _single_tensor_sgd; torch/optim/adam.py, _single_tensor_adam; torch/optim/adagrad.py,
 * _single_tensor_adagrad; addcmul and addcdiv of ATen multiply by the scalar first), with g the gradient, p the
 * parameter, b momentum, m and v the first and second moment, h the sum of squares:
 *
 *     g = g * scale;  decay != 0: g = g + p * decay
 *     SGD:  with momentum: b = b * kept + g * undamped;  g = nesterov ? g + b * momentum : b
 *           p = p + g * rate                                               (rate is minus the learning rate)
 *     Adam: p = p * shrink
 *           lerp: m = m + (g - m) * beta1_rest, for beta1_rest < 0.5;  else m = g - (g - m) * (1 - beta1_rest)
 *           v = v * beta2 + g * beta2_rest * g
 *           p = p + rate * m / (sqrt(v) / bias2_root + epsilon)            (rate is minus the step size)
 *     Adagrad: h = h + g * g
 *           p = p + rate * g / (sqrt(h) + epsilon)                         (rate is minus the learning rate)
 *
 * The sum of squares is one of 16 in f64, in which element i is added to number i % 16. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The scalars of a step. They are rounded to the type of the elements before they are used. */
struct kolo_step_factors {
    double scale, decay, rate;
    double momentum, kept, undamped;                                   /* SGD */
    double shrink, beta1_rest, beta2, beta2_rest, bias2_root, epsilon; /* Adam; Adagrad: epsilon */
    bool has_momentum, nesterov;
};

/* Updates `count` parameters. SGD: `first` is the momentum buffer, NULL without momentum; `second` is not used. Adam:
 * the moments. Adagrad: `first` is the sum of squares; `second` is not used. Arrays are apart, of any alignment. */
typedef void kolo_step_fn(const struct kolo_step_factors *factors, size_t count, const void *gradients,
                          void *parameters, void *first, void *second);

enum { KOLO_SQUARE_LANES = 16 };

/* Adds the squares of `count` values to lanes[i % KOLO_SQUARE_LANES]. */
typedef void kolo_squares_fn(double *lanes, const void *values, size_t count);

enum { KOLO_STEPS_F32, KOLO_STEPS_F64, KOLO_STEPS_TYPES };

typedef struct kolo_steps {
    kolo_step_fn *sgd[KOLO_STEPS_TYPES], *adam[KOLO_STEPS_TYPES], *adagrad[KOLO_STEPS_TYPES];
    kolo_squares_fn *squares[KOLO_STEPS_TYPES];
} kolo_steps;

extern const kolo_steps kolo_steps_portable;

/* Returns base^exponent, by squaring: the same bits on every machine, whatever its C library. */
double kolo_steps_power(double base, uint64_t exponent);

/* Returns the square root, without libm. */
double kolo_steps_root(double value);
