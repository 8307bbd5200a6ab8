/* Exchange of a scan: each node sends each term that others need (internode/assembly/prefixes.h) once to every node
 * that needs it. All messages go up, and a message's part is its term. A term of one rank is that rank's input as it
 * is; other terms are partial results. Terms arrive in the two slots that the node has for the ticket, in the order of
 * their places. */
#include "internode/exchange.h"

#include "sync/point.h"

static void send_term(struct kolo_flight *flight, uint32_t local) {
    const struct kolo_order *order = &flight->order;
    const struct kolo_nodes *nodes = &flight->state->comm->internode->nodes;
    const uint32_t term = kolo_nodes_rank(nodes, flight->state->node, local);
    const struct kolo_scan_layout layout = {order->kernel, order->prefixes, order->stride};
    const uint8_t *payload = kolo_scan_term(flight->state->comm, &layout, order->ticket, local);
    for (uint32_t rank = term + 1; rank < order->prefixes->each[term].until; rank++)
        if (nodes->node_of[rank] != flight->state->node && kolo_nodes_is_next(nodes, rank, term))
            kolo_exchange_send(flight, nodes->node_of[rank], KOLO_MESSAGE_UP, term, payload,
                               order->count * kolo_scan_term_bytes(flight->state->comm, &layout, term));
}

static void begin(struct kolo_flight *flight) {
    const struct kolo_nodes *nodes = &flight->state->comm->internode->nodes;
    for (uint32_t term = 0; term < flight->parts; term++)
        if (flight->order.prefixes->each[term].place != KOLO_PREFIX_UNUSED)
            kolo_exchange_await(flight, nodes->node_of[term], KOLO_MESSAGE_UP);
    for (uint32_t local = 0; local < kolo_nodes_local_size(nodes, flight->state->node); local++)
        send_term(flight, local);
    KOLO_POINT("exchange.scan_begun");
}

static bool locate(struct kolo_flight *flight, struct kolo_exchange_message message, uint8_t **where, size_t *bytes) {
    const struct kolo_order *order = &flight->order;
    const kolo_comm *comm = flight->state->comm;
    const struct kolo_scan_layout layout = {order->kernel, order->prefixes, order->stride};
    const uint32_t place = order->prefixes->each[message.part].place;
    if (message.kind != KOLO_MESSAGE_UP || place == KOLO_PREFIX_UNUSED ||
        comm->internode->nodes.node_of[message.part] != message.node)
        return false;
    *where = kolo_scan_place(comm, &layout, order->ticket, place);
    *bytes = order->count * kolo_scan_term_bytes(comm, &layout, message.part);
    return true;
}

static void complete(struct kolo_flight *flight, struct kolo_exchange_message message) {
    (void)flight;
    (void)message;
}

const struct kolo_exchange_algorithm kolo_exchange_scan = {begin, locate, complete, NULL};
