/* Keeps the rings and streams of two nodes alike. */
#include "internode/relay/relay.h"

#include <limits.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/status.h"
#include "base/wire.h"
#include "comm/channels/rings.h"
#include "sync/point.h"
#include "sync/thread.h"

#define WAKER_NS  INT64_C(1000000000) /* longest sleep of the thread that wakes the engine */
#define COUNT_MAX (SIZE_MAX / 16)     /* elements of a message: no number of bytes overflows */

/* Places of the fields of a message. */
enum { TAG_AT = 0, DTYPE_AT = 4, COUNT_AT = 8, BEFORE_AT = 16, PAYLOAD_AT = 24 };
static_assert(PAYLOAD_AT + KOLO_CELL_PAYLOAD <= KOLO_CONTROL_BYTES_MAX, "a cell is one frame");

/* kolo_frame.key.count of KOLO_FRAME_PROGRESS: what kolo_frame.stamp is. */
enum { TAKEN_MESSAGES, TAKEN_CHUNKS, ASKED, SERVED, LEFT };
static_assert(KOLO_CHUNK_BYTES == KOLO_CHUNK_BYTES_MAX, "a chunk is one frame");

/* A rank of this node and one of another. */
struct pair {
    uint64_t forwarded; /* messages to the other rank that have gone */
    uint64_t received;  /* messages from the other rank that have come */
    uint64_t told;      /* those of the received that the other node knows to be taken */
    uint64_t asked;     /* those that this rank has asked for, as far as the other node knows */
    uint64_t served;    /* messages to the other that were served, as far as the other node knows */
    bool has_ring;      /* the ring of incoming messages has memory */
    bool is_known;      /* the other node knows that this rank may wait for it */
};

/* The large message that a rank of this node sends to another node, and its chunks: numbered in the message. */
struct outgoing {
    bool is_under_way;
    uint32_t to;
    size_t bytes;
    uint64_t before, before_there; /* chunks of earlier messages, in the rank's stream and to that node */
    uint64_t chunks, sent, taken;
    uint32_t held; /* chunks that the engine has: a bit for each, by its place in the stream */
};

/* The incoming stream of a rank of another node. */
struct incoming {
    bool has_stream; /* the stream has memory here */
    uint64_t filled; /* chunks that are there */
    uint64_t told;   /* chunks that the other node knows to be taken */
};

struct kolo_relay {
    kolo_comm *comm;
    kolo_engine *engine;
    struct kolo_shared_relay *shared;
    kolo_waiter ringer;        /* for kolo_publish */
    struct pair *pairs;        /* [local ranks][all ranks] */
    struct outgoing *outgoing; /* [local ranks] */
    struct incoming *incoming; /* [all ranks] */
    uint64_t *chunks;          /* [local ranks][nodes]: that have gone there */
    uint64_t left_told[KOLO_RANK_WORDS];
    kolo_atomic_u64 seen; /* events */
    struct kolo_liveness liveness;
    pthread_t waker;
    bool has_waker, lacks_memory; /* for a frame, after which none goes */
    kolo_atomic_u64 talks, stopping;
};

static struct pair *pair_of(struct kolo_relay *relay, uint32_t local, uint32_t other) {
    return &relay->pairs[(size_t)local * relay->comm->nodes->size + other];
}

static uint32_t place_of(uint64_t chunk) {
    return UINT32_C(1) << chunk % KOLO_CHUNKS;
}

static void tell(struct kolo_relay *relay, uint32_t node, struct kolo_frame frame, const void *payload) {
    KOLO_POINT("relay.telling");
    relay->lacks_memory = relay->lacks_memory || kolo_engine_tell(relay->engine, node, &frame, payload) < 0;
}

/* Publishes a flag for a rank of this node, as a rank would. */
static void publish_for(struct kolo_relay *relay, kolo_atomic_u64 *flag, uint64_t value, uint32_t local) {
    struct kolo_shared_mailbox *mailbox = &relay->comm->segment.mailboxes[local];
    KOLO_POINT("relay.publishing");
    kolo_publish(&relay->ringer, flag, value, &relay->comm->segment.internode->lanes[0].bell);
    if (kolo_load_relaxed(&mailbox->listens)) {
        kolo_fetch_add(&mailbox->events, 1);
        kolo_bell_ring(&relay->ringer, &mailbox->bell);
    }
    KOLO_POINT("relay.published");
}

/* Talking. */

/* Another process cannot wake the engine, so that this thread wakes it when another process rings the bell. */
static void *wake_engine(void *argument) {
    struct kolo_relay *relay = argument;
    kolo_bell *bell = &relay->shared->bell;
    while (!kolo_load_acquire(&relay->stopping)) { /* pairs with kolo_relay_stop */
        const uint32_t rings = kolo_bell_rings(bell);
        const uint64_t events = kolo_load_acquire(&relay->shared->events);
        kolo_engine_wake(relay->engine);
        kolo_bell_enter(bell);
        if (kolo_load_acquire(&relay->shared->events) == events && !kolo_load_acquire(&relay->stopping))
            kolo_futex_sleep(&bell->rings, rings, WAKER_NS);
        kolo_bell_leave(bell);
    }
    return NULL;
}

static void talk(struct kolo_relay *relay) {
    if (kolo_load_relaxed(&relay->talks))
        return;
    KOLO_POINT("relay.talking");
    relay->has_waker = kolo_thread_start(&relay->waker, wake_engine, relay) == 0;
    if (!relay->has_waker)
        kolo_log(relay->comm->log_level, KOLO_LOG_WARN, (int)relay->comm->global_rank,
                 "cannot start a thread: messages to other machines take up to 20 ms longer");
    kolo_store_release(&relay->talks, 1);
}

/* Outgoing messages. */

/* Begins to send chunks of a large message to a node to which all chunks of the rank's earlier ones have gone. Returns
 * how many chunks these were. */
static uint64_t begin_stream(struct kolo_relay *relay, uint32_t local, uint32_t to, size_t bytes, uint64_t before) {
    const struct kolo_nodes *nodes = relay->comm->nodes;
    uint64_t *gone = &relay->chunks[(size_t)local * nodes->nodes + nodes->node_of[to]];
    const uint64_t before_there = *gone;
    relay->outgoing[local] = (struct outgoing){.is_under_way = true,
                                               .to = to,
                                               .bytes = bytes,
                                               .before = before,
                                               .before_there = before_there,
                                               .chunks = kolo_chunks_of(bytes)};
    *gone += kolo_chunks_of(bytes);
    return before_there;
}

/* Passes on the next message to `to`, if there is one. */
static bool forward_message(struct kolo_relay *relay, uint32_t local, uint32_t to) {
    const kolo_comm *comm = relay->comm;
    const uint32_t from = kolo_nodes_rank(comm->nodes, comm->node, local), node = comm->nodes->node_of[to];
    struct pair *pair = pair_of(relay, local, to);
    const uint64_t number = pair->forwarded + 1;
    const struct kolo_shared_cell *cell = &kolo_ring(comm, from, to)->cells[number % KOLO_CELLS];
    if (kolo_load_acquire(&cell->sequence) < number) /* pairs with kolo_publish_to */
        return false;
    const size_t bytes = kolo_elements_bytes((kolo_dtype)cell->dtype, cell->count);
    const bool is_large = bytes > KOLO_CELL_PAYLOAD, streams = is_large && cell->chunks_before != KOLO_NOT_STREAMED;
    uint8_t message[KOLO_CONTROL_BYTES_MAX];
    kolo_wire_put(message + TAG_AT, (uint32_t)cell->tag, 4);
    kolo_wire_put(message + DTYPE_AT, cell->dtype, 4);
    kolo_wire_put(message + COUNT_AT, cell->count, 8);
    kolo_wire_put(message + BEFORE_AT,
                  streams ? begin_stream(relay, local, to, bytes, cell->chunks_before) : KOLO_NOT_STREAMED, 8);
    memcpy(message + PAYLOAD_AT, cell->payload, is_large ? 0 : bytes);
    pair->forwarded = number;
    pair->is_known = true;
    tell(relay, node,
         (struct kolo_frame){.kind = KOLO_FRAME_MESSAGE,
                             .part = (uint16_t)from,
                             .bytes = (uint32_t)(PAYLOAD_AT + (is_large ? 0 : bytes)),
                             .ticket = to,
                             .stamp = number},
         message);
    return true;
}

/* Tells where the chunks of a message begin that its receiver has asked for. */
static void forward_serving(struct kolo_relay *relay, uint32_t local, uint32_t to) {
    const kolo_comm *comm = relay->comm;
    const uint32_t from = kolo_nodes_rank(comm->nodes, comm->node, local);
    const struct kolo_shared_ring *ring = kolo_ring(comm, from, to);
    struct pair *pair = pair_of(relay, local, to);
    if (kolo_load_acquire(&ring->served) == pair->served) /* pairs with sending.c's serve */
        return;
    pair->served++;
    tell(relay, comm->nodes->node_of[to],
         (struct kolo_frame){
             .kind = KOLO_FRAME_PROGRESS,
             .part = (uint16_t)from,
             .ticket = to,
             .stamp = begin_stream(relay, local, to, ring->served_bytes, ring->served_chunks_before),
             .key.count = SERVED,
         },
         NULL);
}

/* Passes on those chunks of a rank's large message that are there. */
static void forward_chunks(struct kolo_relay *relay, uint32_t local) {
    const kolo_comm *comm = relay->comm;
    struct outgoing *out = &relay->outgoing[local];
    const uint32_t from = kolo_nodes_rank(comm->nodes, comm->node, local);
    struct kolo_shared_stream *stream = &comm->segment.streams[from];
    const uint64_t filled = out->is_under_way ? kolo_load_acquire(&stream->filled) : 0; /* pairs with kolo_publish_to */
    while (out->is_under_way && out->sent < out->chunks && out->before + out->sent < filled) {
        const uint64_t chunk = out->sent++;
        const struct kolo_frame frame = {.kind = KOLO_FRAME_CHUNK,
                                         .part = (uint16_t)from,
                                         .bytes = (uint32_t)kolo_chunk_bytes(out->bytes, chunk),
                                         .ticket = out->to,
                                         .stamp = out->before_there + chunk};
        out->held |= place_of(out->before + chunk);
        KOLO_POINT("relay.sending");
        relay->lacks_memory =
            relay->lacks_memory || kolo_engine_send(relay->engine, comm->nodes->node_of[out->to], &frame,
                                                    stream->chunks[(out->before + chunk) % KOLO_CHUNKS]) < 0;
    }
}

/* Tells a rank of this node which of its chunks it may fill again: those that are taken and not with the engine. */
static void free_chunks(struct kolo_relay *relay, uint32_t local) {
    struct outgoing *out = &relay->outgoing[local];
    const kolo_comm *comm = relay->comm;
    struct kolo_shared_stream *stream = &comm->segment.streams[kolo_nodes_rank(comm->nodes, comm->node, local)];
    uint64_t first = out->taken > KOLO_CHUNKS ? out->taken - KOLO_CHUNKS : 0;
    if (!out->is_under_way)
        return;
    while (first < out->taken && !(out->held & place_of(out->before + first)))
        first++;
    if (out->before + first <= kolo_load_relaxed(&stream->taken))
        return;
    out->is_under_way = first < out->chunks;
    publish_for(relay, &stream->taken, out->before + first, local);
}

void kolo_relay_sent(struct kolo_relay *relay, const struct kolo_frame *frame) {
    const uint32_t local = kolo_nodes_local_rank(relay->comm->nodes, frame->part);
    struct outgoing *out = &relay->outgoing[local];
    out->held &= ~place_of(out->before + frame->stamp - out->before_there);
    free_chunks(relay, local);
}

/* Tells the other node what a rank has taken of what came from there, and what it asks for. */
static void tell_taken(struct kolo_relay *relay, uint32_t local, uint32_t other) {
    const kolo_comm *comm = relay->comm;
    const uint32_t rank = kolo_nodes_rank(comm->nodes, comm->node, local), node = comm->nodes->node_of[other];
    struct pair *pair = pair_of(relay, local, other);
    struct incoming *in = &relay->incoming[other];
    const struct kolo_shared_ring *ring = kolo_ring(comm, other, rank);
    struct kolo_frame frame = {.kind = KOLO_FRAME_PROGRESS, .part = (uint16_t)other, .ticket = rank};
    if (pair->has_ring)
        frame.stamp = kolo_load_acquire(&ring->taken); /* pairs with kolo_publish_to */
    if (frame.stamp > pair->told || !pair->is_known)
        tell(relay, node, frame, NULL);
    pair->told = frame.stamp;
    pair->is_known = true;
    if (pair->has_ring && kolo_load_acquire(&ring->asked) > pair->asked) { /* pairs with receiving.c's ask */
        pair->asked++;
        frame.key.count = ASKED;
        frame.stamp = ring->asked_number;
        tell(relay, node, frame, NULL);
    }
    frame.key.count = TAKEN_CHUNKS;
    frame.stamp = in->has_stream ? kolo_load_acquire(&comm->segment.streams[other].taken) : 0;
    if (frame.stamp <= in->told)
        return;
    in->told = frame.stamp;
    tell(relay, node, frame, NULL);
}

/* Serves all that goes between a rank of this node and one of another. */
static void serve_pair(struct kolo_relay *relay, uint32_t local, uint32_t other) {
    const kolo_atomic_u64 *rings = relay->comm->segment.mailboxes[local].rings;
    const bool has_ring = kolo_load_acquire(&rings[other / 64]) >> other % 64 & 1; /* pairs with transfer.c */
    while (has_ring && forward_message(relay, local, other)) /* at most as many as a ring has cells */
        ;
    if (has_ring)
        forward_serving(relay, local, other);
    forward_chunks(relay, local);
    tell_taken(relay, local, other);
}

static void serve_rank(struct kolo_relay *relay, uint32_t local) {
    kolo_atomic_u64 *news = relay->comm->segment.mailboxes[local].news;
    for (uint32_t word = 0; word * 64 < relay->comm->nodes->size; word++)
        for (uint64_t bits = kolo_load_relaxed(&news[word]) ? kolo_take_bits(&news[word]) : 0; bits; bits &= bits - 1)
            serve_pair(relay, local, word * 64 + (uint32_t)__builtin_ctzll(bits));
}

bool kolo_relay_has_news(const struct kolo_relay *relay) {
    return kolo_load_acquire(&relay->shared->events) != /* pairs with transfer.c */
           kolo_load_relaxed(&relay->seen);
}

void kolo_relay_serve(struct kolo_relay *relay) {
    const kolo_comm *comm = relay->comm;
    if (!kolo_relay_has_news(relay))
        return;
    kolo_store_relaxed(&relay->seen, kolo_load_acquire(&relay->shared->events));
    KOLO_POINT("relay.serving");
    talk(relay);
    for (uint32_t word = 0; word * 64 < comm->size; word++)
        for (uint64_t bits = kolo_take_bits(&relay->shared->news[word]); bits; bits &= bits - 1)
            serve_rank(relay, word * 64 + (uint32_t)__builtin_ctzll(bits));
    KOLO_POINT("relay.served");
}

/* Incoming messages. */

static bool is_of(const struct kolo_relay *relay, uint64_t rank, uint32_t node) {
    return rank < relay->comm->nodes->size && relay->comm->nodes->node_of[rank] == node;
}

/* Reads a message's fields; false where they are not valid. */
static bool read_message(const struct kolo_frame *frame, const uint8_t *payload, struct kolo_envelope *envelope,
                         size_t *bytes) {
    if (frame->bytes < PAYLOAD_AT)
        return false;
    envelope->tag = (int32_t)kolo_wire_get(payload + TAG_AT, 4);
    envelope->dtype = (uint32_t)kolo_wire_get(payload + DTYPE_AT, 4);
    envelope->count = kolo_wire_get(payload + COUNT_AT, 8);
    envelope->chunks_before = kolo_wire_get(payload + BEFORE_AT, 8);
    if (envelope->tag < 0 || envelope->dtype >= KOLO_DTYPES || envelope->count > COUNT_MAX)
        return false;
    *bytes = envelope->count * kolo_dtype_bytes((kolo_dtype)envelope->dtype);
    return frame->bytes - PAYLOAD_AT == (*bytes > KOLO_CELL_PAYLOAD ? 0 : *bytes);
}

/* Gives memory to the stream of a rank. */
static int provide_stream(struct kolo_relay *relay, uint32_t from) {
    struct incoming *in = &relay->incoming[from];
    struct kolo_shared_stream *stream = &relay->comm->segment.streams[from];
    const int rc = in->has_stream ? 0 : kolo_segment_provide(stream, sizeof *stream);
    in->has_stream = rc == 0;
    return rc;
}

/* Whether a rank's next message may begin with that chunk: all earlier ones have been taken by then. */
static bool may_begin(const struct kolo_relay *relay, uint32_t from, uint64_t chunk) {
    return chunk == kolo_load_acquire(&relay->comm->segment.streams[from].taken); /* pairs with kolo_publish_to */
}

static int take_message(struct kolo_relay *relay, const struct kolo_frame *frame, const uint8_t *payload) {
    const kolo_comm *comm = relay->comm;
    const uint32_t from = frame->part, to = (uint32_t)frame->ticket, local = kolo_nodes_local_rank(comm->nodes, to);
    struct pair *pair = pair_of(relay, local, from);
    struct kolo_shared_ring *ring = kolo_ring(comm, from, to);
    struct kolo_envelope envelope;
    size_t bytes;
    if (frame->stamp != pair->received + 1 || !read_message(frame, payload, &envelope, &bytes))
        return KOLO_ERR_VERSION;
    const bool is_first = !pair->has_ring;
    const bool streams = bytes > KOLO_CELL_PAYLOAD && envelope.chunks_before != KOLO_NOT_STREAMED;
    int rc = is_first ? kolo_segment_provide(ring, sizeof *ring) : 0;
    pair->has_ring = rc == 0;
    if (rc == 0 && streams)
        rc = provide_stream(relay, from);
    if (rc < 0)
        return rc;
    if (frame->stamp > kolo_load_acquire(&ring->taken) + KOLO_CELLS ||
        (streams && !may_begin(relay, from, envelope.chunks_before)))
        return KOLO_ERR_VERSION;
    struct kolo_shared_cell *cell = &ring->cells[frame->stamp % KOLO_CELLS];
    cell->tag = envelope.tag;
    cell->dtype = envelope.dtype;
    cell->count = envelope.count;
    cell->chunks_before = envelope.chunks_before;
    memcpy(cell->payload, payload + PAYLOAD_AT, frame->bytes - PAYLOAD_AT);
    pair->received = frame->stamp;
    if (is_first) {
        KOLO_POINT("relay.introducing");
        kolo_set_bits(&comm->segment.mailboxes[local].senders[from / 64], UINT64_C(1) << from % 64);
    }
    publish_for(relay, &cell->sequence, frame->stamp, local);
    return 0;
}

/* Notes that chunks of a rank of this node have been taken, by whichever rank of the other node. */
static int take_taken_chunks(struct kolo_relay *relay, const struct kolo_frame *frame) {
    const uint32_t *node_of = relay->comm->nodes->node_of;
    const uint32_t local = kolo_nodes_local_rank(relay->comm->nodes, frame->part);
    struct outgoing *out = &relay->outgoing[local];
    if (!out->is_under_way || node_of[out->to] != node_of[frame->ticket] ||
        frame->stamp < out->before_there + out->taken || frame->stamp > out->before_there + out->sent)
        return KOLO_ERR_VERSION;
    out->taken = frame->stamp - out->before_there;
    free_chunks(relay, local);
    return 0;
}

/* Begins the stream of a message that a rank of this node has asked for. */
static int take_served(struct kolo_relay *relay, const struct kolo_frame *frame, struct kolo_shared_ring *ring,
                       struct pair *pair) {
    if (!pair->has_ring || kolo_load_relaxed(&ring->served) == pair->asked)
        return KOLO_ERR_VERSION;
    const int rc = provide_stream(relay, frame->part);
    if (rc == 0 && !may_begin(relay, frame->part, frame->stamp))
        return KOLO_ERR_VERSION;
    if (rc == 0)
        ring->served_chunks_before = frame->stamp;
    return rc;
}

static int take_progress(struct kolo_relay *relay, const struct kolo_frame *frame) {
    const uint32_t from = frame->part, to = (uint32_t)frame->ticket;
    const bool is_served = frame->key.count == SERVED;
    const uint32_t local = kolo_nodes_local_rank(relay->comm->nodes, is_served ? to : from);
    struct kolo_shared_ring *ring = kolo_ring(relay->comm, from, to);
    struct pair *pair = pair_of(relay, local, is_served ? from : to);
    int rc = 0;
    switch (frame->key.count) {
    case TAKEN_MESSAGES: /* of a rank of this node; 0 says that the other rank may wait for this one */
        if (frame->stamp && (frame->stamp > pair->forwarded || frame->stamp < kolo_load_relaxed(&ring->taken)))
            return KOLO_ERR_VERSION;
        if (frame->stamp)
            publish_for(relay, &ring->taken, frame->stamp, local);
        return 0;
    case TAKEN_CHUNKS:
        return take_taken_chunks(relay, frame);
    case ASKED: /* for one of those messages, which the receiver does not do before the last one was served */
        if (frame->stamp == 0 || frame->stamp > pair->forwarded || kolo_load_relaxed(&ring->asked) != pair->served)
            return KOLO_ERR_VERSION;
        ring->asked_number = frame->stamp;
        publish_for(relay, &ring->asked, pair->served + 1, local); /* pairs with sending.c's serve */
        return 0;
    case SERVED:
        rc = take_served(relay, frame, ring, pair);
        if (rc == 0)
            publish_for(relay, &ring->served, pair->asked, local); /* pairs with receiving.c's ask */
        return rc;
    default:
        return KOLO_ERR_VERSION;
    }
}

int kolo_relay_place(struct kolo_relay *relay, uint32_t node, const struct kolo_frame *frame, void **where) {
    if (!relay->comm->segment.rings || !is_of(relay, frame->part, node) ||
        !is_of(relay, frame->ticket, relay->comm->node) || frame->offset)
        return KOLO_ERR_VERSION;
    const int rc = provide_stream(relay, frame->part);
    if (rc < 0)
        return rc;
    struct kolo_shared_stream *stream = &relay->comm->segment.streams[frame->part];
    if (frame->stamp != relay->incoming[frame->part].filled ||
        frame->stamp >= kolo_load_acquire(&stream->taken) + KOLO_CHUNKS) /* pairs with kolo_publish_to */
        return KOLO_ERR_VERSION;
    *where = stream->chunks[frame->stamp % KOLO_CHUNKS];
    return 0;
}

static int take_chunk(struct kolo_relay *relay, const struct kolo_frame *frame) {
    struct incoming *in = &relay->incoming[frame->part];
    in->filled++;
    publish_for(relay, &relay->comm->segment.streams[frame->part].filled, in->filled,
                kolo_nodes_local_rank(relay->comm->nodes, (uint32_t)frame->ticket));
    return 0;
}

int kolo_relay_take(struct kolo_relay *relay, uint32_t node, const struct kolo_frame *frame, const uint8_t *payload) {
    const bool is_progress = frame->kind == KOLO_FRAME_PROGRESS;
    const bool is_back = is_progress && frame->key.count != SERVED; /* by the taker's node */
    const uint32_t own = relay->comm->node;
    talk(relay);
    if (is_progress && frame->key.count == LEFT) {
        if (!is_of(relay, frame->ticket, node))
            return KOLO_ERR_VERSION;
        kolo_set_bits(&relay->shared->left[frame->ticket / 64], UINT64_C(1) << frame->ticket % 64);
        return 0;
    }
    if (!is_of(relay, frame->part, is_back ? own : node) || !is_of(relay, frame->ticket, is_back ? node : own))
        return KOLO_ERR_VERSION;
    if (!relay->comm->segment.rings && frame->kind == KOLO_FRAME_MESSAGE)
        return KOLO_ERR_NO_SPACE;
    if (!relay->comm->segment.rings) /* a rank that waits for one of this node says so, and cannot know of its rings */
        return is_progress && frame->stamp == 0 ? 0 : KOLO_ERR_VERSION;
    KOLO_POINT("relay.taking");
    return is_progress                         ? take_progress(relay, frame)
           : frame->kind == KOLO_FRAME_MESSAGE ? take_message(relay, frame, payload)
                                               : take_chunk(relay, frame);
}

/* Ranks that have left or died. */

bool kolo_relay_look(struct kolo_relay *relay, uint64_t awaited, struct kolo_failure_report *found) {
    const kolo_comm *comm = relay->comm;
    const bool talks = kolo_load_relaxed(&relay->talks);
    if (relay->lacks_memory)
        *found =
            (struct kolo_failure_report){.status = KOLO_ERR_SYSTEM, .cause = KOLO_CAUSE_FAILED, .node = comm->node + 1};
    if (relay->lacks_memory || (!talks && awaited == 0))
        return relay->lacks_memory;
    if (comm->size > 1)
        kolo_liveness_look_at(&relay->liveness, comm->rank + 1, comm->size - 1);
    for (uint32_t local = 0; local < comm->size; local++) {
        uint64_t *told = &relay->left_told[local / 64], bit = UINT64_C(1) << local % 64;
        const uint32_t rank = kolo_nodes_rank(comm->nodes, comm->node, local);
        const struct kolo_ending ending = relay->liveness.watched[local].ending;
        const bool has_left = kolo_load_acquire(&comm->segment.members[local].state) == KOLO_MEMBER_DEPARTED;
        const bool is_missed = kolo_load_acquire(&comm->segment.signals[local].calls) < awaited && local != comm->rank;
        if ((!has_left && ending.cause == KOLO_CAUSE_NONE) || (!is_missed && (!talks || *told & bit)))
            continue;
        kolo_relay_serve(relay); /* messages that the rank sent go first */
        *told |= bit;
        if (!has_left || is_missed) {
            *found = (struct kolo_failure_report){.status = KOLO_ERR_PEER_DEAD,
                                                  .rank = rank,
                                                  .reporter = comm->global_rank,
                                                  .cause = has_left ? KOLO_CAUSE_LEFT : ending.cause,
                                                  .detail = has_left ? 0 : ending.code};
            return true;
        }
        for (uint32_t node = 0; node < comm->nodes->nodes; node++)
            if (node != comm->node)
                tell(relay, node, (struct kolo_frame){.kind = KOLO_FRAME_PROGRESS, .key.count = LEFT, .ticket = rank},
                     NULL);
    }
    return false;
}

void kolo_relay_end(struct kolo_relay *relay, uint32_t node, bool left) {
    const struct kolo_nodes *nodes = relay->comm->nodes;
    kolo_atomic_u64 *words = left ? relay->shared->left : relay->shared->lost;
    KOLO_POINT("relay.ending");
    for (uint32_t local = 0; local < kolo_nodes_local_size(nodes, node); local++) {
        const uint32_t rank = kolo_nodes_rank(nodes, node, local);
        kolo_set_bits(&words[rank / 64], UINT64_C(1) << rank % 64);
    }
    kolo_bell_ring_slowly(&relay->comm->segment.internode->lanes[0].bell); /* ranks that wait look at once */
    for (uint32_t local = 0; local < relay->comm->size; local++)
        kolo_bell_ring_slowly(&relay->comm->segment.mailboxes[local].bell);
}

kolo_bell *kolo_relay_bell(struct kolo_relay *relay) {
    return &relay->shared->bell;
}

bool kolo_relay_talks(const struct kolo_relay *relay) {
    return kolo_load_acquire(&relay->talks); /* pairs with talk */
}

/* Life. */

void kolo_relay_free(struct kolo_relay *relay) {
    if (!relay)
        return;
    free(relay->pairs);
    free(relay->outgoing);
    free(relay->incoming);
    free(relay->chunks);
    free(relay->liveness.watched);
    free(relay);
}

void kolo_relay_stop(struct kolo_relay *relay) {
    if (!relay)
        return;
    kolo_store_release(&relay->stopping, 1); /* pairs with wake_engine */
    kolo_bell_ring_slowly(&relay->shared->bell);
    if (relay->has_waker)
        pthread_join(relay->waker, NULL);
    kolo_liveness_destroy(&relay->liveness, false);
    relay->liveness.watched = NULL;
}

int kolo_relay_create(struct kolo_relay **result, kolo_comm *comm, kolo_engine *engine) {
    struct kolo_relay *relay = calloc(1, sizeof *relay);
    if (!relay)
        return kolo_fail(KOLO_ERR_SYSTEM, "out of memory");
    relay->comm = comm;
    relay->engine = engine;
    relay->shared = &comm->segment.internode->relay;
    relay->ringer.publisher_fences = comm->waiter.publisher_fences;
    relay->pairs = calloc((size_t)comm->size * comm->nodes->size, sizeof *relay->pairs);
    relay->outgoing = calloc(comm->size, sizeof *relay->outgoing);
    relay->incoming = calloc(comm->nodes->size, sizeof *relay->incoming);
    relay->chunks = calloc((size_t)comm->size * comm->nodes->nodes, sizeof *relay->chunks);
    if (!relay->pairs || !relay->outgoing || !relay->incoming || !relay->chunks ||
        kolo_liveness_create(&relay->liveness, comm->size, comm->rank) < 0) {
        kolo_relay_free(relay);
        return kolo_fail(KOLO_ERR_SYSTEM, "out of memory for %u ranks", comm->nodes->size);
    }
    relay->liveness.members = comm->segment.members;
    for (uint32_t rank = 0; rank < comm->size; rank++)
        relay->liveness.watched[rank].guard = comm->liveness.watched[rank].guard;
    *result = relay;
    return 0;
}
