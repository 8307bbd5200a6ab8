/* The monotonic clock, in nanoseconds, the time of day, and awake time, which is measured with it. */
#pragma once

#include <stdint.h>

#define KOLO_NS_PER_MS INT64_C(1000000)

int64_t kolo_clock_ns(void);

/* The time of day, since 1970. */
int64_t kolo_clock_utc_ns(void);

/* Sleeps for about `ns`; returns early on a signal. */
void kolo_clock_sleep(int64_t ns);

/* Awake time: the time in which a waiting process was not stopped. Deadlines are in awake time, so that a job that was
 * stopped as a whole (Ctrl-Z, a frozen control group, a suspended virtual machine) goes on when it is continued,
 * instead of finding every deadline past.
 *
 * A process is not told that it was stopped; it only finds that it looks at the clock much later than it meant to. So
 * one look counts for an eighth of the limit at most, however late the look comes: a stop costs that much of the limit.
 * A process that gets no processor for longer than that looks the same, and reaches its deadline after eight such looks
 * at the latest. A process that sleeps must therefore look often: it sleeps in slices (kolo_awake_slice). If one rank
 * alone is stopped, the others are awake and their deadlines pass.
 *
 * Each caller has a scale of its own, which starts at the present time of kolo_clock_ns and then falls behind. */

/* The limit that is never reached. Several of them can be added up without an overflow. */
#define KOLO_NEVER_NS (INT64_MAX / 16)

struct kolo_awake {
    int64_t ns;
    int64_t seen_ns; /* time of the last look, by kolo_clock_ns */
    int64_t step_ns_max;
};

/* Begins to measure; limit_ns is the shortest limit that will be compared with. Returns the time on this scale. */
int64_t kolo_awake_begin(struct kolo_awake *awake, int64_t limit_ns);

/* Looks at the clock and returns the time on this scale. */
int64_t kolo_awake_ns(struct kolo_awake *awake);

/* Like kolo_awake_ns, after an operation that may itself have taken up to `ns`. */
int64_t kolo_awake_after(struct kolo_awake *awake, int64_t ns);

/* Returns how much of `ns` to sleep at once. */
int64_t kolo_awake_slice(const struct kolo_awake *awake, int64_t ns);
