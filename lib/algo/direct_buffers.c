/* Finding the buffers of kolo_alloc that ranks pass: see direct_buffers.h. */
#include "algo/direct_buffers.h"

#include "comm/step/progress.h"
#include "sync/point.h"

static bool has(enum kolo_owners owners, uint32_t rank, uint32_t root) {
    return owners == KOLO_OF_ALL || (owners == KOLO_OF_ROOT && rank == root);
}

static void show_places(kolo_comm *comm, const struct kolo_message *message, const struct kolo_direct *use) {
    struct kolo_shared_signal *signal = comm->signal;
    /* The others read them after the acquire of step 1. */
    kolo_store_relaxed(&signal->places[0],
                       kolo_heap_place(&comm->first->heap, message->send, use->send_bytes, comm->rank));
    kolo_store_relaxed(&signal->places[1],
                       kolo_heap_place(&comm->first->heap, message->recv, use->recv_bytes, comm->rank));
    KOLO_POINT("direct.placed");
    kolo_step_publish(comm, 1);
}

/* False if a buffer is not one of kolo_alloc's: the same on all ranks. */
static bool find_buffers(kolo_comm *comm, uint32_t root, const struct kolo_direct *use) {
    for (uint32_t rank = 0; rank < comm->size; rank++) {
        struct kolo_shared_signal *signal = &comm->segment.signals[rank];
        const uint64_t send = kolo_load_relaxed(&signal->places[0]), recv = kolo_load_relaxed(&signal->places[1]);
        uint8_t *source = kolo_heap_address(&comm->first->heap, send, use->send_bytes, rank);
        uint8_t *target = kolo_heap_address(&comm->first->heap, recv, use->recv_bytes, rank);
        if ((has(use->send, rank, root) && !source) || (has(use->recv, rank, root) && !target) ||
            (use->apart && source && source == target))
            return false;
        comm->call.sources[rank] = source;
        comm->call.targets[rank] = target;
    }
    return true;
}

int kolo_direct_begin(kolo_comm *comm, const struct kolo_message *message, const struct kolo_direct *use) {
    kolo_schedule_begin(comm, 2, 1);
    int rc = kolo_slot_claim(comm, 0);
    if (rc == 0)
        rc = kolo_places_claim(comm);
    if (rc < 0)
        return rc;
    show_places(comm, message, use);
    rc = kolo_step_await_all(comm, 1);
    kolo_places_retire(comm, 2);
    if (rc < 0 || find_buffers(comm, message->root, use))
        return rc;
    KOLO_POINT("direct.impossible");
    kolo_schedule_begin(comm, 1, 0);
    kolo_schedule_end(comm);
    return KOLO_DIRECT_IMPOSSIBLE;
}

int kolo_direct_end(kolo_comm *comm) {
    KOLO_POINT("direct.done");
    kolo_step_publish(comm, 2);
    const int rc = kolo_step_await_all(comm, 2);
    kolo_slot_retire(comm, 0, 3);
    kolo_schedule_end(comm);
    return rc;
}
