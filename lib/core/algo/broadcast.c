/* Broadcast: all ranks get the root's message.
 *
 * Lines are for short messages. Except in rounds (lines.h) the root waits for nobody, the others for it.
 *
 * Slots are for larger messages, which go through the root's slots, chunk by chunk. Steps:
 *   - 2c + 1: chunk c is in the root's slot.
 *   - 2c + 2: the rank that publishes it has copied the chunk. The root has nothing to copy and publishes both steps at
 *     once.
 * The root goes on while the others copy, by up to KOLO_SLOTS chunks, also into its next calls, or by KOLO_PARTS small
 * calls. After exchanges all wait for all first (kolo_swaps_stop).
 *
 * Where the root's buffer is one of kolo_alloc, the others copy from it (direct_buffers.h). */
#include "algo/direct_buffers.h"
#include "algo/lines.h"
#include "comm/step/progress.h"

int kolo_broadcast_lines(kolo_comm *comm, const void *send, void *recv, size_t count, const kolo_kernel *kernel,
                         uint32_t root) {
    const size_t bytes = count * kernel->element_bytes;
    const bool is_root = comm->rank == root;
    const struct kolo_round round = kolo_lines_pass(comm, bytes);
    kolo_lines_show_if(comm, &round, is_root, send, bytes);
    for (uint32_t peer = kolo_rank_after(comm, comm->rank); peer != comm->rank; peer = kolo_rank_after(comm, peer)) {
        const void *data = NULL;
        if (peer != root && round.is_pass)
            continue;
        const int rc = kolo_lines_read(comm, peer, 0, peer == root ? bytes : 0, &round, &data);
        if (rc < 0)
            return rc;
        if (peer == root && bytes > 0) /* otherwise recv may be NULL */
            kolo_copy_short(recv, data, bytes);
        KOLO_POINT("broadcast.copied_lines");
    }
    *(is_root ? &comm->stats.sent_bytes : &comm->stats.received_bytes) += bytes;
    return 0;
}

int kolo_broadcast_run(kolo_comm *comm, const struct kolo_message *message) {
    const size_t chunks = message->plan.chunks, element_bytes = message->kernel->element_bytes;
    const uint32_t root = message->root;
    int rc = kolo_swaps_stop(comm);
    kolo_schedule_begin_rooted(comm, chunks, message->count * element_bytes);
    for (size_t chunk = 0; rc == 0 && chunk < chunks; chunk++) {
        size_t first, count = kolo_chunk(message, chunk, &first);
        const size_t bytes = count * element_bytes;
        uint8_t *slot = kolo_slot(comm, root, chunk);
        if (comm->rank == root) {
            rc = kolo_slot_claim(comm, chunk);
            kolo_call_stage(comm, KOLO_TRACE_STAGE_COPY_IN);
            if (rc == 0)
                kolo_copy(slot, message->send + first * element_bytes, bytes);
            comm->stats.sent_bytes += bytes;
        } else {
            rc = kolo_step_await(comm, root, 2 * chunk + 1);
            kolo_call_stage(comm, KOLO_TRACE_STAGE_COPY_OUT);
            if (rc == 0 && (comm->size == 2 || message->plan.takes))
                kolo_result_take(message, message->recv + first * element_bytes, slot, bytes);
            else if (rc == 0)
                kolo_copy(message->recv + first * element_bytes, slot, bytes);
            comm->stats.received_bytes += bytes;
        }
        KOLO_POINT("broadcast.copied");
        if (rc == 0)
            kolo_step_publish(comm, 2 * chunk + 2);
        kolo_slot_retire(comm, chunk, 2 * chunk + 2);
    }
    kolo_result_end(message);
    kolo_schedule_end(comm);
    if (comm->rank == root)
        kolo_slot_recall(comm, message->count * element_bytes);
    return rc;
}

int kolo_broadcast_direct(kolo_comm *comm, const struct kolo_message *message) {
    const size_t bytes = message->count * message->kernel->element_bytes;
    const struct kolo_direct use = {
        .send = KOLO_OF_ROOT, .send_bytes = bytes, .recv_bytes = bytes, .same_result = true, .one_buffer = true};
    const int rc = kolo_direct_begin(comm, message, &use);
    if (rc != 0)
        return rc;
    kolo_direct_copy(comm, message->root, 0, message->recv, bytes);
    *(comm->rank == message->root ? &comm->stats.sent_bytes : &comm->stats.received_bytes) += bytes;
    return kolo_direct_end(comm);
}
