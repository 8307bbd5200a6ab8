/* Which rows a worker names, one after the other: all alike often, or a few much more often than the others. */
#ifndef PERF_KEYS_H
#define PERF_KEYS_H

#include <stddef.h>
#include <stdint.h>

typedef enum perf_keys { PERF_KEYS_UNIFORM, PERF_KEYS_ZIPF } perf_keys;

/* NULL past the last. */
static inline const char *perf_keys_name(unsigned keys) {
    static const char *const names[] = {[PERF_KEYS_UNIFORM] = "uniform", [PERF_KEYS_ZIPF] = "zipf", NULL};
    return names[keys];
}

/* ids[0 .. count-1] of rows 0 .. rows - 1, the same from the same seed. ZIPF: the k-th most frequent row is named in
 * proportion to k to the power of -exponent, which is above 0; frequent rows lie all over the table. */
void perf_keys_fill(uint64_t *ids, size_t count, uint64_t rows, perf_keys keys, double exponent, uint64_t seed);

#endif
