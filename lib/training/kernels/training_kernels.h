/* The kernels of training. Those of compression turn f32 into what is sent in its place, and back. The adder adds
 * arrays of floats to wide sums (reduce/exact/wide_sum.h). They take plain pointers and counts, and know no
 * communicator.
 *
 * A kolo_training_kernels is one instance of them. The portable instance is the specification; each other one gives the
 * same bits for every input. Which instance is used follows from the choice of the reducer.
 *
 * Error feedback. `residual` holds what earlier messages left out. A kernel takes x[i] = values[i] + residual[i], sends
 * as much of it as it can, and leaves residual[i] = x[i] - sent[i]. A residual is never infinite or NaN: it is +0 where
 * the difference would be. So what is sent over many calls adds up to what was given, except for the last residual.
 * With residual NULL x is values, and what is not sent is lost. In x every NaN is the positive quiet one without
 * payload.
 *
 * Signs are 1-bit SGD's (Seide, Fu, Droppo, Li, Yu, "1-Bit Stochastic Gradient Descent and its Application to
 * Data-Parallel Distributed Training of Speech DNNs", Interspeech 2014) with one magnitude a block, the mean, as in
 * Zheng, Huang, Kwok, "Communication-Efficient Distributed Blockwise Momentum SGD with Error-Feedback", NeurIPS 2019.
 *
 * Buffers need no alignment, and must not overlap. */
#pragma once

#include "reduce/exact/wide_sum.h"
#include "reduce/reducer.h"

enum {
    KOLO_SIGNS_BLOCK = 512, /* elements with one magnitude; their signs are a cache line */
    KOLO_SIGNS_WORD = 64,   /* signs of a word */
    KOLO_SIGNS_LANES = 16   /* sums of which a mean is made */
};

/* halves[i] = x[i] as BF16 or F16, to nearest, ties to even. A number beyond the type's largest becomes infinite. */
typedef void kolo_halve_fn(void *halves, const void *values, void *residual, size_t count);

/* Compresses one block, of 1 to KOLO_SIGNS_BLOCK elements. Bit i % 64 of the 64-bit word i / 64 is the sign of x[i];
 * the rest of the last word is 0. Returns the mean of all |x[i]|: sum l adds up those of i % KOLO_SIGNS_LANES == l, in
 * order; the upper half of the sums is added to the lower half until one sum is left, which is divided by the count.
 * Where an x[i] is infinite or NaN, or a sum overflows, so is the mean, and with it the whole block as it is received.
 * For the residual, sent[i] is the mean with the sign of x[i]. */
typedef float kolo_signs_fn(void *words, const void *values, void *residual, size_t count);

/* values[i] = magnitude with sign i of words, the first being bit 0. */
typedef void kolo_unsign_fn(void *values, const void *words, float magnitude, size_t count);

/* Stores the first `room` of the indices, in ascending order, of elements whose magnitude is at least `least`, and
 * returns how many there are. A magnitude is the integer that the bits below the sign make. In that order infinity is
 * above all numbers, and NaNs are above infinity. `least` and count are below 2^31 and 2^32. */
typedef size_t kolo_collect_fn(uint32_t *indices, size_t room, const void *values, size_t count, uint32_t least);

/* Adds values[0 .. count-1] to the words of a sum, exactly. The call counts as at most 2 * count + 64 additions. */
typedef void kolo_adder_fn(int64_t *words, const void *values, size_t count);

typedef struct kolo_training_kernels {
    kolo_halve_fn *to_bf16, *to_f16;
    kolo_signs_fn *to_signs;
    kolo_unsign_fn *from_signs;
    kolo_collect_fn *collect;
    kolo_adder_fn *add_f32, *add_f64;
} kolo_training_kernels;

extern const kolo_training_kernels kolo_training_kernels_portable;
#if defined(__x86_64__)
extern const kolo_training_kernels kolo_training_kernels_avx2, kolo_training_kernels_avx512;
#elif defined(__aarch64__)
extern const kolo_training_kernels kolo_training_kernels_neon;
#endif

/* Returns the instance for the instruction set of the reducer. */
const kolo_training_kernels *kolo_training_kernels_of(const kolo_reducer *reducer);
