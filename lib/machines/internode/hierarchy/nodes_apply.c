/* kolo_allreduce_apply of several nodes, made of two schedules: a reduce-scatter of the gradients, whose results go to
 * the program's function straight from where they arrive (nodes_reduce.c), and an all-gather of the parameters, in
 * place (nodes_spread.c). The ranges of algo/fusion/apply.h are the blocks of both. No other rank reads the parameters
 * that a rank has updated before the second schedule. */
#include "algo/fusion/apply.h"
#include "internode/hierarchy/collectives.h"
#include "sync/point.h"

void kolo_nodes_apply_piece(kolo_comm *comm, const struct kolo_message *message, size_t first, size_t count,
                            const uint8_t *gradients) {
    const struct kolo_apply *apply = message->apply;
    const size_t at = message->send_blocks.offsets[comm->global_rank] + first;
    KOLO_POINT("hierarchy.applying");
    apply->function(apply->context, at, count, gradients,
                    apply->has_parameters ? message->recv + at * message->kernel->element_bytes : NULL);
}

int kolo_nodes_apply(kolo_comm *comm, const struct kolo_descriptor *descriptor, const struct kolo_message *message) {
    const struct kolo_apply *apply = message->apply;
    size_t *counts = comm->call.offsets[0], *offsets = comm->call.offsets[1];
    for (uint32_t rank = 0; rank < comm->global_size; rank++)
        counts[rank] = kolo_apply_range(message, comm->global_size, rank, &offsets[rank]);
    const size_t first = offsets[comm->global_rank], count = counts[comm->global_rank];
    struct kolo_message part = *message;
    uint8_t *own = message->recv + first * message->kernel->element_bytes;
    int rc = 0;
    part.count = count;
    part.gap = 0;
    part.longest = message->longest;
    if (apply->has_gradients) {
        part.send_blocks = (struct kolo_blocks){counts, offsets};
        rc = kolo_nodes_reduce(comm, descriptor, &part);
    } else if (count) {
        apply->function(apply->context, first, count, NULL, own);
    }
    if (rc < 0 || !apply->has_parameters)
        return rc;
    KOLO_POINT("hierarchy.applied");
    part.send = own;
    part.send_blocks = (struct kolo_blocks){NULL, NULL};
    part.recv_blocks = (struct kolo_blocks){counts, offsets};
    return kolo_nodes_spread(comm, &kolo_registry[KOLO_ALLGATHERV], &part);
}
