/* Broadcast through the root's slots, chunk by chunk. Step 2c + 1: chunk c is in the root's slot. Step 2c + 2: whoever
 * publishes it has copied the chunk; the root, which has nothing to copy, publishes both at once. The root goes on
 * while the others copy, by up to KOLO_SLOTS chunks, also into its next calls. */
#include "algo/algo.h"

#include "comm/step/progress.h"
#include "reduce/copy.h"
#include "sync/point.h"

int kolo_broadcast_run(kolo_comm *comm, uint8_t *buffer, size_t bytes, uint32_t root) {
    if (comm->internode)
        return kolo_hierarchy_broadcast(comm, buffer, bytes, root);
    const size_t slot_bytes = comm->segment.slot_bytes;
    const size_t chunks = bytes ? (bytes + slot_bytes - 1) / slot_bytes : 1;
    int rc = 0;
    for (size_t chunk = 0; rc == 0 && chunk < chunks; chunk++) {
        const size_t first = chunk * slot_bytes, part = bytes - first < slot_bytes ? bytes - first : slot_bytes;
        if (comm->rank == root) {
            rc = kolo_slot_claim(comm, chunk);
            if (rc == 0)
                kolo_copy(kolo_slot(comm, root, chunk), buffer + first, part);
            comm->stats.sent_bytes += part;
        } else {
            rc = kolo_step_await(comm, root, 2 * chunk + 1);
            if (rc == 0)
                kolo_copy(buffer + first, kolo_slot(comm, root, chunk), part);
            comm->stats.received_bytes += part;
        }
        KOLO_POINT("broadcast.copied");
        if (rc == 0)
            kolo_step_publish(comm, 2 * chunk + 2);
        kolo_slot_retire(comm, chunk, 2 * chunk + 2);
    }
    kolo_call_end(comm, 2 * chunks, chunks);
    return rc;
}
