/* The monotonic clock, in nanoseconds. */
#ifndef KOLO_BASE_CLOCK_H
#define KOLO_BASE_CLOCK_H

#include <stdint.h>

#define KOLO_NS_PER_MS INT64_C(1000000)

int64_t kolo_clock_ns(void);

/* Sleeps for about `ns`; returns early on a signal. */
void kolo_clock_sleep(int64_t ns);

#endif
