/* Awake time: time in which whoever waits was not stopped. Deadlines are in awake time, so that a job that was stopped
 * as a whole (Ctrl-Z, a frozen control group, a suspended virtual machine) goes on when it is continued, instead of
 * finding every deadline past.
 *
 * Nothing tells a process that it was stopped, only that it looks at the clock much later than it meant to. So one look
 * counts an eighth of the limit at most, however late it comes: a stop costs that much of it. Who gets no processor for
 * longer than that looks the same, and reaches its deadline after eight such looks at the latest. Whoever sleeps must
 * therefore look often: it sleeps in slices (kolo_awake_slice). A rank that alone is stopped takes no part in this: the
 * others are awake, and their deadlines pass.
 *
 * The scale is the caller's own: it starts with the present time of kolo_clock_ns and then falls behind. */
#ifndef KOLO_BASE_AWAKE_H
#define KOLO_BASE_AWAKE_H

#include <stdint.h>

/* A limit that is never reached, of which several can still be added up. */
#define KOLO_NEVER_NS (INT64_MAX / 16)

struct kolo_awake {
    int64_t ns;
    int64_t seen_ns; /* when it was looked at last, by kolo_clock_ns */
    int64_t step_ns_max;
};

/* Begins to measure times, the shortest of which that matters is limit_ns. Returns the present time on its scale. */
int64_t kolo_awake_begin(struct kolo_awake *awake, int64_t limit_ns);

/* Looks at the clock. */
int64_t kolo_awake_ns(struct kolo_awake *awake);

/* The same after something that may itself have taken up to that long. */
int64_t kolo_awake_after(struct kolo_awake *awake, int64_t ns);

/* How long to sleep at once, of `ns`. */
int64_t kolo_awake_slice(const struct kolo_awake *awake, int64_t ns);

#endif
