/* Inputs whose sum is exact in f32 and in bf16, in whatever order a library adds them, so that results are compared bit
 * by bit. The tables are repeated over the buffers by perf_table.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef DRIVER_VALUES_H
#define DRIVER_VALUES_H

#include "driver.h"
#include "perf_table.h"

/* Two sets of values, so that the result of an earlier call is not taken for one of a later. */
enum { DRIVER_SEED_VERIFIED, DRIVER_SEED_TIMED, DRIVER_SEEDS };

enum { DRIVER_VALUES_BYTES_MAX = PERF_TABLE_PERIOD * 4 };

typedef struct driver_values {
    char input[DRIVER_SEEDS][DRIVER_VALUES_BYTES_MAX]; /* of this rank */
    char sum[DRIVER_SEEDS][DRIVER_VALUES_BYTES_MAX];   /* of all ranks */
} driver_values;

size_t driver_dtype_bytes(driver_dtype dtype);

void driver_values_make(driver_values *values, driver_dtype dtype, int rank, int ranks);

#endif
