/* Broadcast through the root's slots, chunk by chunk. Steps:
 *   - 2c + 1: chunk c is in the root's slot.
 *   - 2c + 2: the rank that publishes it has copied the chunk. The root has nothing to copy and publishes both steps at
 *     once.
 * The root goes on while the others copy, by up to KOLO_SLOTS chunks, also into its next calls. */
#include "algo/algo.h"

#include "comm/step/progress.h"
#include "sync/point.h"

int kolo_broadcast_run(kolo_comm *comm, const struct kolo_message *message) {
    const size_t chunks = message->plan.chunks, element_bytes = message->kernel->element_bytes;
    const uint32_t root = message->root;
    int rc = 0;
    kolo_schedule_begin(comm, 2 * chunks, chunks);
    for (size_t chunk = 0; rc == 0 && chunk < chunks; chunk++) {
        size_t first, count = kolo_chunk(message, chunk, &first);
        const size_t bytes = count * element_bytes;
        uint8_t *slot = kolo_slot(comm, root, chunk);
        if (comm->rank == root) {
            rc = kolo_slot_claim(comm, chunk);
            if (rc == 0)
                kolo_copy(slot, message->send + first * element_bytes, bytes);
            comm->stats.sent_bytes += bytes;
        } else {
            rc = kolo_step_await(comm, root, 2 * chunk + 1);
            if (rc == 0)
                kolo_copy(message->recv + first * element_bytes, slot, bytes);
            comm->stats.received_bytes += bytes;
        }
        KOLO_POINT("broadcast.copied");
        if (rc == 0)
            kolo_step_publish(comm, 2 * chunk + 2);
        kolo_slot_retire(comm, chunk, 2 * chunk + 2);
    }
    kolo_schedule_end(comm);
    return rc;
}
