/* Mesh: direct reduce-scatter, then direct all-gather, chunk by chunk.
 *
 * A chunk is cut into one slice a rank. Each rank copies its input, but for its own slice, into its slot (copy-in); the
 * owner of a slice folds it from its own `send` and all peers' slots in one pass, into its slot, where its own slice
 * has been left free, and into its `recv` (reduce); then each rank copies the peers' slices out of their slots
 * (copy-out).
 *
 * The chunks overlap. A rank runs
 *     in(0)   in(1) reduce(0)   in(2) reduce(1) out(0)   in(3) reduce(2) out(1)   ...
 * so that what it waits for has been under way while it did something else. Steps, n chunks:
 *     in(0) = 1, in(c) = 2c, reduce(c) = 2c + 3; reduce(n-1) = 2n + 1 is the last.
 * out(c) is not published. It comes before in(c+3), which is therefore the step at which slot c is free; the last ones
 * are done when the next call begins.
 *
 * In place works: chunk c of `recv` is written by reduce(c), for the own slice in the pass that reads it, and by
 * out(c), for slices whose input in(c) has copied. */
#include "algo/algo.h"

#include "comm/progress.h"
#include "reduce/copy.h"

static uint64_t step_in(size_t chunk) {
    return chunk == 0 ? 1 : 2 * chunk;
}

static uint64_t step_reduced(size_t chunk) {
    return 2 * chunk + 3;
}

static int copy_in(kolo_comm *comm, const struct kolo_reduction *reduction, size_t chunk) {
    const size_t element_bytes = reduction->kernel->element_bytes;
    size_t first, own, count = kolo_chunk(reduction, chunk, &first);
    const size_t own_count = kolo_plan_slice(count, (uint32_t)element_bytes, comm->size, comm->rank, &own);
    int rc = kolo_slot_claim(comm, chunk);
    if (rc < 0)
        return rc;
    const uint8_t *from = reduction->send + first * element_bytes;
    uint8_t *slot = kolo_slot(comm, comm->rank, chunk);
    const size_t before_bytes = own * element_bytes, upto_bytes = (own + own_count) * element_bytes;
    kolo_copy(slot, from, before_bytes);
    kolo_copy(slot + upto_bytes, from + upto_bytes, count * element_bytes - upto_bytes);
    comm->stats.sent_bytes += (count - own_count) * element_bytes;
    kolo_step_publish(comm, step_in(chunk));
    return 0;
}

/* Folds `count` elements of comm->sources, which it uses up, into `recv` and into the slot.
 *
 * The slot is written by copying, never by a kernel's stores: its lines are in the caches of those who read them last,
 * and kolo_copy takes them over without fetching what they hold. With cores that share no cache this halves the time of
 * the whole all-reduce. A result that goes past the caches is staged, piece by piece, in the first cache. */
static void fold(kolo_comm *comm, const struct kolo_reduction *reduction, uint8_t *slot, uint8_t *recv, size_t count) {
    const kolo_kernel *kernel = reduction->kernel;
    if (count == 0)
        return;
    if (!reduction->plan.stream) {
        kernel->fold(recv, comm->sources, comm->size, count, comm->size);
        kolo_copy(slot, recv, count * kernel->element_bytes);
        return;
    }
    const size_t piece_count = KOLO_STAGE_BYTES / kernel->element_bytes;
    for (size_t done = 0; done < count; done += piece_count) {
        const size_t left = count - done, part = left < piece_count ? left : piece_count;
        kernel->fold(comm->stage, comm->sources, comm->size, part, comm->size);
        kolo_copy(slot, comm->stage, part * kernel->element_bytes);
        kolo_copy_stream(recv, comm->stage, part * kernel->element_bytes);
        for (uint32_t rank = 0; rank < comm->size; rank++)
            comm->sources[rank] = (const uint8_t *)comm->sources[rank] + KOLO_STAGE_BYTES;
        slot += KOLO_STAGE_BYTES;
        recv += KOLO_STAGE_BYTES;
    }
}

static int reduce(kolo_comm *comm, const struct kolo_reduction *reduction, size_t chunk) {
    const size_t element_bytes = reduction->kernel->element_bytes;
    size_t first, own, count = kolo_chunk(reduction, chunk, &first);
    const size_t own_count = kolo_plan_slice(count, (uint32_t)element_bytes, comm->size, comm->rank, &own);
    int rc = kolo_step_await_all(comm, step_in(chunk));
    if (rc < 0)
        return rc;
    for (uint32_t rank = 0; rank < comm->size; rank++)
        comm->sources[rank] = kolo_slot(comm, rank, chunk) + own * element_bytes;
    comm->sources[comm->rank] = reduction->send + (first + own) * element_bytes;
    fold(comm, reduction, kolo_slot(comm, comm->rank, chunk) + own * element_bytes,
         reduction->recv + (first + own) * element_bytes, own_count);
    comm->stats.sent_bytes += own_count * element_bytes;
    comm->stats.received_bytes += own_count * element_bytes * (comm->size - 1);
    kolo_step_publish(comm, step_reduced(chunk));
    return 0;
}

static int copy_out(kolo_comm *comm, const struct kolo_reduction *reduction, size_t chunk) {
    const size_t element_bytes = reduction->kernel->element_bytes;
    size_t first, slice, count = kolo_chunk(reduction, chunk, &first);
    for (uint32_t peer = kolo_rank_after(comm, comm->rank); peer != comm->rank; peer = kolo_rank_after(comm, peer)) {
        const size_t slice_count = kolo_plan_slice(count, (uint32_t)element_bytes, comm->size, peer, &slice);
        int rc = kolo_step_await(comm, peer, step_reduced(chunk));
        if (rc < 0)
            return rc;
        kolo_result_copy(reduction, first + slice, kolo_slot(comm, peer, chunk) + slice * element_bytes, slice_count);
        comm->stats.received_bytes += slice_count * element_bytes;
    }
    return 0;
}

int kolo_mesh_run(kolo_comm *comm, const struct kolo_reduction *reduction) {
    const size_t chunks = reduction->plan.chunks;
    const uint64_t steps = step_reduced(chunks - 1);
    int rc = copy_in(comm, reduction, 0);
    for (size_t chunk = 0; rc == 0 && chunk <= chunks; chunk++) {
        if (chunk + 1 < chunks)
            rc = copy_in(comm, reduction, chunk + 1);
        if (rc == 0 && chunk < chunks)
            rc = reduce(comm, reduction, chunk);
        if (rc == 0 && chunk > 0) {
            rc = copy_out(comm, reduction, chunk - 1);
            kolo_slot_retire(comm, chunk - 1, chunk + 2 < chunks ? step_in(chunk + 2) : steps + 1);
        }
    }
    if (reduction->plan.stream)
        kolo_fence_stream();
    kolo_call_end(comm, steps, chunks);
    return rc;
}
