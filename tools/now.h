/* The clocks that measure intervals. */
#pragma once

#include <time.h>

static inline double now_of_clock_s(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static inline double now_s(void) {
    return now_of_clock_s(CLOCK_MONOTONIC);
}

/* Of the time that the calling thread has had a processor. */
static inline double now_of_thread_s(void) {
    return now_of_clock_s(CLOCK_THREAD_CPUTIME_ID);
}
