/* Random numbers that are the same on every machine and every rank: SplitMix64, a counter put through a mixer. */
#ifndef KOLO_TRAIN_RANDOM_H
#define KOLO_TRAIN_RANDOM_H

#include <stddef.h>
#include <stdint.h>

typedef struct random_stream {
    uint64_t state;
} random_stream;

/* Seeds are hashed first, so that neighbouring seeds and purposes give unrelated streams. */
random_stream random_begin(uint64_t seed, uint64_t purpose);

uint64_t random_u64(random_stream *stream);
double random_uniform(random_stream *stream); /* in [0, 1) */
double random_normal(random_stream *stream);  /* mean 0, variance 1 */

/* Fills order[0 .. count-1] with a random permutation of 0 .. count-1. */
void random_permutation(random_stream *stream, size_t *order, size_t count);

#endif
