/* Gather, scatter and all-to-all of several nodes: each block goes from the rank that has it to the rank that receives
 * it, and nowhere else. A ticket carries a chunk of some of the blocks (internode/hierarchy/ticket_layout.h): of as
 * many as there is room for if they are small, else of one. In show a rank copies what it sends into its slot, for
 * ranks of its own node too, and writes how much it expects. The leaders then know from the slots how much goes from
 * which rank to which. In take a rank copies what has come: from the sender's slot if the sender is on this node, else
 * from its own slot.
 *
 * Calls in place work. An all-to-all stores what comes from a rank where it had what went to the same rank, chunk by
 * chunk, and that chunk has been shown in the same ticket. In a gather and a scatter no other rank's data goes to the
 * root's own block.
 *
 * Blocks may have counts that only two ranks know, no longer than all have agreed on. A rank that receives a block of
 * another count than it expects finds the mismatch; between nodes the exchange finds it (internode/exchange_move.c). */
#include "internode/hierarchy/hierarchy.h"

#include "base/minimum.h"
#include "comm/failure/failure.h"
#include "internode/hierarchy/ticket_layout.h"
#include "sync/point.h"

struct move {
    kolo_comm *comm;
    const struct kolo_message *message;
    struct kolo_moves moves; /* of the ticket at hand but for chunk, begin and end */
    uint32_t blocks;         /* of a ticket */
    uint32_t turns;
    size_t tickets;
};

static struct kolo_moves moves_at(const struct move *m, size_t ticket) {
    struct kolo_moves moves = m->moves;
    moves.chunk = ticket / m->turns;
    moves.begin = (uint32_t)(ticket % m->turns) * m->blocks;
    moves.end = (uint32_t)kolo_minimum(moves.begin + m->blocks, m->comm->global_size);
    return moves;
}

/* Elements of what this rank has for `peer`, and where it begins in `send`; and the same of what it takes. */
static size_t sent_block(const struct move *m, uint32_t peer, size_t *first) {
    *first = 0;
    return m->moves.collective == KOLO_GATHER ? m->message->count
                                              : kolo_block(m->message, &m->message->send_blocks, peer, first);
}

static size_t taken_block(const struct move *m, uint32_t peer, size_t *first) {
    *first = 0;
    return m->moves.collective == KOLO_SCATTER ? m->message->count
                                               : kolo_block(m->message, &m->message->recv_blocks, peer, first);
}

static void show(void *context, size_t ticket) {
    const struct move *m = context;
    kolo_comm *comm = m->comm;
    const struct kolo_moves moves = moves_at(m, ticket);
    const uint32_t ranks = comm->global_size, self = comm->global_rank;
    for (uint32_t block = moves.begin; block < moves.end; block++) {
        const uint32_t to = kolo_moves_peer(&moves, ranks, self, block, KOLO_MOVES_OUT),
                       from = kolo_moves_peer(&moves, ranks, self, block, KOLO_MOVES_IN);
        uint8_t *out = kolo_moves_region(comm, &moves, comm->call.ticket + ticket, comm->rank, block, KOLO_MOVES_OUT);
        uint8_t *in = kolo_moves_region(comm, &moves, comm->call.ticket + ticket, comm->rank, block, KOLO_MOVES_IN);
        size_t begin, first;
        if (from != KOLO_MOVES_NOBODY) {
            const struct kolo_moves_head head = {taken_block(m, from, &begin),
                                                 kolo_block_whole(m->message, &m->message->recv_blocks, from)};
            memcpy(in, &head, sizeof head);
        }
        if (to != KOLO_MOVES_NOBODY) {
            const struct kolo_moves_head head = {sent_block(m, to, &begin),
                                                 kolo_block_whole(m->message, &m->message->send_blocks, to)};
            const size_t bytes = kolo_moves_chunk(&moves, head.count, &first) * moves.element_bytes;
            memcpy(out, &head, sizeof head);
            kolo_copy(out + KOLO_REGION_HEAD_BYTES, m->message->send + (begin + first) * moves.element_bytes, bytes);
            comm->stats.sent_bytes += bytes;
        }
    }
    KOLO_POINT("hierarchy.moves_shown");
}

static struct kolo_order order(void *context, size_t ticket) {
    const struct move *m = context;
    return (struct kolo_order){.collective = m->moves.collective, .moves = moves_at(m, ticket)};
}

static int take(void *context, size_t ticket) {
    const struct move *m = context;
    kolo_comm *comm = m->comm;
    const struct kolo_moves moves = moves_at(m, ticket);
    const struct kolo_nodes *nodes = &comm->internode->nodes;
    for (uint32_t block = moves.begin; block < moves.end; block++) {
        const uint32_t from = kolo_moves_peer(&moves, comm->global_size, comm->global_rank, block, KOLO_MOVES_IN);
        if (from == KOLO_MOVES_NOBODY)
            continue;
        const bool is_near = nodes->node_of[from] == comm->internode->node;
        const uint32_t local = is_near ? kolo_nodes_local_rank(nodes, from) : comm->rank;
        const uint8_t *region = kolo_moves_region(comm, &moves, comm->call.ticket + ticket, local, block,
                                                  is_near ? KOLO_MOVES_OUT : KOLO_MOVES_IN);
        const uint64_t sent = kolo_moves_head(region).whole,
                       expected = kolo_block_whole(m->message, &m->message->recv_blocks, from);
        size_t begin, first, count = taken_block(m, from, &begin);
        const size_t bytes = kolo_moves_chunk(&moves, count, &first) * moves.element_bytes;
        if (sent != expected)
            return kolo_failure_publish_counts(comm, local, sent, expected);
        kolo_copy(m->message->recv + (begin + first) * moves.element_bytes, region + KOLO_REGION_HEAD_BYTES, bytes);
        comm->stats.received_bytes += bytes;
    }
    KOLO_POINT("hierarchy.moves_taken");
    return 0;
}

/* Copies the block that this rank has for itself. */
static void copy_own(const struct move *m) {
    const uint32_t self = m->comm->global_rank;
    const size_t element_bytes = m->moves.element_bytes;
    size_t from, to, count = sent_block(m, self, &from);
    taken_block(m, self, &to);
    if (m->moves.collective != KOLO_ALLTOALL && self != m->moves.root)
        return;
    if (m->message->send + from * element_bytes != m->message->recv + to * element_bytes)
        kolo_copy(m->message->recv + to * element_bytes, m->message->send + from * element_bytes,
                  count * element_bytes);
}

/* Decides how much a ticket carries: whole blocks if they fit. */
static void divide(struct move *m) {
    const struct kolo_nodes *nodes = &m->comm->internode->nodes;
    const size_t half_bytes = m->comm->segment.slot_bytes / 2, longest = m->message->longest ? m->message->longest : 1;
    const size_t data_max = half_bytes - KOLO_REGION_HEAD_BYTES, element_bytes = m->moves.element_bytes;
    uint32_t locals = 1;
    for (uint32_t node = 0; node < nodes->nodes; node++)
        locals = kolo_nodes_local_size(nodes, node) > locals ? kolo_nodes_local_size(nodes, node) : locals;
    m->moves.chunk_count = kolo_minimum(longest, data_max / element_bytes);
    m->moves.region_bytes =
        (KOLO_REGION_HEAD_BYTES + m->moves.chunk_count * element_bytes + KOLO_REGION_HEAD_BYTES - 1) /
        KOLO_REGION_HEAD_BYTES * KOLO_REGION_HEAD_BYTES;
    m->blocks = (uint32_t)kolo_minimum(kolo_minimum(half_bytes / m->moves.region_bytes, KOLO_MOVES_BLOCKS_MAX),
                                       kolo_minimum(KOLO_MOVES_MAX / locals, nodes->size));
    m->turns = (nodes->size + m->blocks - 1) / m->blocks;
    m->tickets = (longest + m->moves.chunk_count - 1) / m->moves.chunk_count * m->turns;
}

static const struct kolo_ticket_steps steps = {.show = show, .order = order, .take = take};

int kolo_nodes_move(kolo_comm *comm, const struct kolo_descriptor *descriptor, const struct kolo_message *message) {
    struct move m = {.comm = comm, .message = message};
    m.moves.collective = descriptor->recv_at_root   ? KOLO_GATHER
                         : descriptor->send_at_root ? KOLO_SCATTER
                                                    : KOLO_ALLTOALL;
    m.moves.root = message->root;
    m.moves.element_bytes = message->kernel->element_bytes;
    divide(&m);
    copy_own(&m);
    return kolo_tickets_run(comm, &steps, &m, m.tickets, true);
}
