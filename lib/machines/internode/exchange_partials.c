/* The partial results of all nodes: where they lie, how they are sent up, and how a node that has all of them joins
 * them. The exchanges in which they go whole to who joins them: oneshot and reduce.
 *
 * A node has one partial result. With KOLO_NET_ORDER=rank, where the ranks of some node are not one subtree of the
 * canonical tree, it has one for each subtree that it holds (internode/partials.h). The node that joins those
 * follows the rest of the tree, so that the bits are those of one machine. Where an op has no partial results but the
 * inputs (is_whole in reduce/reducer.h), each rank is a subtree, and all inputs are joined at once. A message up
 * carries one partial result. The message's part is the number of its subtree among all subtrees, or of its node where
 * each node has one. The partial results of a node lie one behind another, in the node's order and in its box. */
#include "internode/exchange.h"

#include "sync/point.h"

static uint32_t node_of(const struct kolo_flight *flight, uint32_t part) {
    return flight->order.subtrees ? flight->order.subtrees->each[part].node : part;
}

static uint32_t place_of(const struct kolo_flight *flight, uint32_t part) {
    return flight->order.subtrees ? flight->order.subtrees->each[part].place : 0;
}

static const uint8_t *own_partial_at(const struct kolo_flight *flight, uint32_t part, struct kolo_slice slice) {
    return flight->partial + kolo_exchange_up(flight, place_of(flight, part) * flight->order.count + slice.first);
}

/* Another node's partial result arrives here. */
static uint8_t *their_partial_at(const struct kolo_flight *flight, uint32_t part, struct kolo_slice slice) {
    return kolo_exchange_box(flight, node_of(flight, part)) +
           kolo_exchange_up(flight, place_of(flight, part) * slice.count);
}

static const uint8_t *partial_at(const struct kolo_flight *flight, uint32_t part, struct kolo_slice slice) {
    return node_of(flight, part) == flight->state->node ? own_partial_at(flight, part, slice)
                                                        : their_partial_at(flight, part, slice);
}

void kolo_exchange_await_partials(struct kolo_flight *flight) {
    for (uint32_t part = 0; part < flight->parts; part++)
        if (node_of(flight, part) != flight->state->node) {
            kolo_exchange_await(flight, node_of(flight, part), KOLO_MESSAGE_UP);
            flight->step++;
        }
}

void kolo_exchange_send_partials(struct kolo_flight *flight, uint32_t node, struct kolo_slice slice) {
    const uint32_t own = flight->state->node;
    uint32_t part = flight->order.subtrees ? 0 : own, end = flight->order.subtrees ? flight->parts : own + 1;
    for (; part < end; part++)
        if (node_of(flight, part) == own)
            kolo_exchange_send(flight, node, KOLO_MESSAGE_UP, part, own_partial_at(flight, part, slice),
                               kolo_exchange_up(flight, slice.count));
}

bool kolo_exchange_locate_partial(struct kolo_flight *flight, struct kolo_exchange_message message,
                                  struct kolo_slice slice, uint8_t **where, size_t *bytes) {
    *where = their_partial_at(flight, message.part, slice);
    *bytes = kolo_exchange_up(flight, slice.count);
    return node_of(flight, message.part) == message.node;
}

/* Joins `count` elements from `first` on of the subtrees' partial results, by the stack of internode/partials.h. */
static void join_piece(struct kolo_flight *flight, struct kolo_slice slice, size_t first, size_t count) {
    const struct kolo_order *order = &flight->order;
    const void *stack[KOLO_SUBTREES_STACK_MAX];
    uint32_t height = 0;
    for (uint32_t part = 0; part < order->subtrees->count; part++) {
        stack[height++] = partial_at(flight, part, slice) + kolo_exchange_up(flight, first);
        for (uint32_t joins = order->subtrees->each[part].joins; joins > 0; joins--) {
            const void **pair = &stack[--height - 1];
            uint8_t *joined = flight->state->joined[height - 1];
            order->kernel->fold_partials(joined, pair, 2, count);
            pair[0] = joined;
        }
    }
    order->kernel->finish(order->result + kolo_exchange_down(flight, slice.first + first), stack, 1, count,
                          flight->state->ranks);
}

/* Joins all at once: one of each node, or the inputs of an op that has no other partial results. */
static void join_whole(struct kolo_flight *flight, struct kolo_slice slice) {
    const struct kolo_order *order = &flight->order;
    const struct kolo_exchange_state *state = flight->state;
    for (uint32_t part = 0; part < flight->parts; part++)
        state->sources[part] = partial_at(flight, part, slice);
    order->kernel->finish(order->result + kolo_exchange_down(flight, slice.first), state->sources, flight->parts,
                          slice.count, state->ranks);
}

void kolo_exchange_join(struct kolo_flight *flight, struct kolo_slice slice) {
    const size_t piece_count = KOLO_JOINED_PIECE_BYTES / flight->order.kernel->acc_bytes;
    const bool is_whole = flight->order.kernel->is_whole || !flight->order.subtrees;
    if (is_whole && slice.count)
        join_whole(flight, slice);
    for (size_t first = 0; !is_whole && first < slice.count; first += piece_count) {
        const size_t left = slice.count - first;
        join_piece(flight, slice, first, left < piece_count ? left : piece_count);
    }
    KOLO_POINT("exchange.ranks_joined");
}

/* Exchanges in one crossing: nodes send their partial results to those that take the result, and each of these joins
 * them. In a oneshot exchange (a one-shot all-reduce) all nodes take it, in a reduce the root's. */

static bool takes(const struct kolo_flight *flight, uint32_t node) {
    return flight->order.collective == KOLO_ALLREDUCE || node == flight->order.root;
}

static struct kolo_slice whole(const struct kolo_flight *flight) {
    return (struct kolo_slice){0, flight->order.count};
}

static void begin(struct kolo_flight *flight) {
    const struct kolo_exchange_state *state = flight->state;
    if (takes(flight, state->node))
        kolo_exchange_await_partials(flight);
    for (uint32_t i = 1; i < state->nodes; i++)
        if (takes(flight, (state->node + i) % state->nodes))
            kolo_exchange_send_partials(flight, (state->node + i) % state->nodes, whole(flight));
}

static bool locate(struct kolo_flight *flight, struct kolo_exchange_message message, uint8_t **where, size_t *bytes) {
    return message.kind == KOLO_MESSAGE_UP && takes(flight, flight->state->node) &&
           kolo_exchange_locate_partial(flight, message, whole(flight), where, bytes);
}

/* A result that replaces the input is not written before all of the input has been handed over. */
static void join_when_ready(struct kolo_flight *flight) {
    if (flight->awaited || flight->sends || !takes(flight, flight->state->node))
        return;
    kolo_exchange_join(flight, whole(flight));
    KOLO_POINT("exchange.oneshot_folded");
}

static void complete(struct kolo_flight *flight, struct kolo_exchange_message message) {
    (void)message;
    join_when_ready(flight);
}

const struct kolo_exchange_algorithm kolo_exchange_oneshot = {begin, locate, complete, join_when_ready};
