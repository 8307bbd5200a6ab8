/* Operations of kolo_op_create whose results show the order of the inputs, and whether each came exactly once and with
 * whole elements. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "kolo.h"

struct own_operation {
    const char *name;
    size_t bytes; /* of an element */
    bool is_commutative;
    kolo_op_function function;
    kolo_dtype dtype; /* that calls pass */
    kolo_op op;
};

enum { OWN_OPERATIONS = 11 };

extern struct own_operation own_operations[OWN_OPERATIONS];

/* Makes all of them, for this process and those that it forks. */
void own_operations_create(void);

/* The one with that number; NULL: it is none of them. */
const struct own_operation *own_operation(kolo_op op);

/* Fills `count` elements with inputs of `rank`. */
void own_operation_fill(const struct own_operation *own, unsigned char *elements, size_t count, int rank,
                        uint64_t seed);

/* expected[i] = inputs[0][i] op ... op inputs[n-1][i], from left to right. */
void own_operation_reduce(const struct own_operation *own, const void *const *inputs, int n, size_t count,
                          unsigned char *expected);
