/* Times of one kind, and how they are distributed. */
#ifndef KOLO_TESTS_FAULT_TIMES_H
#define KOLO_TESTS_FAULT_TIMES_H

#include <stddef.h>
#include <stdint.h>

struct times {
    int64_t *ns;
    size_t count;
    size_t capacity;
};

void times_add(struct times *times, int64_t ns);

/* The time that `percent` of them do not exceed: nearest rank. At least one must be there. */
int64_t times_percentile(struct times *times, double percent);

/* "killed           412   min 0.1  median 5.2  p99 11.0  max 14.2 ms"; nothing where there are none. */
void times_print(struct times *times, const char *name);

#endif
