/* One shot: every rank shows its input to all, and every rank reduces all inputs itself, in the canonical order.
 *
 * Lines (algo/lines.h), for up to KOLO_LINES_BYTES_MAX. Two ranks need one cache-line transfer each way, at the same
 * time. A rank writes a set of lines in round r+2 that it last wrote in round r: by then every peer has read it, since
 * the writer has seen each peer's lines of round r+1 before its own round r+1 ended, and a peer writes those after it
 * has finished round r.
 *
 * Slots, for more. Chunk by chunk: copy the input into the slot and publish, then fold all ranks' slots. Step c + 1
 * says that chunk c is there. A rank shows chunk c + 1 before it folds chunk c, so that peers need not wait for its
 * fold. When it publishes step c + 3 it has folded chunk c.
 *     Two ranks swap their slots from one use to the next, so that whoever has read a line is the next to write it, for
 * the reason in mesh.c: 4 to 64 KiB take 0.3 to 0.5 of the time with a common L3, 0.2 to 0.4 without. Whoever claims
 * its slot for a ticket knows that the other is done with the ticket before in that place, in both slots. */
#include "algo/algo.h"

#include "algo/lines.h"
#include "comm/step/progress.h"
#include "reduce/copy.h"
#include "sync/point.h"

int kolo_oneshot_lines(kolo_comm *comm, const void *send, void *recv, size_t count, const kolo_kernel *kernel) {
    const size_t bytes = count * kernel->element_bytes;
    const uint64_t round = ++comm->line_rounds;
    kolo_lines_write(comm, 0, send, bytes, round);
    kolo_bell_ring(&comm->waiter, &comm->signal->bell);
    KOLO_POINT("oneshot.rung");
    comm->sources[comm->rank] = send;
    for (uint32_t peer = 0; peer < comm->size; peer++) {
        if (peer == comm->rank)
            continue;
        int rc = kolo_lines_read(comm, peer, 0, bytes, round, &comm->sources[peer]);
        if (rc < 0)
            return rc;
    }
    KOLO_POINT("oneshot.read_lines");
    if (count)
        kernel->fold(recv, comm->sources, comm->size, count, comm->size);
    KOLO_POINT("oneshot.folded_lines");
    comm->stats.sent_bytes += bytes;
    comm->stats.received_bytes += bytes * (comm->size - 1);
    return 0;
}

/* Where `rank` shows chunk `chunk`. */
static uint8_t *shown_at(const kolo_comm *comm, uint32_t rank, size_t chunk) {
    const uint32_t turn = (comm->ticket + chunk) / KOLO_SLOTS & 1;
    return kolo_slot(comm, comm->size == 2 ? rank ^ turn : rank, chunk);
}

static int show_chunk(kolo_comm *comm, const struct kolo_reduction *reduction, size_t chunk) {
    const size_t element_bytes = reduction->kernel->element_bytes;
    size_t first, count = kolo_chunk(reduction, chunk, &first);
    int rc = kolo_slot_claim(comm, chunk);
    if (rc < 0)
        return rc;
    KOLO_POINT("oneshot.claimed");
    kolo_copy(shown_at(comm, comm->rank, chunk), reduction->send + first * element_bytes, count * element_bytes);
    KOLO_POINT("oneshot.copied_in");
    kolo_step_publish(comm, chunk + 1);
    return 0;
}

int kolo_oneshot_run(kolo_comm *comm, const struct kolo_reduction *reduction) {
    const size_t element_bytes = reduction->kernel->element_bytes, chunks = reduction->plan.chunks;
    int rc = show_chunk(comm, reduction, 0);
    for (size_t chunk = 0; rc == 0 && chunk < chunks; chunk++) {
        if (chunk + 1 < chunks)
            rc = show_chunk(comm, reduction, chunk + 1);
        if (rc == 0)
            rc = kolo_step_await_all(comm, chunk + 1);
        if (rc < 0)
            break;
        size_t first, count = kolo_chunk(reduction, chunk, &first);
        for (uint32_t rank = 0; rank < comm->size; rank++)
            comm->sources[rank] = shown_at(comm, rank, chunk);
        comm->sources[comm->rank] = reduction->send + first * element_bytes;
        reduction->kernel->fold(reduction->recv + first * element_bytes, comm->sources, comm->size, count, comm->size);
        KOLO_POINT("oneshot.folded");
        kolo_slot_retire(comm, chunk, chunk + 3 < chunks + 1 ? chunk + 3 : chunks + 1);
    }
    comm->stats.sent_bytes += reduction->count * element_bytes;
    comm->stats.received_bytes += reduction->count * element_bytes * (comm->size - 1);
    kolo_call_end(comm, chunks, chunks);
    return rc;
}
