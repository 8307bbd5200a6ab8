#include "comm/progress.h"
#include "sync/point.h"

int kolo_step_await_all(kolo_comm *comm, uint64_t step) {
    for (uint32_t peer = kolo_rank_after(comm, comm->rank); peer != comm->rank; peer = kolo_rank_after(comm, peer)) {
        int rc = kolo_step_await(comm, peer, step);
        if (rc < 0)
            return rc;
    }
    return 0;
}

int kolo_slot_claim(kolo_comm *comm, uint64_t ticket) {
    const uint64_t slot = (comm->ticket + ticket) % KOLO_SLOTS, needed = comm->slot_free[slot];
    const uint64_t *readers = comm->slot_readers[slot];
    for (uint32_t peer = 0; peer < comm->size; peer++) {
        if (peer == comm->rank || comm->peer_steps[peer] >= needed)
            continue;
        if (readers && !(readers[peer / 64] >> (peer % 64) & 1))
            continue;
        struct kolo_shared_signal *signal = &comm->segment.signals[peer];
        KOLO_POINT("slot.claiming");
        int rc = kolo_wait_at_least(&comm->waiter, &signal->progress, needed, &signal->bell, peer);
        if (rc < 0)
            return rc;
        KOLO_POINT("slot.claimed");
        comm->peer_steps[peer] = kolo_load_acquire(&signal->progress); /* may be later than what was waited for */
    }
    return 0;
}
