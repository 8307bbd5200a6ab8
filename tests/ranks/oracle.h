/* What an all-reduce must give, computed from the words of the public headers alone, in plain C, with nothing taken
 * from the library. And inputs to compute it from. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kolo.h"

typedef enum input_style {
    INPUT_BITS,    /* any bits */
    INPUT_SPECIAL, /* NaNs with payloads, infinities, zeros of both signs, subnormals, limits, and any bits between */
    INPUT_NEAR,  /* floats of either sign, from 1/32 to 32: in another order they nearly always add up to another sum */
    INPUT_EXACT, /* sums, products and averages that no order of rounding can change */
    INPUT_STYLES
} input_style;

/* Fills `count` elements at any address. The same arguments give the same elements everywhere. */
void input_fill(input_style style, kolo_dtype dtype, kolo_op op, void *elements, size_t count, uint64_t seed);

/* Fills bytes at any address with random ones. */
void random_fill(void *bytes, size_t length, uint64_t seed);

/* expected[i] = op over inputs[0][i] .. inputs[ranks-1][i] in the canonical order. */
void oracle_reduce(kolo_dtype dtype, kolo_op op, const void *const *inputs, int ranks, size_t count, void *expected);

/* The same over `n` of the inputs of `ranks` ranks, which an average is divided by: what the kernels fold. */
void oracle_fold(kolo_dtype dtype, kolo_op op, const void *const *inputs, int n, int ranks, size_t count,
                 void *expected);

/* True if the result depends on the order of the operands: sums, products and averages of floats. */
bool order_matters(kolo_dtype dtype, kolo_op op);

/* A hash of bytes. */
uint64_t hash_bytes(const void *bytes, size_t length);

/* Index of the first byte that differs, or `length`. */
size_t first_difference(const void *a, const void *b, size_t length);
