/* A team that is stopped as a whole and continued, for tests of what such stops do to deadlines. */
#ifndef KOLO_TESTS_STOPS_H
#define KOLO_TESTS_STOPS_H

#include <stdint.h>
#include <sys/types.h>

#include "harness.h"

/* Waits until the counter has come to `value`. */
void await_counter(uint64_t value);

/* For team.meanwhile: once the counter has come to the number of ranks, as each adds one when it is about to wait,
 * stops all of them after late_ms for stopped_ms, so many times, and adds one after each. */
void stop_all(const struct team *team, const pid_t *pids, int stops, int64_t late_ms, int64_t stopped_ms);

#endif
