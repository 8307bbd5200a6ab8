/* Reduce: only the root gets the result, with the bits of an all-reduce.
 *
 * Lines are for short messages. Except in rounds (lines.h) only the root waits for others, and folds.
 *
 * One shot: every rank but the root shows its input, and the root folds all of it. With two ranks nothing is faster, as
 * the root has to touch each byte of the other's input or of the result. Steps:
 *   - 2c + 1: the rank has shown chunk c.
 *   - 2c + 2: the root has folded chunk c.
 * A rank that is not the root may be ahead by KOLO_SLOTS chunks, also in its next calls, or by KOLO_PARTS
 * small calls.
 *
 * Mesh shares the folding: it has scatter and reduce of algo/phases.h, but the owner of a slice leaves the result only
 * to the root, where it has read the root's input, and only the root gathers. Steps and order are those of mesh.c. As a
 * rank that is not the root does not wait for the others' reduce(c), each slot is claimed (kolo_phases_run).
 *
 * Where all inputs and the root's `recv` are in buffers of kolo_alloc, a slice's owner uses those (direct_buffers.h).
 *
 * In place works: as in mesh.c. */
#include "algo/phases.h"
#include "algo/regions.h"
#include "algo/direct_buffers.h"
#include "algo/lines.h"

int kolo_reduce_lines(kolo_comm *comm, const void *send, void *recv, size_t count, const kolo_kernel *kernel,
                      uint32_t root) {
    const size_t bytes = count * kernel->element_bytes;
    const bool is_root = comm->rank == root;
    const struct kolo_round round = kolo_lines_pass(comm, bytes);
    kolo_lines_show_if(comm, &round, !is_root, send, bytes);
    comm->call.sources[comm->rank] = send;
    for (uint32_t peer = 0; peer < comm->size && (is_root || !round.is_pass); peer++) {
        const int rc = peer == comm->rank
                           ? 0
                           : kolo_lines_read(comm, peer, 0, is_root ? bytes : 0, &round, &comm->call.sources[peer]);
        if (rc < 0)
            return rc;
    }
    KOLO_POINT("reduce.read_lines");
    if (is_root && count)
        kernel->fold(recv, comm->call.sources, comm->size, count, comm->size);
    *(is_root ? &comm->stats.received_bytes : &comm->stats.sent_bytes) += is_root ? bytes * (comm->size - 1) : bytes;
    return 0;
}

static int fold_all(kolo_comm *comm, const struct kolo_message *message, size_t chunk) {
    const size_t element_bytes = message->kernel->element_bytes;
    size_t first, count = kolo_chunk(message, chunk, &first);
    const int rc = kolo_step_await_all(comm, 2 * chunk + 1);
    if (rc < 0)
        return rc;
    for (uint32_t rank = 0; rank < comm->size; rank++)
        comm->call.sources[rank] = kolo_slot(comm, rank, chunk);
    comm->call.sources[comm->rank] = message->send + first * element_bytes;
    kolo_phase_fold(comm, message->kernel, message->recv + first * element_bytes, count,
                    KOLO_FOLD_TAKE | (message->plan.stream ? KOLO_FOLD_STREAM : 0));
    KOLO_POINT("reduce.folded");
    comm->stats.received_bytes += count * element_bytes * (comm->size - 1);
    kolo_step_publish(comm, 2 * chunk + 2);
    return 0;
}

int kolo_reduce_run(kolo_comm *comm, const struct kolo_message *message) {
    const size_t chunks = message->plan.chunks;
    const bool is_root = comm->rank == message->root;
    int rc = 0;
    kolo_schedule_begin_rooted(comm, chunks, message->count * message->kernel->element_bytes);
    for (size_t chunk = 0; rc == 0 && chunk < chunks; chunk++) {
        rc = is_root ? fold_all(comm, message, chunk) : kolo_region_show(comm, message, chunk);
        kolo_slot_retire_by(comm, chunk, 2 * chunk + 2, is_root ? KOLO_RANKS_MAX : message->root);
    }
    kolo_result_end(message);
    kolo_schedule_end(comm);
    if (!is_root)
        kolo_slot_recall(comm, message->count * message->kernel->element_bytes);
    return rc;
}

/* Folds this rank's slice of the chunk to where the root gathers it, or into the root's `recv`. */
static int reduce(kolo_comm *comm, const struct kolo_message *message, size_t chunk) {
    const kolo_kernel *kernel = message->kernel;
    size_t first, own, count = kolo_chunk(message, chunk, &first);
    const size_t own_count = kolo_plan_slice(count, kernel->element_bytes, comm->size, comm->rank, &own);
    const int rc = kolo_step_await_all(comm, kolo_step_scattered(chunk));
    if (rc < 0)
        return rc;
    for (uint32_t rank = 0; rank < comm->size; rank++)
        comm->call.sources[rank] = kolo_slot(comm, rank, chunk) + own * kernel->element_bytes;
    uint8_t *result = kolo_slot(comm, message->root, chunk) + own * kernel->element_bytes;
    if (comm->rank == message->root)
        result = message->recv + (first + own) * kernel->element_bytes;
    else
        comm->stats.sent_bytes += own_count * kernel->element_bytes;
    comm->call.sources[comm->rank] = message->send + (first + own) * kernel->element_bytes;
    kolo_phase_fold(comm, kernel, result, own_count,
                    KOLO_FOLD_TAKE | (message->plan.stream && comm->rank == message->root ? KOLO_FOLD_STREAM : 0));
    KOLO_POINT("reduce.mesh_folded");
    comm->stats.received_bytes += own_count * kernel->element_bytes * (comm->size - 1);
    kolo_step_publish(comm, kolo_step_reduced(chunk));
    return 0;
}

static int gather(kolo_comm *comm, const struct kolo_message *message, size_t chunk) {
    return comm->rank == message->root ? kolo_phase_gather(comm, message, chunk) : 0;
}

int kolo_reduce_mesh_run(kolo_comm *comm, const struct kolo_message *message) {
    return kolo_phases_run(comm, message, KOLO_EACH_CHUNK, reduce, gather);
}

int kolo_reduce_direct(kolo_comm *comm, const struct kolo_message *message) {
    const kolo_kernel *kernel = message->kernel;
    const size_t bytes = message->count * kernel->element_bytes;
    const struct kolo_direct use = {
        .send = KOLO_OF_ALL, .recv = KOLO_OF_ROOT, .send_bytes = bytes, .recv_bytes = bytes};
    const size_t piece_count = KOLO_STREAMED_PIECE_BYTES / kernel->element_bytes;
    size_t first, count = kolo_plan_slice(message->count, kernel->element_bytes, comm->size, comm->rank, &first);
    const int rc = kolo_direct_begin(comm, message, &use);
    if (rc != 0)
        return rc;
    size_t advance = first * kernel->element_bytes;
    kolo_call_stage(comm, KOLO_TRACE_STAGE_FOLD);
    for (size_t done = 0, part; done < count && !kolo_direct_has_failed(comm); done += part) {
        part = count - done < piece_count ? count - done : piece_count;
        for (uint32_t rank = 0; rank < comm->size; rank++)
            comm->call.sources[rank] = (const uint8_t *)comm->call.sources[rank] + advance;
        comm->call.targets[message->root] += advance;
        kernel->fold(comm->call.targets[message->root], comm->call.sources, comm->size, part, comm->size);
        advance = part * kernel->element_bytes;
    }
    kolo_traffic(comm, count * kernel->element_bytes, comm->rank != message->root, comm->size - 1);
    return kolo_direct_end(comm);
}
