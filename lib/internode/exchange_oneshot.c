/* Exchange in one crossing: each node sends what its ranks have summed to all others (up, part = sender), and each
 * folds all of it in the order of the nodes. A result that replaces the input waits until all of that has been handed
 * over. */
#include "internode/exchange.h"

#include "sync/point.h"

static void fold_when_ready(struct kolo_exchange_state *state, struct kolo_flight *flight) {
    const struct kolo_order *order = &flight->order;
    if (flight->awaited || flight->sends || flight->step)
        return;
    flight->step = 1;
    for (uint32_t node = 0; node < state->nodes; node++)
        state->sources[node] = node == state->node ? order->partial : kolo_exchange_box(state, flight, node);
    if (order->count)
        order->kernel->finish(order->result, state->sources, state->nodes, order->count, state->ranks);
    KOLO_POINT("exchange.oneshot_folded");
}

static void begin(struct kolo_exchange_state *state, struct kolo_flight *flight) {
    const struct kolo_order *order = &flight->order;
    for (uint32_t i = 1; i < state->nodes; i++)
        kolo_exchange_await(flight, (state->node + i) % state->nodes, KOLO_MESSAGE_UP);
    for (uint32_t i = 1; i < state->nodes; i++) {
        const uint32_t node = (state->node + i) % state->nodes;
        kolo_exchange_send(state, flight, (struct kolo_exchange_message){node, KOLO_MESSAGE_UP, (uint16_t)state->node},
                           order->partial, kolo_exchange_acc(flight, order->count));
    }
}

static bool locate(struct kolo_exchange_state *state, struct kolo_flight *flight, struct kolo_exchange_message message,
                   uint8_t **where, size_t *bytes) {
    *where = kolo_exchange_box(state, flight, message.node);
    *bytes = kolo_exchange_acc(flight, flight->order.count);
    return message.kind == KOLO_MESSAGE_UP && message.part == message.node;
}

static void complete(struct kolo_exchange_state *state, struct kolo_flight *flight,
                     struct kolo_exchange_message message) {
    (void)message;
    fold_when_ready(state, flight);
}

const struct kolo_exchange_algorithm kolo_exchange_oneshot = {"oneshot", begin, locate, complete, fold_when_ready};
