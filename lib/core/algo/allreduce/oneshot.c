/* One shot: every rank shows its input to all, and reduces all itself, in canonical order. No elements: a barrier.
 *
 * Lines (algo/lines.h) are for short messages (kolo_lines_most). They are NCCL's LL protocol, with a flag in each cache
 * line. Two ranks need one cache-line transfer each way, at the same time.
 *
 * Slots are for larger messages. For each chunk a rank copies its input into its slot and publishes that, then folds
 * all ranks' slots. Step c + 1 says that chunk c is there. A rank shows chunk c + 1 before it folds chunk c, so that
 * peers need not wait for its fold. When it publishes step c + 3 it has folded chunk c. */
#include "algo/phases.h"
#include "algo/lines.h"

int kolo_oneshot_lines(kolo_comm *comm, const void *send, void *recv, size_t count, const kolo_kernel *kernel,
                       uint32_t root) {
    (void)root;
    const size_t bytes = count * kernel->element_bytes;
    const struct kolo_round round = kolo_lines_round(comm);
    kolo_lines_show(comm, &round, send, bytes);
    KOLO_POINT("oneshot.rung");
    comm->call.sources[comm->rank] = send;
    for (uint32_t peer = 0; peer < comm->size; peer++) {
        if (peer == comm->rank)
            continue;
        int rc = kolo_lines_read(comm, peer, 0, bytes, &round, &comm->call.sources[peer]);
        if (rc < 0)
            return rc;
    }
    KOLO_POINT("oneshot.read_lines");
    kolo_lines_recall(comm, &round, bytes);
    if (count)
        kernel->fold(recv, comm->call.sources, comm->size, count, comm->size);
    KOLO_POINT("oneshot.folded_lines");
    comm->stats.sent_bytes += bytes;
    comm->stats.received_bytes += bytes * (comm->size - 1);
    return 0;
}

static int fold(kolo_comm *comm, const struct kolo_message *message, size_t chunk) {
    const kolo_kernel *kernel = message->kernel;
    const int rc = kolo_phase_await_shown(comm, message, chunk, comm->size);
    if (rc < 0)
        return rc;
    size_t first, count = kolo_chunk(message, chunk, &first);
    kernel->fold(message->recv + first * kernel->element_bytes, comm->call.sources, comm->size, count, comm->size);
    KOLO_POINT("oneshot.folded");
    return 0;
}

int kolo_oneshot_run(kolo_comm *comm, const struct kolo_message *message) {
    const size_t bytes = message->count * message->kernel->element_bytes;
    const int rc = kolo_phases_show_ahead(comm, message, message->plan.chunks, kolo_phase_show, fold);
    if (comm->size > 2)
        kolo_slot_recall(comm, bytes);
    kolo_traffic(comm, bytes, 1, comm->size - 1);
    return rc;
}
