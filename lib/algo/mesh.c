/* Mesh: direct reduce-scatter, then direct all-gather, chunk by chunk.
 *
 * A chunk is cut into one slice a rank. Each rank copies its input, but for its own slice, into its slot (copy-in); the
 * owner of a slice folds it from its own `send` and all peers' slots in one pass into its `recv`, and gives the result
 * back to each peer in the place where it has read that peer's input (reduce); then each rank copies the results out of
 * its own slot (copy-out).
 *
 * So a slice of a slot is a box between two ranks, and the one that has read a line is the next to write it. A modified
 * line moves to its reader along with the right to change it, or is shared from then on; a writer who comes back to it
 * has to fetch it again, store by store. Measured with two ranks on a Zen 4, 64 KiB to 1 MiB, against results that the
 * owner leaves in its own slot for all to read: 0.3 to 1 of the time with a common L3, 0.15 to 0.2 without.
 *
 * The chunks overlap. A rank runs
 *     in(0)   in(1) reduce(0)   in(2) reduce(1) out(0)   in(3) reduce(2) out(1)   ...
 * so that what it waits for has been under way while it did something else. Steps, n chunks:
 *     in(0) = 1, in(c) = 2c, reduce(c) = 2c + 3; reduce(n-1) = 2n + 1 is the last.
 * out(c) is not published; it comes before in(c+3), and the last ones are done when the next call begins. For the next
 * chunk in the same slot none has to wait for others' out: whoever fills it has seen all of reduce(c) in its own
 * out(c).
 *
 * In place works: chunk c of `recv` is written by reduce(c), for the own slice in the pass that reads it, and by
 * out(c), for slices whose input in(c) has copied. */
#include "algo/algo.h"

#include "comm/step/progress.h"
#include "reduce/copy.h"
#include "sync/point.h"

static uint64_t step_in(size_t chunk) {
    return chunk == 0 ? 1 : 2 * chunk;
}

static uint64_t step_reduced(size_t chunk) {
    return 2 * chunk + 3;
}

/* When this rank may fill its slot of a chunk again. With a chunk of this call: when the peers have given back what
 * they owe it, and so are done with the slot. In a later call, where a peer's slot may be for this rank to fill
 * (oneshot): when all have copied out of theirs, too. */
static uint64_t step_free(size_t chunk, size_t chunks) {
    if (chunk + KOLO_SLOTS < chunks)
        return step_reduced(chunk);
    return chunk + 3 < chunks ? step_in(chunk + 3) : step_reduced(chunks - 1) + 1;
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
    KOLO_POINT("mesh.claimed");
    kolo_copy(slot, from, before_bytes);
    kolo_copy(slot + upto_bytes, from + upto_bytes, count * element_bytes - upto_bytes);
    KOLO_POINT("mesh.copied_in");
    comm->stats.sent_bytes += (count - own_count) * element_bytes;
    kolo_step_publish(comm, step_in(chunk));
    return 0;
}

/* Copies a piece's result, which lies in comm->targets[first], to all other targets but this rank's, and to `recv`. */
static void hand_out(kolo_comm *comm, uint32_t first, uint8_t *recv, size_t bytes, bool is_streamed, const void *next) {
    const uint8_t *result = comm->targets[first];
    for (uint32_t peer = kolo_rank_after(comm, first); peer != first; peer = kolo_rank_after(comm, peer))
        if (peer != comm->rank)
            kolo_copy(comm->targets[peer], result, bytes);
    KOLO_POINT("mesh.given_back");
    if (is_streamed)
        kolo_copy_stream(recv, result, bytes, next);
    else
        kolo_copy(recv, result, bytes);
}

/* Folds `count` elements of comm->sources into `recv` and comm->targets, and uses both up: piece by piece, so that what
 * is handed out is still in the first cache. The kernel stores into a place that it reads, one peer's box: it would
 * fetch any other before it overwrites it, in the midst of all that it waits for already, while `recv` and the other
 * boxes are written by copying (copy.c). */
static void fold(kolo_comm *comm, const struct kolo_reduction *reduction, uint8_t *recv, size_t count) {
    const kolo_kernel *kernel = reduction->kernel;
    const size_t piece_count = KOLO_PIECE_BYTES / kernel->element_bytes;
    const uint32_t first = kolo_rank_after(comm, comm->rank);
    for (size_t done = 0; done < count; done += piece_count) {
        const size_t left = count - done, part = left < piece_count ? left : piece_count;
        const size_t bytes = part * kernel->element_bytes;
        kernel->fold(comm->targets[first], comm->sources, comm->size, part, comm->size);
        KOLO_POINT("mesh.folded");
        for (uint32_t rank = 0; rank < comm->size; rank++)
            comm->sources[rank] = (const uint8_t *)comm->sources[rank] + bytes;
        hand_out(comm, first, recv, bytes, reduction->plan.stream,
                 left - part >= part ? comm->sources[comm->rank] : NULL);
        for (uint32_t rank = 0; rank < comm->size; rank++)
            comm->targets[rank] += bytes;
        recv += bytes;
    }
}

/* The same where there is one box only, and `recv` is to stay in the caches: the kernel writes both. It does fetch the
 * lines of `recv`, but beside those that it reads, which is faster than copying to them afterwards. */
static void fold_two(kolo_comm *comm, const struct kolo_reduction *reduction, uint8_t *recv, size_t count) {
    reduction->kernel->fold_to_both(comm->targets[kolo_rank_after(comm, comm->rank)], recv, comm->sources, count, 2);
    KOLO_POINT("mesh.folded_two");
}

static int reduce(kolo_comm *comm, const struct kolo_reduction *reduction, size_t chunk) {
    const size_t element_bytes = reduction->kernel->element_bytes;
    size_t first, own, count = kolo_chunk(reduction, chunk, &first);
    const size_t own_count = kolo_plan_slice(count, (uint32_t)element_bytes, comm->size, comm->rank, &own);
    int rc = kolo_step_await_all(comm, step_in(chunk));
    if (rc < 0)
        return rc;
    for (uint32_t rank = 0; rank < comm->size; rank++) {
        comm->targets[rank] = kolo_slot(comm, rank, chunk) + own * element_bytes;
        comm->sources[rank] = comm->targets[rank];
    }
    comm->sources[comm->rank] = reduction->send + (first + own) * element_bytes;
    uint8_t *recv = reduction->recv + (first + own) * element_bytes;
    if (comm->size == 2 && !reduction->plan.stream)
        fold_two(comm, reduction, recv, own_count);
    else
        fold(comm, reduction, recv, own_count);
    comm->stats.sent_bytes += own_count * element_bytes * (comm->size - 1);
    comm->stats.received_bytes += own_count * element_bytes * (comm->size - 1);
    KOLO_POINT("mesh.reduced");
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
        kolo_result_copy(reduction, first + slice, kolo_slot(comm, comm->rank, chunk) + slice * element_bytes,
                         slice_count);
        KOLO_POINT("mesh.copied_out");
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
            kolo_slot_retire(comm, chunk - 1, step_free(chunk - 1, chunks));
        }
    }
    if (reduction->plan.stream)
        kolo_fence_stream();
    kolo_call_end(comm, steps, chunks);
    return rc;
}
