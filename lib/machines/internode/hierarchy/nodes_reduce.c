/* All-reduce, reduce and reduce-scatter of several nodes. A barrier is an all-reduce without elements. The chunks of a
 * list of tensors are packed into slots whole, and unpacked from the results. kolo_allreduce_apply is two schedules: a
 * reduce-scatter of the gradients, whose results go to the program's function straight from where they arrive, and an
 * all-gather of the parameters, in place (nodes_spread.c). The ranges of algo/fusion/apply.h are the blocks of both. No
 * other rank reads the parameters that a rank has updated before the second schedule.
 *
 * Each ticket is a chunk of the message. The chunk is cut into a slice for each rank of the node; the rank folds its
 * slice from all slots into the ticket's partial result, in the accumulation type. The nodes exchange their partial
 * results, and leave the result in the segment: of an all-reduce on all nodes, else on the node that has a rank which
 * receives it. In an all-reduce and a reduce a rank folds its own slice straight from `send`, and shows all but that
 * slice. There, a rank that is alone on its node shows nothing: if the accumulation type is the dtype, the exchange
 * sends straight from `send`, and receives into `recv`.
 *
 * A reduce-scatter is made of the nodes' parts of the message. A node's part has the blocks for the ranks of the node,
 * one behind the other. A ticket has a chunk of one such part, and the nodes take turns. Parts that are shorter than
 * others have empty chunks at their ends.
 *
 * The order of the sum is the canonical one among the ranks of each node, and then among the nodes. With
 * KOLO_NET_ORDER=rank it is the canonical one among all ranks. Where the ranks of some node are not one subtree of that
 * order, a ticket has a partial result for each subtree that they are (internode/partials.h), one behind
 * another, and chunks are smaller by that factor. The order stays by nodes where rounding cannot show it. An own
 * operation that is not commutative always takes the order of all ranks. */
#include "internode/hierarchy/hierarchy.h"

#include "algo/fusion/apply.h"
#include "algo/fusion/many.h"
#include "sync/point.h"

struct hierarchy {
    kolo_comm *comm;
    const struct kolo_message *message;
    kolo_collective collective; /* ALLREDUCE, REDUCE or REDUCE_SCATTER */
    size_t chunk_count;         /* elements */
    bool straight;              /* see above */
    bool applies;               /* the program's function takes the result, and not `recv` */
    bool has_tensors;           /* a list of them, which these two go through: */
    struct kolo_tensor_cursor shown, taken;
    const struct kolo_subtrees *subtrees; /* NULL: the node's ranks are folded as one */
};

static_assert(KOLO_SUBTREES_OF_NODE_MAX * sizeof(uint64_t) <= KOLO_PAGE_BYTES,
              "a chunk has at least one element of each dtype");

/* The piece of the message that one ticket carries. */
struct piece {
    uint32_t node; /* for which the piece is, unless it is for all */
    size_t first;  /* in the message, or in the node's part of it */
    size_t count;
};

static bool is_scattered(const struct hierarchy *h) {
    return h->collective == KOLO_REDUCE_SCATTER;
}

/* Elements for all ranks of `node`. */
static size_t part_count(const struct hierarchy *h, uint32_t node) {
    const struct kolo_nodes *nodes = &h->comm->internode->nodes;
    size_t count = 0, first;
    for (uint32_t local = 0; local < kolo_nodes_local_size(nodes, node); local++)
        count += kolo_block(h->message, &h->message->send_blocks, kolo_nodes_rank(nodes, node, local), &first);
    return count;
}

static struct piece piece_at(const struct hierarchy *h, size_t ticket) {
    const struct kolo_nodes *nodes = &h->comm->internode->nodes;
    struct piece piece;
    size_t whole = h->message->count;
    if (is_scattered(h)) {
        piece.node = (uint32_t)(ticket % nodes->nodes);
        piece.first = ticket / nodes->nodes * h->chunk_count;
        whole = part_count(h, piece.node);
    } else {
        piece.node = nodes->node_of[h->message->root];
        piece.first = ticket * h->chunk_count;
    }
    const size_t left = whole > piece.first ? whole - piece.first : 0;
    piece.count = left < h->chunk_count ? left : h->chunk_count;
    return piece;
}

static size_t slice_at(const struct hierarchy *h, size_t count, size_t *first) {
    return kolo_plan_slice(count, h->message->kernel->element_bytes, h->comm->size, h->comm->rank, first);
}

/* The part of one rank's block that a piece of a node's part has. */
struct overlap {
    size_t block; /* where the block begins in the message */
    size_t first; /* in the block */
    size_t place; /* in the piece */
    size_t count;
};

/* The overlap of local rank `local` of the piece's node, whose block begins at *at in the node's part. Moves *at to the
 * block's end. */
static struct overlap overlap_of(const struct hierarchy *h, const struct piece *piece, uint32_t local, size_t *at) {
    const uint32_t rank = kolo_nodes_rank(&h->comm->internode->nodes, piece->node, local);
    struct overlap overlap;
    const size_t count = kolo_block(h->message, &h->message->send_blocks, rank, &overlap.block);
    const size_t begin = *at, end = begin + count, piece_end = piece->first + piece->count;
    const size_t from = begin > piece->first ? begin : piece->first, to = end < piece_end ? end : piece_end;
    *at = end;
    overlap.first = from - begin;
    overlap.place = from - piece->first;
    overlap.count = to > from ? to - from : 0;
    return overlap;
}

/* Copies the piece of a node's part into the slot. */
static void show_blocks(const struct hierarchy *h, const struct piece *piece, uint8_t *slot) {
    const size_t element_bytes = h->message->kernel->element_bytes;
    size_t at = 0;
    for (uint32_t local = 0; local < kolo_nodes_local_size(&h->comm->internode->nodes, piece->node); local++) {
        const struct overlap overlap = overlap_of(h, piece, local, &at);
        if (overlap.count)
            kolo_copy(slot + overlap.place * element_bytes,
                      h->message->send + (overlap.block + overlap.first) * element_bytes,
                      overlap.count * element_bytes);
    }
}

static void show(void *context, size_t ticket) {
    struct hierarchy *h = context;
    kolo_comm *comm = h->comm;
    const size_t element_bytes = h->message->kernel->element_bytes;
    const struct piece piece = piece_at(h, ticket);
    uint8_t *slot = kolo_slot(comm, comm->rank, ticket);
    size_t own, own_count = slice_at(h, piece.count, &own);
    const size_t behind = own + own_count;
    if (is_scattered(h)) {
        show_blocks(h, &piece, slot);
        comm->stats.sent_bytes += piece.count * element_bytes;
    } else if (h->has_tensors) {
        kolo_tensor_cursor_pack(&h->shown, h->message->tensors_first + piece.first, piece.count, slot);
        comm->stats.sent_bytes += (piece.count - own_count) * element_bytes;
    } else if (comm->size > 1) {
        const uint8_t *send = h->message->send + piece.first * element_bytes;
        kolo_copy(slot, send, own * element_bytes);
        kolo_copy(slot + behind * element_bytes, send + behind * element_bytes, (piece.count - behind) * element_bytes);
        comm->stats.sent_bytes += (piece.count - own_count) * element_bytes;
    }
    KOLO_POINT("hierarchy.shown");
}

/* Folds comm->call.sources, elements from `own` on of a chunk of `count`, into the ticket's partial result. */
static void fold_own(const struct hierarchy *h, size_t ticket, size_t count, size_t own, size_t own_count) {
    kolo_comm *comm = h->comm;
    const kolo_kernel *kernel = h->message->kernel;
    uint8_t *partial = kolo_internode_partial(comm, comm->call.ticket + ticket) + own * kernel->acc_bytes;
    if (!h->subtrees) {
        kernel->fold_partial(partial, comm->call.sources, comm->size, own_count);
        return;
    }
    for (uint32_t i = 0; i < h->subtrees->count; i++) {
        const struct kolo_subtree *subtree = &h->subtrees->each[i];
        if (subtree->node == comm->internode->node)
            kernel->fold_partial(partial + subtree->place * count * kernel->acc_bytes,
                                 comm->call.sources + subtree->local, subtree->ranks, own_count);
    }
}

static void fold(void *context, size_t ticket) {
    const struct hierarchy *h = context;
    kolo_comm *comm = h->comm;
    const kolo_kernel *kernel = h->message->kernel;
    const struct piece piece = piece_at(h, ticket);
    size_t own, own_count = slice_at(h, piece.count, &own);
    for (uint32_t rank = 0; rank < comm->size; rank++)
        comm->call.sources[rank] = kolo_slot(comm, rank, ticket) + own * kernel->element_bytes;
    if (!is_scattered(h) && !h->has_tensors)
        comm->call.sources[comm->rank] = h->message->send + (piece.first + own) * kernel->element_bytes;
    if (own_count && !h->straight)
        fold_own(h, ticket, piece.count, own, own_count);
    comm->stats.received_bytes += own_count * kernel->element_bytes * (comm->size - 1);
    KOLO_POINT("hierarchy.folded");
}

static struct kolo_order order(void *context, size_t ticket) {
    const struct hierarchy *h = context;
    const kolo_comm *comm = h->comm;
    const struct piece piece = piece_at(h, ticket);
    struct kolo_order order = {
        .collective = h->collective == KOLO_ALLREDUCE ? KOLO_ALLREDUCE : KOLO_REDUCE,
        .kernel = h->message->kernel,
        .count = piece.count,
        .subtrees = h->subtrees,
        .partial = kolo_internode_partial(comm, comm->call.ticket + ticket),
        .result = kolo_internode_result(comm, comm->call.ticket + ticket),
        .root = piece.node,
    };
    if (h->straight) {
        const size_t at = piece.first * h->message->kernel->element_bytes;
        order.partial = h->message->send + at;
        order.result = h->message->recv + at;
    }
    return order;
}

/* Gives the program's function the reduced gradients of elements of this rank's range, from its element `first` on. */
static void apply_piece(const struct hierarchy *h, size_t first, size_t count, const uint8_t *gradients) {
    const struct kolo_message *message = h->message;
    const struct kolo_apply *apply = message->apply;
    const size_t at = message->send_blocks.offsets[h->comm->global_rank] + first;
    KOLO_POINT("hierarchy.applying");
    apply->function(apply->context, at, count, gradients,
                    apply->has_parameters ? message->recv + at * message->kernel->element_bytes : NULL);
}

/* Copies what the result of the piece has for this rank; returns how many elements. */
static size_t take_result(struct hierarchy *h, const struct piece *piece, const uint8_t *result) {
    kolo_comm *comm = h->comm;
    const size_t element_bytes = h->message->kernel->element_bytes;
    struct overlap own = {.first = piece->first, .count = piece->count};
    size_t at = 0;
    if (h->collective == KOLO_REDUCE && comm->global_rank != h->message->root)
        return 0;
    for (uint32_t local = 0; is_scattered(h) && local <= comm->rank; local++)
        own = overlap_of(h, piece, local, &at);
    if (own.count && h->applies)
        apply_piece(h, own.first, own.count, result + own.place * element_bytes);
    else if (h->has_tensors)
        kolo_tensor_cursor_unpack(&h->taken, h->message->tensors_first + own.first, own.count, result);
    else if (own.count && !h->straight)
        kolo_copy(h->message->recv + own.first * element_bytes, result + own.place * element_bytes,
                  own.count * element_bytes);
    return own.count;
}

static int take(void *context, size_t ticket) {
    struct hierarchy *h = context;
    kolo_comm *comm = h->comm;
    const struct piece piece = piece_at(h, ticket);
    if (h->collective == KOLO_ALLREDUCE || piece.node == comm->internode->node) {
        const size_t count = take_result(h, &piece, kolo_internode_result(comm, comm->call.ticket + ticket));
        comm->stats.received_bytes += count * h->message->kernel->element_bytes;
    }
    KOLO_POINT("hierarchy.taken");
    return 0;
}

static const struct kolo_ticket_steps steps = {.show = show, .fold = fold, .order = order, .take = take};

/* Whether the order of the inputs can show in the result: in sums, products and averages of floats, and in what the
 * program's own functions make. */
static bool rounds(const kolo_reducer *reducer, const kolo_kernel *kernel) {
    static const kolo_dtype dtypes[] = {KOLO_F16, KOLO_BF16, KOLO_F32, KOLO_F64};
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        const kolo_kernel *kernels = reducer->kernels[dtypes[i]];
        if (kernel == &kernels[KOLO_SUM] || kernel == &kernels[KOLO_PROD] || kernel == &kernels[KOLO_AVG])
            return true;
    }
    return kernel->is_own;
}

/* The number of elements of a chunk, so that a slot holds all of a node's partial results of it; whole lines, where
 * that many fit. 0 where not even one element does. */
static size_t chunk_count_of(const struct hierarchy *h) {
    const kolo_kernel *kernel = h->message->kernel;
    const size_t line_count = (KOLO_LINE_BYTES + kernel->element_bytes - 1) / kernel->element_bytes;
    size_t count = h->comm->segment.slot_bytes / kernel->acc_bytes;
    if (h->subtrees)
        count /= h->subtrees->count_max;
    return count > line_count ? count / line_count * line_count : count;
}

static size_t count_tickets(const struct hierarchy *h) {
    const uint32_t nodes = is_scattered(h) ? h->comm->internode->nodes.nodes : 1;
    size_t longest = is_scattered(h) ? 0 : h->message->count;
    for (uint32_t node = 0; is_scattered(h) && node < nodes; node++) {
        const size_t count = part_count(h, node);
        longest = count > longest ? count : longest;
    }
    return (longest ? (longest + h->chunk_count - 1) / h->chunk_count : 1) * nodes;
}

int kolo_nodes_reduce(kolo_comm *comm, const struct kolo_descriptor *descriptor, const struct kolo_message *message) {
    const kolo_kernel *kernel = message->kernel;
    struct hierarchy h = {.comm = comm,
                          .message = message,
                          .collective = descriptor->has_root                               ? KOLO_REDUCE
                                        : descriptor->send != WHOLE || descriptor->applies ? KOLO_REDUCE_SCATTER
                                                                                           : KOLO_ALLREDUCE,
                          .applies = descriptor->applies,
                          .has_tensors = descriptor->has_tensors};
    if (h.has_tensors)
        h.shown = h.taken = kolo_tensor_cursor_make(message->tensors, kernel->element_bytes);
    if (kolo_internode_by_rank(comm, kernel) && (message->count || is_scattered(&h)) && rounds(comm->reducer, kernel))
        h.subtrees = comm->internode->subtrees;
    if (kernel->is_whole)
        h.subtrees = comm->internode->inputs;
    h.chunk_count = chunk_count_of(&h);
    if (h.chunk_count == 0)
        return kolo_nodes_refuse(comm, kernel, h.subtrees->count_max * (size_t)kernel->acc_bytes);
    h.straight = !is_scattered(&h) && !h.has_tensors && comm->size == 1 && kernel->acc_bytes == kernel->element_bytes;
    return kolo_tickets_run(comm, &steps, &h, count_tickets(&h), comm->size > 1);
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
    if (apply->has_gradients) {
        part.send_blocks = (struct kolo_blocks){counts, offsets, counts};
        rc = kolo_nodes_reduce(comm, descriptor, &part);
    } else if (count) {
        apply->function(apply->context, first, count, NULL, own);
    }
    if (rc < 0 || !apply->has_parameters)
        return rc;
    KOLO_POINT("hierarchy.applied");
    part.send = own;
    part.send_blocks = (struct kolo_blocks){0};
    part.recv_blocks = (struct kolo_blocks){counts, offsets, counts};
    return kolo_nodes_spread(comm, &kolo_registry[KOLO_ALLGATHERV], &part);
}
