/* Turns frames into messages of exchanges, and chooses the algorithm of each exchange. */
#include "internode/exchange.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/status.h"
#include "comm/step/call_key.h"
#include "sync/point.h"

#define COMPLETE (UINT64_MAX / 2) /* in kolo_flight.arrived: more than any message has */

/* Up to this size every node sends to every other at once. That takes one crossing, and the way by owners two. */
#define ONESHOT_BYTES_MAX ((size_t)32 << 10) /* that a node sends in all */
/* Above this size data goes to owners and back (mesh). Up to it, where a oneshot exchange would send too much, data
 * goes through a tree: a node's share of the work is not worth a message to each other node. */
#define TREE_BYTES_MAX ((size_t)8 << 10)

/* Chooses the algorithm of an exchange, the same on all nodes. Owners join partial results of subtrees, which need not
 * be near each other in a ring or a tree of nodes. A ring does not keep the order of nodes. */
static const struct kolo_exchange_algorithm *choose(const struct kolo_exchange_state *state,
                                                    const struct kolo_order *order) {
    const struct kolo_net_settings *net = &state->comm->origin.net;
    const kolo_exchange wanted = net->exchange;
    if (order->collective != KOLO_ALLREDUCE)
        return order->collective == KOLO_BROADCAST ? &kolo_exchange_broadcast
               : order->collective == KOLO_REDUCE  ? &kolo_exchange_oneshot
               : order->collective == KOLO_SCAN    ? &kolo_exchange_scan
                                                   : &kolo_exchange_move;
    if (net->half_on_wire && !order->subtrees && kolo_exchange_is_half(state->comm, order))
        return &kolo_exchange_half;
    const size_t bytes = order->count * order->kernel->acc_bytes * (order->subtrees ? order->subtrees->count_max : 1);
    if (wanted == KOLO_EXCHANGE_AUTO && bytes * (state->nodes - 1) <= ONESHOT_BYTES_MAX)
        return &kolo_exchange_oneshot;
    if (order->subtrees || wanted == KOLO_EXCHANGE_CENTRAL || wanted == KOLO_EXCHANGE_MESH ||
        (wanted == KOLO_EXCHANGE_RING && order->kernel->keeps_order))
        return &kolo_exchange_mesh;
    if (wanted != KOLO_EXCHANGE_AUTO)
        return wanted == KOLO_EXCHANGE_RING ? &kolo_exchange_ring : &kolo_exchange_tree;
    if (state->nodes == 2 && order->kernel->acc_bytes == order->kernel->element_bytes)
        return &kolo_exchange_oneshot; /* as many bytes as by owners, and nothing waits for anything */
    return bytes <= TREE_BYTES_MAX ? &kolo_exchange_tree : &kolo_exchange_mesh;
}

struct kolo_slice kolo_exchange_slice(const struct kolo_flight *flight, uint32_t part) {
    struct kolo_slice slice;
    slice.count =
        kolo_plan_slice(flight->order.count, flight->order.kernel->element_bytes, flight->owners, part, &slice.first);
    return slice;
}

bool kolo_exchange_has(const struct kolo_flight *flight, uint32_t part) {
    return part == 0 || (part < flight->owners && kolo_exchange_slice(flight, part).count > 0);
}

uint8_t *kolo_exchange_box(const struct kolo_flight *flight, uint32_t node) {
    const struct kolo_exchange_state *state = flight->state;
    return state->boxes + (flight->order.ticket % KOLO_SLOTS * state->nodes + node) * state->box_bytes;
}

void kolo_exchange_note(struct kolo_exchange_state *state, struct kolo_exchange_trouble trouble) {
    if (state->trouble.status == 0)
        state->trouble = trouble;
}

static void send_of_call(struct kolo_flight *flight, struct kolo_call_key key, uint32_t node, uint16_t kind,
                         uint32_t part, const void *payload, size_t bytes) {
    const struct kolo_frame frame = {.kind = kind,
                                     .part = (uint16_t)part,
                                     .bytes = (uint32_t)bytes,
                                     .ticket = flight->order.ticket,
                                     .stamp = flight->order.stamp,
                                     .key = key};
    flight->sends++;
    kolo_exchange_note_sent(flight->state, node, flight->order.ticket);
    if (kolo_engine_send(flight->state->engine, node, &frame, payload) < 0)
        kolo_exchange_note(flight->state,
                           (struct kolo_exchange_trouble){.status = KOLO_ERR_SYSTEM, .node = flight->state->node});
}

void kolo_exchange_send(struct kolo_flight *flight, uint32_t node, uint16_t kind, uint32_t part, const void *payload,
                        size_t bytes) {
    send_of_call(flight, flight->order.key, node, kind, part, payload, bytes);
}

void kolo_exchange_send_counted(struct kolo_flight *flight, uint32_t node, uint32_t part, const void *payload,
                                size_t bytes, uint64_t count) {
    struct kolo_call_key key = flight->order.key;
    if (kolo_exchange_is_counted(key))
        key.count = count;
    send_of_call(flight, key, node, KOLO_MESSAGE_UP, part, payload, bytes);
}

void kolo_exchange_await(struct kolo_flight *flight, uint32_t node, uint16_t kind) {
    flight->awaited++;
    flight->from[node].missing++;
    flight->from[node].ups += kind == KOLO_MESSAGE_UP;
}

static struct kolo_flight *flight_of(struct kolo_exchange_state *state, uint64_t ticket) {
    return &state->flights[ticket % KOLO_SLOTS];
}

static void note_progress(struct kolo_exchange_state *state, struct kolo_flight *flight) {
    flight->over = flight->awaited == 0 && flight->sends == 0;
    while (state->done < state->begun && flight_of(state, state->done)->over)
        state->done += state->comm->internode->lanes;
}

static uint32_t parts_of(const struct kolo_exchange_state *state, const struct kolo_order *order) {
    if (order->scan.prefixes)
        return state->ranks;
    if (order->moves.end)
        return kolo_nodes_local_size(&state->comm->internode->nodes, state->node) *
               (order->moves.end - order->moves.begin);
    return order->subtrees ? order->subtrees->count : state->nodes;
}

void kolo_exchange_begin(struct kolo_exchange_state *state, const struct kolo_order *order) {
    const struct kolo_net_settings *net = &state->comm->origin.net;
    struct kolo_flight *flight = flight_of(state, order->ticket);
    flight->order = *order;
    flight->partial = order->partial;
    flight->up_bytes = order->kernel ? order->kernel->acc_bytes : 0;
    flight->down_bytes = order->kernel ? order->kernel->element_bytes : 1;
    flight->sends = flight->awaited = flight->step = 0;
    flight->over = false;
    memset(flight->from, 0, state->nodes * sizeof *flight->from);
    flight->parts = parts_of(state, order);
    memset(flight->arrived, 0, (size_t)KOLO_EXCHANGE_MESSAGES * flight->parts * sizeof *flight->arrived);
    flight->owners =
        net->exchange == KOLO_EXCHANGE_CENTRAL && net->servers < state->nodes ? net->servers : state->nodes;
    flight->algorithm = choose(state, order);
    state->begun = order->ticket + state->comm->internode->lanes;
    kolo_exchange_keep(state, order);
    KOLO_POINT("exchange.beginning");
    flight->algorithm->begin(flight);
    KOLO_POINT("exchange.begun");
    note_progress(state, flight);
}

/* The bytes that have come of the message to which a frame belongs. */
static uint64_t *arrived_of(const struct kolo_flight *flight, const struct kolo_frame *frame) {
    return &flight->arrived[(frame->kind - KOLO_MESSAGE_UP) * flight->parts + frame->part];
}

static struct kolo_exchange_message message_of(uint32_t node, const struct kolo_frame *frame) {
    return (struct kolo_exchange_message){.node = node, .kind = frame->kind, .part = frame->part, .key = frame->key};
}

/* Says what to do with a frame that this node does not await. A block of another count than expected has more chunks.
 * The mismatch shows by its first chunk, which is on its way. */
static int refuse(const struct kolo_exchange_state *state, const struct kolo_frame *frame) {
    const bool is_counted = kolo_exchange_is_counted(frame->key) && frame->key.count;
    return is_counted || state->trouble.status ? KOLO_PLACE_LATER : KOLO_ERR_VERSION;
}

int kolo_exchange_place(struct kolo_exchange_state *state, uint32_t node, const struct kolo_frame *frame,
                        void **where) {
    uint8_t *base;
    size_t bytes;
    kolo_exchange_note_taken(state, node, frame->ticket);
    if (frame->ticket >= state->begun) /* a node that waits for no other may be ahead */
        return KOLO_PLACE_LATER;
    if (kolo_exchange_differs(state, node, frame))
        return KOLO_PLACE_LATER; /* never */
    struct kolo_flight *flight = flight_of(state, frame->ticket);
    if (frame->ticket < state->done || frame->ticket != flight->order.ticket ||
        frame->kind >= KOLO_MESSAGE_UP + KOLO_EXCHANGE_MESSAGES || frame->part >= flight->parts)
        return refuse(state, frame);
    if (!flight->algorithm->locate(flight, message_of(node, frame), &base, &bytes) || frame->offset > bytes ||
        frame->bytes > bytes - frame->offset || *arrived_of(flight, frame) + frame->bytes > bytes)
        return refuse(state, frame);
    *where = base + frame->offset;
    KOLO_POINT("exchange.placed");
    return 0;
}

void kolo_exchange_arrived(struct kolo_exchange_state *state, uint32_t node, const struct kolo_frame *frame) {
    struct kolo_flight *flight = flight_of(state, frame->ticket);
    const struct kolo_exchange_message message = message_of(node, frame);
    uint64_t *arrived = arrived_of(flight, frame);
    uint8_t *base;
    size_t bytes = 0;
    flight->algorithm->locate(flight, message, &base, &bytes);
    *arrived += frame->bytes;
    if (*arrived != bytes)
        return;
    *arrived = COMPLETE; /* kolo_exchange_place refuses more of it */
    KOLO_POINT("exchange.arrived");
    flight->awaited--;
    flight->from[node].missing--;
    flight->from[node].ups -= frame->kind == KOLO_MESSAGE_UP;
    if (flight->algorithm->complete)
        flight->algorithm->complete(flight, message);
    KOLO_POINT("exchange.completed");
    note_progress(state, flight);
}

void kolo_exchange_sent(struct kolo_exchange_state *state, const struct kolo_frame *frame) {
    struct kolo_flight *flight = flight_of(state, frame->ticket);
    KOLO_POINT("exchange.sent");
    flight->sends--;
    if (flight->algorithm->sent)
        flight->algorithm->sent(flight);
    note_progress(state, flight);
}

bool kolo_exchange_awaits(struct kolo_exchange_state *state, uint32_t node) {
    for (uint64_t ticket = state->done; ticket < state->begun; ticket += state->comm->internode->lanes)
        if (flight_of(state, ticket)->from[node].missing)
            return true;
    return state->behind == node;
}

/* A node that has not sent its partial result is late itself. One that has not sent a result may be waiting, too. */
uint32_t kolo_exchange_late(struct kolo_exchange_state *state) {
    const struct kolo_flight *flight = flight_of(state, state->done);
    uint32_t found = UINT32_MAX;
    for (uint32_t node = 0; state->done < state->begun && node < state->nodes; node++) {
        if (flight->from[node].ups)
            return node;
        if (flight->from[node].missing && found == UINT32_MAX)
            found = node;
    }
    return found == UINT32_MAX ? state->behind : found;
}

void kolo_exchange_destroy(struct kolo_exchange_state *state) {
    if (!state)
        return;
    if (state->boxes)
        munmap(state->boxes, state->boxes_bytes);
    for (uint32_t i = 0; i < KOLO_SLOTS; i++) {
        free(state->flights[i].from);
        free(state->flights[i].arrived);
    }
    free(state->neighbours);
    free(state->sources);
    free(state->pieces);
    free(state);
}

int kolo_exchange_create(struct kolo_exchange_state **result, kolo_comm *comm, uint32_t lane, kolo_engine *engine) {
    const struct kolo_internode *internode = comm->internode;
    struct kolo_exchange_state *state = calloc(1, sizeof *state);
    if (!state)
        return kolo_fail(KOLO_ERR_SYSTEM, "out of memory");
    state->comm = comm;
    state->engine = engine;
    state->lane = lane;
    state->begun = state->done = lane;
    state->seen = state->announced = UINT64_MAX;
    state->behind = UINT32_MAX;
    state->node = internode->node;
    state->nodes = internode->nodes.nodes;
    state->ranks = internode->nodes.size;
    const uint32_t locals = kolo_nodes_local_size(&internode->nodes, state->node);
    const uint32_t moves =
        locals * KOLO_MOVES_BLOCKS_MAX < KOLO_MOVES_MAX ? locals * KOLO_MOVES_BLOCKS_MAX : KOLO_MOVES_MAX;
    const uint32_t parts_max = moves > state->ranks ? moves : state->ranks; /* a subtree has one rank at least */
    state->sources = calloc(state->ranks, sizeof *state->sources);
    state->pieces = calloc((size_t)state->nodes * KOLO_HALF_PIECE_COUNT, sizeof *state->pieces);
    state->neighbours = calloc(state->nodes, sizeof *state->neighbours);
    bool complete = state->sources && state->pieces && state->neighbours;
    for (uint32_t node = 0; state->neighbours && node < state->nodes; node++)
        state->neighbours[node].unheard = UINT64_MAX;
    for (uint32_t i = 0; i < KOLO_SLOTS; i++) {
        struct kolo_flight *flight = &state->flights[i];
        flight->state = state;
        flight->from = calloc(state->nodes, sizeof *flight->from);
        flight->arrived = calloc((size_t)KOLO_EXCHANGE_MESSAGES * parts_max, sizeof *flight->arrived);
        complete &= flight->from && flight->arrived;
    }
    state->box_bytes = comm->segment.slot_bytes;
    state->boxes_bytes = KOLO_SLOTS * state->nodes * state->box_bytes;
    /* Pages that no algorithm touches cost nothing. */
    void *boxes =
        mmap(NULL, state->boxes_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    state->boxes = boxes == MAP_FAILED ? NULL : boxes;
    if (!complete || !state->boxes) {
        const size_t bytes = state->boxes_bytes;
        kolo_exchange_destroy(state);
        return kolo_fail(KOLO_ERR_SYSTEM, "out of memory for %zu bytes from %u nodes", bytes, internode->nodes.nodes);
    }
    *result = state;
    return 0;
}
