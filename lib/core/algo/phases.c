/* Phases: the parts that algorithms over slots are composed of, see phases.h. */
#include "algo/phases.h"

/* Copies into this rank's slot, which is free, or claimed here. */
static int scatter(kolo_comm *comm, const struct kolo_message *message, size_t chunk, bool claims) {
    const int rc = claims ? kolo_slot_claim(comm, chunk) : 0;
    KOLO_POINT("phase.slot_claimed");
    if (rc < 0)
        return rc;
    const size_t element_bytes = message->kernel->element_bytes;
    size_t first, own, count = kolo_chunk(message, chunk, &first);
    const size_t own_count = kolo_plan_slice(count, (uint32_t)element_bytes, comm->size, comm->rank, &own);
    const uint8_t *from = message->send + first * element_bytes;
    uint8_t *slot = kolo_slot(comm, comm->rank, chunk);
    kolo_call_stage(comm, KOLO_TRACE_STAGE_COPY_IN);
    const size_t before_bytes = own * element_bytes, upto_bytes = (own + own_count) * element_bytes;
    kolo_copy(slot, from, before_bytes);
    kolo_copy(slot + upto_bytes, from + upto_bytes, count * element_bytes - upto_bytes);
    KOLO_POINT("phase.scattered");
    comm->stats.sent_bytes += (count - own_count) * element_bytes;
    kolo_step_publish(comm, kolo_step_scattered(chunk));
    return 0;
}

void kolo_phase_fold(kolo_comm *comm, const kolo_kernel *kernel, uint8_t *result, size_t count, unsigned how) {
    const size_t piece_count =
        (how & KOLO_FOLD_STREAM ? KOLO_STREAMED_PIECE_BYTES : KOLO_PIECE_BYTES) / kernel->element_bytes;
    kolo_call_stage(comm, KOLO_TRACE_STAGE_FOLD);
    for (size_t done = 0; done < count; done += piece_count) {
        const size_t left = count - done, part = left < piece_count ? left : piece_count;
        const size_t bytes = part * kernel->element_bytes;
        kernel->fold(how & KOLO_FOLD_STREAM ? comm->call.stage : result, comm->call.sources, comm->size, part,
                     comm->size);
        KOLO_POINT("phase.folded_piece");
        for (uint32_t rank = 0; rank < comm->size; rank++) {
            uint8_t *source = (uint8_t *)comm->call.sources[rank];
            if (how & KOLO_FOLD_TAKE && rank != comm->rank && source != result)
                kolo_take(source, bytes);
            comm->call.sources[rank] = source + bytes;
        }
        if (how & KOLO_FOLD_STREAM)
            kolo_copy_stream(result, comm->call.stage, bytes,
                             left - part >= part ? comm->call.sources[comm->rank] : NULL);
        result += bytes;
    }
}

/* Copies a piece's result from comm->call.targets[first] to all other targets except this rank's, and to `recv`. */
static void hand_out(kolo_comm *comm, uint32_t first, uint8_t *recv, size_t bytes, bool is_streamed, const void *next) {
    const uint8_t *result = comm->call.targets[first];
    for (uint32_t peer = kolo_rank_after(comm, first); peer != first; peer = kolo_rank_after(comm, peer))
        if (peer != comm->rank)
            kolo_copy(comm->call.targets[peer], result, bytes);
    KOLO_POINT("phase.given_back");
    if (is_streamed)
        kolo_copy_stream(recv, result, bytes, next);
    else
        kolo_copy(recv, result, bytes);
}

/* Folds `count` elements of comm->call.sources into `recv` and comm->call.targets, and advances both. It goes piece by
 * piece, so that what is handed out is still in the first cache. The kernel stores its result in a place that it reads
 * anyway, that of one peer's input: the CPU would have to fetch any other place before the store, on top of all loads
 * under way. So `recv` and the other peers' places are written by copying (copy.c). */
static void fold(kolo_comm *comm, const struct kolo_message *message, uint8_t *recv, size_t count) {
    const kolo_kernel *kernel = message->kernel;
    const size_t piece_count = KOLO_PIECE_BYTES / kernel->element_bytes;
    const uint32_t first = kolo_rank_after(comm, comm->rank);
    for (size_t done = 0; done < count; done += piece_count) {
        const size_t left = count - done, part = left < piece_count ? left : piece_count;
        const size_t bytes = part * kernel->element_bytes;
        kernel->fold(comm->call.targets[first], comm->call.sources, comm->size, part, comm->size);
        KOLO_POINT("phase.folded");
        for (uint32_t rank = 0; rank < comm->size; rank++)
            comm->call.sources[rank] = (const uint8_t *)comm->call.sources[rank] + bytes;
        hand_out(comm, first, recv, bytes, message->plan.stream,
                 left - part >= part ? comm->call.sources[comm->rank] : NULL);
        for (uint32_t rank = 0; rank < comm->size; rank++)
            comm->call.targets[rank] += bytes;
        recv += bytes;
    }
}

/* Like fold, for two ranks where `recv` is to stay in the caches: the kernel writes both destinations. The CPU then
 * fetches the lines of `recv`, but together with those that the kernel reads: a copy would take longer. */
static void fold_two(kolo_comm *comm, const struct kolo_message *message, uint8_t *recv, size_t count) {
    message->kernel->fold_to_both(comm->call.targets[kolo_rank_after(comm, comm->rank)], recv, comm->call.sources,
                                  count, 2);
    KOLO_POINT("phase.folded_two");
}

int kolo_phase_reduce(kolo_comm *comm, const struct kolo_message *message, size_t chunk) {
    const size_t element_bytes = message->kernel->element_bytes;
    size_t first, own, count = kolo_chunk(message, chunk, &first);
    const size_t own_count = kolo_plan_slice(count, (uint32_t)element_bytes, comm->size, comm->rank, &own);
    int rc = kolo_step_await_all(comm, kolo_step_scattered(chunk));
    if (rc < 0)
        return rc;
    for (uint32_t rank = 0; rank < comm->size; rank++) {
        comm->call.targets[rank] = kolo_slot(comm, rank, chunk) + own * element_bytes;
        comm->call.sources[rank] = comm->call.targets[rank];
    }
    comm->call.sources[comm->rank] = message->send + (first + own) * element_bytes;
    uint8_t *recv = message->recv + (first + own) * element_bytes;
    kolo_call_stage(comm, KOLO_TRACE_STAGE_FOLD);
    if (comm->size == 2 && !message->plan.stream)
        fold_two(comm, message, recv, own_count);
    else
        fold(comm, message, recv, own_count);
    kolo_traffic(comm, own_count * element_bytes, comm->size - 1, comm->size - 1);
    KOLO_POINT("phase.reduced");
    kolo_step_publish(comm, kolo_step_reduced(chunk));
    return 0;
}

int kolo_phase_gather(kolo_comm *comm, const struct kolo_message *message, size_t chunk) {
    const size_t element_bytes = message->kernel->element_bytes;
    size_t first, slice, count = kolo_chunk(message, chunk, &first);
    for (uint32_t peer = kolo_rank_after(comm, comm->rank); peer != comm->rank; peer = kolo_rank_after(comm, peer)) {
        const size_t slice_count = kolo_plan_slice(count, (uint32_t)element_bytes, comm->size, peer, &slice);
        int rc = kolo_step_await(comm, peer, kolo_step_reduced(chunk));
        if (rc < 0)
            return rc;
        kolo_call_stage(comm, KOLO_TRACE_STAGE_COPY_OUT);
        kolo_result_copy(message, first + slice, kolo_slot(comm, comm->rank, chunk) + slice * element_bytes,
                         slice_count);
        KOLO_POINT("phase.gathered");
        comm->stats.received_bytes += slice_count * element_bytes;
    }
    return 0;
}

int kolo_phases_run(kolo_comm *comm, const struct kolo_message *message, size_t claimed, kolo_phase_fn *reduce,
                    kolo_phase_fn *gather) {
    const size_t chunks = message->plan.chunks;
    kolo_schedule_begin(comm, kolo_step_reduced(chunks - 1), chunks);
    int rc = scatter(comm, message, 0, true);
    for (size_t chunk = 0; rc == 0 && chunk <= chunks; chunk++) {
        if (chunk + 1 < chunks)
            rc = scatter(comm, message, chunk + 1, chunk + 1 < claimed);
        if (rc == 0 && chunk < chunks)
            rc = reduce(comm, message, chunk);
        if (rc == 0 && chunk > 0)
            rc = gather(comm, message, chunk - 1);
        if (chunk > 0)
            kolo_slot_retire(comm, chunk - 1, kolo_step_scattered(chunk + 2));
    }
    kolo_result_end(message);
    kolo_schedule_end(comm);
    return rc;
}
