/* Exchange by a binomial tree, and broadcast.
 *
 * The parent of node m > 0 is m without its lowest bit; its children are m + 1, m + 2, m + 4, ... as far as that bit
 * and the number of nodes allow. A node joins its own with what its children send up, the nearest first, whenever they
 * come: that is the balanced binary tree over the nodes, split at the largest power of two below their number, which is
 * the canonical order. Node 0 finishes, and results go down the same way. A message's part is its sender.
 *
 * A broadcast goes down the same tree, of nodes numbered from the root on; chunks of CHAIN_BYTES_MIN and more go from
 * each node to the next, so that every link carries them once. */
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

static void send_down(struct kolo_exchange_state *state, struct kolo_flight *flight, uint32_t node) {
    kolo_exchange_send(state, flight, (struct kolo_exchange_message){node, KOLO_MESSAGE_DOWN, (uint16_t)state->node},
                       flight->order.result, kolo_exchange_elements(flight, flight->order.count));
}

/* The farthest child first: most are below it. */
static void send_all_down(struct kolo_exchange_state *state, struct kolo_flight *flight, uint32_t number,
                          uint32_t root) {
    uint32_t step = 1;
    while (step * 2 < steps_end(number, state->nodes))
        step *= 2;
    for (; step > 0; step /= 2)
        if (step < steps_end(number, state->nodes) && number + step < state->nodes)
            send_down(state, flight, (number + step + root) % state->nodes);
}

/* Joins what has come of the children, in their order; when all of it has, hands it on. flight->step: of the next one.
 */
static void join(struct kolo_exchange_state *state, struct kolo_flight *flight) {
    const struct kolo_order *order = &flight->order;
    const uint32_t own = state->node, end = steps_end(own, state->nodes);
    uint8_t *joined = kolo_exchange_box(state, flight, own);
    const size_t acc_bytes = kolo_exchange_acc(flight, order->count);
    for (; flight->step < end && own + flight->step < state->nodes; flight->step *= 2) {
        const uint32_t child = own + flight->step;
        const void *sources[2] = {flight->step == 1 ? order->partial : joined, kolo_exchange_box(state, flight, child)};
        if (flight->missing[child])
            return;
        if (order->count)
            order->kernel->fold_partials(joined, sources, 2, order->count);
        KOLO_POINT("exchange.tree_joined");
    }
    const bool alone = end == 1 || own + 1 >= state->nodes; /* no children */
    const void *all[1] = {alone ? order->partial : joined};
    if (own > 0) {
        const uint32_t parent = own - lowest_bit(own);
        kolo_exchange_send(state, flight, (struct kolo_exchange_message){parent, KOLO_MESSAGE_UP, (uint16_t)own},
                           all[0], acc_bytes);
        return;
    }
    if (order->count)
        order->kernel->finish(order->result, all, 1, order->count, state->ranks);
    KOLO_POINT("exchange.tree_finished");
    send_all_down(state, flight, 0, 0);
}

static void begin(struct kolo_exchange_state *state, struct kolo_flight *flight) {
    const uint32_t own = state->node;
    for (uint32_t step = 1; step < steps_end(own, state->nodes) && own + step < state->nodes; step *= 2)
        kolo_exchange_await(flight, own + step, KOLO_MESSAGE_UP);
    if (own > 0)
        kolo_exchange_await(flight, own - lowest_bit(own), KOLO_MESSAGE_DOWN);
    flight->step = 1;
    join(state, flight);
}

static bool is_child(const struct kolo_exchange_state *state, uint32_t node) {
    const uint32_t step = node - state->node;
    return node > state->node && lowest_bit(step) == step && step < steps_end(state->node, state->nodes);
}

static bool locate(struct kolo_exchange_state *state, struct kolo_flight *flight, struct kolo_exchange_message message,
                   uint8_t **where, size_t *bytes) {
    const bool up = message.kind == KOLO_MESSAGE_UP;
    const size_t count = flight->order.count;
    *where = up ? kolo_exchange_box(state, flight, message.node) : flight->order.result;
    *bytes = up ? kolo_exchange_acc(flight, count) : kolo_exchange_elements(flight, count);
    return message.part == message.node &&
           (up ? is_child(state, message.node)
               : state->node > 0 && message.node == state->node - lowest_bit(state->node));
}

static void complete(struct kolo_exchange_state *state, struct kolo_flight *flight,
                     struct kolo_exchange_message message) {
    if (message.kind == KOLO_MESSAGE_UP)
        join(state, flight);
    else
        send_all_down(state, flight, state->node, 0);
}

const struct kolo_exchange_algorithm kolo_exchange_tree = {"tree", begin, locate, complete, NULL};

/* Broadcast. */

static uint32_t number_of(const struct kolo_exchange_state *state, const struct kolo_flight *flight) {
    return (state->node + state->nodes - flight->order.root) % state->nodes;
}

static bool is_chain(const struct kolo_flight *flight) {
    return flight->order.count >= CHAIN_BYTES_MIN;
}

static uint32_t parent_of(const struct kolo_exchange_state *state, const struct kolo_flight *flight) {
    const uint32_t number = number_of(state, flight);
    return (number - (is_chain(flight) ? 1 : lowest_bit(number)) + flight->order.root) % state->nodes;
}

static void pass_on(struct kolo_exchange_state *state, struct kolo_flight *flight) {
    const uint32_t number = number_of(state, flight);
    KOLO_POINT("exchange.passing_on");
    if (!is_chain(flight))
        send_all_down(state, flight, number, flight->order.root);
    else if (number + 1 < state->nodes)
        send_down(state, flight, (state->node + 1) % state->nodes);
}

static void begin_broadcast(struct kolo_exchange_state *state, struct kolo_flight *flight) {
    if (state->node == flight->order.root)
        pass_on(state, flight);
    else
        kolo_exchange_await(flight, parent_of(state, flight), KOLO_MESSAGE_DOWN);
}

static bool locate_broadcast(struct kolo_exchange_state *state, struct kolo_flight *flight,
                             struct kolo_exchange_message message, uint8_t **where, size_t *bytes) {
    *where = flight->order.result;
    *bytes = flight->order.count;
    return message.kind == KOLO_MESSAGE_DOWN && state->node != flight->order.root && message.part == message.node &&
           message.node == parent_of(state, flight);
}

static void complete_broadcast(struct kolo_exchange_state *state, struct kolo_flight *flight,
                               struct kolo_exchange_message message) {
    (void)message;
    pass_on(state, flight);
}

const struct kolo_exchange_algorithm kolo_exchange_broadcast = {"broadcast", begin_broadcast, locate_broadcast,
                                                                complete_broadcast, NULL};
