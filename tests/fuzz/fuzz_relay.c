/* What a node that has proved itself could send for the messages of ranks (internode/relay/relay.h): frames that the
 * engine has let through. What is not possible is refused; what ranks find in their rings and streams is within bounds,
 * and never more than there is room for.
 *
 * Ranks 0 and 1 are here, 2 and 3 on the other node. Input: steps, each of which begins with a byte. Bits 0 and 1: 0 a
 * frame, whose header follows, and as many bytes of payload as that says, as far as there are any; 1 a rank takes the
 * next message; 2 a rank takes the next chunk; 3 a rank sends a small message; with bit 4, 0 a rank asks for the last
 * message that it took; 1 a rank serves what it is asked for. Bit 2: the rank here; bit 3: the other. */
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>

#include "fuzz_target.h"
#include "comm/channels/rings.h"
#include "internode/relay/relay.h"

enum { BYTES_MAX = 8192, LOCALS = 2, ALL = 4, SLOT_BYTES = KOLO_PAGE_BYTES };

struct world {
    kolo_comm comm;
    struct kolo_internode internode;
    struct kolo_relay *relay;
    kolo_engine *engine;
    uint64_t sent[LOCALS][ALL];
};

static int place(void *owner, uint32_t node, const struct kolo_frame *frame, void **where) {
    (void)owner, (void)node, (void)frame, (void)where;
    return KOLO_ERR_VERSION;
}

static void no_frame(void *owner, uint32_t node, const struct kolo_frame *frame) {
    (void)owner, (void)node, (void)frame;
}

static void ended(void *owner, uint32_t node, int error) {
    (void)owner, (void)node, (void)error;
}

static void open_world(struct world *world) {
    static uint32_t node_of[ALL] = {0, 0, 1, 1}, ranks[ALL] = {0, 1, 2, 3}, first_of[3] = {0, 2, 4};
    static const struct kolo_engine_events events = {place, no_frame, no_frame, ended, NULL};
    static const struct kolo_engine_options options = {
        .kind = KOLO_NET_ENGINE_POLL, .nodes = 2, .streams_max = 1, .silence_ns = INT64_C(100000000000)};
    const size_t bytes = kolo_layout_compute(LOCALS, SLOT_BYTES, ALL).bytes;
    kolo_comm *comm = &world->comm;
    world->internode.nodes = (struct kolo_nodes){ALL, 2, node_of, ranks, first_of};
    comm->size = LOCALS;
    comm->global_size = ALL;
    comm->internode = &world->internode;
    comm->nodes = &world->internode.nodes;
    comm->waiter.publisher_fences = true;
    void *mapping = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    REQUIRE(mapping != MAP_FAILED);
    kolo_segment_view(&comm->segment, mapping, bytes, LOCALS, SLOT_BYTES, ALL);
    REQUIRE(kolo_liveness_create(&comm->liveness, LOCALS, 0) == 0);
    REQUIRE(kolo_engine_create(&world->engine, &options, &events, NULL) == 0);
    REQUIRE(kolo_relay_create(&world->relay, comm, world->engine) == 0);
}

static void close_world(struct world *world) {
    kolo_relay_stop(world->relay);
    kolo_engine_destroy(world->engine, 0);
    kolo_relay_free(world->relay);
    kolo_liveness_destroy(&world->comm.liveness, false);
    munmap(world->comm.segment.header, world->comm.segment.bytes);
}

static bool has_bit(const kolo_atomic_u64 *bits, uint32_t rank) {
    return kolo_load_acquire(&bits[0]) >> rank & 1;
}

static void note_news(struct world *world, uint32_t local, uint32_t other) {
    struct kolo_shared_relay *shared = &world->comm.segment.internode->relay;
    kolo_set_bits(&world->comm.segment.mailboxes[local].news[0], UINT64_C(1) << other);
    kolo_set_bits(&shared->news[0], UINT64_C(1) << local);
    kolo_fetch_add(&shared->events, 1);
    kolo_relay_serve(world->relay);
}

/* Returns how many bytes of the input it took. */
static size_t step_frame(struct world *world, const uint8_t *data, size_t bytes) {
    struct kolo_frame frame;
    void *where;
    if (bytes < KOLO_FRAME_HEADER_BYTES || kolo_frame_parse(data, &frame) < 0)
        return bytes;
    const size_t left = bytes - KOLO_FRAME_HEADER_BYTES, given = frame.bytes < left ? frame.bytes : left;
    if (frame.kind == KOLO_FRAME_CHUNK) {
        if (kolo_relay_place(world->relay, 1, &frame, &where) == 0) {
            memset(where, 1, frame.bytes);
            kolo_relay_take(world->relay, 1, &frame, NULL);
        }
    } else if (frame.kind == KOLO_FRAME_MESSAGE || frame.kind == KOLO_FRAME_PROGRESS) {
        uint8_t *payload = calloc(1, frame.bytes + 1); /* of just the size, so that a byte too far shows */
        payload = realloc(payload, frame.bytes ? frame.bytes : 1);
        memcpy(payload, data + KOLO_FRAME_HEADER_BYTES, given);
        kolo_relay_take(world->relay, 1, &frame, payload);
        free(payload);
    }
    return KOLO_FRAME_HEADER_BYTES + given;
}

static void take_message(struct world *world, uint32_t local, uint32_t from) {
    if (!has_bit(world->comm.segment.mailboxes[local].senders, from))
        return;
    struct kolo_shared_ring *ring = kolo_ring(&world->comm, from, local);
    const uint64_t number = kolo_load_acquire(&ring->taken) + 1;
    const struct kolo_shared_cell *cell = &ring->cells[number % KOLO_CELLS];
    if (kolo_load_acquire(&cell->sequence) < number)
        return;
    REQUIRE(kolo_load_acquire(&cell->sequence) == number && cell->tag >= 0 && cell->dtype < KOLO_DTYPES &&
            cell->count <= SIZE_MAX / 16);
    if (cell->count > KOLO_CELL_PAYLOAD && cell->chunks_before != KOLO_NOT_STREAMED)
        REQUIRE(cell->chunks_before <= kolo_load_acquire(&world->comm.segment.streams[from].taken));
    kolo_store_release(&ring->taken, number);
    note_news(world, local, from);
}

static void take_chunk(struct world *world, uint32_t local, uint32_t from) {
    struct kolo_shared_stream *stream = &world->comm.segment.streams[from];
    const uint64_t taken = kolo_load_acquire(&stream->taken), filled = kolo_load_acquire(&stream->filled);
    REQUIRE(filled >= taken && filled <= taken + KOLO_CHUNKS);
    if (filled == taken)
        return;
    kolo_store_release(&stream->taken, taken + 1);
    note_news(world, local, from);
}

static void send_message(struct world *world, uint32_t local, uint32_t to) {
    struct kolo_shared_ring *ring = kolo_ring(&world->comm, local, to);
    const uint64_t number = world->sent[local][to] + 1, taken = kolo_load_acquire(&ring->taken);
    REQUIRE(taken <= world->sent[local][to]);
    if (number > taken + KOLO_CELLS)
        return;
    struct kolo_shared_cell *cell = &ring->cells[number % KOLO_CELLS];
    cell->dtype = KOLO_I8;
    cell->count = number % (KOLO_CELL_PAYLOAD + 1);
    kolo_store_release(&cell->sequence, number);
    world->sent[local][to] = number;
    kolo_set_bits(&world->comm.segment.mailboxes[local].rings[0], UINT64_C(1) << to);
    note_news(world, local, to);
}

static void ask(struct world *world, uint32_t local, uint32_t from) {
    if (!has_bit(world->comm.segment.mailboxes[local].senders, from))
        return;
    struct kolo_shared_ring *ring = kolo_ring(&world->comm, from, local);
    const uint64_t asked = kolo_load_acquire(&ring->asked), served = kolo_load_acquire(&ring->served);
    REQUIRE(served <= asked);
    if (served < asked || kolo_load_acquire(&ring->taken) == 0)
        return;
    ring->asked_number = kolo_load_acquire(&ring->taken);
    kolo_store_release(&ring->asked, asked + 1);
    note_news(world, local, from);
}

static void serve(struct world *world, uint32_t local, uint32_t to) {
    struct kolo_shared_ring *ring = kolo_ring(&world->comm, local, to);
    struct kolo_shared_stream *stream = &world->comm.segment.streams[local];
    const uint64_t asked = kolo_load_acquire(&ring->asked), served = kolo_load_acquire(&ring->served);
    const uint64_t filled = kolo_load_acquire(&stream->filled), taken = kolo_load_acquire(&stream->taken);
    REQUIRE(asked <= served + 1 && taken <= filled);
    if (asked == served || taken < filled)
        return;
    REQUIRE(ring->asked_number > 0 && ring->asked_number <= world->sent[local][to]);
    ring->served_chunks_before = filled;
    ring->served_bytes = KOLO_CHUNK_BYTES + 1;
    kolo_store_release(&ring->served, asked);
    kolo_store_release(&stream->filled, filled + 2);
    note_news(world, local, to);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    if (bytes > BYTES_MAX)
        return 0;
    struct world *world = calloc(1, sizeof *world);
    REQUIRE(world);
    open_world(world);
    for (size_t at = 0; at < bytes;) {
        const uint8_t step = data[at++];
        const uint32_t local = step >> 2 & 1, other = LOCALS + (step >> 3 & 1);
        switch ((step & 3) | (step & 16) >> 2) {
        case 0:
            at += step_frame(world, data + at, bytes - at);
            break;
        case 1:
            take_message(world, local, other);
            break;
        case 2:
            take_chunk(world, local, other);
            break;
        case 3:
            send_message(world, local, other);
            break;
        case 4:
            ask(world, local, other);
            break;
        default:
            serve(world, local, other);
        }
    }
    close_world(world);
    free(world);
    return 0;
}
