/* All-gather: every rank shows its block to all others, and copies all blocks to their places. Small blocks go through
 * lines, larger ones through slots (phases.h).
 *
 * Lines are for blocks of up to KOLO_LINES_BYTES_MAX. oneshot.c says when a set of lines may be written again.
 *
 * Slots are for larger blocks, chunk by chunk. Step c + 1 says that chunk c is there. A rank shows chunk c + 1 before
 * it copies the others' chunk c, so that its peers need not wait for that copy. When it publishes step c + 3 it has
 * copied chunk c.
 *
 * Where all blocks to send are in buffers of kolo_alloc, each rank copies from those (direct_buffers.h).
 *
 * In place (`send` is this rank's block of `recv`) works: no other rank's data goes into that block. */
#include "algo/phases.h"

#include "algo/direct_buffers.h"
#include "algo/lines.h"
#include "comm/step/progress.h"
#include "sync/point.h"

static void copy_own(uint8_t *block, const void *send, size_t bytes) {
    if (bytes > 0 && block != send)
        kolo_copy(block, send, bytes);
}

int kolo_allgather_lines(kolo_comm *comm, const void *send, void *recv, size_t count, const kolo_kernel *kernel,
                         uint32_t root) {
    (void)root;
    const size_t bytes = count * kernel->element_bytes;
    const uint64_t round = kolo_lines_show(comm, send, bytes);
    copy_own((uint8_t *)recv + comm->rank * bytes, send, bytes);
    for (uint32_t peer = kolo_rank_after(comm, comm->rank); peer != comm->rank; peer = kolo_rank_after(comm, peer)) {
        const void *block = NULL;
        const int rc = kolo_lines_read(comm, peer, 0, bytes, round, &block);
        if (rc < 0)
            return rc;
        if (bytes > 0) /* else recv may be NULL */
            memcpy((uint8_t *)recv + peer * bytes, block, bytes);
        KOLO_POINT("allgather.copied_lines");
    }
    comm->stats.sent_bytes += bytes;
    comm->stats.received_bytes += bytes * (comm->size - 1);
    return 0;
}

/* Copies the own block, the first time, and each peer's chunk as soon as it is there. Begins with the next rank, so
 * that the ranks do not all read the same slot at once. */
static int copy_chunk(kolo_comm *comm, const struct kolo_message *message, size_t chunk) {
    const size_t element_bytes = message->kernel->element_bytes;
    if (chunk == 0) {
        size_t own, count = kolo_block(message, &message->recv_blocks, comm->rank, &own);
        copy_own(message->recv + own * element_bytes, message->send, count * element_bytes);
    }
    for (uint32_t peer = kolo_rank_after(comm, comm->rank); peer != comm->rank; peer = kolo_rank_after(comm, peer)) {
        const int rc = kolo_step_await(comm, peer, chunk + 1);
        if (rc < 0)
            return rc;
        size_t first, count = kolo_block_chunk(message, &message->recv_blocks, peer, chunk, &first);
        uint8_t *to = message->recv + first * element_bytes;
        kolo_result_store(message, to, kolo_phase_shown_at(comm, peer, chunk), count * element_bytes);
        comm->stats.received_bytes += count * element_bytes;
        KOLO_POINT("allgather.copied");
    }
    return 0;
}

int kolo_allgather_run(kolo_comm *comm, const struct kolo_message *message) {
    const size_t element_bytes = message->kernel->element_bytes;
    const int rc = kolo_phases_show_ahead(comm, message, message->plan.chunks, kolo_phase_show, copy_chunk);
    comm->stats.sent_bytes += message->count * element_bytes;
    kolo_result_end(message);
    return rc;
}

int kolo_allgather_direct(kolo_comm *comm, const struct kolo_message *message) {
    const size_t bytes = message->count * message->kernel->element_bytes;
    const struct kolo_direct use = {.send = KOLO_OF_ALL, .send_bytes = bytes};
    const int rc = kolo_direct_begin(comm, message, &use);
    if (rc != 0)
        return rc;
    copy_own(message->recv + comm->rank * bytes, message->send, bytes);
    for (uint32_t peer = kolo_rank_after(comm, comm->rank); peer != comm->rank; peer = kolo_rank_after(comm, peer))
        kolo_copy(message->recv + peer * bytes, comm->call.sources[peer], bytes);
    comm->stats.sent_bytes += bytes;
    comm->stats.received_bytes += bytes * (comm->size - 1);
    return kolo_direct_end(comm);
}
