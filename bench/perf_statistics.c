#include "perf_statistics.h"

#include <stdlib.h>

static int compare(const void *left, const void *right) {
    double a = *(const double *)left;
    double b = *(const double *)right;
    return (a > b) - (a < b);
}

void perf_samples_sort(double *samples, size_t count) {
    qsort(samples, count, sizeof(*samples), compare);
}

perf_statistics perf_statistics_of(double *samples, size_t count) {
    perf_samples_sort(samples, count);
    size_t p99_rank = (count * 99 + 99) / 100; /* nearest rank: 99% of count, rounded up */
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += samples[i];
    return (perf_statistics){.min = samples[0],
                             .avg = sum / (double)count,
                             .median = (samples[(count - 1) / 2] + samples[count / 2]) / 2,
                             .p99 = samples[p99_rank - 1],
                             .max = samples[count - 1]};
}
