/* Order statistics of a set of samples, and the clock that takes them. */
#pragma once

#include <stddef.h>

#include "now.h"

typedef struct perf_statistics {
    double min;
    double avg;
    double median; /* of an even number of samples: the mean of the two in the middle */
    double p99;    /* the smallest sample that 99% of all don't exceed; below 100 samples, the largest */
    double max;
} perf_statistics;

void perf_samples_sort(double *samples, size_t count);

/* Sorts `samples`, of which there is at least one. */
perf_statistics perf_statistics_of(double *samples, size_t count);

static inline double perf_now_us(void) {
    return now_s() * 1e6;
}
