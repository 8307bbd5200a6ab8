/* The adder adds arrays of floats to wide sums (wide_sum.h). Its specification adds one float after another to the
 * digits, exactly; the instances for instruction sets are exact, too, and so give the same sums. */
#ifndef KOLO_TRAINING_EXACT_ADDER_H
#define KOLO_TRAINING_EXACT_ADDER_H

#include "reduce/exact/wide_sum.h"

/* Adds values[0 .. count-1], of any alignment, to the words of a sum. The call counts as at most 2 * count + 64
 * additions. */
typedef void kolo_adder_fn(int64_t *words, const void *values, size_t count);

typedef struct kolo_adder {
    const char *name; /* "portable", "avx2", "avx512", "neon" */
    kolo_adder_fn *add_f32, *add_f64;
} kolo_adder;

/* The best instance that `features` (bits of cpu/features.h) allow; never NULL. */
const kolo_adder *kolo_adder_select(uint32_t features);

/* All instances that this build has and `features` allow, portable first, for tests: the one at `index`, or NULL. */
const kolo_adder *kolo_adder_at(uint32_t features, uint32_t index);

extern const kolo_adder kolo_adder_portable;
#if defined(__x86_64__)
extern const kolo_adder kolo_adder_avx2, kolo_adder_avx512;
#elif defined(__aarch64__)
extern const kolo_adder kolo_adder_neon;
#endif

#endif
