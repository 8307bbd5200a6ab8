/* Lets calls enter lanes that exist, and reads their counters. */
#include <string.h>

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

int kolo_lanes_enter(const char *function, kolo_comm *comm, int lane, kolo_comm **own) {
    if (!comm || !comm->token->ours)
        return kolo_unusable(function, comm);
    const uint32_t count = kolo_lanes_count(comm);
    if (lane < 0 || (uint32_t)lane >= count)
        return kolo_fail(
            KOLO_ERR_ARG,
            "rank %u: %s: lane %d: must be from 0 to %u: kolo_options.threads or %s says how many there are",
            comm->global_rank, function, lane, count - 1, kolo_environment_name(KOLO_VARIABLE_THREADS));
    kolo_comm *found = lane ? comm->lanes->lane[lane] : comm;
    const bool is_broken = kolo_load_acquire(kolo_comm_failure_word(found)); /* pairs with failure.c */
    if (is_broken || !kolo_comm_is_usable(found))
        return kolo_unusable(function, found);
    *own = found;
    return kolo_enter(function, found);
}
