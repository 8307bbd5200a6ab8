/* The network of tests of exchanges. */
#include "exchange_network.h"

#include <inttypes.h>
#include <string.h>

#include "internode/internode.h"

struct kolo_engine {
    uint32_t node, lane;
};

uint64_t seed;
struct send sends[SENDS_MAX];
uint32_t send_count;
struct kolo_exchange_state *states[NODES_MAX][LANES_MAX];
uint64_t sent_bytes[NODES_MAX][NODES_MAX];
uint32_t told;

uint32_t draw(uint32_t end) {
    seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
    return (uint32_t)((seed >> 32) * end >> 32);
}

int kolo_engine_send(kolo_engine *engine, uint32_t node, const struct kolo_frame *frame, const void *payload) {
    CHECK(send_count < SENDS_MAX, "too many messages");
    CHECK(node != engine->node, "node %u sends to itself", node);
    sends[send_count++] =
        (struct send){.from = engine->node, .to = node, .lane = engine->lane, .frame = *frame, .payload = payload};
    sent_bytes[engine->node][node] += frame->bytes;
    return 0;
}

int kolo_engine_tell(kolo_engine *engine, uint32_t node, const struct kolo_frame *frame, const void *payload) {
    CHECK(node != engine->node && frame->kind == KOLO_FRAME_BEGUN && frame->bytes == 0 && !payload, "kind %u",
          frame->kind);
    told++;
    kolo_exchange_hear(states[node][engine->lane], engine->node, frame);
    return 0;
}

uint32_t count_mismatches(uint64_t *number) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < NODES_MAX * LANES_MAX; i++) {
        const struct kolo_exchange_state *state = states[i / LANES_MAX][i % LANES_MAX];
        if (!state || state->trouble.status == 0)
            continue;
        CHECK(state->trouble.status == KOLO_ERR_MISMATCH &&
                  (!kolo_call_keys_equal(state->trouble.theirs, state->trouble.own.key) ||
                   state->trouble.counts.sent != state->trouble.counts.expected),
              "failed with %d for node %u", state->trouble.status, state->trouble.node);
        count++;
        if (number)
            *number = state->trouble.own.number;
    }
    return count;
}

void hand_over(struct send *send) {
    const struct kolo_frame frame = send->frame;
    send->copy = malloc(frame.bytes + 1);
    if (frame.bytes)
        memcpy(send->copy, send->payload, frame.bytes);
    send->payload = NULL;
    kolo_exchange_sent(states[send->from][send->lane], &frame);
}

bool deliver(struct send *send) {
    struct kolo_frame frame = send->frame;
    const uint32_t left = frame.bytes - send->delivered;
    void *where = NULL;
    frame.offset = send->delivered;
    frame.bytes = left && draw(2) ? 1 + draw(left) : left;
    const int rc = kolo_exchange_place(states[send->to][send->lane], send->from, &frame, &where);
    CHECK(rc >= 0, "node %u refuses kind %u part %u of ticket %" PRIu64 " from node %u", send->to, frame.kind,
          frame.part, frame.ticket, send->from);
    if (rc == KOLO_PLACE_LATER)
        return false;
    if (frame.bytes)
        memcpy(where, send->copy + send->delivered, frame.bytes);
    send->delivered += frame.bytes;
    send->over = send->delivered == send->frame.bytes;
    if (send->over)
        free(send->copy);
    kolo_exchange_arrived(states[send->to][send->lane], send->from, &frame);
    frame.bytes = 0;
    CHECK(!send->over || kolo_exchange_place(states[send->to][send->lane], send->from, &frame, &where) != 0,
          "node %u takes more of kind %u part %u of ticket %" PRIu64, send->to, frame.kind, frame.part, frame.ticket);
    return true;
}

void deliver_to(uint32_t node) {
    for (uint32_t i = 0; i < send_count; i++)
        if (sends[i].to == node && !sends[i].payload && !sends[i].over)
            deliver(&sends[i]);
}

void drop_sends(void) {
    for (uint32_t i = 0; i < send_count; i++)
        if (!sends[i].payload && !sends[i].over)
            free(sends[i].copy);
    send_count = 0;
}

void create_states(kolo_comm *comms, uint32_t nodes, uint32_t lanes) {
    static kolo_engine engines[NODES_MAX][LANES_MAX];
    send_count = told = 0;
    memset(sent_bytes, 0, sizeof sent_bytes);
    for (uint32_t node = 0; node < nodes; node++)
        for (uint32_t lane = 0; lane < lanes; lane++) {
            engines[node][lane] = (kolo_engine){node, lane};
            CHECK(kolo_exchange_create(&states[node][lane], &comms[node], lane, &engines[node][lane]) == 0, "create");
        }
}

void destroy_states(uint32_t nodes, uint32_t lanes) {
    for (uint32_t node = 0; node < nodes; node++)
        for (uint32_t lane = 0; lane < lanes; lane++) {
            kolo_exchange_destroy(states[node][lane]);
            states[node][lane] = NULL;
        }
}

uint64_t done_by(uint32_t node, uint32_t lanes) {
    uint64_t done = UINT64_MAX;
    for (uint32_t lane = 0; lane < lanes; lane++) {
        const uint64_t one = states[node][lane]->done;
        CHECK(one % lanes == lane, "lane %u has done %" PRIu64, lane, one);
        done = one < done ? one : done;
    }
    return done;
}

static bool try_to_begin(const struct run *run, uint32_t node, uint32_t *begun) {
    if (*begun == run->tickets || *begun >= done_by(node, run->lanes) + KOLO_SLOTS ||
        !kolo_exchange_may_begin(states[node][*begun % run->lanes], *begun))
        return false;
    run->begin(run->context, node, *begun);
    ++*begun;
    return true;
}

static bool move_a_message(void) {
    const uint32_t which = send_count ? draw(send_count) : 0;
    struct send *send = &sends[which];
    if (send_count == 0)
        return false;
    if (send->payload) {
        hand_over(send);
        return true;
    }
    const bool has_moved = deliver(send);
    if (send->over)
        *send = sends[--send_count];
    return has_moved;
}

void run_network(const struct run *run) {
    uint32_t begun[NODES_MAX] = {0}, waiting = 0;
    for (uint32_t turn = 0;; turn++) {
        CHECK(turn < 20000000 && waiting < 1000000, "%s, %u nodes: no end", run->name, run->nodes);
        uint32_t over = 0;
        for (uint32_t node = 0; node < run->nodes; node++)
            over += done_by(node, run->lanes) >= run->tickets;
        if (over == run->nodes)
            break;
        waiting++;
        const uint32_t node = draw(run->nodes);
        if (draw(3) == 0 && try_to_begin(run, node, &begun[node]))
            waiting = 0;
        if (draw(10) == 0) /* of nodes that agree, to no effect */
            kolo_exchange_announce(states[node][draw(run->lanes)]);
        if (move_a_message())
            waiting = 0;
    }
    for (uint32_t node = 0; node < run->nodes; node++)
        for (uint32_t other = 0; other < run->nodes; other++)
            for (uint32_t lane = 0; lane < run->lanes; lane++)
                CHECK(!kolo_exchange_awaits(states[node][lane], other), "node %u still awaits node %u", node, other);
}
