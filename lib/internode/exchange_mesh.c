/* Exchange by owners: each of the first `owners` nodes owns a slice of the chunk. All others send it theirs of that
 * slice (up), it folds them in the order of the nodes, and sends the result to all (down). A message's part is its
 * sender. With every node an owner, a link carries 2(M-1)/M times the chunk in each direction; with one, the manner of
 * a parameter server, its owner's link carries M-1 times the chunk. */
#include "internode/exchange.h"

#include "sync/point.h"

void kolo_exchange_send_to_owners(struct kolo_exchange_state *state, struct kolo_flight *flight, const uint8_t *partial,
                                  size_t element_bytes) {
    const uint32_t own = state->node;
    const bool is_owner = own < flight->owners && kolo_exchange_has(flight, own);
    for (uint32_t i = 1; i < state->nodes; i++) { /* begins after itself, so that not all send to one at once */
        const uint32_t node = (own + i) % state->nodes;
        if (is_owner)
            kolo_exchange_await(flight, node, KOLO_MESSAGE_UP);
        if (node >= flight->owners || !kolo_exchange_has(flight, node))
            continue;
        const struct kolo_slice slice = kolo_exchange_slice(flight, node);
        kolo_exchange_await(flight, node, KOLO_MESSAGE_DOWN);
        kolo_exchange_send(state, flight, (struct kolo_exchange_message){node, KOLO_MESSAGE_UP, (uint16_t)own},
                           partial + slice.first * element_bytes, slice.count * element_bytes);
    }
    flight->step = state->nodes - 1; /* ups to come */
}

void kolo_exchange_send_to_all(struct kolo_exchange_state *state, struct kolo_flight *flight, const uint8_t *result,
                               size_t element_bytes) {
    const uint32_t own = state->node;
    for (uint32_t i = 1; i < state->nodes; i++)
        kolo_exchange_send(state, flight,
                           (struct kolo_exchange_message){(own + i) % state->nodes, KOLO_MESSAGE_DOWN, (uint16_t)own},
                           result, kolo_exchange_slice(flight, own).count * element_bytes);
}

bool kolo_exchange_owned(const struct kolo_exchange_state *state, const struct kolo_flight *flight,
                         struct kolo_exchange_message message, struct kolo_slice *slice) {
    const uint32_t part = message.kind == KOLO_MESSAGE_UP ? state->node : message.node;
    if (message.part != message.node || part >= flight->owners || !kolo_exchange_has(flight, part))
        return false;
    *slice = kolo_exchange_slice(flight, part);
    return true;
}

static void begin(struct kolo_exchange_state *state, struct kolo_flight *flight) {
    kolo_exchange_send_to_owners(state, flight, flight->order.partial, flight->order.kernel->acc_bytes);
}

static bool locate(struct kolo_exchange_state *state, struct kolo_flight *flight, struct kolo_exchange_message message,
                   uint8_t **where, size_t *bytes) {
    const bool up = message.kind == KOLO_MESSAGE_UP;
    struct kolo_slice slice;
    if (!kolo_exchange_owned(state, flight, message, &slice))
        return false;
    *where = up ? kolo_exchange_box(state, flight, message.node)
                : flight->order.result + kolo_exchange_elements(flight, slice.first);
    *bytes = up ? kolo_exchange_acc(flight, slice.count) : kolo_exchange_elements(flight, slice.count);
    return true;
}

static void fold(struct kolo_exchange_state *state, struct kolo_flight *flight) {
    const struct kolo_order *order = &flight->order;
    const struct kolo_slice slice = kolo_exchange_slice(flight, state->node);
    uint8_t *result = order->result + kolo_exchange_elements(flight, slice.first);
    for (uint32_t node = 0; node < state->nodes; node++)
        state->sources[node] = node == state->node ? order->partial + kolo_exchange_acc(flight, slice.first)
                                                   : kolo_exchange_box(state, flight, node);
    if (slice.count)
        order->kernel->finish(result, state->sources, state->nodes, slice.count, state->ranks);
    KOLO_POINT("exchange.mesh_folded");
    kolo_exchange_send_to_all(state, flight, result, order->kernel->element_bytes);
}

static void complete(struct kolo_exchange_state *state, struct kolo_flight *flight,
                     struct kolo_exchange_message message) {
    if (message.kind == KOLO_MESSAGE_UP && --flight->step == 0)
        fold(state, flight);
}

const struct kolo_exchange_algorithm kolo_exchange_mesh = {"mesh", begin, locate, complete, NULL};
