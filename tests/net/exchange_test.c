/* Exchanges between nodes that reduce or broadcast: every algorithm, 2 to 10 nodes, 1 to 3 lanes, several tickets under
 * way, out of place and in place: results must be those of the canonical order bit by bit (`ring`: of numbers whose
 * sums are exact), each node must have sent what the algorithm's comment says, and frames that nobody awaits must be
 * refused. With KOLO_NET_ORDER=rank, for ranks that are spread in any way, results must be those of one machine. Nodes
 * that differ in a call must find out, whether they send or wait. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exchange_network.h"
#include "comm/step/call_key.h"
#include "cpu/features.h"
#include "internode/internode.h"

enum { TICKETS = 9, RANKS = 24, SLOT_BYTES = 65536 };

static const kolo_reducer *reducer;

struct world {
    const char *name;
    uint32_t nodes, lanes;
    kolo_exchange wanted;
    uint32_t servers;
    const kolo_kernel *kernel; /* NULL: broadcasts */
    size_t count;
    bool in_place;
    bool exact;   /* small whole numbers */
    bool half;    /* f32 travels as bf16 */
    bool reduces; /* to one node */

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
        const uint64_t bits = (uint64_t)draw(UINT32_MAX) << 32 | draw(UINT32_MAX);
        const uint64_t sign = bits & 1, scale = (bits >> 1 & 0x3ff) % 10; /* bits that no type's fraction has */
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

/* Each ticket is a call of its own, all with the same key. */
enum { CALL = 7 };

static struct kolo_call_key key_of(uint32_t call) {
    return kolo_call_key_of(KOLO_BROADCAST, call);
}

static uint64_t stamp_of(uint32_t ticket) {
    return kolo_stamp_after(ticket, key_of(CALL));
}

static void begin(const struct world *world, uint32_t node, uint32_t ticket) {
    uint8_t *partial = partials[node][ticket];
    const struct kolo_order order = {.ticket = ticket,
                                     .stamp = stamp_of(ticket),
                                     .key = key_of(CALL),
                                     .collective = world->reduces  ? KOLO_REDUCE
                                                   : world->kernel ? KOLO_ALLREDUCE
                                                                   : KOLO_BROADCAST,
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
    const struct kolo_frame frame = {.kind = KOLO_MESSAGE_UP, .ticket = ticket, .stamp = stamp_of(ticket)};
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
            .kind = KOLO_MESSAGE_UP, .part = (uint16_t)part, .ticket = ticket, .stamp = stamp_of(ticket)};
        void *where;
        const int rc = kolo_exchange_place(states[node][ticket % world->lanes], from, &frame, &where);
        CHECK(rc < 0 || (part < world->subtrees->count && world->subtrees->each[part].node == from),
              "node %u takes part %u from node %u", node, part, from);
    }
}

/* A frame of another call is that first, whatever parts that call has. */
static void check_mismatch(const struct world *world, uint32_t node, uint32_t ticket) {
    const struct kolo_frame frame = {.kind = KOLO_MESSAGE_UP,
                                     .part = RANKS,
                                     .ticket = ticket,
                                     .stamp = kolo_stamp_after(ticket, key_of(CALL + 1)),
                                     .key = key_of(CALL + 1)};
    void *where;
    struct kolo_exchange_state *state = states[node][ticket % world->lanes];
    const int rc = kolo_exchange_place(state, node ? 0 : 1, &frame, &where);
    CHECK(rc == KOLO_PLACE_LATER && count_mismatches(NULL) == 1, "another call's frame: %d", rc);
    state->trouble.status = 0;
}

static void begin_and_check(const void *context, uint32_t node, uint32_t ticket) {
    const struct world *world = context;
    begin(world, node, ticket);
    check_parts(world, node, ticket);
    check_mismatch(world, node, ticket);
    check_lanes(world, node, ticket);
}

static void check_results(const struct world *world) {
    const size_t bytes = world->count * (world->kernel ? world->kernel->element_bytes : 1);
    for (uint32_t node = 0; node < world->nodes; node++)
        for (uint32_t ticket = 0; ticket < TICKETS; ticket++) {
            const uint8_t *found = result_at(world, node, ticket);
            if (world->reduces && node != root_of(world, ticket)) {
                for (size_t i = 0; found == results[node][ticket] && i < bytes; i++)
                    CHECK(found[i] == 0xee, "%s: node %u gets a result of ticket %u", world->name, node, ticket);
                continue;
            }
            CHECK(memcmp(found, expected[ticket], bytes) == 0, "%s, %u nodes, count %zu%s: node %u, ticket %u",
                  world->name, world->nodes, world->count, world->in_place ? ", in place" : "", node, ticket);
        }
}

/* Bytes of one link, in one direction, for all tickets: 2(M-1)/M of the message, but for whole lines. */
static void check_bytes(const struct world *world) {
    const uint32_t halves = world->half && world->kernel == &reducer->kernels[KOLO_F32][KOLO_SUM] ? 2 : 1;
    if (world->reduces || (world->wanted != KOLO_EXCHANGE_MESH && world->wanted != KOLO_EXCHANGE_RING) ||
        !world->kernel || world->kernel->acc_bytes != world->kernel->element_bytes || world->count < 2048)
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

/* All that a reduce takes is what each other node sends the root. */
static void check_reduced_bytes(const struct world *world) {
    uint64_t sent = 0, wanted = 0;
    for (uint32_t node = 0; node < world->nodes; node++)
        for (uint32_t other = 0; other < world->nodes; other++)
            sent += sent_bytes[node][other];
    for (uint32_t ticket = 0; ticket < TICKETS; ticket++)
        for (uint32_t node = 0; node < world->nodes; node++)
            wanted += node == root_of(world, ticket) ? 0 : subtrees_of(world, node) * partial_bytes(world);
    CHECK(sent == wanted, "%s, %u nodes: %" PRIu64 " bytes sent, not %" PRIu64, world->name, world->nodes, sent,
          wanted);
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
    static uint32_t node_of[NODES_MAX], ranks[NODES_MAX], first_of[NODES_MAX + 1];
    static kolo_comm comms[NODES_MAX];
    static struct kolo_internode internodes[NODES_MAX];
    const struct kolo_net_settings net = {
        .exchange = world->wanted, .servers = world->servers, .half_on_wire = world->half};
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
        comms[node].origin.net = net;
        comms[node].reducer = reducer;
        comms[node].segment.slot_bytes = SLOT_BYTES;
    }
    create_states(comms, world->nodes, world->lanes);
}

static void run_world(const struct world *world) {
    create_all(world);
    prepare(world);
    run_network(&(struct run){world->name, world->nodes, world->lanes, TICKETS, begin_and_check, world});
    check_refusals(world);
    check_results(world);
    if (world->reduces)
        check_reduced_bytes(world);
    else if (!world->by_ranks)
        check_bytes(world);
    else if (world->subtrees && world->wanted == KOLO_EXCHANGE_MESH)
        check_subtree_bytes(world);
    destroy_states(world->nodes, world->lanes);
}

/* Begins a broadcast that the nodes do not agree on, as all before: its call is the root's number. */
static void begin_broadcast(uint32_t node, uint32_t ticket, uint32_t root) {
    uint64_t stamp = 1000;
    for (uint32_t before = 0; before <= ticket; before++)
        stamp = kolo_stamp_after(stamp, key_of(1 + root));
    const struct kolo_order order = {.ticket = ticket,
                                     .stamp = stamp,
                                     .key = key_of(1 + root),
                                     .number = 50 + ticket,
                                     .collective = KOLO_BROADCAST,
                                     .count = 8,
                                     .result = results[node][0],
                                     .root = root};
    kolo_exchange_begin(states[node][0], &order);
}

static const struct world differing = {.name = "differing", .nodes = 3, .lanes = 1, .count = 8};

static void begin_differing(void) {
    create_all(&differing);
}

static void end_differing(uint32_t wanted, uint64_t number) {
    uint64_t found = 0;
    const uint32_t mismatches = count_mismatches(&found);
    CHECK(mismatches == wanted && (!wanted || found == number), "%u mismatches, in call %" PRIu64, mismatches, found);
    drop_sends();
    destroy_states(differing.nodes, differing.lanes);
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

/* Two nodes that both send, and go on. A frame of the second ticket is seen first: one of the first, if there is any,
 * tells better. */
static void differ_overtaking(bool comes) {
    begin_differing();
    for (uint32_t ticket = 0; ticket < 2; ticket++)
        begin_broadcast(0, ticket, 0);
    for (uint32_t ticket = 0; ticket < 2; ticket++) {
        send_count = 0;
        begin_broadcast(1, ticket, 1);
        for (uint32_t i = 0; ticket == 1 && i < send_count; i++)
            hand_over(&sends[i]);
    }
    deliver_to(0);
    CHECK(count_mismatches(NULL) == 0, "a later call is named");
    for (int i = 0; i < 5; i++)
        kolo_exchange_announce(states[0][0]);
    if (comes) {
        const struct kolo_frame frame = {
            .kind = KOLO_MESSAGE_DOWN, .stamp = kolo_stamp_after(1000, key_of(2)), .key = key_of(2)};
        void *where;
        kolo_exchange_place(states[0][0], 1, &frame, &where);
    }
    for (int i = 0; i < 6; i++)
        kolo_exchange_announce(states[0][0]);
    end_differing(1, comes ? 50 : 51);
}

/* Three nodes that all wait for the next one; the announcement comes before the other begins, or after. */
static void differ_by_waiting(bool early) {
    begin_differing();
    for (uint32_t node = early ? 2 : 0; node < 3; node++)
        begin_broadcast(node, 0, (node + 1) % 3);
    kolo_exchange_announce(states[2][0]);
    CHECK(told == 0, "announced at once");
    for (int i = 0; i < 3; i++)
        kolo_exchange_announce(states[2][0]);
    CHECK(told == 1, "announced %u times", told);
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
    CHECK(told == 1, "announced %u times", told);
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
        differ_overtaking(early);
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
    CHECK(kolo_subtrees_make(&world->subtrees, &world->places, KOLO_RANKS_MAX) == 0, "subtrees");
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
            world.reduces = true;
            if (world.wanted == KOLO_EXCHANGE_AUTO)
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
    const uint64_t end = first + (argc > 2 ? strtoull(argv[2], NULL, 10) : 1);
    uint32_t worlds = 0, by_ranks = 0, aligned = 0;
    for (uint64_t start = first; start < end; start++)
        by_ranks += run_ranks(start, &aligned);
    CHECK(aligned > 0 && aligned < by_ranks / 2, "%u of %u spreads are subtrees", aligned, by_ranks);
    for (uint64_t start = first; start < end; start++)
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
                        world.half = false;
                        world.reduces = true;
                        if (way == 0)
                            run_world(&world);
                        world.reduces = false;
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
