/* Direct: an all-reduce of buffers that kolo_alloc made (algo/direct_buffers.h). The owner of a slice of the message
 * reads it from all ranks' `send` and writes it to all ranks' `recv`, or to the one `recv` that all ranks share.
 *
 * In place works: only the owner touches its slice, and reads a piece from all buffers before it writes it to any. */
#include "algo/direct_buffers.h"

#include "comm/step/progress.h"

/* Reduces `count` of the `left` elements of comm->call.sources into comm->call.targets, and moves both on. */
static void reduce_piece(kolo_comm *comm, const struct kolo_message *message, size_t count, size_t left) {
    const size_t bytes = count * message->kernel->element_bytes;
    const bool stream = message->plan.stream;
    const uint32_t targets = comm->call.one_target ? 1 : comm->size;
    uint8_t *result = stream ? comm->call.stage : comm->call.targets[targets > 1 ? comm->rank : 0];
    message->kernel->fold(result, comm->call.sources, comm->size, count, comm->size);
    for (uint32_t rank = 0; rank < comm->size; rank++) {
        comm->call.sources[rank] = (const uint8_t *)comm->call.sources[rank] + bytes;
        if (rank >= targets)
            continue;
        if (stream)
            kolo_copy_stream(comm->call.targets[rank], result, bytes,
                             left - count >= count ? comm->call.sources[rank] : NULL);
        else if (targets > 1 && rank != comm->rank)
            kolo_copy(comm->call.targets[rank], result, bytes);
        comm->call.targets[rank] += bytes;
    }
}

int kolo_direct_run(kolo_comm *comm, const struct kolo_message *message) {
    const size_t element_bytes = message->kernel->element_bytes, whole_bytes = message->count * element_bytes;
    const struct kolo_direct use = {.send = KOLO_OF_ALL,
                                    .recv = KOLO_OF_ALL,
                                    .send_bytes = whole_bytes,
                                    .recv_bytes = whole_bytes,
                                    .same_result = true};
    size_t first, count = kolo_plan_slice(message->count, (uint32_t)element_bytes, comm->size, comm->rank, &first);
    const int rc = kolo_direct_begin(comm, message, &use);
    if (rc != 0)
        return rc;
    kolo_traffic(comm, count * element_bytes, comm->size - 1, comm->size - 1);
    for (uint32_t rank = 0; rank < comm->size; rank++) {
        comm->call.sources[rank] = (const uint8_t *)comm->call.sources[rank] + first * element_bytes;
        comm->call.targets[rank] += first * element_bytes;
    }
    kolo_call_stage(comm, KOLO_TRACE_STAGE_FOLD);
    const size_t piece_bytes = message->plan.stream ? KOLO_STREAMED_PIECE_BYTES : KOLO_PIECE_BYTES;
    const size_t piece_count = piece_bytes / element_bytes;
    while (count > 0 && !kolo_direct_has_failed(comm)) {
        const size_t part = count < piece_count ? count : piece_count;
        reduce_piece(comm, message, part, count);
        KOLO_POINT("direct.reduced_piece");
        count -= part;
    }
    if (message->plan.stream)
        kolo_fence_stream();
    KOLO_POINT("direct.reduced");
    return kolo_direct_end(comm);
}
