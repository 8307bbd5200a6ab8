/* Makes a communicator within a call on another one, its parent. */
#include "api/groups/derive.h"

#include <stdio.h>

#include "algo/lines.h"
#include "comm/step/progress.h"

int kolo_comm_prepare(kolo_comm *made) {
    if (made->segment.header &&
        (!kolo_plan_settings_valid(&made->settings) || made->settings.threads > KOLO_THREADS_MAX))
        return kolo_fail(KOLO_ERR_VERSION, "rank %u: rank 0's plan is damaged", made->global_rank);
    if (!made->nodes && made->size > 1)
        kolo_plan_lines(&made->settings, made->size, made->lines_bytes_end);
    return made->above->complete(made);
}

/* Returns the parent's rank at that place among the new ranks. */
static uint32_t member(const struct kolo_derivation *d, uint32_t place) {
    return d->ranks ? d->ranks[place] : place;
}

/* Looks at the parent for a rank that waits in the creation, see kolo_rejoin. The creation is not complete. So if
 * another rank has already begun the next exchange of the parent's call, it has failed before it could say so there. */
static int look_at_parent(struct kolo_rejoin *rejoin) {
    const struct kolo_derivation *d = rejoin->owner;
    kolo_comm *parent = d->parent;
    KOLO_POINT("derive.looking");
    const int rc = kolo_failure_look(parent, parent->rank, 0);
    for (uint32_t i = 0; rc == 0 && i < d->ranks_count; i++) {
        const uint32_t rank = member(d, i);
        if (rank == parent->rank || !(parent->nodes ? kolo_step_is_ahead : kolo_lines_is_ahead)(parent, rank))
            continue;
        rejoin->culprit = i;
        return kolo_fail(KOLO_ERR_SYSTEM, "rank %u: %s failed on rank %u; see that rank's message", parent->global_rank,
                         d->function, kolo_rank_global(parent, rank));
    }
    /* The parent's next exchange will name that node. Until then the leader awaits nothing from it. */
    if (rc == 0 && parent->nodes && kolo_load_relaxed(&parent->segment.internode->lanes[0].lost))
        return kolo_fail(KOLO_ERR_PEER_DEAD, "rank %u: %s: another node has left", parent->global_rank, d->function);
    return rc;
}

/* Finds the rank at fault when the creation's time is over: a member that did not come to it did not come to the
 * parent's call. Breaks the parent where this rank knows which member; else the parent's next exchange breaks it. */
static int blame_late(const struct kolo_derivation *d, uint32_t culprit) {
    kolo_comm *parent = d->parent;
    for (uint32_t i = 0; d->meeting && i < d->ranks_count; i++) /* the creation's culprit may be of another node */
        if (kolo_liveness_activity(&parent->liveness, member(d, i)) == 'T')
            return kolo_failure_look(parent, member(d, i), kolo_waiter_timeout_ns(&parent->waiter));
    return d->meeting || culprit >= d->ranks_count
               ? KOLO_ERR_TIMEOUT
               : kolo_failure_look(parent, member(d, culprit), kolo_waiter_timeout_ns(&parent->waiter));
}

/* Fills in the settings of the new communicator. */
static void derive_settings(const struct kolo_derivation *d, struct kolo_settings *settings) {
    kolo_comm *parent = d->parent;
    const uint32_t threads = parent->origin.threads;
    kolo_settings_inherit(settings, parent, d->rank, d->size);
    settings->shm_fd = d->fd;
    if (d->lane) {
        settings->lane = d->lane;
        settings->first = parent;
    } else if (settings->slot_bytes == kolo_settings_slot_bytes(parent->global_size, threads)) {
        settings->slot_bytes = kolo_settings_slot_bytes(d->size, threads);
    }
    if (settings->create_timeout_ns > d->timeout_ns)
        settings->create_timeout_ns = d->timeout_ns;
    if (d->meeting) {
        snprintf(settings->net.rendezvous, sizeof settings->net.rendezvous, "%s", d->meeting);
        /* Ranks that wait here give up before others that wait in the parent take them for those at fault. */
        settings->create_timeout_ns /= 2;
    }
}

/* The rank at fault where a communicator has broken while it was prepared. */
static uint32_t culprit_of(const kolo_comm *made) {
    kolo_failure failure;
    kolo_failure_describe(made, &failure);
    return failure.status ? (uint32_t)failure.rank : UINT32_MAX;
}

int kolo_comm_derive(const struct kolo_derivation *d, kolo_comm **made) {
    kolo_comm *parent = d->parent, *comm;
    struct kolo_settings settings;
    struct kolo_rejoin rejoin = {
        .rendezvous = d->rendezvous, .look = look_at_parent, .owner = (void *)d, .culprit = UINT32_MAX};
    derive_settings(d, &settings);
    KOLO_POINT("derive.meeting");
    int rc = kolo_comm_make(&comm, &settings, parent->above, parent->global_size > 1 ? &rejoin : NULL);
    KOLO_POINT("derive.met");
    if (parent->nodes) { /* those that the creation has not taken */
        parent->above->internode->close_listener(rejoin.rendezvous);
        parent->above->internode->close_listener(rejoin.listener);
    }
    if (rc == 0) {
        rc = kolo_comm_prepare(comm);
        if (rc == 0) {
            *made = comm;
            return 0;
        }
        rejoin.culprit = culprit_of(comm);
        kolo_comm_destroy(comm);
    }
    const bool is_late = rc == KOLO_ERR_TIMEOUT && d->timeout_ns >= kolo_waiter_timeout_ns(&parent->waiter);
    return is_late && parent->global_size > 1 ? blame_late(d, rejoin.culprit) : rc;
}
