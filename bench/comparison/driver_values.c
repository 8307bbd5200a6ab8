/* SPDX-License-Identifier: Apache-2.0
 */
#include "driver_values.h"

#include <stdint.h>
#include <string.h>

/* Whole numbers up to this are exact in bf16, and so in f32. */
enum { EXACT_MAX = 256, MAGNITUDE_MAX = 8 };

size_t driver_dtype_bytes(driver_dtype dtype) {
    return dtype == DRIVER_BF16 ? 2 : 4;
}

/* The finalizer of a splitmix generator. */
static uint64_t mix(uint64_t x) {
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

/* No partial sum of all ranks' values exceeds EXACT_MAX; of more ranks than that, only the first ones contribute. */
static int value(size_t position, int rank, int ranks, int seed) {
    int magnitude = ranks >= EXACT_MAX ? 1 : EXACT_MAX / ranks;
    if (rank >= EXACT_MAX)
        return 0;
    if (magnitude > MAGNITUDE_MAX)
        magnitude = MAGNITUDE_MAX;
    uint64_t random = mix((uint64_t)position * 0x9e3779b97f4a7c15u + (uint64_t)rank * 2 + (uint64_t)seed + 1);
    return (int)(random % (uint64_t)(2 * magnitude + 1)) - magnitude;
}

static void store(char *table, size_t index, driver_dtype dtype, int number) {
    float f32 = (float)number;
    uint32_t bits;
    memcpy(&bits, &f32, sizeof(bits));
    uint16_t bf16 = (uint16_t)(bits >> 16);
    if (dtype == DRIVER_BF16)
        memcpy(table + index * sizeof(bf16), &bf16, sizeof(bf16));
    else
        memcpy(table + index * sizeof(f32), &f32, sizeof(f32));
}

void driver_values_make(driver_values *values, driver_dtype dtype, int rank, int ranks) {
    for (int seed = 0; seed < DRIVER_SEEDS; seed++) {
        for (size_t i = 0; i < PERF_TABLE_PERIOD; i++) {
            int sum = 0;
            for (int each = 0; each < ranks; each++)
                sum += value(i, each, ranks, seed);
            store(values->input[seed], i, dtype, value(i, rank, ranks, seed));
            store(values->sum[seed], i, dtype, sum);
        }
    }
}
