/* Exchange in one crossing (a one-shot all-reduce): each node sends its partial results to all other nodes (up,
 * exchange_partials.c), and each node joins all of them. A result that replaces the input is not written before all of
 * the input has been handed over. */
#include "internode/exchange.h"

#include "sync/point.h"

static struct kolo_slice whole(const struct kolo_flight *flight) {
    return (struct kolo_slice){0, flight->order.count};
}

static void begin(struct kolo_flight *flight) {
    const struct kolo_exchange_state *state = flight->state;
    kolo_exchange_await_partials(flight);
    for (uint32_t i = 1; i < state->nodes; i++)
        kolo_exchange_send_partials(flight, (state->node + i) % state->nodes, whole(flight));
}

static bool locate(struct kolo_flight *flight, struct kolo_exchange_message message, uint8_t **where, size_t *bytes) {
    return message.kind == KOLO_MESSAGE_UP &&
           kolo_exchange_locate_partial(flight, message, whole(flight), where, bytes);
}

static void join_when_ready(struct kolo_flight *flight) {
    if (flight->awaited || flight->sends)
        return;
    kolo_exchange_join(flight, whole(flight));
    KOLO_POINT("exchange.oneshot_folded");
}

static void complete(struct kolo_flight *flight, struct kolo_exchange_message message) {
    (void)message;
    join_when_ready(flight);
}

const struct kolo_exchange_algorithm kolo_exchange_oneshot = {begin, locate, complete, join_when_ready};
