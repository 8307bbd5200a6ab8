/* Scan: rank r gets the reduction of the inputs of ranks 0 .. r, and in an exclusive scan of ranks 0 .. r - 1, with the
 * bits that an all-reduce of those ranks has.
 *
 * Lines are for short messages: every rank waits for the ranks before it, in rounds (lines.h) for all.
 *
 * One shot is for a little more: every rank shows its input, and reduces what it needs of the others'. Steps are those
 * of an all-reduce in one shot (allreduce/oneshot.c). All wait for all, as in mesh.
 *
 * Mesh is for the rest (mesh.c), with other results. The owner of a slice makes the results of all ranks, and gives
 * each rank its own back in the place where it has read that rank's input. It goes from the last rank to the first,
 * since the result of a rank needs no input of a later one. So the inputs are read once, whatever the number of ranks,
 * and the ranks share the folding, which grows with that number.
 *
 * Where all buffers are buffers of kolo_alloc, the owner of a slice reads and writes those (direct_buffers.h).
 *
 * In place works: as in mesh.c; the owner's own result goes to `recv` when only ranks before it are left. */
#include "algo/phases.h"
#include "algo/direct_buffers.h"
#include "algo/lines.h"

/* Reduces the first `inputs` of comm->call.sources. The reduction of one input is its copy, as everywhere. */
static void fold_prefix(const kolo_comm *comm, const kolo_kernel *kernel, void *result, size_t count, uint32_t inputs) {
    if (inputs > 1)
        kernel->fold(result, comm->call.sources, inputs, count, inputs);
    else if (inputs == 1 && result != comm->call.sources[0])
        kolo_copy(result, comm->call.sources[0], count * kernel->element_bytes);
}

static int run_lines(kolo_comm *comm, const void *send, void *recv, size_t count, const kolo_kernel *kernel,
                     uint32_t inputs) {
    const size_t bytes = count * kernel->element_bytes;
    const struct kolo_round round = kolo_lines_pass(comm, bytes);
    kolo_lines_show_if(comm, &round, comm->rank + 1 < comm->size, send, bytes);
    comm->call.sources[comm->rank] = send;
    for (uint32_t peer = 0; peer < (round.is_pass ? comm->rank : comm->size); peer++) {
        const int rc = peer == comm->rank ? 0
                                          : kolo_lines_read(comm, peer, 0, peer < inputs ? bytes : 0, &round,
                                                            &comm->call.sources[peer]);
        if (rc < 0)
            return rc;
    }
    KOLO_POINT("scan.read_lines");
    if (count)
        fold_prefix(comm, kernel, recv, count, inputs);
    comm->stats.sent_bytes += bytes;
    comm->stats.received_bytes += bytes * comm->rank;
    return 0;
}

int kolo_scan_lines(kolo_comm *comm, const void *send, void *recv, size_t count, const kolo_kernel *kernel,
                    uint32_t root) {
    (void)root;
    return run_lines(comm, send, recv, count, kernel, comm->rank + 1);
}

int kolo_exscan_lines(kolo_comm *comm, const void *send, void *recv, size_t count, const kolo_kernel *kernel,
                      uint32_t root) {
    (void)root;
    return run_lines(comm, send, recv, count, kernel, comm->rank);
}

/* One shot: the result of this rank. */
static int fold(kolo_comm *comm, const struct kolo_message *message, size_t chunk) {
    const kolo_kernel *kernel = message->kernel;
    const uint32_t inputs = comm->rank + !message->plan.leaves_own_out;
    const int rc = kolo_phase_await_shown(comm, message, chunk, inputs);
    if (rc < 0)
        return rc;
    size_t first, count = kolo_chunk(message, chunk, &first);
    fold_prefix(comm, kernel, message->recv + first * kernel->element_bytes, count, inputs);
    KOLO_POINT("scan.folded_own");
    return 0;
}

int kolo_scan_run(kolo_comm *comm, const struct kolo_message *message) {
    const size_t bytes = message->count * message->kernel->element_bytes;
    const int rc = kolo_phases_show_ahead(comm, message, message->plan.chunks, kolo_phase_show, fold);
    if (comm->size > 2)
        kolo_slot_recall(comm, bytes);
    kolo_traffic(comm, bytes, 1, comm->rank);
    return rc;
}

/* Makes the results of `count` elements at comm->call.sources: each rank's in its target, from the last rank on. */
static void fold_prefixes(kolo_comm *comm, const struct kolo_message *message, size_t count) {
    for (uint32_t rank = comm->size; rank-- > 0;)
        fold_prefix(comm, message->kernel, comm->call.targets[rank], count, rank + !message->plan.leaves_own_out);
}

/* Reduces this rank's slice of the chunk, piece by piece, so that the inputs are read from the first cache again. */
static int reduce(kolo_comm *comm, const struct kolo_message *message, size_t chunk) {
    const size_t element_bytes = message->kernel->element_bytes, piece_count = KOLO_PIECE_BYTES / element_bytes;
    size_t first, own, count = kolo_chunk(message, chunk, &first);
    const size_t own_count = kolo_plan_slice(count, (uint32_t)element_bytes, comm->size, comm->rank, &own);
    const int rc = kolo_step_await_all(comm, kolo_step_scattered(chunk));
    if (rc < 0)
        return rc;
    for (size_t done = 0; done < own_count; done += piece_count) {
        const size_t left = own_count - done, at = (own + done) * element_bytes;
        for (uint32_t rank = 0; rank < comm->size; rank++) {
            comm->call.targets[rank] = kolo_slot(comm, rank, chunk) + at;
            comm->call.sources[rank] = comm->call.targets[rank];
        }
        comm->call.sources[comm->rank] = message->send + first * element_bytes + at;
        comm->call.targets[comm->rank] = message->recv + first * element_bytes + at;
        const size_t part = left < piece_count ? left : piece_count;
        fold_prefixes(comm, message, part);
        if (comm->rank > 0) /* rank 0's input is the only one that no result replaces */
            kolo_take(comm->call.targets[0], part * element_bytes);
        KOLO_POINT("scan.folded");
    }
    kolo_traffic(comm, own_count * element_bytes, comm->size - 1, comm->size - 1);
    kolo_step_publish(comm, kolo_step_reduced(chunk));
    return 0;
}

/* An exclusive scan has nothing for rank 0. */
static int gather(kolo_comm *comm, const struct kolo_message *message, size_t chunk) {
    return comm->rank > 0 || !message->plan.leaves_own_out ? kolo_phase_gather(comm, message, chunk)
                                                           : kolo_step_await_all(comm, kolo_step_reduced(chunk));
}

int kolo_scan_mesh_run(kolo_comm *comm, const struct kolo_message *message) {
    return kolo_phases_run(comm, message, KOLO_EACH_CHUNK, reduce, gather);
}

int kolo_scan_direct(kolo_comm *comm, const struct kolo_message *message) {
    const kolo_kernel *kernel = message->kernel;
    const size_t bytes = message->count * kernel->element_bytes, piece_count = KOLO_PIECE_BYTES / kernel->element_bytes;
    const size_t piece_bytes = piece_count * kernel->element_bytes;
    const struct kolo_direct use = {.send = KOLO_OF_ALL, .recv = KOLO_OF_ALL, .send_bytes = bytes, .recv_bytes = bytes};
    size_t first, count = kolo_plan_slice(message->count, kernel->element_bytes, comm->size, comm->rank, &first);
    const int rc = kolo_direct_begin(comm, message, &use);
    if (rc != 0)
        return rc;
    size_t advance = first * kernel->element_bytes;
    for (size_t done = 0; done < count && !kolo_direct_has_failed(comm); done += piece_count, advance = piece_bytes) {
        for (uint32_t rank = 0; rank < comm->size; rank++) {
            comm->call.sources[rank] = (const uint8_t *)comm->call.sources[rank] + advance;
            comm->call.targets[rank] += advance;
        }
        fold_prefixes(comm, message, count - done < piece_count ? count - done : piece_count);
    }
    kolo_traffic(comm, count * kernel->element_bytes, comm->size - 1, comm->size - 1);
    return kolo_direct_end(comm);
}
