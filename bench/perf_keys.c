/* Keys of Zipf's distribution are drawn by rejection from the area under a curve around it, which has an inverse
 * (rejection-inversion: Hoermann, Derflinger, 1996). That takes no memory, and about one draw a key. */
#include "perf_keys.h"

#include <math.h>

struct zipf {
    double rows, exponent;
    double begin, end; /* of the area, at the first and the last row */
    double near;       /* a draw so near below a whole number needs no closer look */
};

static double next_number(uint64_t *state) { /* from 0 to less than 1 */
    uint64_t mixed = *state += UINT64_C(0x9e3779b97f4a7c15);
    mixed = (mixed ^ mixed >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    mixed = (mixed ^ mixed >> 27) * UINT64_C(0x94d049bb133111eb);
    return (double)((mixed ^ mixed >> 31) >> 11) * 0x1p-53;
}

/* The integral of x to the power of -exponent from 1 on, and its inverse. */
static double area(const struct zipf *zipf, double x) {
    const double power = 1 - zipf->exponent, logarithm = log(x);
    return fabs(power) < 1e-9 ? logarithm : expm1(power * logarithm) / power;
}

static double place(const struct zipf *zipf, double area) {
    const double power = 1 - zipf->exponent;
    return fabs(power) < 1e-9 ? exp(area) : exp(log1p(fmax(power * area, -1)) / power);
}

static struct zipf zipf_of(uint64_t rows, double exponent) {
    struct zipf zipf = {.rows = (double)rows, .exponent = exponent};
    zipf.begin = area(&zipf, 1.5) - 1;
    zipf.end = area(&zipf, zipf.rows + 0.5);
    zipf.near = 2 - place(&zipf, area(&zipf, 2.5) - pow(2, -exponent));
    return zipf;
}

static uint64_t draw(const struct zipf *zipf, uint64_t *state) { /* from 1 to rows */
    for (;;) {
        const double at = zipf->end + next_number(state) * (zipf->begin - zipf->end), x = place(zipf, at);
        const double whole = fmin(fmax(floor(x + 0.5), 1), zipf->rows);
        if (whole - x <= zipf->near || at >= area(zipf, whole + 0.5) - pow(whole, -zipf->exponent))
            return (uint64_t)whole;
    }
}

static uint64_t common_divisor(uint64_t a, uint64_t b) {
    while (b != 0) {
        const uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* A number of about 0.618 rows that has no divisor in common with it: its multiples reach every row, and spread. */
static uint64_t spreading(uint64_t rows) {
    uint64_t factor = (uint64_t)((double)rows * 0.618033988749895) | 1;
    while (common_divisor(factor, rows) != 1)
        factor += 2;
    return factor;
}

void perf_keys_fill(uint64_t *ids, size_t count, uint64_t rows, perf_keys keys, double exponent, uint64_t seed) {
    const struct zipf zipf = zipf_of(rows, keys == PERF_KEYS_ZIPF ? exponent : 1);
    const uint64_t factor = spreading(rows);
    uint64_t state = seed;
    for (size_t i = 0; i < count; i++)
        ids[i] = keys == PERF_KEYS_ZIPF ? (draw(&zipf, &state) - 1) * factor % rows
                                        : (uint64_t)(next_number(&state) * (double)rows);
}
