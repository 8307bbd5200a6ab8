#include "random.h"

#include <math.h>

static uint64_t mixed(uint64_t z) {
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

random_stream random_begin(uint64_t seed, uint64_t purpose) {
    return (random_stream){mixed(mixed(seed + 1) + purpose)};
}

uint64_t random_u64(random_stream *stream) {
    stream->state += UINT64_C(0x9e3779b97f4a7c15);
    return mixed(stream->state);
}

double random_uniform(random_stream *stream) {
    return (double)(random_u64(stream) >> 11) * 0x1p-53;
}

double random_normal(random_stream *stream) {
    const double two_pi = 6.283185307179586;
    double radius = sqrt(-2.0 * log(1.0 - random_uniform(stream))); /* 1 - u is never 0 */
    return radius * cos(two_pi * random_uniform(stream));
}

void random_permutation(random_stream *stream, size_t *order, size_t count) {
    for (size_t i = 0; i < count; i++)
        order[i] = i;
    for (size_t i = count; i > 1; i--) {
        size_t other = (size_t)(random_u64(stream) % i); /* the bias is below count / 2^64 */
        size_t kept = order[i - 1];
        order[i - 1] = order[other];
        order[other] = kept;
    }
}
