/* Makes, hands out, enters and ends the lanes of a communicator, and reads their counters. */
#include "api/lanes/lanes.h"

#include <stdlib.h>

#include "kolo_lanes.h"
#include "api/arguments.h"
#include "api/groups/derive.h"
#include "api/lanes/helpers.h"
#include "comm/failure/failure.h"

/* The check of a long wait in a lane other than 0: it also ends when a call in the background is given up. */
static int check_wait(kolo_waiter *waiter, const struct kolo_wait *wait) {
    kolo_comm *lane = waiter->owner;
    if (kolo_load_acquire(&lane->first->stopping)) /* pairs with kolo_queue_end */
        return kolo_failure_publish(lane, KOLO_ERR_PEER_DEAD, 0);
    return kolo_failure_check(waiter, wait);
}

static int allocate(kolo_comm *comm, uint32_t count) {
    comm->lanes = calloc(1, sizeof *comm->lanes);
    if (comm->lanes) {
        comm->lanes->count = 1; /* so far */
        comm->lanes->lane[0] = comm;
        comm->lanes->tables = calloc((size_t)count * 4 * comm->global_size, sizeof *comm->lanes->tables);
        comm->lanes->handed_out = malloc(sizeof *comm->lanes->handed_out);
    }
    if (comm->lanes && comm->lanes->tables && comm->lanes->handed_out)
        return 0;
    const int rc = kolo_fail(KOLO_ERR_SYSTEM, "rank %u: out of memory", comm->global_rank);
    return comm->global_size > 1 ? kolo_failure_publish(comm, rc, 0) : rc;
}

void kolo_lanes_hand_out(kolo_comm *comm) {
    struct kolo_lanes *lanes = comm->lanes;
    kolo_comm *copy = lanes->handed_out;
    *copy = *comm;
    copy->lanes = NULL;
    copy->queue = NULL;
    copy->token = lanes->lane[1]->token; /* which is never ready: calls on lanes look at more than that */
    copy->is_lane = true;
    for (uint32_t lane = 1; lane < lanes->count; lane++) {
        kolo_comm_set_ready(lanes->lane[lane], false);
        lanes->lane[lane]->is_lane = true;
    }
}

int kolo_lanes_make(kolo_comm *comm) {
    const uint32_t count = comm->segment.header ? comm->settings.threads : comm->origin.threads;
    const int64_t timeout_ns = kolo_waiter_timeout_ns(&comm->waiter);
    if (comm->origin.lane)
        return 0;
    comm->origin.threads = count; /* as rank 0 has decided */
    if (count <= 1)
        return 0;
    int rc = allocate(comm, count);
    kolo_store_relaxed(&comm->waiter.timeout_ns,
                       (uint64_t)comm->origin.create_timeout_ns); /* it is part of the creation */
    for (uint32_t lane = 1; rc == 0 && lane < count; lane++) {
        rc = kolo_comm_make_lane(comm, lane, &comm->lanes->lane[lane]);
        if (rc < 0)
            break;
        comm->lanes->lane[lane]->waiter.check = check_wait;
        kolo_store_relaxed(&comm->lanes->lane[lane]->waiter.timeout_ns, (uint64_t)timeout_ns);
        comm->lanes->count++;
    }
    kolo_store_relaxed(&comm->waiter.timeout_ns, (uint64_t)timeout_ns);
    if (rc < 0)
        return rc;
    kolo_lanes_hand_out(comm);
    comm->lanes->helpers = kolo_helpers_create(comm->lanes->lane, count);
    return 0;
}

void kolo_lanes_end(kolo_comm *comm) {
    struct kolo_lanes *lanes = comm->lanes;
    if (!lanes)
        return;
    kolo_helpers_end(lanes->helpers, !comm->token->ours);
    for (uint32_t lane = 1; lane < lanes->count; lane++)
        kolo_comm_end(lanes->lane[lane]);
    free(lanes->handed_out);
    free(lanes->tables);
    free(lanes);
    comm->lanes = NULL;
}

void kolo_lanes_break(kolo_comm *comm) {
    for (uint32_t lane = 1; lane < kolo_lanes_count(comm); lane++)
        kolo_comm_break(comm->lanes->lane[lane]);
}

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
        KOLO_REFUSE(comm, __func__, "lane %d: must be from 0 to %u: kolo_options.threads or %s says how many there are",
                    lane, count - 1, kolo_environment_name(KOLO_VARIABLE_THREADS));
        return NULL;
    }
    return count == 1 ? comm : lane ? comm->lanes->lane[lane] : comm->lanes->handed_out;
}
