/* Direct: an all-reduce of buffers that kolo_alloc made, which every rank has mapped. Nothing is copied: the owner of a
 * slice of the message reads it from all ranks' `send` and writes it to all ranks' `recv`.
 *
 * Steps:
 *   - 1: the rank has begun the call. Its `send` is complete and its `recv` may be written. The places of both lie on
 *     the same cache line as the step.
 *   - 2: the rank's slice is in every rank's `recv`, and the rank has read all that it needed of every rank's `send`.
 * A rank returns when all have published step 2.
 *
 * Only after step 1 of all ranks is it known whether all passed such buffers. If one did not, all ranks see that in its
 * places and go on with another algorithm after step 1. A rank's places stay until its next call. It cannot end this
 * call before all others have read them, since every algorithm makes it wait until they have published a step beyond 1.
 *
 * A call claims and takes a ticket (comm/step/progress.h), though it does not use the slots. The ticket keeps a rank
 * that waits for nobody from overwriting its stamps of this call before the others have compared them.
 *
 * In place works: only the owner reads and writes its slice, and it reads a piece of it from all buffers before it
 * writes that piece to any. */
#include "algo/algo.h"

#include "comm/step/progress.h"
#include "reduce/copy.h"
#include "sync/point.h"

static void show_places(kolo_comm *comm, const struct kolo_message *message) {
    const size_t bytes = message->count * message->kernel->element_bytes;
    struct kolo_shared_signal *signal = comm->signal;
    /* The others read them after the acquire of step 1. */
    kolo_store_relaxed(&signal->places[0], kolo_heap_place(&comm->heap, message->send, bytes, comm->rank));
    kolo_store_relaxed(&signal->places[1], kolo_heap_place(&comm->heap, message->recv, bytes, comm->rank));
    KOLO_POINT("direct.placed");
    kolo_step_publish(comm, 1);
}

/* Fills comm->call.sources and comm->call.targets with where the slice lies in all ranks' buffers; false if a buffer is
 * not one of kolo_alloc's. */
static bool find_buffers(kolo_comm *comm, const struct kolo_message *message, size_t first) {
    const size_t element_bytes = message->kernel->element_bytes, bytes = message->count * element_bytes;
    for (uint32_t rank = 0; rank < comm->size; rank++) {
        struct kolo_shared_signal *signal = &comm->segment.signals[rank];
        uint8_t *send = kolo_heap_address(&comm->heap, kolo_load_relaxed(&signal->places[0]), bytes, rank);
        uint8_t *recv = kolo_heap_address(&comm->heap, kolo_load_relaxed(&signal->places[1]), bytes, rank);
        if (!send || !recv)
            return false;
        comm->call.sources[rank] = send + first * element_bytes;
        comm->call.targets[rank] = recv + first * element_bytes;
    }
    return true;
}

/* Reduces `count` of the `left` elements of comm->call.sources into comm->call.targets, and moves both on. */
static void reduce_piece(kolo_comm *comm, const struct kolo_message *message, size_t count, size_t left) {
    const size_t bytes = count * message->kernel->element_bytes;
    const bool stream = message->plan.stream;
    uint8_t *result = stream ? comm->call.stage : comm->call.targets[comm->rank];
    message->kernel->fold(result, comm->call.sources, comm->size, count, comm->size);
    for (uint32_t rank = 0; rank < comm->size; rank++) {
        comm->call.sources[rank] = (const uint8_t *)comm->call.sources[rank] + bytes;
        if (stream)
            kolo_copy_stream(comm->call.targets[rank], result, bytes,
                             left - count >= count ? comm->call.sources[rank] : NULL);
        else if (rank != comm->rank)
            kolo_copy(comm->call.targets[rank], result, bytes);
        comm->call.targets[rank] += bytes;
    }
}

int kolo_direct_run(kolo_comm *comm, const struct kolo_message *message) {
    const size_t element_bytes = message->kernel->element_bytes;
    size_t first, count = kolo_plan_slice(message->count, (uint32_t)element_bytes, comm->size, comm->rank, &first);
    kolo_schedule_begin(comm, 2, 1);
    int rc = kolo_slot_claim(comm, 0);
    if (rc < 0)
        return rc;
    show_places(comm, message);
    rc = kolo_step_await_all(comm, 1);
    if (rc < 0)
        return rc;
    if (!find_buffers(comm, message, first)) {
        KOLO_POINT("direct.impossible");
        kolo_schedule_begin(comm, 1, 0);
        kolo_schedule_end(comm);
        return KOLO_DIRECT_IMPOSSIBLE;
    }
    comm->stats.sent_bytes += count * element_bytes * (comm->size - 1);
    comm->stats.received_bytes += count * element_bytes * (comm->size - 1);
    const size_t piece_bytes = message->plan.stream ? KOLO_STREAMED_PIECE_BYTES : KOLO_PIECE_BYTES;
    const size_t piece_count = piece_bytes / element_bytes;
    while (count > 0) {
        const size_t part = count < piece_count ? count : piece_count;
        reduce_piece(comm, message, part, count);
        KOLO_POINT("direct.reduced_piece");
        count -= part;
    }
    if (message->plan.stream)
        kolo_fence_stream();
    KOLO_POINT("direct.reduced");
    kolo_step_publish(comm, 2);
    rc = kolo_step_await_all(comm, 2);
    kolo_slot_retire(comm, 0, 3);
    kolo_schedule_end(comm);
    return rc;
}
