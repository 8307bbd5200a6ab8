/* Losing ranks, and going on without them, or stopping all for a while: what the tests of that share. Sets of ranks
 * have a bit a rank. */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "harness.h"

#define RANK(rank) (UINT64_C(1) << (rank))

static inline bool has(uint64_t set, int rank) {
    return set >> rank & 1;
}

static inline int count_of(uint64_t set) {
    return __builtin_popcountll(set);
}

static inline uint64_t all_of(int ranks) {
    return RANK(ranks) - 1;
}

/* Ends this rank: it dies or, being a thread, leaves. */
void end_rank(struct rank *rank);

/* Sends this process a signal in 1 + us microseconds, less than a second. */
void arm(int signal_number, uint64_t us);

/* Sums zeros until a call fails; returns how. */
int call_until_failure(kolo_comm *comm, size_t count);

/* A count for that, by the ranks of `comm`: one line, several lines, many slots. */
size_t count_for(const kolo_comm *comm);

/* Sums `count` numbers of which each rank of the team has its own; that must go well and be right for those alive. */
bool sums_are_right(const struct rank *rank, kolo_comm *comm, uint64_t alive, size_t count);

/* A team that is stopped as a whole and continued, for tests of what such stops do to deadlines. */

/* Waits until the counter has come to `value`, for a minute at most. */
void await_counter(uint64_t value);

/* For team.meanwhile: once the counter has come to the number of ranks, as each adds one when it is about to wait,
 * stops all of them after late_ms for stopped_ms, so many times, and adds one after each. */
void stop_all(const struct team *team, const pid_t *pids, int stops, int64_t late_ms, int64_t stopped_ms);
