/* Exchange by owners: a two-shot all-reduce (a reduce-scatter, then an all-gather). Each of the first `owners` nodes
 * owns a slice of the chunk. All other nodes send their partial results of that slice to the owner (up,
 * exchange_partials.c), which joins them and sends the result to all (down, part = sender). With every node an owner, a
 * link carries 2(M-1)/M times the chunk in each direction, and (s + 1)(M-1)/M times with s partial results on a node.
 * With one owner, a parameter server (KOLO_NET_ALGO=central), the owner's link carries M-1 times the chunk.
 *
 * A reduce has one owner, the root's node, and nothing goes down. */
#include "internode/exchange.h"

#include "sync/point.h"

void kolo_exchange_send_to_owners(struct kolo_flight *flight) {
    const uint32_t own = flight->state->node, nodes = flight->state->nodes;
    if (kolo_exchange_has(flight, own))
        kolo_exchange_await_partials(flight);
    for (uint32_t i = 1; i < nodes; i++) { /* each node begins after itself, so that not all send to one node at once */
        const uint32_t node = (own + i) % nodes;
        if (!kolo_exchange_has(flight, node))
            continue;
        kolo_exchange_await(flight, node, KOLO_MESSAGE_DOWN);
        kolo_exchange_send_partials(flight, node, kolo_exchange_slice(flight, node));
    }
}

void kolo_exchange_send_to_all(struct kolo_flight *flight, const uint8_t *result) {
    const uint32_t own = flight->state->node, nodes = flight->state->nodes;
    const size_t bytes = kolo_exchange_down(flight, kolo_exchange_slice(flight, own).count);
    for (uint32_t i = 1; i < nodes; i++)
        kolo_exchange_send(flight, (own + i) % nodes, KOLO_MESSAGE_DOWN, own, result, bytes);
}

static bool locate(struct kolo_flight *flight, struct kolo_exchange_message message, uint8_t **where, size_t *bytes) {
    const uint32_t owner = message.kind == KOLO_MESSAGE_UP ? flight->state->node : message.node;
    if (!kolo_exchange_has(flight, owner))
        return false;
    const struct kolo_slice slice = kolo_exchange_slice(flight, owner);
    if (message.kind == KOLO_MESSAGE_UP)
        return kolo_exchange_locate_partial(flight, message, slice, where, bytes);
    *where = flight->order.result + kolo_exchange_down(flight, slice.first);
    *bytes = kolo_exchange_down(flight, slice.count);
    return message.part == owner;
}

static void complete(struct kolo_flight *flight, struct kolo_exchange_message message) {
    if (message.kind != KOLO_MESSAGE_UP || --flight->step > 0)
        return;
    const struct kolo_slice slice = kolo_exchange_slice(flight, flight->state->node);
    kolo_exchange_join(flight, slice);
    KOLO_POINT("exchange.mesh_folded");
    kolo_exchange_send_to_all(flight, flight->order.result + kolo_exchange_down(flight, slice.first));
}

const struct kolo_exchange_algorithm kolo_exchange_mesh = {kolo_exchange_send_to_owners, locate, complete, NULL};

/* Reduce. */

static struct kolo_slice whole(const struct kolo_flight *flight) {
    return (struct kolo_slice){0, flight->order.count};
}

static void begin_reduce(struct kolo_flight *flight) {
    if (flight->state->node == flight->order.root)
        kolo_exchange_await_partials(flight);
    else
        kolo_exchange_send_partials(flight, flight->order.root, whole(flight));
}

static bool locate_reduce(struct kolo_flight *flight, struct kolo_exchange_message message, uint8_t **where,
                          size_t *bytes) {
    return flight->state->node == flight->order.root && message.kind == KOLO_MESSAGE_UP &&
           kolo_exchange_locate_partial(flight, message, whole(flight), where, bytes);
}

static void complete_reduce(struct kolo_flight *flight, struct kolo_exchange_message message) {
    (void)message;
    if (--flight->step == 0)
        kolo_exchange_join(flight, whole(flight));
}

const struct kolo_exchange_algorithm kolo_exchange_reduce = {begin_reduce, locate_reduce, complete_reduce, NULL};
