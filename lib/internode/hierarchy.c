/* Collectives of several nodes: what the ranks of one node do. Each chunk, one ticket, goes
 *
 *   show:     each rank copies its input of the chunk into its slot, but for its own slice;
 *   fold:     the owner of each slice, one a rank of the node, folds it from all slots into the ticket's partial
 * result, in the accumulation type; order:    the leader, once all have folded, orders the exchange with the other
 * nodes (internode/proxy.h); take:     each copies the result, which the proxy has left in the segment, to `recv`.
 *
 * Chunks overlap, so that the exchange of some goes on while the node works on others: in tick w a rank shows chunk w,
 * folds and orders chunk w - 1, and takes chunk w - LAG. Steps are numbered by ticks: 3w + 1, 3w + 2, 3w + 3. What is
 * waited for is of a smaller step, or the exchange of a chunk that every node's leader orders in an earlier tick: no
 * deadlock. A ticket's slots, those of the ranks and the partial result and the result, are used again for
 * t + KOLO_SLOTS when all have published the step with which they had taken chunk t (kolo_slot_claim in show, which
 * each does before it folds into the partial result). The proxy is done with them before that.
 *
 * A rank that is alone on its node has nobody to show anything to: where the accumulation type is the dtype, the
 * exchange sends straight from `send`, and receives into `recv`.
 *
 * The order of the sum is the canonical one among the ranks of each node, and then among the nodes. With
 * KOLO_NET_ORDER=rank it is the canonical one among all ranks: where the ranks of some node are not one subtree of
 * that, a ticket has a partial result for each subtree that they are (internode/assembly/subtrees.h), one behind
 * another, and chunks are as much smaller. Where rounding cannot show the order nothing changes. */
#include "algo/algo.h"

#include "internode/internode.h"
#include "comm/step/progress.h"
#include "reduce/copy.h"
#include "sync/point.h"

enum { LAG = 3 };

static_assert(LAG < KOLO_SLOTS, "a chunk is taken before its slots are claimed again");

struct hierarchy {
    kolo_comm *comm;
    const struct kolo_reduction *reduction;
    size_t chunk_count; /* elements */
    size_t chunks;
    bool straight;                        /* see above */
    const struct kolo_subtrees *subtrees; /* NULL: the node's ranks are folded as one */
};

static_assert(KOLO_SUBTREES_OF_NODE_MAX * sizeof(uint64_t) <= KOLO_PAGE_BYTES, "a chunk has at least one element");

static uint64_t shown_at(size_t chunk) {
    return 3 * chunk + 1;
}

static uint64_t folded_at(size_t chunk) {
    return 3 * (chunk + 1) + 2;
}

static uint64_t taken_at(size_t chunk) {
    return 3 * (chunk + LAG) + 3;
}

static uint64_t steps_of(size_t chunks) {
    return taken_at(chunks - 1);
}

static size_t chunk_at(const struct hierarchy *h, size_t chunk, size_t *first) {
    *first = chunk * h->chunk_count;
    const size_t left = h->reduction->count - *first;
    return left < h->chunk_count ? left : h->chunk_count;
}

static size_t slice_at(const struct hierarchy *h, size_t count, size_t *first) {
    return kolo_plan_slice(count, h->reduction->kernel->element_bytes, h->comm->size, h->comm->rank, first);
}

/* All of the chunk but this rank's own slice. */
static int show(const struct hierarchy *h, size_t chunk) {
    kolo_comm *comm = h->comm;
    const size_t element_bytes = h->reduction->kernel->element_bytes;
    size_t first, own, count = chunk_at(h, chunk, &first);
    const size_t own_count = slice_at(h, count, &own), behind = own + own_count;
    const uint8_t *send = h->reduction->send + first * element_bytes;
    int rc = kolo_slot_claim(comm, chunk);
    if (rc < 0)
        return rc;
    if (comm->size > 1) {
        uint8_t *slot = kolo_slot(comm, comm->rank, chunk);
        kolo_copy(slot, send, own * element_bytes);
        kolo_copy(slot + behind * element_bytes, send + behind * element_bytes, (count - behind) * element_bytes);
        comm->stats.sent_bytes += (count - own_count) * element_bytes;
    }
    KOLO_POINT("hierarchy.shown");
    kolo_step_publish(comm, shown_at(chunk));
    return 0;
}

/* Folds comm->sources, `own_count` elements from `own` on of a chunk of `count`, into the ticket's partial result. */
static void fold_own(const struct hierarchy *h, size_t chunk, size_t count, size_t own, size_t own_count) {
    kolo_comm *comm = h->comm;
    const kolo_kernel *kernel = h->reduction->kernel;
    uint8_t *partial = kolo_internode_partial(comm, comm->ticket + chunk) + own * kernel->acc_bytes;
    if (!h->subtrees) {
        kernel->fold_partial(partial, comm->sources, comm->size, own_count);
        return;
    }
    for (uint32_t i = 0; i < h->subtrees->count; i++) {
        const struct kolo_subtree *subtree = &h->subtrees->each[i];
        if (subtree->node == comm->internode->node)
            kernel->fold_partial(partial + subtree->place * count * kernel->acc_bytes, comm->sources + subtree->local,
                                 subtree->ranks, own_count);
    }
}

static int fold(const struct hierarchy *h, size_t chunk) {
    kolo_comm *comm = h->comm;
    const kolo_kernel *kernel = h->reduction->kernel;
    size_t first, own, count = chunk_at(h, chunk, &first);
    const size_t own_count = slice_at(h, count, &own);
    int rc = kolo_step_await_all(comm, shown_at(chunk));
    if (rc < 0)
        return rc;
    for (uint32_t rank = 0; rank < comm->size; rank++)
        comm->sources[rank] = kolo_slot(comm, rank, chunk) + own * kernel->element_bytes;
    comm->sources[comm->rank] = h->reduction->send + (first + own) * kernel->element_bytes;
    if (own_count && !h->straight)
        fold_own(h, chunk, count, own, own_count);
    comm->stats.received_bytes += own_count * kernel->element_bytes * (comm->size - 1);
    KOLO_POINT("hierarchy.folded");
    kolo_step_publish(comm, folded_at(chunk));
    return 0;
}

/* Whether the proxies' threads are to drive exchanges: where the leader has other work meanwhile, or where they go by
 * several lanes, of which it could drive one at a time. */
static bool in_background(const kolo_comm *comm, size_t chunks, bool has_work) {
    return (chunks > LAG && has_work) || (chunks > 1 && comm->internode->lanes > 1);
}

/* The leader's. */
static int order(const struct hierarchy *h, size_t chunk) {
    kolo_comm *comm = h->comm;
    const size_t element_bytes = h->reduction->kernel->element_bytes;
    const uint64_t ticket = comm->ticket + chunk;
    size_t first, count = chunk_at(h, chunk, &first);
    int rc = kolo_step_await_all(comm, folded_at(chunk));
    if (rc < 0)
        return rc;
    const struct kolo_order order = {
        .ticket = ticket,
        .stamp = comm->stamp,
        .call = comm->call,
        .number = comm->calls,
        .kernel = h->reduction->kernel,
        .count = count,
        .subtrees = h->subtrees,
        .partial = h->straight ? h->reduction->send + first * element_bytes : kolo_internode_partial(comm, ticket),
        .result = h->straight ? h->reduction->recv + first * element_bytes : kolo_internode_result(comm, ticket),
    };
    kolo_internode_order(comm, &order, in_background(comm, h->chunks, comm->size > 1));
    return 0;
}

static int take(const struct hierarchy *h, size_t chunk) {
    kolo_comm *comm = h->comm;
    const size_t element_bytes = h->reduction->kernel->element_bytes;
    const uint64_t ticket = comm->ticket + chunk;
    size_t first, count = chunk_at(h, chunk, &first);
    int rc = kolo_internode_await(comm, ticket);
    if (rc < 0)
        return rc;
    if (!h->straight)
        kolo_copy(h->reduction->recv + first * element_bytes, kolo_internode_result(comm, ticket),
                  count * element_bytes);
    comm->stats.received_bytes += count * element_bytes;
    KOLO_POINT("hierarchy.taken");
    kolo_step_publish(comm, taken_at(chunk));
    kolo_slot_retire(comm, chunk, taken_at(chunk));
    return 0;
}

static int run_tick(const struct hierarchy *h, size_t tick) {
    int rc = tick < h->chunks ? show(h, tick) : 0;
    if (rc == 0 && tick >= 1 && tick - 1 < h->chunks)
        rc = fold(h, tick - 1);
    if (rc == 0 && tick >= 1 && tick - 1 < h->chunks && kolo_internode_leads(h->comm->internode))
        rc = order(h, tick - 1);
    if (rc == 0 && tick >= LAG)
        rc = take(h, tick - LAG);
    return rc;
}

/* Whether the order of the inputs can show in the result: in sums, products and averages of floats. */
static bool rounds(const kolo_reducer *reducer, const kolo_kernel *kernel) {
    static const kolo_dtype dtypes[] = {KOLO_F16, KOLO_BF16, KOLO_F32, KOLO_F64};
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        const kolo_kernel *kernels = reducer->kernels[dtypes[i]];
        if (kernel == &kernels[KOLO_SUM] || kernel == &kernels[KOLO_PROD] || kernel == &kernels[KOLO_AVG])
            return true;
    }
    return false;
}

/* Elements of a chunk of which a slot holds all of a node's partial results; whole lines, where that many fit. */
static size_t chunk_count_of(const struct hierarchy *h) {
    const kolo_kernel *kernel = h->reduction->kernel;
    const size_t line_count = KOLO_LINE_BYTES / kernel->element_bytes;
    size_t count = h->comm->segment.slot_bytes / kernel->acc_bytes;
    if (h->subtrees)
        count /= h->subtrees->count_max;
    return count > line_count ? count / line_count * line_count : count;
}

int kolo_hierarchy_run(kolo_comm *comm, const struct kolo_reduction *reduction) {
    const kolo_kernel *kernel = reduction->kernel;
    struct hierarchy h = {.comm = comm, .reduction = reduction};
    if (comm->internode->subtrees && reduction->count && rounds(comm->reducer, kernel))
        h.subtrees = comm->internode->subtrees;
    h.chunk_count = chunk_count_of(&h);
    h.chunks = reduction->count ? (reduction->count + h.chunk_count - 1) / h.chunk_count : 1;
    h.straight = comm->size == 1 && kernel->acc_bytes == kernel->element_bytes;
    int rc = 0;
    for (size_t tick = 0; rc == 0 && tick < h.chunks + LAG; tick++)
        rc = run_tick(&h, tick);
    kolo_call_end(comm, steps_of(h.chunks), h.chunks);
    return rc;
}

/* Broadcast: the root copies each chunk into its own slot, so that ranks that each take themselves for the root do not
 * write into one place before they are told. From there the leader of its node orders it to be sent, and the others of
 * its node take it; on other nodes it is taken from the ticket's result. In tick w the root shows chunk w, the leaders
 * order it, and chunk w - LAG is taken. Steps are 3w + 1 for the root's chunk, and as above. Whoever takes a chunk has
 * seen that the exchange is over, so that nothing is sent from a slot that is claimed again. */

struct broadcast {
    kolo_comm *comm;
    uint8_t *buffer;
    size_t bytes;
    size_t chunks;
    uint32_t root_node;
    uint32_t root_local; /* the root's place on its node; KOLO_RANKS_MAX: that is another one */
    bool is_root;
};

static size_t part_at(const struct broadcast *b, size_t chunk) {
    const size_t first = chunk * b->comm->segment.slot_bytes, left = b->bytes - first;
    return left < b->comm->segment.slot_bytes ? left : b->comm->segment.slot_bytes;
}

/* Where this node has the chunk: with the root, or as it comes from the root's node. */
static uint8_t *place_of(const struct broadcast *b, size_t chunk) {
    const kolo_comm *comm = b->comm;
    return b->root_local < comm->size ? kolo_slot(comm, b->root_local, chunk)
                                      : kolo_internode_result(comm, comm->ticket + chunk);
}

static int show_part(const struct broadcast *b, size_t chunk) {
    kolo_comm *comm = b->comm;
    int rc = kolo_slot_claim(comm, chunk);
    if (rc < 0)
        return rc;
    if (b->is_root)
        kolo_copy(place_of(b, chunk), b->buffer + chunk * comm->segment.slot_bytes, part_at(b, chunk));
    KOLO_POINT("hierarchy.broadcast_shown");
    kolo_step_publish(comm, shown_at(chunk));
    return 0;
}

/* All ranks of the node have claimed the chunk by then: nobody reads any more what its slots held. */
static int order_part(const struct broadcast *b, size_t chunk) {
    kolo_comm *comm = b->comm;
    int rc = kolo_step_await_all(comm, shown_at(chunk));
    if (rc < 0)
        return rc;
    const struct kolo_order order = {
        .ticket = comm->ticket + chunk,
        .stamp = comm->stamp,
        .call = comm->call,
        .number = comm->calls,
        .count = part_at(b, chunk),
        .result = place_of(b, chunk),
        .root = b->root_node,
    };
    kolo_internode_order(comm, &order, in_background(comm, b->chunks, true));
    return 0;
}

static int take_part(const struct broadcast *b, size_t chunk) {
    kolo_comm *comm = b->comm;
    int rc = kolo_internode_await(comm, comm->ticket + chunk);
    if (rc < 0)
        return rc;
    if (!b->is_root) {
        kolo_copy(b->buffer + chunk * comm->segment.slot_bytes, place_of(b, chunk), part_at(b, chunk));
        comm->stats.received_bytes += part_at(b, chunk);
    } else {
        comm->stats.sent_bytes += part_at(b, chunk);
    }
    KOLO_POINT("hierarchy.broadcast_taken");
    kolo_step_publish(comm, taken_at(chunk));
    kolo_slot_retire(comm, chunk, taken_at(chunk));
    return 0;
}

int kolo_hierarchy_broadcast(kolo_comm *comm, uint8_t *buffer, size_t bytes, uint32_t root) {
    const struct kolo_internode *internode = comm->internode;
    const size_t slot_bytes = comm->segment.slot_bytes;
    const uint32_t root_node = internode->nodes.node_of[root];
    const struct broadcast b = {
        .comm = comm,
        .buffer = buffer,
        .bytes = bytes,
        .chunks = bytes ? (bytes + slot_bytes - 1) / slot_bytes : 1,
        .root_node = root_node,
        .root_local = root_node == internode->node ? kolo_nodes_local_rank(&internode->nodes, root) : KOLO_RANKS_MAX,
        .is_root = root == comm->global_rank};
    int rc = 0;
    for (size_t tick = 0; rc == 0 && tick < b.chunks + LAG; tick++) {
        if (tick < b.chunks)
            rc = show_part(&b, tick);
        if (rc == 0 && tick < b.chunks && kolo_internode_leads(internode))
            rc = order_part(&b, tick);
        if (rc == 0 && tick >= LAG)
            rc = take_part(&b, tick - LAG);
    }
    kolo_call_end(comm, steps_of(b.chunks), b.chunks);
    return rc;
}

int kolo_hierarchy_barrier(kolo_comm *comm) {
    uint8_t nothing; /* that copies of no bytes can point to */
    const struct kolo_reduction reduction = {
        .send = &nothing, .recv = &nothing, .kernel = &comm->reducer->kernels[KOLO_U8][KOLO_SUM]};
    return kolo_hierarchy_run(comm, &reduction);
}
