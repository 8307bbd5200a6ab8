/* Exchange by a ring: the chunk is cut into a slice a node. In step k, from 0, of the first half node m sends slice m -
 * k up to node m + 1, after it has joined what came of it with its own; after M - 1 steps it holds slice m + 1 of all
 * nodes. The second half hands the results round in the same way, down. A link carries 2(M-1)/M times the chunk, in one
 * direction. A message's part is its slice. Inputs are joined in ring order, not in that of the nodes. */
#include "internode/exchange.h"

#include "sync/point.h"

static uint32_t next_of(const struct kolo_exchange_state *state) {
    return (state->node + 1) % state->nodes;
}

static uint32_t previous_of(const struct kolo_exchange_state *state) {
    return (state->node + state->nodes - 1) % state->nodes;
}

/* Where partial results of a slice arrive and are joined. */
static uint8_t *partial_at(const struct kolo_exchange_state *state, const struct kolo_flight *flight,
                           struct kolo_slice slice) {
    return kolo_exchange_box(state, flight, previous_of(state)) + kolo_exchange_acc(flight, slice.first);
}

static void send_up(struct kolo_exchange_state *state, struct kolo_flight *flight, uint32_t part, const void *payload) {
    kolo_exchange_send(state, flight, (struct kolo_exchange_message){next_of(state), KOLO_MESSAGE_UP, (uint16_t)part},
                       payload, kolo_exchange_acc(flight, kolo_exchange_slice(flight, part).count));
}

static void send_down(struct kolo_exchange_state *state, struct kolo_flight *flight, uint32_t part) {
    const struct kolo_slice slice = kolo_exchange_slice(flight, part);
    kolo_exchange_send(state, flight, (struct kolo_exchange_message){next_of(state), KOLO_MESSAGE_DOWN, (uint16_t)part},
                       flight->order.result + kolo_exchange_elements(flight, slice.first),
                       kolo_exchange_elements(flight, slice.count));
}

static void begin(struct kolo_exchange_state *state, struct kolo_flight *flight) {
    for (uint32_t part = 0; part < state->nodes; part++) {
        if (!kolo_exchange_has(flight, part))
            continue;
        if (part != state->node)
            kolo_exchange_await(flight, previous_of(state), KOLO_MESSAGE_UP);
        if (part != next_of(state))
            kolo_exchange_await(flight, previous_of(state), KOLO_MESSAGE_DOWN);
    }
    if (kolo_exchange_has(flight, state->node))
        send_up(state, flight, state->node,
                flight->order.partial + kolo_exchange_acc(flight, kolo_exchange_slice(flight, state->node).first));
}

static bool locate(struct kolo_exchange_state *state, struct kolo_flight *flight, struct kolo_exchange_message message,
                   uint8_t **where, size_t *bytes) {
    const bool up = message.kind == KOLO_MESSAGE_UP;
    if (message.node != previous_of(state) || message.part == (up ? state->node : next_of(state)) ||
        !kolo_exchange_has(flight, message.part))
        return false;
    const struct kolo_slice slice = kolo_exchange_slice(flight, message.part);
    *where = up ? partial_at(state, flight, slice) : flight->order.result + kolo_exchange_elements(flight, slice.first);
    *bytes = up ? kolo_exchange_acc(flight, slice.count) : kolo_exchange_elements(flight, slice.count);
    return true;
}

static void join(struct kolo_exchange_state *state, struct kolo_flight *flight, uint32_t part) {
    const struct kolo_order *order = &flight->order;
    const struct kolo_slice slice = kolo_exchange_slice(flight, part);
    uint8_t *partial = partial_at(state, flight, slice);
    const void *sources[2] = {partial, order->partial + kolo_exchange_acc(flight, slice.first)};
    const bool last = part == next_of(state);
    if (slice.count && last)
        order->kernel->finish(order->result + kolo_exchange_elements(flight, slice.first), sources, 2, slice.count,
                              state->ranks);
    else if (slice.count)
        order->kernel->fold_partials(partial, sources, 2, slice.count);
    KOLO_POINT("exchange.ring_joined");
    if (last)
        send_down(state, flight, part);
    else
        send_up(state, flight, part, partial);
}

static void complete(struct kolo_exchange_state *state, struct kolo_flight *flight,
                     struct kolo_exchange_message message) {
    if (message.kind == KOLO_MESSAGE_UP)
        join(state, flight, message.part);
    else if (message.part != (next_of(state) + 1) % state->nodes) /* the next node is where that one began */
        send_down(state, flight, message.part);
}

const struct kolo_exchange_algorithm kolo_exchange_ring = {"ring", begin, locate, complete, NULL};
