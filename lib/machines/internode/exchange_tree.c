/* Exchange by a binomial tree, and broadcast.
 *
 * The parent of node m > 0 is m without its lowest bit. The children of m are m + 1, m + 2, m + 4, ... as far as that
 * bit and the number of nodes allow. A node joins its own partial result with those that its children send up, the
 * nearest child first, whenever they come. That is the balanced binary tree over the nodes, split at the largest power
 * of two below their number, which is the canonical order. Node 0 finishes the result, which goes down the same tree. A
 * message's part is its sender.
 *
 * A broadcast goes down the same tree, with the nodes numbered from the root on. Chunks of CHAIN_BYTES_MIN and more go
 * from each node to the next instead, so that every link carries them once. */
#include "internode/exchange.h"

#include "sync/point.h"

#define CHAIN_BYTES_MIN ((size_t)32 << 10)

static uint32_t lowest_bit(uint32_t number) {
    return number & -number;
}

/* The children of `number` are number + step for step = 1, 2, 4, ... below this. */
static uint32_t steps_end(uint32_t number, uint32_t nodes) {
    return number == 0 ? nodes : lowest_bit(number);
}

static void send_down(struct kolo_flight *flight, uint32_t node) {
    kolo_exchange_send(flight, node, KOLO_MESSAGE_DOWN, flight->state->node, flight->order.result,
                       kolo_exchange_down(flight, flight->order.count));
}

/* Sends to the farthest child first, since most nodes are below it. */
static void send_all_down(struct kolo_flight *flight, uint32_t number, uint32_t root) {
    const uint32_t nodes = flight->state->nodes, end = steps_end(number, nodes);
    uint32_t step = 1;
    while (step * 2 < end)
        step *= 2;
    for (; step > 0; step /= 2)
        if (step < end && number + step < nodes)
            send_down(flight, (number + step + root) % nodes);
}

/* Joins what has come of the children, in their order, and passes the sum on when all of it has come. flight->step is
 * that of the next child. */
static void join(struct kolo_flight *flight) {
    const struct kolo_order *order = &flight->order;
    const uint32_t own = flight->state->node, nodes = flight->state->nodes, end = steps_end(own, nodes);
    uint8_t *joined = kolo_exchange_box(flight, own);
    for (; flight->step < end && own + flight->step < nodes; flight->step *= 2) {
        const uint32_t child = own + flight->step;
        const void *sources[2] = {flight->step == 1 ? order->partial : joined, kolo_exchange_box(flight, child)};
        if (flight->from[child].missing)
            return;
        if (order->count)
            order->kernel->fold_partials(joined, sources, 2, order->count);
        KOLO_POINT("exchange.tree_joined");
    }
    const void *all[1] = {flight->step == 1 ? order->partial : joined}; /* 1: no children */
    if (own > 0) {
        kolo_exchange_send(flight, own - lowest_bit(own), KOLO_MESSAGE_UP, own, all[0],
                           kolo_exchange_up(flight, order->count));
        return;
    }
    if (order->count)
        order->kernel->finish(order->result, all, 1, order->count, flight->state->ranks);
    KOLO_POINT("exchange.tree_finished");
    send_all_down(flight, 0, 0);
}

static void begin(struct kolo_flight *flight) {
    const uint32_t own = flight->state->node, nodes = flight->state->nodes;
    for (uint32_t step = 1; step < steps_end(own, nodes) && own + step < nodes; step *= 2)
        kolo_exchange_await(flight, own + step, KOLO_MESSAGE_UP);
    if (own > 0)
        kolo_exchange_await(flight, own - lowest_bit(own), KOLO_MESSAGE_DOWN);
    flight->step = 1;
    join(flight);
}

static bool is_child(const struct kolo_exchange_state *state, uint32_t node) {
    const uint32_t step = node - state->node;
    return node > state->node && lowest_bit(step) == step && step < steps_end(state->node, state->nodes);
}

static bool locate(struct kolo_flight *flight, struct kolo_exchange_message message, uint8_t **where, size_t *bytes) {
    const bool up = message.kind == KOLO_MESSAGE_UP;
    const size_t count = flight->order.count;
    const uint32_t own = flight->state->node;
    *where = up ? kolo_exchange_box(flight, message.node) : flight->order.result;
    *bytes = up ? kolo_exchange_up(flight, count) : kolo_exchange_down(flight, count);
    return message.part == message.node &&
           (up ? is_child(flight->state, message.node) : own > 0 && message.node == own - lowest_bit(own));
}

static void complete(struct kolo_flight *flight, struct kolo_exchange_message message) {
    if (message.kind == KOLO_MESSAGE_UP)
        join(flight);
    else
        send_all_down(flight, flight->state->node, 0);
}

const struct kolo_exchange_algorithm kolo_exchange_tree = {.begin = begin, .locate = locate, .complete = complete};

/* Broadcast. */

static uint32_t number_of(const struct kolo_flight *flight) {
    return (flight->state->node + flight->state->nodes - flight->order.root) % flight->state->nodes;
}

static bool is_chain(const struct kolo_flight *flight) {
    return flight->order.count >= CHAIN_BYTES_MIN;
}

static uint32_t parent_of(const struct kolo_flight *flight) {
    const uint32_t number = number_of(flight);
    return (number - (is_chain(flight) ? 1 : lowest_bit(number)) + flight->order.root) % flight->state->nodes;
}

static void pass_on(struct kolo_flight *flight) {
    const uint32_t number = number_of(flight), nodes = flight->state->nodes;
    KOLO_POINT("exchange.passing_on");
    if (!is_chain(flight))
        send_all_down(flight, number, flight->order.root);
    else if (number + 1 < nodes)
        send_down(flight, (flight->state->node + 1) % nodes);
}

static void begin_broadcast(struct kolo_flight *flight) {
    if (number_of(flight) == 0)
        pass_on(flight);
    else
        kolo_exchange_await(flight, parent_of(flight), KOLO_MESSAGE_DOWN);
}

static bool locate_broadcast(struct kolo_flight *flight, struct kolo_exchange_message message, uint8_t **where,
                             size_t *bytes) {
    *where = flight->order.result;
    *bytes = flight->order.count;
    return message.kind == KOLO_MESSAGE_DOWN && number_of(flight) > 0 && message.part == message.node &&
           message.node == parent_of(flight);
}

static void complete_broadcast(struct kolo_flight *flight, struct kolo_exchange_message message) {
    (void)message;
    pass_on(flight);
}

const struct kolo_exchange_algorithm kolo_exchange_broadcast = {
    .begin = begin_broadcast, .locate = locate_broadcast, .complete = complete_broadcast};
