/* The clock that measures intervals. */
#ifndef KOLO_TOOLS_NOW_H
#define KOLO_TOOLS_NOW_H

#include <time.h>

static inline double now_s(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

#endif
