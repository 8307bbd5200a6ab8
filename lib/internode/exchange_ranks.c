/* Exchange in the order of all ranks (KOLO_NET_ORDER=rank), where the ranks of some node are not one subtree of the
 * canonical tree: each node has a partial result for each subtree that it holds (internode/assembly/subtrees.h), and
 * the node that has the partial results of all nodes joins them as the rest of the tree says, so that the bits are
 * those of one machine.
 *
 * It goes by owners, as in exchange_mesh.c: a node sends each owner its slice of all its partial results (up), and gets
 * the results back (down). Or it goes in one crossing, as in exchange_oneshot.c: each node sends all to all. A message
 * up has one partial result, and its part is the number of the subtree; of a message down it is the sender. With s
 * subtrees on a node its link carries (s + 1)(M-1)/M times the chunk by owners. The partial results of a node lie in
 * its box, as in its order, one behind another. */
#include "internode/exchange.h"

#include "sync/point.h"

/* Partial result `part`, an index of subtrees, of `slice`: this node's own, or where it arrives. */
static uint8_t *partial_at(const struct kolo_exchange_state *state, const struct kolo_flight *flight, uint32_t part,
                           struct kolo_slice slice) {
    const struct kolo_subtree *subtree = &flight->order.subtrees->each[part];
    return kolo_exchange_box(state, flight, subtree->node) + kolo_exchange_acc(flight, subtree->place * slice.count);
}

static const uint8_t *own_partial_at(const struct kolo_flight *flight, uint32_t part, struct kolo_slice slice) {
    const struct kolo_subtree *subtree = &flight->order.subtrees->each[part];
    return flight->order.partial + kolo_exchange_acc(flight, subtree->place * flight->order.count + slice.first);
}

static void send_partials(struct kolo_exchange_state *state, struct kolo_flight *flight, uint32_t node,
                          struct kolo_slice slice) {
    const struct kolo_subtrees *subtrees = flight->order.subtrees;
    for (uint32_t part = 0; part < subtrees->count; part++)
        if (subtrees->each[part].node == state->node)
            kolo_exchange_send(state, flight, (struct kolo_exchange_message){node, KOLO_MESSAGE_UP, (uint16_t)part},
                               own_partial_at(flight, part, slice), kolo_exchange_acc(flight, slice.count));
}

/* Awaits the partial results of all other nodes; returns how many. */
static uint32_t await_partials(const struct kolo_exchange_state *state, struct kolo_flight *flight) {
    const struct kolo_subtrees *subtrees = flight->order.subtrees;
    uint32_t awaited = 0;
    for (uint32_t part = 0; part < subtrees->count; part++)
        if (subtrees->each[part].node != state->node) {
            kolo_exchange_await(flight, subtrees->each[part].node, KOLO_MESSAGE_UP);
            awaited++;
        }
    return awaited;
}

/* Joins `count` elements from `first` on of all partial results of `slice`, by the stack of
 * internode/assembly/subtrees.h. */
static void join_piece(struct kolo_exchange_state *state, struct kolo_flight *flight, struct kolo_slice slice,
                       size_t first, size_t count) {
    const struct kolo_order *order = &flight->order;
    const void *stack[KOLO_SUBTREES_STACK_MAX];
    uint32_t height = 0;
    for (uint32_t part = 0; part < order->subtrees->count; part++) {
        const bool is_own = order->subtrees->each[part].node == state->node;
        stack[height++] = (is_own ? own_partial_at(flight, part, slice) : partial_at(state, flight, part, slice)) +
                          kolo_exchange_acc(flight, first);
        for (uint32_t joins = order->subtrees->each[part].joins; joins > 0; joins--) {
            const void **pair = &stack[--height - 1];
            uint8_t *joined = state->joined + (height - 1) * KOLO_JOINED_PIECE_BYTES;
            order->kernel->fold_partials(joined, pair, 2, count);
            pair[0] = joined;
        }
    }
    order->kernel->finish(order->result + kolo_exchange_elements(flight, slice.first + first), stack, 1, count,
                          state->ranks);
}

static void join(struct kolo_exchange_state *state, struct kolo_flight *flight, struct kolo_slice slice) {
    const size_t piece_count = KOLO_JOINED_PIECE_BYTES / flight->order.kernel->acc_bytes;
    for (size_t first = 0; first < slice.count; first += piece_count) {
        const size_t left = slice.count - first;
        join_piece(state, flight, slice, first, left < piece_count ? left : piece_count);
    }
    KOLO_POINT("exchange.ranks_joined");
}

static bool locate_partial(const struct kolo_exchange_state *state, const struct kolo_flight *flight,
                           struct kolo_exchange_message message, struct kolo_slice slice, uint8_t **where,
                           size_t *bytes) {
    *where = partial_at(state, flight, message.part, slice);
    *bytes = kolo_exchange_acc(flight, slice.count);
    return flight->order.subtrees->each[message.part].node == message.node;
}

/* By owners. */

static void begin(struct kolo_exchange_state *state, struct kolo_flight *flight) {
    const uint32_t own = state->node;
    if (own < flight->owners && kolo_exchange_has(flight, own))
        flight->step = await_partials(state, flight); /* of them to come */
    for (uint32_t i = 1; i < state->nodes; i++) {     /* begins after itself, so that not all send to one at once */
        const uint32_t node = (own + i) % state->nodes;
        if (node >= flight->owners || !kolo_exchange_has(flight, node))
            continue;
        kolo_exchange_await(flight, node, KOLO_MESSAGE_DOWN);
        send_partials(state, flight, node, kolo_exchange_slice(flight, node));
    }
}

static bool locate(struct kolo_exchange_state *state, struct kolo_flight *flight, struct kolo_exchange_message message,
                   uint8_t **where, size_t *bytes) {
    struct kolo_slice slice;
    if (message.kind == KOLO_MESSAGE_UP)
        return state->node < flight->owners && kolo_exchange_has(flight, state->node) &&
               locate_partial(state, flight, message, kolo_exchange_slice(flight, state->node), where, bytes);
    if (!kolo_exchange_owned(state, flight, message, &slice))
        return false;
    *where = flight->order.result + kolo_exchange_elements(flight, slice.first);
    *bytes = kolo_exchange_elements(flight, slice.count);
    return true;
}

static void complete(struct kolo_exchange_state *state, struct kolo_flight *flight,
                     struct kolo_exchange_message message) {
    if (message.kind != KOLO_MESSAGE_UP || --flight->step > 0)
        return;
    const struct kolo_slice slice = kolo_exchange_slice(flight, state->node);
    join(state, flight, slice);
    kolo_exchange_send_to_all(state, flight, flight->order.result + kolo_exchange_elements(flight, slice.first),
                              flight->order.kernel->element_bytes);
}

const struct kolo_exchange_algorithm kolo_exchange_ranks = {"ranks", begin, locate, complete, NULL};

/* In one crossing. A result that replaces the input waits until all of that has been handed over. */

static struct kolo_slice whole(const struct kolo_flight *flight) {
    return (struct kolo_slice){0, flight->order.count};
}

static void begin_oneshot(struct kolo_exchange_state *state, struct kolo_flight *flight) {
    await_partials(state, flight);
    for (uint32_t i = 1; i < state->nodes; i++)
        send_partials(state, flight, (state->node + i) % state->nodes, whole(flight));
}

static bool locate_oneshot(struct kolo_exchange_state *state, struct kolo_flight *flight,
                           struct kolo_exchange_message message, uint8_t **where, size_t *bytes) {
    return message.kind == KOLO_MESSAGE_UP && locate_partial(state, flight, message, whole(flight), where, bytes);
}

static void join_when_ready(struct kolo_exchange_state *state, struct kolo_flight *flight) {
    if (flight->awaited || flight->sends || flight->step)
        return;
    flight->step = 1;
    join(state, flight, whole(flight));
}

static void complete_oneshot(struct kolo_exchange_state *state, struct kolo_flight *flight,
                             struct kolo_exchange_message message) {
    (void)message;
    join_when_ready(state, flight);
}

const struct kolo_exchange_algorithm kolo_exchange_ranks_oneshot = {"ranks-oneshot", begin_oneshot, locate_oneshot,
                                                                    complete_oneshot, join_when_ready};
