/* Exchanges between nodes that move blocks, or terms of a scan: 2 to 6 nodes of several ranks, placed anyhow, 1 to 3
 * lanes, many tickets one after the other. Each block and each term must come whole where it is awaited, nothing else
 * may be written, and no node may send more than that. Frames that nobody awaits must be refused, and counts that
 * differ be found. Nobody may get far ahead of a node that has not come. */
#include <inttypes.h>
#include <string.h>

#include "comm/step/call_key.h"
#include "cpu/features.h"
#include "exchange_network.h"
#include "internode/internode.h"

enum { RANKS = 12, TICKETS = 40, SLOT_BYTES = 4096, BLOCK_MAX = 60, GUARD = 0xee, COUNT_WRONG = 5 };

static struct kolo_nodes nodes;
static kolo_comm comms[NODES_MAX];
static struct kolo_internode internodes[NODES_MAX];
static const kolo_reducer *reducer;

/* What all nodes agree on in a world: of each ticket, and how long each block is. */
static uint64_t agreed;
static bool scans;

static uint64_t mix(uint64_t a, uint64_t b) {
    uint64_t x = (agreed ^ a * UINT64_C(0x9e3779b97f4a7c15)) + b * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 29) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 32;
}

static uint8_t byte_of(uint64_t what, size_t i) {
    return (uint8_t)(mix(what, i / 8) >> i % 8 * 8);
}

static void fill(uint8_t *data, uint64_t what, size_t bytes) {
    for (size_t i = 0; i < bytes; i++)
        data[i] = byte_of(what, i);
}

static void check(const uint8_t *data, uint64_t what, size_t bytes, const char *name, uint32_t ticket) {
    for (size_t i = 0; i < bytes; i++)
        CHECK(data[i] == byte_of(what, i), "%s of ticket %u: byte %zu of %zu", name, ticket, i, bytes);
}

static void check_untouched(const uint8_t *from, const uint8_t *end, uint32_t ticket) {
    for (; from < end; from++)
        CHECK(*from == GUARD, "ticket %u: written where nothing belongs", ticket);
}

/* Blocks. */

static uint64_t name_of_block(uint32_t ticket, uint32_t from, uint32_t to) {
    return ticket * UINT64_C(4096) + from * 64 + to;
}

static uint64_t whole_of(uint32_t ticket, uint32_t from, uint32_t to) {
    return mix(name_of_block(ticket, from, to), 1) % BLOCK_MAX;
}

static struct kolo_moves moves_of(uint32_t ticket) {
    static const kolo_collective kinds[] = {KOLO_GATHER, KOLO_SCATTER, KOLO_ALLTOALL};
    const uint64_t random = mix(ticket, 2);
    struct kolo_moves moves = {.collective = kinds[random % 3],
                               .root = (uint32_t)(random >> 8) % nodes.size,
                               .begin = (uint32_t)(random >> 16) % nodes.size,
                               .chunk = (random >> 24) % 3,
                               .chunk_count = 25,
                               .region_bytes = 128,
                               .element_bytes = 2};
    moves.end = moves.begin + 1 + (uint32_t)(random >> 32) % (nodes.size - moves.begin);
    return moves;
}

static uint8_t *slot_of(uint32_t node, uint32_t local, uint32_t ticket) {
    return comms[node].segment.slots + (local * (size_t)KOLO_SLOTS + ticket % KOLO_SLOTS) * SLOT_BYTES;
}

/* What the ranks of a node put into their slots. */
static void show_blocks(uint32_t node, uint32_t ticket) {
    const struct kolo_moves moves = moves_of(ticket);
    for (uint32_t local = 0; local < kolo_nodes_local_size(&nodes, node); local++) {
        const uint32_t rank = kolo_nodes_rank(&nodes, node, local);
        memset(slot_of(node, local, ticket), GUARD, SLOT_BYTES);
        for (uint32_t block = moves.begin; block < moves.end; block++) {
            const uint32_t to = kolo_moves_peer(&moves, nodes.size, rank, block, KOLO_MOVES_OUT);
            const uint32_t from = kolo_moves_peer(&moves, nodes.size, rank, block, KOLO_MOVES_IN);
            uint8_t *out = kolo_moves_region(&comms[node], &moves, ticket, local, block, KOLO_MOVES_OUT);
            uint8_t *in = kolo_moves_region(&comms[node], &moves, ticket, local, block, KOLO_MOVES_IN);
            const uint64_t sent = to == KOLO_MOVES_NOBODY ? 0 : whole_of(ticket, rank, to);
            const uint64_t taken = from == KOLO_MOVES_NOBODY ? 0 : whole_of(ticket, from, rank);
            const struct kolo_moves_head sent_head = {sent, sent}, taken_head = {taken, taken};
            size_t first;
            if (from != KOLO_MOVES_NOBODY)
                memcpy(in, &taken_head, sizeof taken_head);
            if (to == KOLO_MOVES_NOBODY)
                continue;
            memcpy(out, &sent_head, sizeof sent_head);
            fill(out + KOLO_REGION_HEAD_BYTES, name_of_block(ticket, rank, to),
                 kolo_moves_chunk(&moves, sent, &first) * moves.element_bytes);
        }
    }
}

static void check_blocks(uint32_t node, uint32_t ticket) {
    const struct kolo_moves moves = moves_of(ticket);
    for (uint32_t local = 0; local < kolo_nodes_local_size(&nodes, node); local++) {
        const uint32_t rank = kolo_nodes_rank(&nodes, node, local);
        for (uint32_t block = moves.begin; block < moves.end; block++) {
            const uint32_t from = kolo_moves_peer(&moves, nodes.size, rank, block, KOLO_MOVES_IN);
            const uint8_t *in = kolo_moves_region(&comms[node], &moves, ticket, local, block, KOLO_MOVES_IN);
            const uint8_t *data = in + KOLO_REGION_HEAD_BYTES;
            size_t first, bytes = 0;
            if (from != KOLO_MOVES_NOBODY && nodes.node_of[from] != node)
                bytes = kolo_moves_chunk(&moves, whole_of(ticket, from, rank), &first) * moves.element_bytes;
            check(data, name_of_block(ticket, from, rank), bytes, "a block", ticket);
            check_untouched(data + bytes, in + moves.region_bytes, ticket);
        }
    }
}

/* Bytes between nodes in a ticket. */
static uint64_t block_bytes(uint32_t ticket) {
    const struct kolo_moves moves = moves_of(ticket);
    uint64_t bytes = 0;
    for (uint32_t rank = 0; rank < nodes.size; rank++)
        for (uint32_t block = moves.begin; block < moves.end; block++) {
            const uint32_t to = kolo_moves_peer(&moves, nodes.size, rank, block, KOLO_MOVES_OUT);
            size_t first;
            if (to != KOLO_MOVES_NOBODY && nodes.node_of[to] != nodes.node_of[rank])
                bytes += kolo_moves_chunk(&moves, whole_of(ticket, rank, to), &first) * moves.element_bytes;
        }
    return bytes;
}

/* Scans. */

static const kolo_kernel *kernel_of(uint32_t ticket) {
    return &reducer->kernels[mix(ticket, 3) & 1 ? KOLO_BF16 : KOLO_I64][KOLO_SUM];
}

static size_t count_of(uint32_t ticket) {
    return mix(ticket, 4) % BLOCK_MAX;
}

static struct kolo_scan_layout layout_of(uint32_t node, uint32_t ticket) {
    return (struct kolo_scan_layout){kernel_of(ticket), internodes[node].prefixes[0], BLOCK_MAX};
}

static void show_terms(uint32_t node, uint32_t ticket) {
    const struct kolo_scan_layout layout = layout_of(node, ticket);
    memset(kolo_internode_partial(&comms[node], ticket), GUARD, (size_t)2 * SLOT_BYTES);
    for (uint32_t local = 0; local < kolo_nodes_local_size(&nodes, node); local++) {
        const uint32_t rank = kolo_nodes_rank(&nodes, node, local);
        memset(slot_of(node, local, ticket), GUARD, SLOT_BYTES);
        fill(kolo_scan_term(&comms[node], &layout, ticket, local), name_of_block(ticket, rank, 0),
             count_of(ticket) * kolo_scan_term_bytes(&comms[node], &layout, rank));
    }
}

static void check_terms(uint32_t node, uint32_t ticket) {
    const struct kolo_scan_layout layout = layout_of(node, ticket);
    const struct kolo_prefixes *prefixes = internodes[node].prefixes[0];
    uint32_t places = 0;
    for (uint32_t rank = 0; rank < nodes.size; rank++) {
        if (prefixes->each[rank].place == KOLO_PREFIX_UNUSED)
            continue;
        const uint8_t *place = kolo_scan_place(&comms[node], &layout, ticket, prefixes->each[rank].place);
        const size_t bytes = count_of(ticket) * kolo_scan_term_bytes(&comms[node], &layout, rank);
        check(place, name_of_block(ticket, rank, 0), bytes, "a term", ticket);
        check_untouched(place + bytes, place + layout.stride * layout.kernel->acc_bytes, ticket);
        places++;
    }
    const uint8_t *behind = kolo_scan_place(&comms[node], &layout, ticket, places);
    check_untouched(behind, kolo_internode_partial(&comms[node], ticket) + (size_t)2 * SLOT_BYTES, ticket);
}

static uint64_t term_bytes(uint32_t ticket) {
    const struct kolo_scan_layout layout = layout_of(0, ticket);
    uint64_t bytes = 0;
    for (uint32_t node = 0; node < nodes.nodes; node++)
        for (uint32_t rank = 0; rank < nodes.size; rank++)
            if (internodes[node].prefixes[0]->each[rank].place != KOLO_PREFIX_UNUSED)
                bytes += count_of(ticket) * kolo_scan_term_bytes(&comms[nodes.node_of[rank]], &layout, rank);
    return bytes;
}

/* Worlds. */

static struct kolo_call_key key_of(const struct kolo_moves *moves) {
    const kolo_collective counted = moves->collective == KOLO_GATHER    ? KOLO_GATHERV
                                    : moves->collective == KOLO_SCATTER ? KOLO_SCATTERV
                                                                        : KOLO_ALLTOALLV;
    return (struct kolo_call_key){.collective = (uint8_t)(counted + 1), .root = (uint16_t)moves->root};
}

static struct kolo_order order_of(uint32_t node, uint32_t ticket) {
    struct kolo_order order = {.ticket = ticket, .stamp = 1000 + ticket, .number = ticket + 1};
    if (scans) {
        order.key = kolo_call_key_of(KOLO_SCAN, count_of(ticket));
        order.collective = KOLO_SCAN;
        order.kernel = kernel_of(ticket);
        order.count = count_of(ticket);
        order.scan = layout_of(node, ticket);
    } else {
        order.moves = moves_of(ticket);
        order.key = key_of(&order.moves);
        order.collective = order.moves.collective;
    }
    return order;
}

/* What is not awaited: parts that do not exist, that come from another node, or that go the other way. */
static void check_refusals(uint32_t node, const struct kolo_order *order) {
    struct kolo_exchange_state *state = states[node][order->ticket % internodes[node].lanes];
    const struct kolo_moves *moves = &order->moves;
    void *where;
    for (uint32_t part = 0; part <= KOLO_MOVES_MAX; part += part < 64 ? 1 : 777)
        for (uint32_t from = 0; from < nodes.nodes; from++)
            for (uint16_t kind = KOLO_MESSAGE_UP; kind <= KOLO_MESSAGE_DOWN + 1; kind++) {
                const uint32_t blocks = moves->end - moves->begin, local = blocks ? part / blocks : 0;
                uint32_t sender = part < nodes.size ? part : KOLO_MOVES_NOBODY;
                if (!scans)
                    sender = local < kolo_nodes_local_size(&nodes, node)
                                 ? kolo_moves_peer(moves, nodes.size, kolo_nodes_rank(&nodes, node, local),
                                                   moves->begin + part % blocks, KOLO_MOVES_IN)
                                 : KOLO_MOVES_NOBODY;
                if (from == node ||
                    (kind == KOLO_MESSAGE_UP && sender != KOLO_MOVES_NOBODY && nodes.node_of[sender] == from))
                    continue;
                const struct kolo_frame frame = {.kind = kind,
                                                 .part = (uint16_t)part,
                                                 .ticket = order->ticket,
                                                 .stamp = order->stamp,
                                                 .key = order->key};
                CHECK(kolo_exchange_place(state, from, &frame, &where) < 0, "node %u takes part %u from node %u", node,
                      part, from);
            }
    CHECK(count_mismatches(NULL) == 0, "no mismatch");
}

static void begin(const void *context, uint32_t node, uint32_t ticket) {
    const struct kolo_order order = order_of(node, ticket);
    (void)context;
    if (ticket >= KOLO_SLOTS)
        (scans ? check_terms : check_blocks)(node, ticket - KOLO_SLOTS);
    (scans ? show_terms : show_blocks)(node, ticket);
    kolo_exchange_begin(states[node][ticket % internodes[node].lanes], &order);
    check_refusals(node, &order);
}

static void create_world(uint32_t lanes, const uint32_t *groups, uint32_t ranks, bool by_rank) {
    CHECK(kolo_nodes_make(&nodes, groups, ranks) == 0, "nodes");
    for (uint32_t node = 0; node < nodes.nodes; node++) {
        const size_t locals = kolo_nodes_local_size(&nodes, node);
        internodes[node] = (struct kolo_internode){.nodes = nodes, .node = node, .lanes = lanes};
        CHECK(kolo_prefixes_make(&internodes[node].prefixes[0], &nodes, node, by_rank) == 0, "prefixes");
        comms[node] = (kolo_comm){.internode = &internodes[node], .reducer = reducer};
        comms[node].segment.slot_bytes = SLOT_BYTES;
        comms[node].segment.slots = calloc(locals * KOLO_SLOTS, SLOT_BYTES);
        comms[node].segment.internode_slots = calloc((size_t)2 * KOLO_SLOTS, SLOT_BYTES);
        CHECK(comms[node].segment.slots && comms[node].segment.internode_slots, "memory");
    }
    create_states(comms, nodes.nodes, lanes);
}

static void destroy_world(uint32_t lanes) {
    drop_sends();
    destroy_states(nodes.nodes, lanes);
    for (uint32_t node = 0; node < nodes.nodes; node++) {
        free(internodes[node].prefixes[0]);
        free(comms[node].segment.slots);
        free(comms[node].segment.internode_slots);
    }
    kolo_nodes_free(&nodes);
}

static void run_world(uint64_t number) {
    uint32_t groups[RANKS];
    agreed = seed = number * UINT64_C(0x9e3779b97f4a7c15) + 1;
    const uint32_t node_count = 2 + draw(5), ranks = node_count + draw(RANKS - node_count + 1), lanes = 1 + draw(3);
    const bool is_grouped = draw(2);
    for (uint32_t rank = 0; rank < ranks; rank++)
        groups[rank] = is_grouped ? rank * node_count / ranks : rank < node_count ? rank : draw(node_count);
    scans = number % 2;
    create_world(lanes, groups, ranks, draw(2));
    run_network(&(struct run){scans ? "scans" : "blocks", nodes.nodes, lanes, TICKETS, begin, NULL});
    uint64_t wanted = 0, sent = 0;
    for (uint32_t ticket = 0; ticket < TICKETS; ticket++)
        wanted += (scans ? term_bytes : block_bytes)(ticket);
    for (uint32_t node = 0; node < nodes.nodes; node++) {
        for (uint32_t other = 0; other < nodes.nodes; other++)
            sent += sent_bytes[node][other];
        for (uint32_t ticket = TICKETS - KOLO_SLOTS; ticket < TICKETS; ticket++)
            (scans ? check_terms : check_blocks)(node, ticket);
    }
    CHECK(sent == wanted, "%" PRIu64 " bytes sent, not %" PRIu64, sent, wanted);
    destroy_world(lanes);
}

/* Ranks 1 and 2, of two nodes, do not agree on the block from 1 to 2. */
static void run_miscounted(void) {
    static const uint32_t groups[4] = {0, 0, 1, 1};
    const struct kolo_moves moves = {.collective = KOLO_ALLTOALL,
                                     .begin = 3, /* where rank 1 sends to rank 2, and 2 to 1 */
                                     .end = 4,
                                     .chunk_count = 25,
                                     .region_bytes = 128,
                                     .element_bytes = 2};
    const struct kolo_order order = {
        .stamp = 7, .number = 9, .key = key_of(&moves), .collective = KOLO_ALLTOALL, .moves = moves};
    scans = false;
    create_world(1, groups, 4, false);
    for (uint32_t node = 0; node < 2; node++)
        for (uint32_t local = 0; local < 2; local++)
            for (int half = 0; half < 2; half++) {
                const uint64_t whole = node == 1 && local == 0 && half == KOLO_MOVES_IN ? COUNT_WRONG : COUNT_WRONG + 2;
                const struct kolo_moves_head head = {whole, whole};
                memcpy(kolo_moves_region(&comms[node], &moves, 0, local, 3, (enum kolo_moves_half)half), &head,
                       sizeof head);
            }
    for (uint32_t node = 0; node < 2; node++)
        kolo_exchange_begin(states[node][0], &order);
    for (uint32_t i = 0; i < send_count; i++)
        hand_over(&sends[i]);
    deliver_to(0);
    CHECK(count_mismatches(NULL) == 0, "node 0 expects what comes");
    deliver_to(1);
    const struct kolo_exchange_trouble *trouble = &states[1][0]->trouble;
    CHECK(count_mismatches(NULL) == 1 && trouble->node == 0 && trouble->counts.sender == 1 &&
              trouble->counts.taker == 2 && trouble->counts.sent == COUNT_WRONG + 2 &&
              trouble->counts.expected == COUNT_WRONG && trouble->own.number == 9,
          "rank %u sends %" PRIu64 " to rank %u, which expects %" PRIu64, trouble->counts.sender, trouble->counts.sent,
          trouble->counts.taker, trouble->counts.expected);
    destroy_world(1);
}

/* Who only sends stops in time, and goes on when the others come. */

static uint32_t begin_while_it_may(uint32_t node, uint32_t ticket, uint32_t end) {
    for (; ticket < end && kolo_exchange_may_begin(states[node][0], ticket); ticket++) {
        const struct kolo_moves moves = {
            .collective = KOLO_SCATTER, .end = nodes.size, .chunk_count = 1, .region_bytes = 128, .element_bytes = 1};
        const struct kolo_order order = {
            .ticket = ticket, .stamp = ticket, .key = key_of(&moves), .collective = KOLO_SCATTER, .moves = moves};
        for (uint32_t local = 0; local < kolo_nodes_local_size(&nodes, node); local++)
            memset(slot_of(node, local, ticket), 0, SLOT_BYTES); /* of empty blocks */
        kolo_exchange_begin(states[node][0], &order);
        for (uint32_t i = 0; i < send_count; i++)
            if (sends[i].payload)
                hand_over(&sends[i]);
        deliver_to(node);
    }
    return ticket;
}

static void run_ahead(void) {
    static const uint32_t groups[4] = {0, 1, 2, 2};
    scans = false;
    create_world(1, groups, 4, false);
    uint32_t root = begin_while_it_may(0, 0, TICKETS * 100);
    CHECK(root == KOLO_EXCHANGES_AHEAD, "%u scatters though nobody else has come", root);
    CHECK(kolo_exchange_late(states[0][0]) == 1 && kolo_exchange_awaits(states[0][0], 1), "node 1 is late");
    const uint32_t first = begin_while_it_may(1, 0, 40);
    CHECK(first == 40 && begin_while_it_may(0, root, root + 1) == root, "%u scatters without node 2", root);
    CHECK(kolo_exchange_late(states[0][0]) == 2 && kolo_exchange_awaits(states[0][0], 2), "node 2 is late");
    uint32_t second = begin_while_it_may(2, 0, 40);
    root = begin_while_it_may(0, root, TICKETS * 100);
    CHECK(root > KOLO_EXCHANGES_AHEAD && root <= KOLO_EXCHANGES_AHEAD + 40, "%u scatters with 40 begun", root);
    /* Together: nobody waits for good, and it takes few frames. */
    const uint32_t end = 2000;
    for (uint32_t a = first; root < end || a < end || second < end;) {
        const uint32_t before = root + a + second;
        a = begin_while_it_may(1, a, root < end ? root : end);
        second = begin_while_it_may(2, second, root < end ? root : end);
        root = begin_while_it_may(0, root, end);
        CHECK(root + a + second > before, "nobody goes on: %u, %u, %u", root, a, second);
        for (uint32_t i = 0; i < send_count; i++)
            while (sends[i].over && i < send_count)
                sends[i] = sends[--send_count];
    }
    CHECK(told <= end / 8 + 10, "%u frames told for %u scatters", told, end);
    CHECK(count_mismatches(NULL) == 0, "no mismatch");
    destroy_world(1);
}

int main(int argc, char **argv) {
    const uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    enum { WORLDS = 120 };
    reducer = kolo_reducer_select(kolo_cpu_features());
    for (uint64_t number = first; number < first + WORLDS; number++)
        run_world(number);
    run_miscounted();
    run_ahead();
    printf("%d worlds from seed %" PRIu64 "\n", WORLDS, first);
    return 0;
}
