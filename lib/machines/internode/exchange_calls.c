/* Checks that nodes make the same calls: nodes whose ranks make different calls get a mismatch, with both calls. The
 * file also bounds how far a node gets ahead of another node for which it does not wait.
 *
 * Stamps. A frame of data carries the stamp and the call of its exchange. The receiver compares the stamp with its own
 * for that ticket before it uses anything else in the frame. It does so also for a ticket that it has done without
 * waiting for another node (two nodes that both broadcast). So a lane keeps the stamps of its last exchanges, more of
 * them than a node gets ahead of a node to which it sends data. Where several nodes, each ahead of the next, lie
 * between, a frame may still come too late. Its sender then finds the mismatch by what it receives; only if no node
 * does within LOOKS_FOR_OTHERS looks, the receiver reports it, without knowing its own call any more.
 *
 * Bound. A node that has sent another node data in ticket t begins no ticket from t + KOLO_EXCHANGES_AHEAD on before it
 * knows that the other node has begun t. Any frame from the other node tells how far that one is. Some nodes send
 * nothing back, such as those that take a broadcast from its root. They send KOLO_FRAME_BEGUN every TOLD_EVERY tickets,
 * to nodes that have sent them data and that they have told nothing for a while. So a stream of such calls costs a
 * small frame now and then, and waits only where a node is late. Nothing deadlocks: a node that another one waits for
 * in this way has still to tell, which it does before ticket t + KOLO_EXCHANGES_AHEAD. So it has begun fewer tickets
 * than the node that waits. If it waits itself because others are late, these have begun still fewer; and the last node
 * of all has what it needs to go on.
 *
 * First mismatch. Nodes that differ in a call may go on with later calls, and frames overtake each other on another
 * stream or another lane. A stamp tells all calls so far and, with the last one's key, those before it. So a node that
 * receives a frame of a call that differs knows whether that call is the first that differs. Where it is not, the node
 * waits for another node to find the first one, for as many looks. One of the
 * nodes finds it in the first call itself: of the nodes that make it differently, one sends what another one gets, or
 * waits for what that one does not send, and announces that (below). Frames that differ do not hold up what is sent:
 * they come later on any stream.
 *
 * Announcements. Nodes that wait for each other send nothing (each names another one as root). So a node that still
 * waits in the same exchange after a while announces it, by KOLO_FRAME_BEGUN, to the nodes from which it awaits
 * something. A node that receives the announcement compares at once if it has begun that exchange. Otherwise it
 * remembers the frame, one of each node, and compares when it begins the exchange.
 *
 * Every mismatch is found. Of all exchanges that are not over, take the smallest ticket, and the nodes that wait in it.
 * The nodes for which they wait have begun it too, or will. If two such nodes have the same stamp for it, each sends
 * what the other awaits as soon as it has what it awaits itself. In no exchange do nodes wait in a circle. So if
 * nothing is sent any more, one of them waits for a node that has another stamp. A node remembers only the last
 * announcement of another node, which has got on from the one before, and stamps tell all calls so far. */
#include "internode/exchange.h"

#include "algo/registry.h"
#include "comm/step/call_key.h"
#include "sync/point.h"

enum {
    LOOKS_FOR_OTHERS = 10, /* in which other nodes may tell of a mismatch, 20 ms each */
    TOLD_EVERY = 16        /* tickets */
};

/* A node may see data of a ticket as late as when it has begun KOLO_SLOTS more tickets. It tells at the next occasion
 * or the one after. */
static_assert(2 * (TOLD_EVERY + KOLO_LANES_MAX) + KOLO_SLOTS < KOLO_EXCHANGES_AHEAD &&
                  2 * KOLO_EXCHANGES_AHEAD < KOLO_EXCHANGES_KEPT,
              "nodes tell in time, and what they tell can be compared");

/* The call that the lane has begun with that ticket; NULL if there is none, or it is too long ago. */
static struct kolo_exchange_call *find_kept(struct kolo_exchange_state *state, uint64_t ticket) {
    const uint64_t lanes = state->comm->internode->lanes;
    if (ticket >= state->begun || ticket % lanes != state->lane || state->begun - ticket > KOLO_EXCHANGES_KEPT * lanes)
        return NULL;
    return &state->kept[ticket / lanes % KOLO_EXCHANGES_KEPT];
}

/* Notes that the nodes disagree, and waits, so that a node that knows better where may say so. Keeps the first call. */
static void suspect(struct kolo_exchange_state *state, uint32_t node, const struct kolo_frame *frame) {
    if (state->suspect.kind && state->suspect.ticket <= frame->ticket)
        return;
    state->suspect = *frame;
    state->suspect_node = node;
}

static void note_mismatch(struct kolo_exchange_state *state, uint32_t node, struct kolo_call_key theirs,
                          struct kolo_exchange_call own) {
    kolo_exchange_note(
        state, (struct kolo_exchange_trouble){.status = KOLO_ERR_MISMATCH, .node = node, .theirs = theirs, .own = own});
}

bool kolo_exchange_is_counted(struct kolo_call_key key) {
    const kolo_collective collective = kolo_call_key_collective(key);
    return collective < KOLO_COLLECTIVES && kolo_registry[collective].is_unequal;
}

/* The call of a frame, as its order says it. */
static struct kolo_call_key key_of(struct kolo_call_key key) {
    if (kolo_exchange_is_counted(key))
        key.count = 0;
    return key;
}

bool kolo_exchange_miscounts(struct kolo_flight *flight, uint32_t node, struct kolo_call_key key,
                             struct kolo_exchange_counts counts) {
    const struct kolo_order *order = &flight->order;
    counts.sent = key.count;
    if (!kolo_exchange_is_counted(key) || counts.sent == counts.expected)
        return false;
    kolo_exchange_note(flight->state, (struct kolo_exchange_trouble){.status = KOLO_ERR_MISMATCH,
                                                                     .node = node,
                                                                     .theirs = order->key,
                                                                     .own = {order->stamp, order->number, order->key},
                                                                     .counts = counts});
    return true;
}

static bool compare(struct kolo_exchange_state *state, uint32_t node, const struct kolo_frame *frame,
                    const struct kolo_exchange_call *own) {
    if (frame->stamp == own->stamp)
        return false;
    const struct kolo_call_key key = key_of(frame->key);
    if (kolo_stamp_before(frame->stamp, key) == kolo_stamp_before(own->stamp, own->key))
        note_mismatch(state, node, key, *own);
    else
        suspect(state, node, frame);
    return true;
}

/* Tells one node that an exchange has begun here. */
static void tell(struct kolo_exchange_state *state, uint32_t node, const struct kolo_order *order) {
    const struct kolo_frame frame = {
        .kind = KOLO_FRAME_BEGUN, .ticket = order->ticket, .stamp = order->stamp, .key = order->key};
    KOLO_POINT("exchange.announcing");
    if (kolo_engine_tell(state->engine, node, &frame, NULL) < 0)
        kolo_exchange_note(state, (struct kolo_exchange_trouble){.status = KOLO_ERR_SYSTEM, .node = state->node});
}

/* Tells nodes that have sent data, and that have heard of nothing here for a while. */
static void tell_begun(struct kolo_exchange_state *state, const struct kolo_order *order) {
    for (uint32_t node = 0; node < state->nodes; node++) {
        struct kolo_exchange_neighbour *neighbour = &state->neighbours[node];
        if (neighbour->told >= neighbour->taken || neighbour->told + TOLD_EVERY / 2 > order->ticket)
            continue;
        neighbour->told = order->ticket + 1;
        tell(state, node, order);
    }
}

void kolo_exchange_note_sent(struct kolo_exchange_state *state, uint32_t node, uint64_t ticket) {
    struct kolo_exchange_neighbour *neighbour = &state->neighbours[node];
    if (ticket >= neighbour->begun && ticket < neighbour->unheard)
        neighbour->unheard = ticket;
    if (ticket > neighbour->sent)
        neighbour->sent = ticket;
    if (ticket >= neighbour->told)
        neighbour->told = ticket + 1;
}

/* Notes that `node` has begun that ticket. */
static void note_begun(struct kolo_exchange_state *state, uint32_t node, uint64_t ticket) {
    struct kolo_exchange_neighbour *neighbour = &state->neighbours[node];
    if (ticket < neighbour->begun || ticket == UINT64_MAX)
        return;
    neighbour->begun = ticket + 1;
    if (neighbour->unheard < neighbour->begun)
        neighbour->unheard = neighbour->sent < neighbour->begun ? UINT64_MAX : neighbour->begun;
}

void kolo_exchange_note_taken(struct kolo_exchange_state *state, uint32_t node, uint64_t ticket) {
    struct kolo_exchange_neighbour *neighbour = &state->neighbours[node];
    if (ticket >= neighbour->taken && ticket < UINT64_MAX)
        neighbour->taken = ticket + 1;
    note_begun(state, node, ticket);
}

/* Data is sent from now on only in tickets that are not done. */
bool kolo_exchange_may_begin(struct kolo_exchange_state *state, uint64_t ticket) {
    if (ticket < state->may_begin)
        return true;
    uint64_t first = state->done;
    uint32_t behind = UINT32_MAX;
    for (uint32_t node = 0; node < state->nodes; node++)
        if (state->neighbours[node].unheard < first) {
            first = state->neighbours[node].unheard;
            behind = node;
        }
    state->may_begin = first + KOLO_EXCHANGES_AHEAD;
    state->behind = ticket < state->may_begin ? UINT32_MAX : behind;
    return ticket < state->may_begin;
}

void kolo_exchange_keep(struct kolo_exchange_state *state, const struct kolo_order *order) {
    const uint64_t lanes = state->comm->internode->lanes;
    struct kolo_exchange_call *own = find_kept(state, order->ticket);
    *own = (struct kolo_exchange_call){.stamp = order->stamp, .key = order->key, .number = order->number};
    if (order->ticket / lanes % (TOLD_EVERY / lanes) == 0)
        tell_begun(state, order);
    for (uint32_t node = 0; node < state->nodes && state->heard_count > 0; node++) {
        struct kolo_frame *frame = &state->neighbours[node].heard;
        if (frame->kind == 0 || frame->ticket != order->ticket)
            continue;
        compare(state, node, frame, own);
        frame->kind = 0;
        state->heard_count--;
    }
}

bool kolo_exchange_differs(struct kolo_exchange_state *state, uint32_t node, const struct kolo_frame *frame) {
    if (frame->ticket % state->comm->internode->lanes != state->lane)
        return false;
    const struct kolo_exchange_call *own = find_kept(state, frame->ticket);
    if (own)
        return compare(state, node, frame, own);
    /* A node sends data of an exchange that is over here only if it makes another call. */
    suspect(state, node, frame);
    return true;
}

void kolo_exchange_hear(struct kolo_exchange_state *state, uint32_t node, const struct kolo_frame *frame) {
    const struct kolo_exchange_call *own = find_kept(state, frame->ticket);
    struct kolo_frame *heard = &state->neighbours[node].heard;
    note_begun(state, node, frame->ticket);
    if (own) {
        compare(state, node, frame, own);
    } else if (frame->ticket >= state->begun) {
        state->heard_count += heard->kind == 0;
        *heard = *frame;
    }
}

void kolo_exchange_announce(struct kolo_exchange_state *state) {
    static const struct kolo_exchange_call unknown;
    if (state->suspect.kind && ++state->suspect_looks > LOOKS_FOR_OTHERS) {
        const struct kolo_exchange_call *own = find_kept(state, state->suspect.ticket);
        note_mismatch(state, state->suspect_node, key_of(state->suspect.key), own ? *own : unknown);
    }
    const struct kolo_flight *flight = &state->flights[state->done % KOLO_SLOTS];
    const uint64_t waiting = state->done < state->begun ? state->done : UINT64_MAX;
    const bool is_new = waiting != state->seen;
    state->seen = waiting;
    if (waiting == UINT64_MAX || is_new || waiting == state->announced)
        return;
    state->announced = waiting;
    for (uint32_t node = 0; node < state->nodes; node++)
        if (flight->from[node].missing)
            tell(state, node, &flight->order);
}
