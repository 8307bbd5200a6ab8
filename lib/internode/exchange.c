/* Turns frames into messages of exchanges, and chooses the algorithm. */
#include "internode/exchange.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/status.h"
#include "internode/internode.h"
#include "sync/point.h"

/* Up to here every node sends to every other at once: one crossing, where the way to owners and back takes two. */
#define ONESHOT_BYTES_MAX ((size_t)32 << 10) /* that a node sends in all */
/* Above that, and with more nodes, data goes to owners and back. Below this, a node's share of the work is not worth a
 * message to each other node. */
#define TREE_BYTES_MAX ((size_t)8 << 10)

/* For nodes with several partial results. Partial results that have to be joined first need not be near each other in a
 * tree of nodes. So owners join them for `tree`, too. */
static const struct kolo_exchange_algorithm *choose_by_ranks(kolo_exchange wanted, uint32_t nodes,
                                                             const struct kolo_order *order) {
    const size_t bytes = order->count * order->kernel->acc_bytes * order->subtrees->count_max;
    if (wanted == KOLO_EXCHANGE_AUTO && bytes * (nodes - 1) <= ONESHOT_BYTES_MAX)
        return &kolo_exchange_ranks_oneshot;
    return &kolo_exchange_ranks;
}

const struct kolo_exchange_algorithm *kolo_exchange_choose(kolo_exchange wanted, uint32_t servers, uint32_t nodes,
                                                           const struct kolo_order *order, uint32_t *owners) {
    *owners = wanted == KOLO_EXCHANGE_CENTRAL && servers < nodes ? servers : nodes;
    if (order->collective == KOLO_BROADCAST)
        return &kolo_exchange_broadcast;
    if (order->subtrees)
        return choose_by_ranks(wanted, nodes, order);
    const size_t bytes = order->count * order->kernel->acc_bytes;
    switch (wanted) {
    case KOLO_EXCHANGE_RING:
        return &kolo_exchange_ring;
    case KOLO_EXCHANGE_TREE:
        return &kolo_exchange_tree;
    case KOLO_EXCHANGE_CENTRAL:
    case KOLO_EXCHANGE_MESH:
        return &kolo_exchange_mesh;
    default:
        break;
    }
    if (bytes * (nodes - 1) <= ONESHOT_BYTES_MAX)
        return &kolo_exchange_oneshot;
    if (nodes == 2 && order->kernel->acc_bytes == order->kernel->element_bytes)
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
    return part == 0 || kolo_exchange_slice(flight, part).count > 0;
}

uint8_t *kolo_exchange_box(const struct kolo_exchange_state *state, const struct kolo_flight *flight, uint32_t node) {
    return state->boxes + (flight->order.ticket % KOLO_SLOTS * state->nodes + node) * state->box_bytes;
}

void kolo_exchange_send(struct kolo_exchange_state *state, struct kolo_flight *flight,
                        struct kolo_exchange_message message, const void *payload, size_t bytes) {
    const struct kolo_frame frame = {.kind = message.kind,
                                     .part = message.part,
                                     .bytes = (uint32_t)bytes,
                                     .ticket = flight->order.ticket,
                                     .stamp = flight->order.stamp,
                                     .call = flight->order.call};
    flight->sends++;
    if (kolo_engine_send(state->engine, message.node, &frame, payload) < 0)
        kolo_proxy_fail(state->comm, state->lane, KOLO_ERR_SYSTEM, message.node);
}

void kolo_exchange_await(struct kolo_flight *flight, uint32_t node, uint16_t kind) {
    flight->awaited++;
    flight->missing[node]++;
    flight->ups[node] += kind == KOLO_MESSAGE_UP;
}

static struct kolo_flight *flight_of(struct kolo_exchange_state *state, uint64_t ticket) {
    return &state->flights[ticket % KOLO_SLOTS];
}

static void note_progress(struct kolo_exchange_state *state, struct kolo_flight *flight) {
    flight->over = flight->awaited == 0 && flight->sends == 0;
    while (state->done < state->begun && flight_of(state, state->done)->over)
        state->done += state->comm->internode->lanes;
}

static void begin(void *exchange, const struct kolo_order *order) {
    struct kolo_exchange_state *state = exchange;
    struct kolo_flight *flight = flight_of(state, order->ticket);
    flight->order = *order;
    flight->sends = flight->awaited = flight->step = 0;
    flight->over = false;
    memset(flight->missing, 0, state->nodes * sizeof *flight->missing);
    memset(flight->ups, 0, state->nodes * sizeof *flight->ups);
    memset(flight->arrived, 0, KOLO_EXCHANGE_MESSAGES * state->parts_max * sizeof *flight->arrived);
    flight->parts = order->subtrees ? order->subtrees->count : state->nodes;
    flight->algorithm = kolo_exchange_choose(state->wanted, state->servers, state->nodes, order, &flight->owners);
    if (state->half_on_wire && !order->subtrees && kolo_exchange_is_half(state->comm, order))
        flight->algorithm = &kolo_exchange_half;
    state->begun = order->ticket + state->comm->internode->lanes;
    kolo_exchange_keep(state, order);
    KOLO_POINT("exchange.beginning");
    flight->algorithm->begin(state, flight);
    KOLO_POINT("exchange.begun");
    note_progress(state, flight);
}

/* The bytes that have come of the message that a frame is of. */
static uint64_t *arrived_of(const struct kolo_exchange_state *state, const struct kolo_flight *flight,
                            const struct kolo_frame *frame) {
    return &flight->arrived[(frame->kind - KOLO_MESSAGE_UP) * state->parts_max + frame->part];
}

static struct kolo_exchange_message message_of(uint32_t node, const struct kolo_frame *frame) {
    return (struct kolo_exchange_message){.node = node, .kind = frame->kind, .part = frame->part};
}

static int place(void *exchange, uint32_t node, const struct kolo_frame *frame, void **where) {
    struct kolo_exchange_state *state = exchange;
    uint8_t *base;
    size_t bytes;
    if (frame->ticket >= state->begun) /* the root of broadcasts may be any number of them ahead */
        return KOLO_PLACE_LATER;
    if (kolo_exchange_differs(state, node, frame))
        return KOLO_PLACE_LATER; /* never */
    struct kolo_flight *flight = flight_of(state, frame->ticket);
    if (frame->ticket < state->done || frame->ticket != flight->order.ticket ||
        frame->kind >= KOLO_MESSAGE_UP + KOLO_EXCHANGE_MESSAGES || frame->part >= flight->parts)
        return KOLO_ERR_VERSION;
    if (!flight->algorithm->locate(state, flight, message_of(node, frame), &base, &bytes) || frame->offset > bytes ||
        frame->bytes > bytes - frame->offset || *arrived_of(state, flight, frame) + frame->bytes > bytes)
        return KOLO_ERR_VERSION;
    *where = base + frame->offset;
    KOLO_POINT("exchange.placed");
    return 0;
}

static void arrived(void *exchange, uint32_t node, const struct kolo_frame *frame) {
    struct kolo_exchange_state *state = exchange;
    struct kolo_flight *flight = flight_of(state, frame->ticket);
    const struct kolo_exchange_message message = message_of(node, frame);
    uint64_t *arrived = arrived_of(state, flight, frame);
    uint8_t *base;
    size_t bytes = 0;
    flight->algorithm->locate(state, flight, message, &base, &bytes);
    *arrived += frame->bytes;
    if (*arrived < bytes)
        return;
    KOLO_POINT("exchange.arrived");
    flight->awaited--;
    flight->missing[node]--;
    flight->ups[node] -= frame->kind == KOLO_MESSAGE_UP;
    flight->algorithm->complete(state, flight, message);
    KOLO_POINT("exchange.completed");
    note_progress(state, flight);
}

static void sent(void *exchange, uint32_t node, const struct kolo_frame *frame) {
    struct kolo_exchange_state *state = exchange;
    struct kolo_flight *flight = flight_of(state, frame->ticket);
    (void)node;
    KOLO_POINT("exchange.sent");
    flight->sends--;
    if (flight->algorithm->sent)
        flight->algorithm->sent(state, flight);
    note_progress(state, flight);
}

static uint64_t done(void *exchange) {
    const struct kolo_exchange_state *state = exchange;
    return state->done;
}

static bool awaits(void *exchange, uint32_t node) {
    struct kolo_exchange_state *state = exchange;
    for (uint64_t ticket = state->done; ticket < state->begun; ticket += state->comm->internode->lanes)
        if (flight_of(state, ticket)->missing[node])
            return true;
    return false;
}

/* A node that has not sent its partial result is late itself; a node that has not sent a result may be waiting for
 * partial results. */
static uint32_t late(void *exchange) {
    struct kolo_exchange_state *state = exchange;
    const struct kolo_flight *flight = flight_of(state, state->done);
    uint32_t found = UINT32_MAX;
    for (uint32_t node = 0; state->done < state->begun && node < state->nodes; node++) {
        if (flight->ups[node])
            return node;
        if (flight->missing[node] && found == UINT32_MAX)
            found = node;
    }
    return found;
}

static void destroy(void *exchange) {
    struct kolo_exchange_state *state = exchange;
    if (state->boxes)
        munmap(state->boxes, state->boxes_bytes);
    for (uint32_t i = 0; i < KOLO_SLOTS; i++) {
        free(state->flights[i].missing);
        free(state->flights[i].ups);
        free(state->flights[i].arrived);
    }
    free(state->heard);
    free(state->sources);
    free(state->pieces);
    free(state->joined);
    free(state);
}

static int create(void **exchange, kolo_comm *comm, uint32_t lane, kolo_engine *engine) {
    const struct kolo_internode *internode = comm->internode;
    struct kolo_exchange_state *state = calloc(1, sizeof *state);
    bool complete = state != NULL;
    if (!complete)
        return kolo_fail(KOLO_ERR_SYSTEM, "out of memory");
    state->comm = comm;
    state->engine = engine;
    state->lane = lane;
    state->begun = state->done = lane;
    state->seen = state->announced = UINT64_MAX;
    state->node = internode->node;
    state->nodes = internode->nodes.nodes;
    state->ranks = internode->nodes.size;
    state->wanted = comm->origin.net.exchange;
    state->servers = comm->origin.net.servers;
    state->half_on_wire = comm->origin.net.half_on_wire;
    state->sources = calloc(state->nodes, sizeof *state->sources);
    state->pieces = calloc((size_t)state->nodes * KOLO_HALF_PIECE_COUNT, sizeof *state->pieces);
    state->heard = calloc(state->nodes, sizeof *state->heard);
    complete = state->sources && state->pieces && state->heard;
    state->parts_max = state->nodes;
    if (internode->subtrees) {
        state->parts_max = internode->subtrees->count; /* each node has one at least */
        state->joined = malloc((size_t)KOLO_SUBTREES_STACK_MAX * KOLO_JOINED_PIECE_BYTES);
        complete &= state->joined != NULL;
    }
    for (uint32_t i = 0; i < KOLO_SLOTS; i++) {
        state->flights[i].missing = calloc(state->nodes, sizeof(uint32_t));
        state->flights[i].ups = calloc(state->nodes, sizeof(uint32_t));
        state->flights[i].arrived = calloc((size_t)KOLO_EXCHANGE_MESSAGES * state->parts_max, sizeof(uint64_t));
        complete &= state->flights[i].missing && state->flights[i].ups && state->flights[i].arrived;
    }
    state->box_bytes = comm->segment.slot_bytes;
    state->boxes_bytes = KOLO_SLOTS * state->nodes * state->box_bytes;
    /* Pages that no algorithm touches cost nothing. */
    void *boxes =
        mmap(NULL, state->boxes_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    state->boxes = boxes == MAP_FAILED ? NULL : boxes;
    if (!complete || !state->boxes) {
        destroy(state);
        return kolo_fail(KOLO_ERR_SYSTEM, "out of memory for %zu bytes from %u nodes", state->boxes_bytes,
                         internode->nodes.nodes);
    }
    *exchange = state;
    return 0;
}

const struct kolo_exchange_calls kolo_exchange_calls = {.create = create,
                                                        .destroy = destroy,
                                                        .begin = begin,
                                                        .place = place,
                                                        .arrived = arrived,
                                                        .sent = sent,
                                                        .heard = kolo_exchange_hear,
                                                        .announce = kolo_exchange_announce,
                                                        .done = done,
                                                        .awaits = awaits,
                                                        .late = late};
