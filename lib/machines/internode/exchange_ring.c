/* Exchange by a ring (a ring all-reduce): the chunk is cut into one slice per node. In step k of the first half, from
 * 0, node m sends slice m - k up to node m + 1, after it has joined what it received of that slice with its own. After
 * M - 1 steps node m holds slice m + 1 of all nodes. The second half passes the results round in the same way, down. A
 * link carries 2(M-1)/M times the chunk, in one direction. A message's part is its slice. Inputs are joined in ring
 * order, not in the order of the nodes. */
#include "internode/exchange.h"

#include "sync/point.h"

static uint32_t next_of(const struct kolo_flight *flight) {
    return (flight->state->node + 1) % flight->state->nodes;
}

static uint32_t previous_of(const struct kolo_flight *flight) {
    return (flight->state->node + flight->state->nodes - 1) % flight->state->nodes;
}

/* The place where partial results of a slice arrive and are joined. */
static uint8_t *partial_at(const struct kolo_flight *flight, struct kolo_slice slice) {
    return kolo_exchange_box(flight, previous_of(flight)) + kolo_exchange_up(flight, slice.first);
}

static void send_up(struct kolo_flight *flight, uint32_t part, const uint8_t *payload) {
    kolo_exchange_send(flight, next_of(flight), KOLO_MESSAGE_UP, part, payload,
                       kolo_exchange_up(flight, kolo_exchange_slice(flight, part).count));
}

static void send_down(struct kolo_flight *flight, uint32_t part) {
    const struct kolo_slice slice = kolo_exchange_slice(flight, part);
    kolo_exchange_send(flight, next_of(flight), KOLO_MESSAGE_DOWN, part,
                       flight->order.result + kolo_exchange_down(flight, slice.first),
                       kolo_exchange_down(flight, slice.count));
}

static void begin(struct kolo_flight *flight) {
    const uint32_t own = flight->state->node;
    for (uint32_t part = 0; part < flight->state->nodes; part++) {
        if (!kolo_exchange_has(flight, part))
            continue;
        if (part != own)
            kolo_exchange_await(flight, previous_of(flight), KOLO_MESSAGE_UP);
        if (part != next_of(flight))
            kolo_exchange_await(flight, previous_of(flight), KOLO_MESSAGE_DOWN);
    }
    if (kolo_exchange_has(flight, own))
        send_up(flight, own, flight->partial + kolo_exchange_up(flight, kolo_exchange_slice(flight, own).first));
}

static bool locate(struct kolo_flight *flight, struct kolo_exchange_message message, uint8_t **where, size_t *bytes) {
    const bool up = message.kind == KOLO_MESSAGE_UP;
    if (message.node != previous_of(flight) || message.part == (up ? flight->state->node : next_of(flight)) ||
        !kolo_exchange_has(flight, message.part))
        return false;
    const struct kolo_slice slice = kolo_exchange_slice(flight, message.part);
    *where = up ? partial_at(flight, slice) : flight->order.result + kolo_exchange_down(flight, slice.first);
    *bytes = up ? kolo_exchange_up(flight, slice.count) : kolo_exchange_down(flight, slice.count);
    return true;
}

static void join(struct kolo_flight *flight, uint32_t part) {
    const struct kolo_order *order = &flight->order;
    const struct kolo_slice slice = kolo_exchange_slice(flight, part);
    uint8_t *partial = partial_at(flight, slice);
    const void *sources[2] = {partial, flight->partial + kolo_exchange_up(flight, slice.first)};
    const bool last = part == next_of(flight);
    if (slice.count && last)
        order->kernel->finish(order->result + kolo_exchange_down(flight, slice.first), sources, 2, slice.count,
                              flight->state->ranks);
    else if (slice.count)
        order->kernel->fold_partials(partial, sources, 2, slice.count);
    KOLO_POINT("exchange.ring_joined");
    if (last)
        send_down(flight, part);
    else
        send_up(flight, part, partial);
}

static void complete(struct kolo_flight *flight, struct kolo_exchange_message message) {
    if (message.kind == KOLO_MESSAGE_UP)
        join(flight, message.part);
    else if (message.part != (next_of(flight) + 1) % flight->state->nodes) /* the next node has made that result */
        send_down(flight, message.part);
}

const struct kolo_exchange_algorithm kolo_exchange_ring = {.begin = begin, .locate = locate, .complete = complete};
