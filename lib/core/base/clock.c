/* The monotonic clock, in nanoseconds. */
#include "base/clock.h"

#include <time.h>

int64_t kolo_clock_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

void kolo_clock_sleep(int64_t ns) {
    struct timespec duration = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
    nanosleep(&duration, NULL);
}
