/* Exchange of f32 that travels as bf16 (KOLO_NET=wire:bf16): a two-shot all-reduce by owners, as in exchange_mesh.c,
 * with half the bytes. Each node rounds the sum of its ranks once, and sends it to the owner of each slice. The owner
 * adds these in f32, rounds the sum once, and takes the rounded sum itself, so that all nodes hold the same bits.
 *
 * A box has two halves. The first half is for what arrives up and, in this node's own box, for what it sends up. The
 * second half is for what goes down. */
#include "internode/exchange.h"

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

static void begin(struct kolo_flight *flight) {
    const void *partial = flight->order.partial;
    uint8_t *rounded = kolo_exchange_box(flight, flight->state->node);
    if (flight->order.count)
        half_kernel(flight->state, KOLO_SUM)->finish(rounded, &partial, 1, flight->order.count, 1);
    flight->partial = rounded;
    flight->up_bytes = flight->down_bytes = HALF_BYTES;
    kolo_exchange_send_to_owners(flight);
}

static bool locate(struct kolo_flight *flight, struct kolo_exchange_message message, uint8_t **where, size_t *bytes) {
    if (!kolo_exchange_mesh.locate(flight, message, where, bytes))
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

static void complete(struct kolo_flight *flight, struct kolo_exchange_message message) {
    const uint32_t own = flight->state->node;
    const struct kolo_slice slice = kolo_exchange_slice(flight, own);
    if (message.kind == KOLO_MESSAGE_DOWN)
        widen_result(flight, message.node);
    if (message.kind == KOLO_MESSAGE_DOWN || --flight->step > 0)
        return;
    for (size_t first = 0; first < slice.count; first += PIECE_COUNT)
        fold_piece(flight, slice, first, slice.count - first < PIECE_COUNT ? slice.count - first : PIECE_COUNT);
    widen_result(flight, own);
    kolo_exchange_send_to_all(flight, down_box(flight, own));
}

const struct kolo_exchange_algorithm kolo_exchange_half = {begin, locate, complete, NULL};
