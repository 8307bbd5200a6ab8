/* Exchange of f32 that travels as bf16 (KOLO_NET_WIRE=bf16): by owners, as in exchange_mesh.c, with half the bytes.
 * Each node rounds what its ranks have summed once, for the owner of each slice; the owner adds that up in f32, rounds
 * the sum once, and takes the rounded one itself, so that all nodes hold the same bits.
 *
 * A box has an upper half for what arrives up or, of this node's own box, leaves up, and a lower one for what goes
 * down. */
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

static kolo_op op_of(const struct kolo_exchange_state *state, const struct kolo_flight *flight) {
    return (kolo_op)(flight->order.kernel - state->comm->reducer->kernels[KOLO_F32]);
}

static uint8_t *down_box(const struct kolo_exchange_state *state, const struct kolo_flight *flight, uint32_t node) {
    return kolo_exchange_box(state, flight, node) + state->box_bytes / 2;
}

static void begin(struct kolo_exchange_state *state, struct kolo_flight *flight) {
    const void *partial = flight->order.partial;
    uint8_t *rounded = kolo_exchange_box(state, flight, state->node);
    if (flight->order.count)
        half_kernel(state, KOLO_SUM)->finish(rounded, &partial, 1, flight->order.count, 1);
    kolo_exchange_send_to_owners(state, flight, rounded, HALF_BYTES);
}

static bool locate(struct kolo_exchange_state *state, struct kolo_flight *flight, struct kolo_exchange_message message,
                   uint8_t **where, size_t *bytes) {
    struct kolo_slice slice;
    if (!kolo_exchange_owned(state, flight, message, &slice))
        return false;
    *where = message.kind == KOLO_MESSAGE_UP ? kolo_exchange_box(state, flight, message.node)
                                             : down_box(state, flight, message.node);
    *bytes = slice.count * HALF_BYTES;
    return true;
}

/* Folds `count` elements of the own slice from `first` on into the own box. */
static void fold_piece(struct kolo_exchange_state *state, struct kolo_flight *flight, struct kolo_slice slice,
                       size_t first, size_t count) {
    const kolo_op op = op_of(state, flight);
    for (uint32_t node = 0; node < state->nodes; node++) {
        float *wide = state->pieces + node * PIECE_COUNT;
        state->sources[node] = wide;
        if (node == state->node)
            state->sources[node] = flight->order.partial + (slice.first + first) * sizeof(float);
        else
            half_kernel(state, op)->widen(wide, kolo_exchange_box(state, flight, node) + first * HALF_BYTES, count);
    }
    half_kernel(state, op)->finish(down_box(state, flight, state->node) + first * HALF_BYTES, state->sources,
                                   state->nodes, count, state->ranks);
}

static void widen_result(struct kolo_exchange_state *state, struct kolo_flight *flight, uint32_t owner) {
    const struct kolo_slice slice = kolo_exchange_slice(flight, owner);
    if (slice.count)
        half_kernel(state, KOLO_SUM)
            ->widen(flight->order.result + slice.first * sizeof(float), down_box(state, flight, owner), slice.count);
}

static void fold(struct kolo_exchange_state *state, struct kolo_flight *flight) {
    const struct kolo_slice slice = kolo_exchange_slice(flight, state->node);
    for (size_t first = 0; first < slice.count; first += PIECE_COUNT)
        fold_piece(state, flight, slice, first, slice.count - first < PIECE_COUNT ? slice.count - first : PIECE_COUNT);
    widen_result(state, flight, state->node);
    kolo_exchange_send_to_all(state, flight, down_box(state, flight, state->node), HALF_BYTES);
}

static void complete(struct kolo_exchange_state *state, struct kolo_flight *flight,
                     struct kolo_exchange_message message) {
    if (message.kind == KOLO_MESSAGE_DOWN)
        widen_result(state, flight, message.node);
    else if (--flight->step == 0)
        fold(state, flight);
}

const struct kolo_exchange_algorithm kolo_exchange_half = {"half", begin, locate, complete, NULL};
