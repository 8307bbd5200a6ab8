/* Makes a communicator within a call on another one, its parent. */
#include "api/groups/derive.h"

#include "algo/lines.h"
#include "base/status.h"
#include "comm/failure/failure.h"
#include "comm/creation/create.h"
#include "plan/plan.h"
#include "sync/point.h"

int kolo_comm_take_into_use(kolo_comm *made, kolo_comm **comm) {
    if (made->segment.header && !kolo_plan_settings_valid(&made->settings)) {
        const int rc = kolo_fail(KOLO_ERR_VERSION, "rank %u: rank 0's plan is damaged", made->global_rank);
        kolo_comm_destroy(made);
        return rc;
    }
    if (!made->nodes)
        kolo_plan_lines(&made->settings, made->lines_bytes_end);
    *comm = made;
    return 0;
}

/* Called by a rank that waits in the creation, see kolo_rejoin. The creation is not complete. So if a rank has already
 * begun the next exchange of the parent's call, it has failed before it could say so in the creation. */
static int look_at_parent(struct kolo_rejoin *rejoin) {
    const struct kolo_derivation *d = rejoin->owner;
    kolo_comm *parent = d->parent;
    KOLO_POINT("derive.looking");
    const int rc = kolo_failure_look(parent, parent->rank, 0);
    for (uint32_t i = 0; rc == 0 && !parent->nodes && i < d->ranks_count; i++) {
        if (d->ranks[i] == parent->rank || !kolo_lines_is_ahead(parent, d->ranks[i]))
            continue;
        rejoin->culprit = i;
        return kolo_fail(KOLO_ERR_SYSTEM, "rank %u: %s failed on rank %u; see that rank's message", parent->global_rank,
                         d->function, d->ranks[i]);
    }
    return rc;
}

int kolo_comm_derive(const struct kolo_derivation *d, kolo_comm **made) {
    kolo_comm *parent = d->parent, *comm;
    struct kolo_settings settings;
    struct kolo_rejoin rejoin = {.look = look_at_parent, .owner = (void *)d, .culprit = UINT32_MAX};
    const bool has_default_slots = parent->origin.slot_bytes == kolo_settings_slot_bytes(parent->global_size);
    kolo_settings_inherit(&settings, parent, d->rank, d->size);
    settings.shm_fd = d->fd;
    if (has_default_slots)
        settings.slot_bytes = kolo_settings_slot_bytes(d->size);
    if (settings.create_timeout_ns > d->timeout_ns)
        settings.create_timeout_ns = d->timeout_ns;
    KOLO_POINT("derive.meeting");
    int rc = kolo_comm_make(&comm, &settings, parent->above, parent->global_size > 1 ? &rejoin : NULL);
    KOLO_POINT("derive.met");
    if (rc == 0)
        return kolo_comm_take_into_use(comm, made);
    /* A member that did not come to the creation did not come to the parent's call. */
    if (rc == KOLO_ERR_TIMEOUT && d->timeout_ns >= parent->waiter.timeout_ns && rejoin.culprit < d->ranks_count &&
        parent->global_size > 1)
        return kolo_failure_look(parent, d->ranks[rejoin.culprit], parent->waiter.timeout_ns);
    return rc;
}
