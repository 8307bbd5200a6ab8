/* Random numbers that are the same on every machine and every rank: SplitMix64, a counter put through a mixer. */
#pragma once

#include <math.h>
#include <stddef.h>
#include <stdint.h>

typedef struct random_stream {
    uint64_t state;
} random_stream;

static inline uint64_t random_mixed(uint64_t z) {
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* Seeds are hashed first, so that neighbouring seeds and purposes give unrelated streams. */
static inline random_stream random_begin(uint64_t seed, uint64_t purpose) {
    return (random_stream){random_mixed(random_mixed(seed + 1) + purpose)};
}

static inline uint64_t random_u64(random_stream *stream) {
    return random_mixed(stream->state += UINT64_C(0x9e3779b97f4a7c15));
}

/* In [0, 1). */
static inline double random_uniform(random_stream *stream) {
    return (double)(random_u64(stream) >> 11) * 0x1p-53;
}

/* Mean 0, variance 1. */
static inline double random_normal(random_stream *stream) {
    const double radius = sqrt(-2.0 * log(1.0 - random_uniform(stream))); /* 1 - u is never 0 */
    return radius * cos(6.283185307179586 * random_uniform(stream));
}

/* Fills order[0 .. count-1] with a random permutation of 0 .. count-1. */
static inline void random_permutation(random_stream *stream, size_t *order, size_t count) {
    for (size_t i = 0; i < count; i++)
        order[i] = i;
    for (size_t i = count; i > 1; i--) {
        const size_t other = (size_t)(random_u64(stream) % i); /* the bias is below count / 2^64 */
        const size_t kept = order[i - 1];
        order[i - 1] = order[other];
        order[other] = kept;
    }
}
