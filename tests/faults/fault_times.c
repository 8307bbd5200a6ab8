#include "fault_times.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

void times_add(struct times *times, int64_t ns) {
    if (times->count == times->capacity) {
        times->capacity = times->capacity ? 2 * times->capacity : 256;
        times->ns = realloc(times->ns, times->capacity * sizeof *times->ns);
        if (!times->ns)
            abort();
    }
    times->ns[times->count++] = ns;
}

static int compare(const void *a, const void *b) {
    const int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;
    return (left > right) - (left < right);
}

int64_t times_percentile(struct times *times, double percent) {
    const double rank = ceil(percent / 100 * (double)times->count);
    qsort(times->ns, times->count, sizeof *times->ns, compare);
    return times->ns[rank < 1 ? 0 : (size_t)rank - 1];
}

void times_print(struct times *times, const char *name) {
    if (times->count == 0)
        return;
    printf("  %-24s %6zu   min %6.2f   median %6.2f   p99 %6.2f   max %6.2f ms\n", name, times->count,
           (double)times_percentile(times, 0) * 1e-6, (double)times_percentile(times, 50) * 1e-6,
           (double)times_percentile(times, 99) * 1e-6, (double)times_percentile(times, 100) * 1e-6);
}
