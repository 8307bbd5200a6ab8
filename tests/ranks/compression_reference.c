/* Compressed messages, and what joins them, one element after another. */
#include "compression_reference.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "oracle.h"

enum { BLOCK = 512, LANES = 16 };

static float canonical(float x) {
    const uint32_t nan = 0x7fc00000;
    if (x != x)
        memcpy(&x, &nan, sizeof x);
    return x;
}

static float left(float x, float sent) {
    const float rest = x - sent;
    return isfinite(rest) ? rest : 0;
}

static uint32_t magnitude(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits & 0x7fffffff;
}

/* To nearest, ties to even: the two neighbours of x that have so many bits of fraction, at the distance `unit`. */
static float rounded(float x, int fraction_bits, int exponent_min, double overflow) {
    int exponent;
    if (x != x || isinf(x) || x == 0)
        return x;
    frexpf(x, &exponent); /* x is in [2^(exponent-1), 2^exponent) */
    exponent -= 1;
    if (exponent < exponent_min)
        exponent = exponent_min;
    const double unit = ldexp(1, exponent - fraction_bits);
    const double nearest = nearbyint((double)x / unit) * unit; /* to even by default */
    return fabs(nearest) >= overflow ? (x < 0 ? -INFINITY : INFINITY) : (float)copysign(nearest, x);
}

static uint16_t half_bits(kolo_compression kind, float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    if (x != x)
        return kind == KOLO_COMPRESSION_BF16 ? 0x7fc0 : 0x7e00;
    if (kind == KOLO_COMPRESSION_BF16)
        return (uint16_t)(bits >> 16);
    const uint16_t sign = bits >> 16 & 0x8000;
    const double size = fabs((double)x);
    if (isinf(x))
        return sign | 0x7c00;
    if (size < 0x1p-14)
        return sign | (uint16_t)(size * 0x1p24);
    int exponent;
    const double fraction = frexp(size, &exponent); /* in [1/2, 1) */
    return sign | (uint16_t)((exponent - 1 + 15) << 10) | (uint16_t)((fraction * 2 - 1) * 1024);
}

static void compress_halves(kolo_compression kind, const float *x, float *residual, uint16_t *sent, size_t count) {
    for (size_t i = 0; i < count; i++) {
        const float nearest =
            kind == KOLO_COMPRESSION_BF16 ? rounded(x[i], 7, -126, 0x1p128) : rounded(x[i], 10, -14, 0x1p16);
        sent[i] = half_bits(kind, nearest);
        if (residual)
            residual[i] = left(x[i], nearest);
    }
}

static float mean_magnitude(const float *x, size_t count) {
    float lanes[LANES] = {0};
    for (size_t i = 0; i < count; i++)
        lanes[i % LANES] += fabsf(x[i]);
    for (int half = LANES / 2; half > 0; half /= 2)
        for (int lane = 0; lane < half; lane++)
            lanes[lane] += lanes[lane + half];
    return canonical(lanes[0] / (float)count);
}

static void compress_signs(const float *x, float *residual, float *sent, size_t count) {
    for (size_t begin = 0; begin < count; begin += BLOCK) {
        const size_t end = count - begin < BLOCK ? count : begin + BLOCK;
        const float mean = mean_magnitude(x + begin, end - begin);
        for (size_t i = begin; i < end; i++) {
            sent[i] = signbit(x[i]) ? -mean : mean;
            if (residual)
                residual[i] = left(x[i], sent[i]);
        }
    }
}

struct candidate {
    uint32_t magnitude, index;
};

static int larger_first(const void *a, const void *b) {
    const struct candidate *x = a, *y = b;
    if (x->magnitude != y->magnitude)
        return x->magnitude < y->magnitude ? 1 : -1;
    return x->index < y->index ? -1 : 1;
}

size_t reference_chosen(double share, size_t count) {
    const size_t chosen = (size_t)ceil(share * (double)count);
    return chosen > count ? count : chosen == 0 && count > 0 ? 1 : chosen;
}

static void compress_largest(double share, const float *x, float *residual, float *sent, size_t count) {
    struct candidate *order = malloc((count + 1) * sizeof *order);
    const size_t chosen = reference_chosen(share, count);
    for (size_t i = 0; i < count; i++) {
        order[i] = (struct candidate){magnitude(x[i]), (uint32_t)i};
        sent[i] = 0;
        if (residual)
            residual[i] = isfinite(x[i]) ? x[i] : 0;
    }
    qsort(order, count, sizeof *order, larger_first);
    for (size_t i = 0; i < chosen; i++) {
        sent[order[i].index] = x[order[i].index];
        if (residual)
            residual[order[i].index] = 0;
    }
    free(order);
}

void reference_compress(kolo_compression kind, double share, const float *values, float *residual, void *sent,
                        size_t count) {
    float *x = malloc((count + 1) * sizeof *x);
    for (size_t i = 0; i < count; i++)
        x[i] = canonical(residual ? values[i] + residual[i] : values[i]);
    if (kind == KOLO_COMPRESSION_TOPK)
        compress_largest(share, x, residual, sent, count);
    else if (kind == KOLO_COMPRESSION_ONEBIT)
        compress_signs(x, residual, sent, count);
    else
        compress_halves(kind, x, residual, sent, count);
    free(x);
}

void reference_join(kolo_compression kind, kolo_op op, const void *const *sent, int ranks, float *expected,
                    size_t count) {
    if (kind == KOLO_COMPRESSION_TOPK || kind == KOLO_COMPRESSION_ONEBIT) {
        oracle_reduce(KOLO_F32, op, sent, ranks, count, expected);
        for (size_t i = 0; i < count; i++) /* also where there is one rank */
            expected[i] = canonical(expected[i]);
        return;
    }
    const kolo_dtype half = kind == KOLO_COMPRESSION_BF16 ? KOLO_BF16 : KOLO_F16;
    uint16_t *joined = malloc((count + 1) * sizeof *joined);
    oracle_reduce(half, op, sent, ranks, count, joined);
    for (size_t i = 0; i < count; i++) {
        if (half == KOLO_BF16) {
            const uint32_t bits = (uint32_t)joined[i] << 16;
            memcpy(&expected[i], &bits, sizeof bits);
            continue;
        }
        const int exponent = joined[i] >> 10 & 31, fraction = joined[i] & 1023;
        const float size = exponent == 31  ? (fraction ? NAN : INFINITY)
                           : exponent == 0 ? (float)ldexp(fraction, -24)
                                           : (float)ldexp(1024 + fraction, exponent - 25);
        expected[i] = canonical(joined[i] & 0x8000 ? -size : size);
    }
    free(joined);
}
