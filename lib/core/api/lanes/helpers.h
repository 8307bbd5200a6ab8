/* The helpers of a rank: a thread for each lane but the first, for programs without threads of their own to move data.
 *
 * The thread that makes a call posts work: a function to run in each lane. It runs lane 0's part itself and waits until
 * all helpers are done with theirs. Writers: that thread writes `run` and `argument` and then `posted`, which publishes
 * them; each helper writes its `status` and then its `done`. `posted` and `done` only grow, so that a helper that is
 * late cannot take one work for another, and nothing is written again before all helpers are done.
 *
 * The first work starts the helpers, since many communicators never have any. They run on the processors that the rank
 * had when the communicator was made, catch no signals, and sleep while they have nothing to do. Where one cannot be
 * started, the posting thread runs that lane's part after its own. That is slow but right: the parts wait only for the
 * same lanes of other ranks, and every such rank goes through its lanes in the same order.
 *
 * A helper may die only with its process. If a rank fails or dies, each lane's waits find that (lanes.h). */
#pragma once

#include "comm/comm.h"

struct kolo_helpers;

/* One lane's part of a work; returns its status. */
typedef int kolo_lane_fn(kolo_comm *lane, const void *argument);

/* Creates the helpers of `count` lanes; lanes[0] is the posting thread's. NULL, for which kolo_helpers_run is ready. */
struct kolo_helpers *kolo_helpers_create(kolo_comm *const *lanes, uint32_t count);

/* Runs the function in all lanes. Returns 0, or the status with which the communicator broke. */
int kolo_helpers_run(struct kolo_helpers *helpers, kolo_comm *const *lanes, uint32_t count, kolo_lane_fn *run,
                     const void *argument);

/* Ends the threads, none of which has work. In a forked child there are none. NULL is fine. */
void kolo_helpers_end(struct kolo_helpers *helpers, bool forked);
