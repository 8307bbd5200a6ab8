/* The monotonic clock, and awake time by it: one look at the clock counts for an eighth of the limit at most. */
#include "base/clock.h"

#include <time.h>

#include "base/minimum.h"

static int64_t read_ns(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int64_t kolo_clock_ns(void) {
    return read_ns(CLOCK_MONOTONIC);
}

int64_t kolo_clock_utc_ns(void) {
    return read_ns(CLOCK_REALTIME);
}

void kolo_clock_sleep(int64_t ns) {
    struct timespec duration = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
    nanosleep(&duration, NULL);
}

#define STEP_NS_MIN (100 * KOLO_NS_PER_MS)
#define STEP_NS_MAX (1000 * KOLO_NS_PER_MS)

enum { STEPS_PER_LIMIT = 8 };

int64_t kolo_awake_begin(struct kolo_awake *awake, int64_t limit_ns) {
    const int64_t step_ns = kolo_minimum_ns(limit_ns / STEPS_PER_LIMIT, STEP_NS_MAX);
    awake->step_ns_max = step_ns > STEP_NS_MIN ? step_ns : STEP_NS_MIN;
    awake->ns = awake->seen_ns = kolo_clock_ns();
    return awake->ns;
}

int64_t kolo_awake_after(struct kolo_awake *awake, int64_t ns) {
    const int64_t now_ns = kolo_clock_ns();
    awake->ns += kolo_minimum_ns(now_ns - awake->seen_ns, ns + awake->step_ns_max);
    awake->seen_ns = now_ns;
    return awake->ns;
}

int64_t kolo_awake_ns(struct kolo_awake *awake) {
    return kolo_awake_after(awake, 0);
}

int64_t kolo_awake_slice(const struct kolo_awake *awake, int64_t ns) {
    return kolo_minimum_ns(ns, awake->step_ns_max / 2);
}
