/* Exchanges between nodes, with a network of this test's own: it hands messages over, cuts them into frames and
 * delivers those in any order, as a seed says. Every algorithm, 2 to 10 nodes, 1 to 3 lanes, several tickets under way,
 * out of place and in place: results must be those of the canonical order bit by bit (`ring`: of numbers whose sums are
 * exact), each node must have sent what the algorithm's comment says, and frames that nobody awaits must be refused.
 * With KOLO_NET_ORDER=rank, for ranks that are spread in any way, results must be those of one machine. Nodes that
 * differ in a call must find out, whether they send or wait. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internode/exchange.h"
#include "internode/internode.h"
#include "cpu/features.h"

enum { NODES_MAX = 10, LANES_MAX = 3, TICKETS = 9, SENDS_MAX = 4096, RANKS = 24, SLOT_BYTES = 65536 };

#define CHECK(condition, ...)                                                                                          \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: %s: ", __FILE__, __LINE__, #condition);                                            \
            fprintf(stderr, __VA_ARGS__);                                                                              \
            fprintf(stderr, "\n");                                                                                     \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

struct kolo_engine {
    uint32_t node, lane;
};

/* A message on its way. */
struct send {
    uint32_t from, to, lane;
    struct kolo_frame frame;
    const void *payload; /* until handed over; NULL then */
    uint8_t *copy;
    uint32_t delivered; /* bytes; all of them and a frame without any: over */
    bool over;
};

static const kolo_reducer *reducer;
static uint64_t seed;
static struct send sends[SENDS_MAX];
static uint32_t send_count;
static struct kolo_exchange_state *states[NODES_MAX][LANES_MAX];
static uint64_t sent_bytes[NODES_MAX][NODES_MAX];
static uint32_t announcements;

static uint32_t draw(uint32_t end) {
    seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
    return (uint32_t)((seed >> 11) % end);
}

int kolo_engine_send(kolo_engine *engine, uint32_t node, const struct kolo_frame *frame, const void *payload) {
    CHECK(send_count < SENDS_MAX, "too many messages");
    CHECK(node != engine->node, "node %u sends to itself", node);
    sends[send_count++] =
        (struct send){.from = engine->node, .to = node, .lane = engine->lane, .frame = *frame, .payload = payload};
    sent_bytes[engine->node][node] += frame->bytes;
    return 0;
}

/* How many lanes of all nodes have found a mismatch; *number, unless NULL, of which call, as the finder counts. */
static uint32_t count_mismatches(uint64_t *number) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < NODES_MAX * LANES_MAX; i++) {
        const struct kolo_exchange_state *state = states[i / LANES_MAX][i % LANES_MAX];
        if (!state || state->trouble.status == 0)
            continue;
        CHECK(state->trouble.status == KOLO_ERR_MISMATCH && state->trouble.theirs != state->trouble.own.call,
              "failed with %d for node %u", state->trouble.status, state->trouble.node);
        count++;
        if (number)
            *number = state->trouble.own.number;
    }
    return count;
}

/* Control frames arrive at once. */
int kolo_engine_tell(kolo_engine *engine, uint32_t node, const struct kolo_frame *frame, const void *payload) {
    CHECK(node != engine->node && frame->kind == KOLO_FRAME_AWAITS && frame->bytes == 0 && !payload, "kind %u",
          frame->kind);
    announcements++;
    kolo_exchange_hear(states[node][engine->lane], engine->node, frame);
    return 0;
}

/* Hands a message over to the network. */
static void hand_over(struct send *send) {
    const struct kolo_frame frame = send->frame;
    send->copy = malloc(frame.bytes + 1);
    memcpy(send->copy, send->payload, frame.bytes);
    send->payload = NULL;
    kolo_exchange_sent(states[send->from][send->lane], &frame);
}

/* Delivers a piece of a message, if there is room for it. */
static bool deliver(struct send *send) {
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
    return true;
}

struct world {
    const char *name;
    uint32_t nodes, lanes;
    kolo_exchange wanted;
    uint32_t servers;
    const kolo_kernel *kernel; /* NULL: broadcasts */
    size_t count;
    bool in_place;
    bool exact; /* small whole numbers */
    bool half;  /* f32 travels as bf16 */

    /* KOLO_NET_ORDER=rank: */
    bool by_ranks;
    kolo_dtype dtype;
    struct kolo_nodes places;
    struct kolo_subtrees *subtrees; /* NULL: those of the nodes */
};

static uint8_t partials[NODES_MAX][TICKETS][SLOT_BYTES], results[NODES_MAX][TICKETS][SLOT_BYTES];
static uint8_t expected[TICKETS][SLOT_BYTES];

static size_t partial_bytes(const struct world *world) {
    return world->count * (world->kernel ? world->kernel->acc_bytes : 1);
}

static uint32_t subtrees_of(const struct world *world, uint32_t node) {
    uint32_t count = 0;
    for (uint32_t i = 0; world->subtrees && i < world->subtrees->count; i++)
        count += world->subtrees->each[i].node == node;
    return world->subtrees ? count : 1;
}

/* In place a node's partial result and its result are the same memory, where that is possible. */
static uint8_t *result_at(const struct world *world, uint32_t node, uint32_t ticket) {
    const bool fits =
        !world->by_ranks || (subtrees_of(world, node) == 1 && world->kernel->acc_bytes == world->kernel->element_bytes);
    return world->in_place && fits ? partials[node][ticket] : results[node][ticket];
}

static void fill(const struct world *world, uint8_t *partial) {
    if (world->kernel && world->kernel->acc_bytes == sizeof(float))
        for (size_t i = 0; i < world->count; i++) {
            const float value = world->exact || world->half ? (float)draw(world->half ? 12 : 1000)
                                                            : (float)draw(1 << 24) * 1e-3f - 5e3f;
            memcpy(partial + i * sizeof value, &value, sizeof value);
        }
    else
        for (size_t i = 0; i < partial_bytes(world); i += sizeof(uint32_t)) {
            const uint32_t word = draw(UINT32_MAX);
            memcpy(partial + i, &word, sizeof word);
        }
}

static uint32_t root_of(const struct world *world, uint32_t ticket) {
    return ticket % world->nodes;
}

/* Floats of either sign, from 1/32 to 32, whose sums have to be rounded. */
static void fill_input(const struct world *world, uint8_t *input) {
    for (size_t i = 0; i < world->count; i++) {
        const uint64_t bits = (uint64_t)draw(UINT32_MAX) << 32 | draw(UINT32_MAX), sign = draw(2), scale = draw(10);
        const uint64_t value = world->dtype == KOLO_F64    ? sign << 63 | (1018 + scale) << 52 | bits >> 12
                               : world->dtype == KOLO_F32  ? sign << 31 | (122 + scale) << 23 | bits >> 41
                               : world->dtype == KOLO_BF16 ? sign << 15 | (122 + scale) << 7 | bits >> 57
                                                           : sign << 15 | (10 + scale) << 10 | bits >> 54;
        memcpy(input + i * world->kernel->element_bytes, &value, world->kernel->element_bytes); /* little-endian */
    }
}

/* What the ranks of each node have summed, as in internode/hierarchy/, and what those of one machine would. */
static void prepare_ranks(const struct world *world, uint32_t ticket) {
    static uint8_t inputs[RANKS][SLOT_BYTES];
    const struct kolo_nodes *places = &world->places;
    const void *sources[RANKS], *locals[RANKS];
    for (uint32_t rank = 0; rank < places->size; rank++) {
        fill_input(world, inputs[rank]);
        sources[rank] = inputs[rank];
    }
    for (uint32_t i = 0; i < places->size; i++)
        locals[i] = sources[places->ranks[i]];
    for (uint32_t node = 0; node < world->nodes; node++) {
        const void **own = &locals[places->first_of[node]];
        memset(results[node][ticket], 0xee, world->count * world->kernel->element_bytes);
        if (!world->subtrees)
            world->kernel->fold_partial(partials[node][ticket], own, kolo_nodes_local_size(places, node), world->count);
        for (uint32_t i = 0; world->subtrees && i < world->subtrees->count; i++) {
            const struct kolo_subtree *subtree = &world->subtrees->each[i];
            if (subtree->node == node)
                world->kernel->fold_partial(partials[node][ticket] + subtree->place * partial_bytes(world),
                                            own + subtree->local, subtree->ranks, world->count);
        }
    }
    world->kernel->fold(expected[ticket], sources, places->size, world->count, places->size);
}

static void prepare(const struct world *world) {
    for (uint32_t ticket = 0; world->by_ranks && ticket < TICKETS; ticket++)
        prepare_ranks(world, ticket);
    if (world->by_ranks)
        return;
    for (uint32_t ticket = 0; ticket < TICKETS; ticket++) {
        const void *sources[NODES_MAX];
        for (uint32_t node = 0; node < world->nodes; node++) {
            memset(results[node][ticket], 0xee, partial_bytes(world));
            fill(world, partials[node][ticket]);
            sources[node] = partials[node][ticket];
        }
        if (world->kernel && world->count)
            world->kernel->finish(expected[ticket], sources, world->nodes, world->count, RANKS);
        else if (!world->kernel)
            memcpy(expected[ticket], partials[root_of(world, ticket)][ticket], world->count);
        for (uint32_t node = 0; node < world->nodes; node++)
            if (!world->kernel && node == root_of(world, ticket))
                memcpy(results[node][ticket], expected[ticket], world->count);
    }
}

static void begin(const struct world *world, uint32_t node, uint32_t ticket) {
    uint8_t *partial = partials[node][ticket];
    const struct kolo_order order = {.ticket = ticket,
                                     .stamp = 1000 + ticket,
                                     .call = 7,
                                     .collective = world->kernel ? KOLO_ALLREDUCE : KOLO_BROADCAST,
                                     .kernel = world->kernel,
                                     .count = world->count,
                                     .subtrees = world->subtrees,
                                     .partial = world->kernel ? partial : NULL,
                                     .result = result_at(world, node, ticket),
                                     .root = root_of(world, ticket)};
    kolo_exchange_begin(states[node][ticket % world->lanes], &order);
}

/* What a lane of a node says to a frame from another node. */
static int offer(uint32_t node, uint32_t lane, uint32_t ticket) {
    const struct kolo_frame frame = {.kind = KOLO_MESSAGE_UP, .ticket = ticket, .stamp = 1000 + ticket};
    void *where;
    return kolo_exchange_place(states[node][lane], node ? 0 : 1, &frame, &where);
}

/* What nobody awaits, of tickets that are over. */
static void check_refusals(const struct world *world) {
    for (uint32_t lane = 0; lane < world->lanes; lane++)
        CHECK(offer(0, lane, lane) < 0, "an old ticket");
    CHECK(count_mismatches(NULL) == 0, "old tickets are not mismatches");
}

/* Of a ticket that is under way other lanes have no place for anything. */
static void check_lanes(const struct world *world, uint32_t node, uint32_t ticket) {
    for (uint32_t lane = 0; lane < world->lanes; lane++)
        CHECK(lane == ticket % world->lanes || offer(node, lane, ticket) != 0, "ticket %u in lane %u", ticket, lane);
    CHECK(count_mismatches(NULL) == 0, "another lane's ticket is not a mismatch");
}

/* Nor has a node a place for a partial result that the sender does not have, or that nobody has. */
static void check_parts(const struct world *world, uint32_t node, uint32_t ticket) {
    const uint32_t from = node ? 0 : 1;
    for (uint32_t part = 0; world->subtrees && part <= world->subtrees->count; part++) {
        const struct kolo_frame frame = {
            .kind = KOLO_MESSAGE_UP, .part = (uint16_t)part, .ticket = ticket, .stamp = 1000 + ticket};
        void *where;
        const int rc = kolo_exchange_place(states[node][ticket % world->lanes], from, &frame, &where);
        CHECK(rc < 0 || (part < world->subtrees->count && world->subtrees->each[part].node == from),
              "node %u takes part %u from node %u", node, part, from);
    }
}

/* A frame of another call is that first, whatever parts that call has. */
static void check_mismatch(const struct world *world, uint32_t node, uint32_t ticket) {
    const struct kolo_frame frame = {.kind = KOLO_MESSAGE_UP, .part = RANKS, .ticket = ticket, .stamp = 1};
    void *where;
    struct kolo_exchange_state *state = states[node][ticket % world->lanes];
    const int rc = kolo_exchange_place(state, node ? 0 : 1, &frame, &where);
    CHECK(rc == KOLO_PLACE_LATER && count_mismatches(NULL) == 1, "another call's frame: %d", rc);
    state->trouble.status = 0;
}

/* All tickets below it are over. */
static uint64_t done_by(const struct world *world, uint32_t node) {
    uint64_t done = UINT64_MAX;
    for (uint32_t lane = 0; lane < world->lanes; lane++) {
        const uint64_t one = states[node][lane]->done;
        CHECK(one % world->lanes == lane, "lane %u has done %" PRIu64, lane, one);
        done = one < done ? one : done;
    }
    return done;
}

/* Runs all tickets to their end. */
static void run(const struct world *world) {
    uint32_t begun[NODES_MAX] = {0}, waiting = 0, nodes = world->nodes;
    send_count = 0;
    memset(sent_bytes, 0, sizeof sent_bytes);
    prepare(world);
    for (uint32_t turn = 0;; turn++) {
        CHECK(turn < 20000000 && waiting < 1000000, "%s, %u nodes: no end", world->name, nodes);
        uint32_t over = 0;
        for (uint32_t node = 0; node < nodes; node++)
            over += done_by(world, node) >= TICKETS;
        if (over == nodes)
            break;
        const uint32_t node = draw(nodes);
        waiting++;
        if (draw(3) == 0 && begun[node] < TICKETS && begun[node] < done_by(world, node) + KOLO_SLOTS) {
            begin(world, node, begun[node]);
            check_parts(world, node, begun[node]);
            check_mismatch(world, node, begun[node]);
            check_lanes(world, node, begun[node]++);
            waiting = 0;
        }
        if (draw(10) == 0) /* of nodes that agree, to no effect */
            kolo_exchange_announce(states[node][draw(world->lanes)]);
        struct send *send = send_count ? &sends[draw(send_count)] : NULL;
        if (send && send->payload)
            hand_over(send), waiting = 0;
        else if (send && !send->over && deliver(send))
            waiting = 0;
    }
    for (uint32_t node = 0; node < nodes; node++)
        for (uint32_t other = 0; other < nodes; other++)
            for (uint32_t lane = 0; lane < world->lanes; lane++)
                CHECK(!kolo_exchange_awaits(states[node][lane], other), "node %u still awaits node %u", node, other);
    check_refusals(world);
}

static void check_results(const struct world *world) {
    const size_t bytes = world->count * (world->kernel ? world->kernel->element_bytes : 1);
    for (uint32_t node = 0; node < world->nodes; node++)
        for (uint32_t ticket = 0; ticket < TICKETS; ticket++) {
            const uint8_t *found = result_at(world, node, ticket);
            CHECK(memcmp(found, expected[ticket], bytes) == 0, "%s, %u nodes, count %zu%s: node %u, ticket %u",
                  world->name, world->nodes, world->count, world->in_place ? ", in place" : "", node, ticket);
        }
}

/* Bytes of one link, in one direction, for all tickets: 2(M-1)/M of the message, but for whole lines. */
static void check_bytes(const struct world *world) {
    const uint32_t halves = world->half && world->kernel == &reducer->kernels[KOLO_F32][KOLO_SUM] ? 2 : 1;
    if ((world->wanted != KOLO_EXCHANGE_MESH && world->wanted != KOLO_EXCHANGE_RING) || !world->kernel ||
        world->kernel->acc_bytes != world->kernel->element_bytes || world->count < 2048)
        return;
    const double bytes = (double)world->count * TICKETS * world->kernel->element_bytes / halves;
    const double wanted = bytes * 2 * (world->nodes - 1) / world->nodes;
    for (uint32_t node = 0; node < world->nodes; node++) {
        uint64_t out = 0;
        for (uint32_t other = 0; other < world->nodes; other++)
            out += sent_bytes[node][other];
        /* A slice is whole lines: on small chunks the last ones are shorter, some nodes send less, others more. */
        const double slack = 2.0 * KOLO_LINE_BYTES * world->nodes * TICKETS + bytes / world->nodes * 0.25;
        CHECK((double)out < wanted + slack && (double)out > wanted - 2 * slack, "%s, %u nodes: node %u sent %" PRIu64,
              world->name, world->nodes, node, out);
    }
}

/* By owners a node sends the others' slices of each of its partial results, and to all the result of its own. */
static void check_subtree_bytes(const struct world *world) {
    for (uint32_t node = 0; node < world->nodes; node++) {
        size_t first, own = kolo_plan_slice(world->count, world->kernel->element_bytes, world->nodes, node, &first);
        const uint64_t up = (uint64_t)subtrees_of(world, node) * (world->count - own) * world->kernel->acc_bytes;
        const uint64_t wanted = TICKETS * (up + (world->nodes - 1) * own * world->kernel->element_bytes);
        uint64_t out = 0;
        for (uint32_t other = 0; other < world->nodes; other++)
            out += sent_bytes[node][other];
        CHECK(out == wanted, "%s, %u nodes: node %u sent %" PRIu64 ", not %" PRIu64, world->name, world->nodes, node,
              out, wanted);
    }
}

static void create_all(const struct world *world) {
    uint32_t node_of[NODES_MAX], ranks[NODES_MAX], first_of[NODES_MAX + 1];
    static kolo_comm comms[NODES_MAX];
    static struct kolo_internode internodes[NODES_MAX];
    static kolo_engine engines[NODES_MAX][LANES_MAX];
    for (uint32_t node = 0; node <= world->nodes; node++)
        first_of[node] = node;
    for (uint32_t node = 0; node < world->nodes; node++)
        node_of[node] = ranks[node] = node;
    for (uint32_t node = 0; node < world->nodes; node++) {
        internodes[node] = (struct kolo_internode){
            .nodes =
                world->by_ranks ? world->places : (struct kolo_nodes){RANKS, world->nodes, node_of, ranks, first_of},
            .node = node,
            .subtrees = world->subtrees,
            .lanes = world->lanes,
        };
        comms[node].internode = &internodes[node];
        comms[node].origin.net = (struct kolo_net_settings){
            .exchange = world->wanted, .servers = world->servers, .half_on_wire = world->half};
        comms[node].reducer = reducer;
        comms[node].segment.slot_bytes = SLOT_BYTES;
        for (uint32_t lane = 0; lane < world->lanes; lane++) {
            kolo_engine *engine = &engines[node][lane];
            *engine = (kolo_engine){node, lane};
            CHECK(kolo_exchange_create(&states[node][lane], &comms[node], lane, engine) == 0, "create");
        }
    }
}

static void destroy_all(const struct world *world) {
    for (uint32_t node = 0; node < world->nodes; node++)
        for (uint32_t lane = 0; lane < world->lanes; lane++) {
            kolo_exchange_destroy(states[node][lane]);
            states[node][lane] = NULL;
        }
}

static void run_world(const struct world *world) {
    create_all(world);
    run(world);
    check_results(world);
    if (!world->by_ranks)
        check_bytes(world);
    else if (world->subtrees && world->wanted == KOLO_EXCHANGE_MESH)
        check_subtree_bytes(world);
    destroy_all(world);
}

/* Begins a broadcast that the nodes do not agree on: its stamp and call are the root's number. */
static void begin_broadcast(uint32_t node, uint32_t ticket, uint32_t root) {
    const struct kolo_order order = {.ticket = ticket,
                                     .stamp = 1000 + root,
                                     .call = 1 + root,
                                     .number = 50 + ticket,
                                     .collective = KOLO_BROADCAST,
                                     .count = 8,
                                     .result = results[node][0],
                                     .root = root};
    kolo_exchange_begin(states[node][0], &order);
}

/* Delivers all that is under way to a node. */
static void deliver_to(uint32_t node) {
    for (uint32_t i = 0; i < send_count; i++)
        if (sends[i].to == node && !sends[i].over)
            deliver(&sends[i]);
}

static const struct world differing = {.name = "differing", .nodes = 3, .lanes = 1, .count = 8};

static void begin_differing(void) {
    send_count = announcements = 0;
    create_all(&differing);
}

static void end_differing(uint32_t wanted, uint64_t number) {
    uint64_t found = 0;
    const uint32_t mismatches = count_mismatches(&found);
    CHECK(mismatches == wanted && (!wanted || found == number), "%u mismatches, in call %" PRIu64, mismatches, found);
    for (uint32_t i = 0; i < send_count; i++)
        if (!sends[i].payload && !sends[i].over)
            free(sends[i].copy);
    destroy_all(&differing);
}

/* Two nodes that both send in ticket 0. One of them is so many tickets ahead when it hears from the other. */
static void differ_as_roots(uint32_t ahead) {
    begin_differing();
    for (uint32_t ticket = 0; ticket < ahead; ticket++) {
        const uint32_t first = send_count;
        begin_broadcast(0, ticket, 0);
        for (uint32_t i = first; i < send_count; i++)
            hand_over(&sends[i]);
    }
    begin_broadcast(1, 0, 1);
    for (uint32_t i = 0; i < send_count; i++)
        if (sends[i].payload)
            hand_over(&sends[i]);
    deliver_to(0);
    CHECK(count_mismatches(NULL) == (ahead <= KOLO_EXCHANGES_KEPT), "%u mismatches at once", count_mismatches(NULL));
    for (int i = 0; i < 11; i++)
        kolo_exchange_announce(states[0][0]);
    end_differing(1, ahead <= KOLO_EXCHANGES_KEPT ? 50 : 0);
}

/* Three nodes that all wait for the next one; the announcement comes before the other begins, or after. */
static void differ_by_waiting(bool early) {
    begin_differing();
    for (uint32_t node = early ? 2 : 0; node < 3; node++)
        begin_broadcast(node, 0, (node + 1) % 3);
    kolo_exchange_announce(states[2][0]);
    CHECK(announcements == 0, "announced at once");
    for (int i = 0; i < 3; i++)
        kolo_exchange_announce(states[2][0]);
    CHECK(announcements == 1, "announced %u times", announcements);
    CHECK(count_mismatches(NULL) == !early, "%u mismatches", count_mismatches(NULL));
    if (early)
        begin_broadcast(0, 0, 1);
    end_differing(1, 50);
}

/* Nodes that agree: the one that waits is heard by one that has not begun, and by one that has. */
static void agree_while_waiting(bool early) {
    begin_differing();
    if (!early)
        begin_broadcast(0, 0, 0);
    begin_broadcast(1, 0, 0);
    for (int i = 0; i < 3; i++)
        kolo_exchange_announce(states[1][0]);
    CHECK(announcements == 1, "announced %u times", announcements);
    if (early)
        begin_broadcast(0, 0, 0);
    end_differing(0, 0);
}

static void run_differing(void) {
    differ_as_roots(1);
    differ_as_roots(KOLO_SLOTS + 1);
    differ_as_roots(KOLO_EXCHANGES_KEPT);
    differ_as_roots(KOLO_EXCHANGES_KEPT + 1);
    for (int early = 0; early < 2; early++) {
        differ_by_waiting(early);
        agree_while_waiting(early);
    }
}

static const struct {
    const char *name;
    kolo_exchange wanted;
    uint32_t servers;
} ways[] = {{"auto", KOLO_EXCHANGE_AUTO, 1},       {"mesh", KOLO_EXCHANGE_MESH, 1},
            {"ring", KOLO_EXCHANGE_RING, 1},       {"tree", KOLO_EXCHANGE_TREE, 1},
            {"central", KOLO_EXCHANGE_CENTRAL, 1}, {"three servers", KOLO_EXCHANGE_CENTRAL, 3}};

static int compare(const void *a, const void *b) {
    const uint32_t *left = a, *right = b;
    return (*left > *right) - (*left < *right);
}

/* Puts each rank on a node: one node after another where `blocks`, else anywhere; no node is empty. */
static void spread(struct world *world, bool blocks) {
    uint32_t groups[RANKS], ranks = world->nodes + draw(RANKS - world->nodes + 1);
    for (uint32_t rank = 0; rank < ranks; rank++)
        groups[rank] = rank < world->nodes ? rank : draw(world->nodes);
    for (uint32_t i = ranks - 1; i > 0; i--) {
        const uint32_t j = draw(i + 1), group = groups[i];
        groups[i] = groups[j];
        groups[j] = group;
    }
    if (blocks)
        qsort(groups, ranks, sizeof *groups, compare);
    CHECK(kolo_nodes_make(&world->places, groups, ranks) == 0 && world->places.nodes == world->nodes, "nodes");
    CHECK(kolo_subtrees_make(&world->subtrees, &world->places) == 0, "subtrees");
}

/* Worlds by ranks; returns how many, and adds to *aligned of how many each node is a subtree. */
static uint32_t run_ranks(uint64_t start, uint32_t *aligned) {
    static const kolo_dtype dtypes[] = {KOLO_F16, KOLO_BF16, KOLO_F32, KOLO_F64};
    static const kolo_op ops[] = {KOLO_SUM, KOLO_PROD, KOLO_AVG};
    static const size_t counts[] = {1, 37, 640, 640}; /* f64: more than one piece */
    enum { KINDS = 12 };
    uint32_t worlds = 0;
    for (uint32_t nodes = 2; nodes <= NODES_MAX; nodes++)
        for (uint32_t i = 0; i < KINDS * sizeof ways / sizeof *ways; i++) {
            struct world world = {.name = ways[i / KINDS].name,
                                  .nodes = nodes,
                                  .lanes = 1 + worlds % LANES_MAX,
                                  .wanted = ways[i / KINDS].wanted,
                                  .servers = ways[i / KINDS].servers,
                                  .by_ranks = true,
                                  .dtype = dtypes[i % 4]};
            if (world.wanted == KOLO_EXCHANGE_RING) /* which cannot be had with it */
                continue;
            seed = start * 7919 + ++worlds * 130363;
            world.count = counts[draw(4)];
            world.in_place = draw(2);
            world.kernel = &reducer->kernels[world.dtype][ops[i % 3]];
            spread(&world, draw(2));
            run_world(&world);
            *aligned += world.subtrees == NULL;
            free(world.subtrees);
            kolo_nodes_free(&world.places);
        }
    return worlds;
}

int main(int argc, char **argv) {
    static const size_t counts[] = {0, 1, 37, 640, 8192};
    reducer = kolo_reducer_select(kolo_cpu_features());
    const uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    uint32_t worlds = 0, by_ranks = 0, aligned = 0;
    for (uint64_t start = first; start < first + 2; start++)
        by_ranks += run_ranks(start, &aligned);
    CHECK(aligned > 0 && aligned < by_ranks / 2, "%u of %u spreads are subtrees", aligned, by_ranks);
    for (uint64_t start = first; start < first + 2; start++)
        for (uint32_t nodes = 2; nodes <= NODES_MAX; nodes++)
            for (size_t way = 0; way < sizeof ways / sizeof *ways; way++)
                for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
                    for (uint32_t kind = 0; kind < 4; kind++) {
                        const kolo_dtype dtype = kind == 2 ? KOLO_BF16 : kind == 3 ? KOLO_I64 : KOLO_F32;
                        struct world world = {.name = ways[way].name,
                                              .nodes = nodes,
                                              .lanes = 1 + worlds % LANES_MAX,
                                              .wanted = ways[way].wanted,
                                              .servers = ways[way].servers,
                                              .count = counts[c],
                                              .in_place = kind == 1,
                                              .exact = way == 2};
                        world.kernel = &reducer->kernels[dtype][kind == 1 ? KOLO_AVG : KOLO_SUM];
                        if (world.count * world.kernel->acc_bytes > SLOT_BYTES)
                            continue;
                        seed = start * 7919 + worlds++ * 104729 + 1;
                        run_world(&world);
                        world.half = true;
                        if (way == 1 && kind != 1)
                            run_world(&world);
                        world.kernel = NULL; /* broadcasts: of the last count by way of a chain */
                        world.count *= 5;
                        world.in_place = false;
                        if (kind == 0)
                            run_world(&world);
                    }
    run_differing();
    printf("%u worlds from seed %" PRIu64 ", and %u by ranks\n", worlds, first, by_ranks);
    return 0;
}
