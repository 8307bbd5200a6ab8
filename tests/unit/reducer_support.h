/* What the tests of the reducer share: arguments, inputs, buffers beside inaccessible pages. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kolo.h"
#include "reduce/reducer.h"
#include "splitmix64.h"

/* Arguments of a test program: --seed N, and --thin N to run one case in N. */
typedef struct test_arguments {
    uint64_t seed;
    uint64_t thin; /* at least 1 */
} test_arguments;

/* Reads and prints them; exits with 2 where they cannot be read, with 0 after --help. */
test_arguments test_arguments_read(int argc, char **argv);

/* "f32", "sum": as messages have them. */
const char *dtype_name(kolo_dtype dtype);
const char *op_name(kolo_op op);

size_t dtype_bytes(kolo_dtype dtype);
bool dtype_is_float(kolo_dtype dtype);
bool dtype_is_signed(kolo_dtype dtype); /* of integers */
bool op_is_bitwise(kolo_op op);
bool op_fits(kolo_op op, kolo_dtype dtype); /* the dtype has it */

/* An IEEE format: the sign, the exponent, then the fraction. */
typedef struct float_format {
    unsigned bits;
    unsigned fraction_bits;
    int bias;
    uint64_t canonical_nan;
} float_format;

float_format format_of(kolo_dtype dtype); /* a float */

/* Element `index` of an array in the dtype, as bits. */
uint64_t bits_at(kolo_dtype dtype, const void *elements, size_t index);
void bits_store(kolo_dtype dtype, void *elements, size_t index, uint64_t bits);

/* The instances that this CPU can run, from *index 0 on, but for one that has all kernels of the dtype and op from the
 * instance before. NULL after the last. */
const kolo_reducer *instance_next(uint32_t *index, kolo_dtype dtype, kolo_op op);

typedef enum fill_style {
    FILL_BITS,    /* any bits */
    FILL_SPECIAL, /* what kernels get wrong: NaNs with payloads, infinities, zeros, subnormals, limits */
    FILL_NUMBERS, /* near 1, so that sums and products of many stay numbers */
    FILL_STYLES
} fill_style;

void fill(kolo_dtype dtype, fill_style style, void *elements, size_t count, uint64_t *state);

/* Memory with an inaccessible page before and after it. */
typedef struct guarded {
    unsigned char *begin;
    size_t bytes;
} guarded;

guarded guarded_create(size_t bytes_min);
void guarded_destroy(guarded area);

/* A random place for `bytes` bytes: against the end, against the begin, or up to 63 bytes from either. What surrounds
 * it is filled with a known value. */
unsigned char *guarded_place(guarded area, size_t bytes, uint64_t *state);

/* True if what surrounds the place still has that value. */
bool guarded_intact(guarded area, const unsigned char *place, size_t bytes);
