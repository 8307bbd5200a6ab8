/* Exchanges: how nodes reduce their partial results, and what they send each other in the part of a collective that
 * crosses machines. An exchange runs in the leader's proxy (internode/proxy.h).
 *
 * One exchange handles one chunk. Each node knows all messages of it from the order alone: which nodes send which part
 * in which direction. Only the heads of blocks, which are in the segment, add to that
 * (internode/hierarchy/ticket_layout.h). KOLO_MESSAGE_UP carries what a node has of its own, partial results in the
 * accumulation type or blocks; KOLO_MESSAGE_DOWN carries results. A message may arrive as several frames, in any order;
 * the algorithm goes on when all bytes of the message are there. Algorithms fold node by node in the canonical order
 * (reduce/reducer.h), so that for the same ranks on each node the bits are the same; `ring` joins in ring order, so
 * that its float sums differ from the others' with three nodes or more. With KOLO_NET_ORDER=rank a node may have
 * several partial results (exchange_partials.c).
 *
 * Memory. A node receives partial results in boxes, one for each node and ticket slot, each large enough for a chunk,
 * or for all of a node's partial results of it. Ticket t + KOLO_SLOTS uses box t % KOLO_SLOTS again, and begins when t
 * is done. Blocks and the terms of a scan arrive in the segment itself, in slots that are used again likewise. Frames
 * of tickets that have not begun wait in their sockets (KOLO_PLACE_LATER). Nothing deadlocks: a node that sends in
 * ticket t + KOLO_SLOTS has finished t, and so has sent all that others need to finish t, ahead of it on each stream.
 *
 * In place. `partial` and `result` may be the same memory, where a node has one rank, which passed send == recv. A part
 * of the result is written only when nobody needs the input that it replaces. Where a part's result comes from another
 * node, that node made it from what this node sent of the part, which had all arrived. Where this node makes a part's
 * result, it writes the result after all sends of that part were handed over. */
#pragma once

#include "internode/hierarchy/ticket_layout.h"
#include "internode/internode.h"
#include "net/engine.h"
#include "plan/plan.h"

enum { KOLO_MESSAGE_UP = KOLO_FRAME_DATA, KOLO_MESSAGE_DOWN, KOLO_EXCHANGE_MESSAGES = 2 };

/* The leader's order to exchange one chunk. */
struct kolo_order {
    uint64_t ticket; /* over all calls */
    uint64_t stamp;  /* as in comm/step/progress.h */
    struct kolo_call_key key;
    uint64_t number; /* of the call */
    /* Of the nodes: ALLREDUCE or REDUCE of partial results, BROADCAST of what one node has, SCAN of terms, or GATHER,
     * SCATTER or ALLTOALL of blocks. */
    kolo_collective collective;
    const kolo_kernel *kernel; /* where it reduces */
    size_t count;              /* elements; of a broadcast bytes */
    /* NULL: a partial result of each node. Else one of each subtree, those of a node one behind another. */
    const struct kolo_subtrees *subtrees;
    const uint8_t *partial;  /* what this node's ranks have summed, in the accumulation type; of a broadcast NULL */
    uint8_t *result;         /* of the dtype; of a broadcast, the root's input */
    uint32_t root;           /* node that broadcasts, or gets what is reduced */
    struct kolo_moves moves; /* of blocks */
    struct kolo_scan_layout scan;
};

/* The call that an exchange was of. */
struct kolo_exchange_call {
    uint64_t stamp, number; /* as in its order; number 0: not known any more */
    struct kolo_call_key key;
};

/* The counts of a block that one rank sends to another, where the two ranks disagree. */
struct kolo_exchange_counts {
    uint32_t sender, taker; /* ranks among those of all nodes */
    uint64_t sent, expected;
};

/* The reason why exchanges cannot go on; the proxy tells the ranks and the other nodes. */
struct kolo_exchange_trouble {
    int status;    /* 0: none; KOLO_ERR_MISMATCH: `node` is in another call; else it lacks something here */
    uint32_t node; /* that the exchange is with */
    struct kolo_exchange_call own;
    struct kolo_call_key theirs;        /* MISMATCH: the call of that node */
    struct kolo_exchange_counts counts; /* MISMATCH: of a block, where these differ */
};

struct kolo_exchange_state;

/* One exchange under way. */
struct kolo_flight {
    struct kolo_exchange_state *state; /* of its lane */
    struct kolo_order order;
    const struct kolo_exchange_algorithm *algorithm;
    const uint8_t *partial;      /* what this node sends up */
    size_t up_bytes, down_bytes; /* of an element of a message */
    uint32_t owners;             /* nodes that own a slice */
    uint32_t parts;              /* the parts of messages are numbered below it */
    uint32_t sends;              /* messages not yet handed to the kernel */
    uint32_t awaited;            /* messages that have not arrived */
    uint32_t step;               /* the algorithm's own */
    struct {
        uint32_t missing; /* messages of those awaited */
        uint32_t ups;     /* those of the missing that go up */
    } * from;             /* [node] */
    uint64_t *arrived;    /* [kind][part]: bytes */
    bool over;
};

/* A message as both sides know it. */
struct kolo_exchange_message {
    uint32_t node; /* the other side */
    uint16_t kind; /* KOLO_MESSAGE_* */
    uint16_t part;
    struct kolo_call_key key; /* as its frames say */
};

struct kolo_exchange_algorithm {
    /* Sends what can be sent, and registers all messages that will come (kolo_exchange_await). */
    void (*begin)(struct kolo_flight *flight);
    /* Finds where the bytes of an awaited message go, and how many there are. False: no such message is awaited. */
    bool (*locate)(struct kolo_flight *flight, struct kolo_exchange_message message, uint8_t **where, size_t *bytes);
    /* All bytes of a message are there; may be NULL, as may the next. */
    void (*complete)(struct kolo_flight *flight, struct kolo_exchange_message message);
    /* One message has been handed over. */
    void (*sent)(struct kolo_flight *flight);
};

/* The number of its last exchanges whose calls a lane remembers. */
#define KOLO_EXCHANGES_KEPT 256

/* Tickets that a node may begin, at most, before it hears that another one, to which it sends data, has begun the first
 * of them; kolo_collectives.h says so. */
#define KOLO_EXCHANGES_AHEAD 64

/* The state of another node, as a lane knows it, and what that node knows of this one: see exchange_calls.c. */
struct kolo_exchange_neighbour {
    uint64_t begun;          /* the node has begun all tickets below this, as far as is known */
    uint64_t unheard;        /* the first later ticket in which the node was sent data; UINT64_MAX: none */
    uint64_t sent;           /* the last ticket in which the node was sent data */
    uint64_t told;           /* the node knows that this one has begun all tickets below this, once it has read all */
    uint64_t taken;          /* the node has sent data of tickets below this */
    struct kolo_frame heard; /* BEGUN of an exchange that has not begun here; kind 0: none */
};

/* Elements of bf16 that are widened at a time. */
#define KOLO_HALF_PIECE_COUNT 1024

/* Bytes of the subtrees' partial results that are joined at a time. */
#define KOLO_JOINED_PIECE_BYTES 4096

/* The exchanges of a lane, which belong to the thread that drives it. */
struct kolo_exchange_state {
    kolo_comm *comm;
    kolo_engine *engine;
    uint32_t lane;
    uint32_t node, nodes;
    uint32_t ranks; /* of all nodes */
    uint64_t begun; /* tickets: the next one of this lane to begin */
    uint64_t done;  /* the first ticket of this lane that is not over */
    uint8_t *boxes; /* [KOLO_SLOTS][nodes] of box_bytes */
    size_t box_bytes, boxes_bytes;
    const void **sources; /* [ranks] */
    float *pieces;        /* [nodes][KOLO_HALF_PIECE_COUNT], see exchange_mesh.c */
    uint8_t joined[KOLO_SUBTREES_STACK_MAX][KOLO_JOINED_PIECE_BYTES]; /* see exchange_partials.c */
    struct kolo_flight flights[KOLO_SLOTS];
    struct kolo_exchange_trouble trouble; /* the first */

    /* See exchange_calls.c. */
    struct kolo_exchange_call kept[KOLO_EXCHANGES_KEPT]; /* by ticket */
    struct kolo_exchange_neighbour *neighbours;          /* [nodes] */
    uint32_t heard_count;                                /* neighbours that have `heard` */
    uint64_t may_begin;                                  /* tickets below it may be begun */
    uint32_t behind;                                     /* the node for which the next one waits; UINT32_MAX: none */
    struct kolo_frame suspect; /* of an exchange too long ago, or after one that differs; kind 0: none has come */
    uint32_t suspect_node, suspect_looks;
    uint64_t seen, announced; /* tickets; UINT64_MAX: none */
};

/* For the proxy. */

/* Makes what a lane needs; its engine exists already. KOLO_ERR_SYSTEM. */
int kolo_exchange_create(struct kolo_exchange_state **state, kolo_comm *comm, uint32_t lane, kolo_engine *engine);
void kolo_exchange_destroy(struct kolo_exchange_state *state); /* NULL is fine */
void kolo_exchange_begin(struct kolo_exchange_state *state, const struct kolo_order *order);

/* The engine's events for frames of data, see struct kolo_engine_events. */
int kolo_exchange_place(struct kolo_exchange_state *state, uint32_t node, const struct kolo_frame *frame, void **where);
void kolo_exchange_arrived(struct kolo_exchange_state *state, uint32_t node, const struct kolo_frame *frame);
void kolo_exchange_sent(struct kolo_exchange_state *state, const struct kolo_frame *frame);

/* Whether `ticket`, the next one, may begin yet: not while another node is too far behind. */
bool kolo_exchange_may_begin(struct kolo_exchange_state *state, uint64_t ticket);

/* KOLO_FRAME_BEGUN has come from `node`. */
void kolo_exchange_hear(struct kolo_exchange_state *state, uint32_t node, const struct kolo_frame *frame);

/* Tells other nodes by KOLO_FRAME_BEGUN in which exchange this node still waits. For the proxy, about every 20 ms. */
void kolo_exchange_announce(struct kolo_exchange_state *state);

/* True if an exchange that has begun needs more from `node`, or the next one waits for it. */
bool kolo_exchange_awaits(struct kolo_exchange_state *state, uint32_t node);

/* The node that keeps the first exchange that is not done from its end, as far as is known; UINT32_MAX: none. */
uint32_t kolo_exchange_late(struct kolo_exchange_state *state);

/* For the files exchange*.c. */

extern const struct kolo_exchange_algorithm kolo_exchange_oneshot, kolo_exchange_mesh, kolo_exchange_ring,
    kolo_exchange_tree, kolo_exchange_half, kolo_exchange_broadcast, kolo_exchange_move, kolo_exchange_scan;

/* True if the order's data travels as bf16: f32 may. */
bool kolo_exchange_is_half(const kolo_comm *comm, const struct kolo_order *order);

/* Notes of which call the exchange that begins is, and tells nodes that may have to know that it has begun. */
void kolo_exchange_keep(struct kolo_exchange_state *state, const struct kolo_order *order);

/* Notes that data of `ticket` goes to `node`, or has come from it. */
void kolo_exchange_note_sent(struct kolo_exchange_state *state, uint32_t node, uint64_t ticket);
void kolo_exchange_note_taken(struct kolo_exchange_state *state, uint32_t node, uint64_t ticket);

/* Compares the call of data from `node`, of an exchange that has begun. True: it is another one, a noted mismatch. */
bool kolo_exchange_differs(struct kolo_exchange_state *state, uint32_t node, const struct kolo_frame *frame);

/* Whether frames of a call carry in its key the count of a block, which only two ranks know. In other calls the key has
 * the count of the whole call, of which a lane's blocks are slices (api/lanes/lanes.h). */
bool kolo_exchange_is_counted(struct kolo_call_key key);

/* If the count that a frame from `node` carries differs from the expected one, returns true and notes a mismatch. */
bool kolo_exchange_miscounts(struct kolo_flight *flight, uint32_t node, struct kolo_call_key key,
                             struct kolo_exchange_counts counts);

void kolo_exchange_note(struct kolo_exchange_state *state, struct kolo_exchange_trouble trouble);

/* A part of a chunk, in elements. */
struct kolo_slice {
    size_t first, count;
};

/* Slice `part` of the flight's `owners`. */
struct kolo_slice kolo_exchange_slice(const struct kolo_flight *flight, uint32_t part);

/* True if that slice has something to exchange. An exchange of nothing has one empty slice: nodes still synchronise. */
bool kolo_exchange_has(const struct kolo_flight *flight, uint32_t part);

void kolo_exchange_send(struct kolo_flight *flight, uint32_t node, uint16_t kind, uint32_t part, const void *payload,
                        size_t bytes);

/* The same for a message up of a block with a count of its own, which the frames carry. */
void kolo_exchange_send_counted(struct kolo_flight *flight, uint32_t node, uint32_t part, const void *payload,
                                size_t bytes, uint64_t count);
void kolo_exchange_await(struct kolo_flight *flight, uint32_t node, uint16_t kind);

/* Awaits the partial results of all other nodes, and counts them in flight->step. */
void kolo_exchange_await_partials(struct kolo_flight *flight);

/* Sends `node` what this node has of the slice. */
void kolo_exchange_send_partials(struct kolo_flight *flight, uint32_t node, struct kolo_slice slice);

/* `locate` for a message up, of that slice. */
bool kolo_exchange_locate_partial(struct kolo_flight *flight, struct kolo_exchange_message message,
                                  struct kolo_slice slice, uint8_t **where, size_t *bytes);

/* Joins all nodes' partial results of the slice into the result. */
void kolo_exchange_join(struct kolo_flight *flight, struct kolo_slice slice);

/* Box of `node` for the flight's ticket. */
uint8_t *kolo_exchange_box(const struct kolo_flight *flight, uint32_t node);

/* Bytes of `count` elements in messages up, and down. */
static inline size_t kolo_exchange_up(const struct kolo_flight *flight, size_t count) {
    return count * flight->up_bytes;
}

static inline size_t kolo_exchange_down(const struct kolo_flight *flight, size_t count) {
    return count * flight->down_bytes;
}
