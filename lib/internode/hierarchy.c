/* Collectives of several nodes: what the ranks of one node do. Each chunk is one ticket and takes four steps:
 *
 *   show:     each rank copies its input of the chunk, except its own slice, into its slot;
 *   fold:     the owner of each slice, one for each rank of the node, folds it from all slots into the ticket's partial
 *             result, in the accumulation type;
 *   order:    the leader, once all have folded, orders the exchange with the other nodes (internode/proxy.h);
 *   take:     each rank copies the result, which the proxy has left in the segment, to `recv`.
 *
 * Chunks overlap, so that the exchange of some goes on while the node works on others: in tick w a rank shows chunk w,
 * folds and orders chunk w - 1, and takes chunk w - LAG. Steps are numbered by ticks: 3w + 1, 3w + 2, 3w + 3. No
 * deadlock: a rank waits only for smaller steps, or for the exchange of a chunk that every node's leader orders in an
 * earlier tick. A ticket's slots, those of the ranks and the partial result and the result, are used again for t +
 * KOLO_SLOTS when all have published the step with which they had taken chunk t (kolo_slot_claim in show, which each
 * does before it folds into the partial result). The proxy is done with them before that.
 *
 * A rank that is alone on its node shows nothing: if the accumulation type is the dtype, the exchange sends straight
 * from `send`, and receives into `recv`.
 *
 * The order of the sum is the canonical one among the ranks of each node, and then among the nodes. With
 * KOLO_NET_ORDER=rank it is the canonical one among all ranks: where the ranks of some node are not one subtree of
 * that, a ticket has a partial result for each subtree that they are (internode/assembly/subtrees.h), one behind
 * another, and chunks are as much smaller. Where rounding cannot show the order nothing changes. */
#include "internode/hierarchy.h"

#include "base/status.h"
#include "internode/proxy.h"
#include "comm/step/progress.h"
#include "reduce/copy.h"
#include "sync/point.h"

enum { LAG = 3 };

static_assert(LAG < KOLO_SLOTS, "a chunk is taken before its slots are claimed again");

struct hierarchy {
    kolo_comm *comm;
    const struct kolo_message *message;
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
    const size_t left = h->message->count - *first;
    return left < h->chunk_count ? left : h->chunk_count;
}

static size_t slice_at(const struct hierarchy *h, size_t count, size_t *first) {
    return kolo_plan_slice(count, h->message->kernel->element_bytes, h->comm->size, h->comm->rank, first);
}

/* Copies all of the chunk but this rank's own slice into its slot. */
static int show(const struct hierarchy *h, size_t chunk) {
    kolo_comm *comm = h->comm;
    const size_t element_bytes = h->message->kernel->element_bytes;
    size_t first, own, count = chunk_at(h, chunk, &first);
    const size_t own_count = slice_at(h, count, &own), behind = own + own_count;
    const uint8_t *send = h->message->send + first * element_bytes;
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

/* Folds comm->call.sources, `own_count` elements from `own` on of a chunk of `count`, into the ticket's partial result.
 */
static void fold_own(const struct hierarchy *h, size_t chunk, size_t count, size_t own, size_t own_count) {
    kolo_comm *comm = h->comm;
    const kolo_kernel *kernel = h->message->kernel;
    uint8_t *partial = kolo_internode_partial(comm, comm->call.ticket + chunk) + own * kernel->acc_bytes;
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

static int fold(const struct hierarchy *h, size_t chunk) {
    kolo_comm *comm = h->comm;
    const kolo_kernel *kernel = h->message->kernel;
    size_t first, own, count = chunk_at(h, chunk, &first);
    const size_t own_count = slice_at(h, count, &own);
    int rc = kolo_step_await_all(comm, shown_at(chunk));
    if (rc < 0)
        return rc;
    for (uint32_t rank = 0; rank < comm->size; rank++)
        comm->call.sources[rank] = kolo_slot(comm, rank, chunk) + own * kernel->element_bytes;
    comm->call.sources[comm->rank] = h->message->send + (first + own) * kernel->element_bytes;
    if (own_count && !h->straight)
        fold_own(h, chunk, count, own, own_count);
    comm->stats.received_bytes += own_count * kernel->element_bytes * (comm->size - 1);
    KOLO_POINT("hierarchy.folded");
    kolo_step_publish(comm, folded_at(chunk));
    return 0;
}

/* Whether the proxies' threads drive the exchanges: if the leader has other work meanwhile, or if there are several
 * lanes, of which it could drive only one at a time. */
static bool in_background(const kolo_comm *comm, size_t chunks, bool has_work) {
    return (chunks > LAG && has_work) || (chunks > 1 && comm->internode->lanes > 1);
}

/* For the leader: orders the chunk's exchange. */
static int order(const struct hierarchy *h, size_t chunk) {
    kolo_comm *comm = h->comm;
    const size_t element_bytes = h->message->kernel->element_bytes;
    const uint64_t ticket = comm->call.ticket + chunk;
    size_t first, count = chunk_at(h, chunk, &first);
    int rc = kolo_step_await_all(comm, folded_at(chunk));
    if (rc < 0)
        return rc;
    struct kolo_order order = {
        .ticket = ticket,
        .collective = KOLO_ALLREDUCE,
        .kernel = h->message->kernel,
        .count = count,
        .subtrees = h->subtrees,
        .partial = h->straight ? h->message->send + first * element_bytes : kolo_internode_partial(comm, ticket),
        .result = h->straight ? h->message->recv + first * element_bytes : kolo_internode_result(comm, ticket),
    };
    kolo_proxy_order(comm, &order, in_background(comm, h->chunks, comm->size > 1));
    return 0;
}

static int take(const struct hierarchy *h, size_t chunk) {
    kolo_comm *comm = h->comm;
    const size_t element_bytes = h->message->kernel->element_bytes;
    const uint64_t ticket = comm->call.ticket + chunk;
    size_t first, count = chunk_at(h, chunk, &first);
    int rc = kolo_proxy_await(comm, ticket);
    if (rc < 0)
        return rc;
    if (!h->straight)
        kolo_copy(h->message->recv + first * element_bytes, kolo_internode_result(comm, ticket), count * element_bytes);
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
    const kolo_kernel *kernel = h->message->kernel;
    const size_t line_count = KOLO_LINE_BYTES / kernel->element_bytes;
    size_t count = h->comm->segment.slot_bytes / kernel->acc_bytes;
    if (h->subtrees)
        count /= h->subtrees->count_max;
    return count > line_count ? count / line_count * line_count : count;
}

/* A message without elements is a barrier. */
static int run_allreduce(kolo_comm *comm, const struct kolo_message *message) {
    const kolo_kernel *kernel = message->kernel;
    struct hierarchy h = {.comm = comm, .message = message};
    if (comm->internode->subtrees && message->count && rounds(comm->reducer, kernel))
        h.subtrees = comm->internode->subtrees;
    h.chunk_count = chunk_count_of(&h);
    h.chunks = message->count ? (message->count + h.chunk_count - 1) / h.chunk_count : 1;
    h.straight = comm->size == 1 && kernel->acc_bytes == kernel->element_bytes;
    int rc = 0;
    kolo_schedule_begin(comm, steps_of(h.chunks), h.chunks);
    for (size_t tick = 0; rc == 0 && tick < h.chunks + LAG; tick++)
        rc = run_tick(&h, tick);
    kolo_schedule_end(comm);
    return rc;
}

/* Broadcast and all-gather. Both move parts: a part is a chunk of what one rank, its root, has for all others; a
 * broadcast has one root, in an all-gather each rank is the root of its block, one after the other. The root copies its
 * part into its own slot, so that two ranks that both take themselves for the root do not write to the same place
 * before the mismatch is found. From there the leader of the root's node has it sent, and the other ranks of that node
 * take it. On other nodes it is taken from the ticket's result. In tick w the root shows part w, the leaders order it,
 * and part w - LAG is taken. Steps are 3w + 1 for the root's part, and as above. A rank that takes a part has seen that
 * the exchange is over, so nothing is sent from a slot that is claimed again. */

struct spread {
    kolo_comm *comm;
    const uint8_t *send; /* what this rank is the root of */
    uint8_t *recv;
    size_t bytes;        /* of each root */
    uint32_t first_root; /* among the ranks of all nodes */
    size_t chunks;       /* of each root */
    size_t parts;        /* of all roots */
};

struct part {
    uint32_t root;
    size_t first; /* in what the root has */
    size_t bytes;
    uint8_t *place; /* where this node has it: in the root's slot, or where it comes from the root's node */
    uint8_t *recv;
};

static struct part part_at(const struct spread *s, size_t index) {
    const kolo_comm *comm = s->comm;
    const struct kolo_nodes *nodes = &comm->internode->nodes;
    const size_t slot_bytes = comm->segment.slot_bytes, turn = index / s->chunks;
    struct part part = {.root = s->first_root + (uint32_t)turn, .first = index % s->chunks * slot_bytes};
    const size_t left = s->bytes - part.first;
    part.bytes = left < slot_bytes ? left : slot_bytes;
    part.place = nodes->node_of[part.root] == comm->internode->node
                     ? kolo_slot(comm, kolo_nodes_local_rank(nodes, part.root), index)
                     : kolo_internode_result(comm, comm->call.ticket + index);
    part.recv = s->recv + turn * s->bytes + part.first;
    return part;
}

static int show_part(const struct spread *s, size_t index) {
    kolo_comm *comm = s->comm;
    const struct part part = part_at(s, index);
    int rc = kolo_slot_claim(comm, index);
    if (rc < 0)
        return rc;
    if (part.root == comm->global_rank)
        kolo_copy(part.place, s->send + part.first, part.bytes);
    KOLO_POINT("hierarchy.part_shown");
    kolo_step_publish(comm, shown_at(index));
    return 0;
}

/* All ranks of the node have claimed the part's ticket by then: nobody reads any more what its slots held. */
static int order_part(const struct spread *s, size_t index) {
    kolo_comm *comm = s->comm;
    const struct part part = part_at(s, index);
    int rc = kolo_step_await_all(comm, shown_at(index));
    if (rc < 0)
        return rc;
    struct kolo_order order = {
        .ticket = comm->call.ticket + index,
        .collective = KOLO_BROADCAST,
        .count = part.bytes,
        .result = part.place,
        .root = comm->internode->nodes.node_of[part.root],
    };
    kolo_proxy_order(comm, &order, in_background(comm, s->parts, true));
    return 0;
}

static int take_part(const struct spread *s, size_t index) {
    kolo_comm *comm = s->comm;
    const struct part part = part_at(s, index);
    int rc = kolo_proxy_await(comm, comm->call.ticket + index);
    if (rc < 0)
        return rc;
    if (part.root != comm->global_rank) {
        kolo_copy(part.recv, part.place, part.bytes);
        comm->stats.received_bytes += part.bytes;
    } else {
        comm->stats.sent_bytes += part.bytes;
    }
    KOLO_POINT("hierarchy.part_taken");
    kolo_step_publish(comm, taken_at(index));
    kolo_slot_retire(comm, index, taken_at(index));
    return 0;
}

static int run_spread(struct spread *s, uint32_t roots) {
    const size_t slot_bytes = s->comm->segment.slot_bytes;
    int rc = 0;
    s->chunks = s->bytes ? (s->bytes + slot_bytes - 1) / slot_bytes : 1;
    s->parts = s->chunks * roots;
    kolo_schedule_begin(s->comm, steps_of(s->parts), s->parts);
    for (size_t tick = 0; rc == 0 && tick < s->parts + LAG; tick++) {
        if (tick < s->parts)
            rc = show_part(s, tick);
        if (rc == 0 && tick < s->parts && kolo_internode_leads(s->comm->internode))
            rc = order_part(s, tick);
        if (rc == 0 && tick >= LAG)
            rc = take_part(s, tick - LAG);
    }
    kolo_schedule_end(s->comm);
    return rc;
}

static int run_broadcast(kolo_comm *comm, const struct kolo_message *message) {
    struct spread spread = {.comm = comm,
                            .send = message->send,
                            .recv = message->recv,
                            .bytes = message->count * message->kernel->element_bytes,
                            .first_root = message->root};
    return run_spread(&spread, 1);
}

static int run_allgather(kolo_comm *comm, const struct kolo_message *message) {
    struct spread spread = {.comm = comm,
                            .send = message->send,
                            .recv = message->recv,
                            .bytes = message->count * message->kernel->element_bytes};
    uint8_t *own = message->recv + comm->global_rank * spread.bytes;
    if (own != message->send)
        kolo_copy(own, message->send, spread.bytes);
    return run_spread(&spread, comm->global_size);
}

int kolo_hierarchy_run(kolo_comm *comm, kolo_collective collective, const struct kolo_message *message) {
    static kolo_run_fn *const collectives[KOLO_COLLECTIVES] = {[KOLO_ALLREDUCE] = run_allreduce,
                                                               [KOLO_BROADCAST] = run_broadcast,
                                                               [KOLO_BARRIER] = run_allreduce,
                                                               [KOLO_ALLGATHER] = run_allgather};
    if (!collectives[collective])
        return kolo_fail(KOLO_ERR_UNSUPPORTED, "rank %u: %s does not work on several machines yet", comm->global_rank,
                         kolo_collective_name(collective));
    return collectives[collective](comm, message);
}
