/* Exchanges that go straight from slot to slot (internode/hierarchy/ticket_layout.h). All messages go up.
 *
 * Moves: each block that goes from a rank of one node to a rank of another is a message. Its part says which rank
 * receives it and which block it is: the receiver's place on its node times the blocks of the ticket, plus the block's.
 * The receiving node knows how much comes from the head that the receiving rank has written; the sending node knows it
 * from the sender's head. Frames carry the block's count in the call's key, which has no other count where blocks have
 * counts of their own: so ranks that disagree find out. A block's first chunk always has a message, even an empty one.
 *
 * Scan: each node sends each term that others need (internode/partials.h) once to every node that needs it. A message's
 * part is its term. A term of one rank is that rank's input as it is; other terms are partial results. Terms arrive in
 * the two slots that the node has for the ticket, in the order of their places. */
#include "internode/exchange.h"

#include "sync/point.h"

struct incoming {
    uint32_t from, local; /* the sender, and the taker's place on this node */
    struct kolo_moves_head head;
    uint8_t *region;
    size_t bytes; /* that come in this ticket */
};

static uint32_t blocks_of(const struct kolo_moves *moves) {
    return moves->end - moves->begin;
}

/* True if there is a message for chunk `moves->chunk` of such a block. */
static bool carries(const struct kolo_moves *moves, uint64_t count, size_t *bytes) {
    size_t first;
    *bytes = kolo_moves_chunk(moves, count, &first) * moves->element_bytes;
    return *bytes > 0 || moves->chunk == 0;
}

/* Finds the block that comes as that part; false: none does. */
static bool find_incoming(const struct kolo_flight *flight, uint32_t part, struct incoming *incoming) {
    const kolo_comm *comm = flight->state->comm;
    const struct kolo_moves *moves = &flight->order.moves;
    const struct kolo_nodes *nodes = &comm->internode->nodes;
    const uint32_t block = moves->begin + part % blocks_of(moves), own = flight->state->node;
    incoming->local = part / blocks_of(moves);
    incoming->from =
        kolo_moves_peer(moves, nodes->size, kolo_nodes_rank(nodes, own, incoming->local), block, KOLO_MOVES_IN);
    if (incoming->from == KOLO_MOVES_NOBODY || nodes->node_of[incoming->from] == own)
        return false;
    incoming->region = kolo_moves_region(comm, moves, flight->order.ticket, incoming->local, block, KOLO_MOVES_IN);
    incoming->head = kolo_moves_head(incoming->region);
    return carries(moves, incoming->head.count, &incoming->bytes);
}

static void send_block(struct kolo_flight *flight, uint32_t local, uint32_t block) {
    const kolo_comm *comm = flight->state->comm;
    const struct kolo_moves *moves = &flight->order.moves;
    const struct kolo_nodes *nodes = &comm->internode->nodes;
    const uint32_t own = flight->state->node;
    const uint32_t to = kolo_moves_peer(moves, nodes->size, kolo_nodes_rank(nodes, own, local), block, KOLO_MOVES_OUT);
    if (to == KOLO_MOVES_NOBODY || nodes->node_of[to] == own)
        return;
    const uint8_t *region = kolo_moves_region(comm, moves, flight->order.ticket, local, block, KOLO_MOVES_OUT);
    const struct kolo_moves_head head = kolo_moves_head(region);
    const uint32_t part = kolo_nodes_local_rank(nodes, to) * blocks_of(moves) + block - moves->begin;
    size_t bytes = 0;
    if (carries(moves, head.count, &bytes))
        kolo_exchange_send_counted(flight, nodes->node_of[to], part, region + KOLO_REGION_HEAD_BYTES, bytes,
                                   head.whole);
}

static void begin(struct kolo_flight *flight) {
    const struct kolo_moves *moves = &flight->order.moves;
    struct incoming incoming;
    for (uint32_t part = 0; part < flight->parts; part++)
        if (find_incoming(flight, part, &incoming))
            kolo_exchange_await(flight, flight->state->comm->internode->nodes.node_of[incoming.from], KOLO_MESSAGE_UP);
    for (uint32_t local = 0; local < flight->parts / blocks_of(moves); local++)
        for (uint32_t block = moves->begin; block < moves->end; block++)
            send_block(flight, local, block);
    KOLO_POINT("exchange.moves_begun");
}

static bool locate(struct kolo_flight *flight, struct kolo_exchange_message message, uint8_t **where, size_t *bytes) {
    const struct kolo_nodes *nodes = &flight->state->comm->internode->nodes;
    struct incoming incoming;
    if (message.kind != KOLO_MESSAGE_UP || !find_incoming(flight, message.part, &incoming) ||
        nodes->node_of[incoming.from] != message.node)
        return false;
    *where = incoming.region + KOLO_REGION_HEAD_BYTES;
    *bytes = incoming.bytes;
    const struct kolo_exchange_counts counts = {
        .sender = incoming.from,
        .taker = kolo_nodes_rank(nodes, flight->state->node, incoming.local),
        .expected = incoming.head.whole,
    };
    return !kolo_exchange_miscounts(flight, message.node, message.key, counts);
}

const struct kolo_exchange_algorithm kolo_exchange_move = {.begin = begin, .locate = locate};

/* Scan. */

static void send_term(struct kolo_flight *flight, uint32_t local) {
    const struct kolo_order *order = &flight->order;
    const struct kolo_nodes *nodes = &flight->state->comm->internode->nodes;
    const uint32_t term = kolo_nodes_rank(nodes, flight->state->node, local);
    const uint8_t *payload = kolo_scan_term(flight->state->comm, &order->scan, order->ticket, local);
    for (uint32_t rank = term + 1; rank < order->scan.prefixes->each[term].until; rank++)
        if (nodes->node_of[rank] != flight->state->node && kolo_nodes_is_next(nodes, rank, term))
            kolo_exchange_send(flight, nodes->node_of[rank], KOLO_MESSAGE_UP, term, payload,
                               order->count * kolo_scan_term_bytes(flight->state->comm, &order->scan, term));
}

static void begin_scan(struct kolo_flight *flight) {
    const struct kolo_nodes *nodes = &flight->state->comm->internode->nodes;
    for (uint32_t term = 0; term < flight->parts; term++)
        if (flight->order.scan.prefixes->each[term].place != KOLO_PREFIX_UNUSED)
            kolo_exchange_await(flight, nodes->node_of[term], KOLO_MESSAGE_UP);
    for (uint32_t local = 0; local < kolo_nodes_local_size(nodes, flight->state->node); local++)
        send_term(flight, local);
    KOLO_POINT("exchange.scan_begun");
}

static bool locate_scan(struct kolo_flight *flight, struct kolo_exchange_message message, uint8_t **where,
                        size_t *bytes) {
    const struct kolo_order *order = &flight->order;
    const kolo_comm *comm = flight->state->comm;
    const uint32_t place = order->scan.prefixes->each[message.part].place;
    if (message.kind != KOLO_MESSAGE_UP || place == KOLO_PREFIX_UNUSED ||
        comm->internode->nodes.node_of[message.part] != message.node)
        return false;
    *where = kolo_scan_place(comm, &order->scan, order->ticket, place);
    *bytes = order->count * kolo_scan_term_bytes(comm, &order->scan, message.part);
    return true;
}

const struct kolo_exchange_algorithm kolo_exchange_scan = {.begin = begin_scan, .locate = locate_scan};
