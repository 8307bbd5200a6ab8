/* Exchange by owners: a two-shot all-reduce (a reduce-scatter, then an all-gather). Each of the first `owners` nodes
 * owns a slice of the chunk. All other nodes send their partial results of that slice to the owner (up,
 * exchange_partials.c), which joins them and sends the result to all (down, part = sender). With every node an owner, a
 * link carries 2(M-1)/M times the chunk in each direction, and (s + 1)(M-1)/M times with s partial results on a node.
 * With one owner, a parameter server (KOLO_NET_ALGO=central), the owner's link carries M-1 times the chunk.
 *
 * f32 may travel as bf16 (KOLO_NET=wire:bf16), with half the bytes. Each node rounds the sum of its ranks once, and
 * sends it to the owner of each slice. The owner adds these in f32, rounds the sum once, and takes the rounded sum
 * itself, so that all nodes hold the same bits. A box has two halves. The first half is for what arrives up and, in
 * this node's own box, for what it sends up. The second half is for what goes down. */
#include "internode/exchange.h"

#include "sync/point.h"

/* A node sends all of its partial results, */
static void send_to_owners(struct kolo_flight *flight) {
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

/* or the result of its own slice. */
static void send_to_all(struct kolo_flight *flight, const uint8_t *result) {
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
    send_to_all(flight, flight->order.result + kolo_exchange_down(flight, slice.first));
}

const struct kolo_exchange_algorithm kolo_exchange_mesh = {
    .begin = send_to_owners, .locate = locate, .complete = complete};

/* As bf16. */

#define HALF_BYTES  sizeof(uint16_t)
#define PIECE_COUNT ((size_t)KOLO_HALF_PIECE_COUNT)

static const kolo_kernel *half_kernel(const struct kolo_exchange_state *state, kolo_op op) {
    return &state->comm->reducer->kernels[KOLO_BF16][op];
}

bool kolo_exchange_is_half(const kolo_comm *comm, const struct kolo_order *order) {
    const kolo_kernel *kernels = comm->reducer->kernels[KOLO_F32];
    return order->kernel >= kernels && order->kernel < kernels + KOLO_OPS;
}

static uint8_t *down_box(const struct kolo_flight *flight, uint32_t node) {
    return kolo_exchange_box(flight, node) + flight->state->box_bytes / 2;
}

static void begin_half(struct kolo_flight *flight) {
    const void *partial = flight->order.partial;
    uint8_t *rounded = kolo_exchange_box(flight, flight->state->node);
    if (flight->order.count)
        half_kernel(flight->state, KOLO_SUM)->finish(rounded, &partial, 1, flight->order.count, 1);
    flight->partial = rounded;
    flight->up_bytes = flight->down_bytes = HALF_BYTES;
    send_to_owners(flight);
}

static bool locate_half(struct kolo_flight *flight, struct kolo_exchange_message message, uint8_t **where,
                        size_t *bytes) {
    if (!locate(flight, message, where, bytes))
        return false;
    if (message.kind == KOLO_MESSAGE_DOWN)
        *where = down_box(flight, message.node);
    return true;
}

/* Folds `count` elements of this node's slice, from `first` on, into its own box. */
static void fold_piece(struct kolo_flight *flight, struct kolo_slice slice, size_t first, size_t count) {
    const struct kolo_exchange_state *state = flight->state;
    const kolo_kernel *kernel =
        half_kernel(state, (kolo_op)(flight->order.kernel - state->comm->reducer->kernels[KOLO_F32]));
    for (uint32_t node = 0; node < state->nodes; node++) {
        float *wide = state->pieces + node * PIECE_COUNT;
        state->sources[node] = wide;
        if (node == state->node)
            state->sources[node] = flight->order.partial + (slice.first + first) * sizeof(float);
        else
            kernel->widen(wide, kolo_exchange_box(flight, node) + first * HALF_BYTES, count);
    }
    kernel->finish(down_box(flight, state->node) + first * HALF_BYTES, state->sources, state->nodes, count,
                   state->ranks);
}

static void widen_result(struct kolo_flight *flight, uint32_t owner) {
    const struct kolo_slice slice = kolo_exchange_slice(flight, owner);
    if (slice.count)
        half_kernel(flight->state, KOLO_SUM)
            ->widen(flight->order.result + slice.first * sizeof(float), down_box(flight, owner), slice.count);
}

static void complete_half(struct kolo_flight *flight, struct kolo_exchange_message message) {
    const uint32_t own = flight->state->node;
    const struct kolo_slice slice = kolo_exchange_slice(flight, own);
    if (message.kind == KOLO_MESSAGE_DOWN)
        widen_result(flight, message.node);
    if (message.kind == KOLO_MESSAGE_DOWN || --flight->step > 0)
        return;
    for (size_t first = 0; first < slice.count; first += PIECE_COUNT)
        fold_piece(flight, slice, first, slice.count - first < PIECE_COUNT ? slice.count - first : PIECE_COUNT);
    widen_result(flight, own);
    send_to_all(flight, down_box(flight, own));
}

const struct kolo_exchange_algorithm kolo_exchange_half = {
    .begin = begin_half, .locate = locate_half, .complete = complete_half};
