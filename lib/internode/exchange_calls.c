/* Checks that nodes make the same calls: nodes whose ranks make different calls get a mismatch, with both calls.
 *
 * A frame of data carries the stamp and the call of its exchange. The receiver compares the stamp with its own for that
 * ticket before it uses anything else in the frame. It does so also for a ticket that it has done without waiting for
 * anybody (two nodes that both broadcast). So a lane keeps the stamps of its last exchanges. A root may have begun more
 * of them before it hears of a node that is late. That node finds out by what the root has sent; only if nobody does
 * soon, the root says so itself, without knowing its own call any more.
 *
 * Stamps tell all calls so far, and frames overtake each other: where the stamps differ and the calls are the same, it
 * is an earlier call that differs, whose frame is still to come. So that is waited for, for the same time, to name the
 * call that differs. With several lanes, or far ahead, an earlier one may differ too.
 *
 * Nodes that wait for each other send nothing (each names another one as root). So a node that still waits in the same
 * exchange after a while announces it, by KOLO_FRAME_AWAITS, to the nodes from which it awaits something. Such a node
 * compares at once where it has begun that exchange; else it remembers the frame, one of each node, and compares when
 * it begins it.
 *
 * That is enough. Of all exchanges that are not over, take the smallest ticket, and the nodes that wait in it. The
 * nodes for which they wait have begun it too, or will. If two such nodes have the same stamp for it, each sends what
 * the other awaits as soon as it has what it awaits itself. In no exchange do nodes wait in a circle. So if nothing is
 * sent any more, one of them waits for a node that has another stamp. Only the last announcement of a node needs to be
 * remembered: the node has got on in the exchange that it announced before. */
#include "internode/exchange.h"

#include "comm/step/call_word.h"
#include "sync/point.h"

enum { LOOKS_FOR_OTHERS = 10 }; /* for other nodes to tell of a mismatch, 20 ms each */

/* What the lane has begun with that ticket; NULL: nothing, or it is too long ago. */
static struct kolo_exchange_call *find_kept(struct kolo_exchange_state *state, uint64_t ticket) {
    const uint64_t lanes = state->comm->internode->lanes;
    if (ticket >= state->begun || ticket % lanes != state->lane || state->begun - ticket > KOLO_EXCHANGES_KEPT * lanes)
        return NULL;
    return &state->kept[ticket / lanes % KOLO_EXCHANGES_KEPT];
}

/* The nodes disagree. Waits for a moment, so that a node that knows better where may say so. */
static void suspect(struct kolo_exchange_state *state, uint32_t node, const struct kolo_frame *frame) {
    if (state->suspect.kind)
        return;
    state->suspect = *frame;
    state->suspect_node = node;
    state->suspect_looks = 0;
}

static void note_mismatch(struct kolo_exchange_state *state, uint32_t node, uint64_t theirs,
                          struct kolo_exchange_call own) {
    kolo_exchange_note(
        state, (struct kolo_exchange_trouble){.status = KOLO_ERR_MISMATCH, .node = node, .theirs = theirs, .own = own});
}

uint64_t kolo_exchange_call_of(uint64_t call) {
    const kolo_collective collective = kolo_call_parts(call).collective;
    const bool is_counted = collective == KOLO_GATHERV || collective == KOLO_SCATTERV || collective == KOLO_ALLTOALLV;
    return is_counted ? call & ~KOLO_CALL_COUNT : call;
}

bool kolo_exchange_miscounts(struct kolo_flight *flight, uint32_t node, uint64_t call,
                             struct kolo_exchange_counts counts) {
    const struct kolo_order *order = &flight->order;
    counts.sent = call & KOLO_CALL_COUNT;
    counts.expected &= KOLO_CALL_COUNT;
    if (counts.sent == counts.expected)
        return false;
    kolo_exchange_note(flight->state, (struct kolo_exchange_trouble){.status = KOLO_ERR_MISMATCH,
                                                                     .node = node,
                                                                     .theirs = order->call,
                                                                     .own = {order->stamp, order->call, order->number},
                                                                     .counts = counts});
    return true;
}

static bool compare(struct kolo_exchange_state *state, uint32_t node, const struct kolo_frame *frame,
                    const struct kolo_exchange_call *own) {
    const uint64_t call = kolo_exchange_call_of(frame->call);
    if (frame->stamp == own->stamp)
        return false;
    if (call == own->call)
        suspect(state, node, frame);
    else
        note_mismatch(state, node, call, *own);
    return true;
}

void kolo_exchange_keep(struct kolo_exchange_state *state, const struct kolo_order *order) {
    struct kolo_exchange_call *own = find_kept(state, order->ticket);
    *own = (struct kolo_exchange_call){.stamp = order->stamp, .call = order->call, .number = order->number};
    for (uint32_t node = 0; node < state->nodes && state->heard_count > 0; node++) {
        struct kolo_frame *frame = &state->heard[node];
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
    if (own) {
        compare(state, node, frame, own);
    } else if (frame->ticket >= state->begun) {
        state->heard_count += state->heard[node].kind == 0;
        state->heard[node] = *frame;
    }
}

void kolo_exchange_announce(struct kolo_exchange_state *state) {
    static const struct kolo_exchange_call unknown;
    if (state->suspect.kind && ++state->suspect_looks > LOOKS_FOR_OTHERS) {
        const struct kolo_exchange_call *own = find_kept(state, state->suspect.ticket);
        note_mismatch(state, state->suspect_node, kolo_exchange_call_of(state->suspect.call), own ? *own : unknown);
    }
    const struct kolo_flight *flight = &state->flights[state->done % KOLO_SLOTS];
    const uint64_t waiting = state->done < state->begun ? state->done : UINT64_MAX;
    const bool is_new = waiting != state->seen;
    state->seen = waiting;
    if (waiting == UINT64_MAX || is_new || waiting == state->announced)
        return;
    state->announced = waiting;
    const struct kolo_frame frame = {
        .kind = KOLO_FRAME_AWAITS, .ticket = waiting, .stamp = flight->order.stamp, .call = flight->order.call};
    for (uint32_t node = 0; node < state->nodes; node++) {
        if (flight->from[node].missing == 0)
            continue;
        KOLO_POINT("exchange.announcing");
        if (kolo_engine_tell(state->engine, node, &frame, NULL) < 0)
            kolo_exchange_note(state, (struct kolo_exchange_trouble){.status = KOLO_ERR_SYSTEM, .node = node});
    }
}
