/* Hands out lanes, lets calls enter them, and reads their counters. */
#include <stdlib.h>
#include <string.h>

#include "kolo_lanes.h"
#include "api/checks.h"
#include "api/lanes/lanes.h"
#include "base/environment.h"
#include "base/status.h"

void kolo_lanes_read_stats(const kolo_comm *comm, kolo_stats *stats) {
    memset(stats, 0, sizeof *stats);
    for (uint32_t index = 1; index < kolo_lanes_count(comm); index++) {
        const kolo_comm *lane = comm->lanes->lane[index];
        stats->sent_bytes += lane->stats.sent_bytes;
        stats->received_bytes += lane->stats.received_bytes;
        stats->segment_bytes += lane->stats.segment_bytes;
        stats->waits_slept += lane->waiter.slept;
        stats->waited_ns += lane->waiter.waited_ns;
    }
}

int kolo_lanes_hand_out(kolo_comm *comm) {
    struct kolo_lanes *lanes = comm->lanes;
    kolo_comm *copy = malloc(sizeof *copy);
    if (!copy)
        return kolo_fail(KOLO_ERR_SYSTEM, "rank %u: out of memory", comm->global_rank);
    *copy = *comm;
    copy->lanes = NULL;
    copy->queue = NULL;
    copy->token = lanes->lane[1]->token; /* which is never ready: calls on lanes look at more than that */
    copy->is_lane = true;
    lanes->handed_out = copy;
    for (uint32_t lane = 1; lane < lanes->count; lane++) {
        kolo_comm_set_ready(lanes->lane[lane], false);
        lanes->lane[lane]->is_lane = true;
    }
    return 0;
}

int kolo_lanes_enter(const char *function, const kolo_comm *handed_out, kolo_comm **own) {
    kolo_comm *first = handed_out->first;
    kolo_comm *lane = handed_out->origin.lane ? first->lanes->lane[handed_out->origin.lane] : first;
    /* A forked child has no segment. The load pairs with failure.c. */
    if (lane->token->ours && kolo_load_acquire(kolo_comm_failure_word(lane)))
        kolo_comm_break(lane);
    if (!lane->token->ours || !kolo_comm_is_usable(lane))
        return kolo_unusable(function, lane);
    *own = lane;
    return kolo_enter(function, lane);
}

kolo_comm *kolo_comm_lane(kolo_comm *comm, int lane) {
    const uint32_t count = comm ? kolo_lanes_count(comm) : 0;
    if (!comm) {
        kolo_fail(KOLO_ERR_ARG, "kolo_comm_lane: comm is NULL");
        return NULL;
    }
    if (lane < 0 || (uint32_t)lane >= count) {
        kolo_fail(KOLO_ERR_ARG,
                  "rank %u: kolo_comm_lane: lane %d: must be from 0 to %u: kolo_options.threads or %s says how many "
                  "there are",
                  comm->global_rank, lane, count - 1, kolo_environment_name(KOLO_VARIABLE_THREADS));
        return NULL;
    }
    return count == 1 ? comm : lane ? comm->lanes->lane[lane] : comm->lanes->handed_out;
}
