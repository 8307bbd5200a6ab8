/* Every collective that moves or reduces blocks agrees, bit by bit, with a sequential reference: each dtype, op, root,
 * rank count, in place and out of place, at any alignment, with counts that end in the middle of a line, a chunk or a
 * piece, of equal and of unequal blocks, alone and mixed. Nothing is written beside what a rank receives. */
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "oracle.h"

enum { SLOT_BYTES = 4096, GUARD = 0x5a, MARGIN = 64, GAP = 3 };

/* What a call is made of. */
struct kind {
    const char *name;
    kolo_collective collective;
    bool reduces, has_root;
    bool sends_blocks, takes_blocks; /* a block for, or from, each rank */
    bool counted;                    /* of any length */
    bool sent_by_root, taken_by_root;
};

static const struct kind kinds[] = {
    {"allreduce", KOLO_ALLREDUCE, .reduces = true},
    {"broadcast", KOLO_BROADCAST, .has_root = true, .sent_by_root = true},
    {"allgather", KOLO_ALLGATHER, .takes_blocks = true},
    {"allgatherv", KOLO_ALLGATHERV, .takes_blocks = true, .counted = true},
    {"reduce", KOLO_REDUCE, .reduces = true, .has_root = true, .taken_by_root = true},
    {"reduce_scatter", KOLO_REDUCE_SCATTER, .reduces = true, .sends_blocks = true},
    {"reduce_scatterv", KOLO_REDUCE_SCATTERV, .reduces = true, .sends_blocks = true, .counted = true},
    {"gather", KOLO_GATHER, .has_root = true, .takes_blocks = true, .taken_by_root = true},
    {"gatherv", KOLO_GATHERV, .has_root = true, .takes_blocks = true, .taken_by_root = true, .counted = true},
    {"scatter", KOLO_SCATTER, .has_root = true, .sends_blocks = true, .sent_by_root = true},
    {"scatterv", KOLO_SCATTERV, .has_root = true, .sends_blocks = true, .sent_by_root = true, .counted = true},
    {"alltoall", KOLO_ALLTOALL, .sends_blocks = true, .takes_blocks = true},
    {"alltoallv", KOLO_ALLTOALLV, .sends_blocks = true, .takes_blocks = true, .counted = true},
    {"scan", KOLO_SCAN, .reduces = true},
    {"exscan", KOLO_EXSCAN, .reduces = true},
};

enum { KINDS = sizeof kinds / sizeof *kinds };

struct call {
    uint32_t index;
    const struct kind *kind;
    kolo_dtype dtype;
    kolo_op op;
    int root;
    size_t count;
    bool in_place;
    unsigned char *const *shared; /* two buffers of kolo_alloc, for the call to use; or NULL */
};

enum { SHARED_BYTES = 1 << 20 };

/* Elements of the block that rank `from` has for rank `to`. */
static size_t block_count(const struct call *call, int from, int to) {
    const int depends = (call->kind->sends_blocks ? 5 * to : 0) + (call->kind->takes_blocks ? 3 * from : 0);
    return call->kind->counted ? (size_t)((depends + (int)call->index) % 4) * call->count / 2 : call->count;
}

/* Blocks as a rank lays them out. */
struct layout {
    size_t counts[HARNESS_RANKS_MAX], offsets[HARNESS_RANKS_MAX];
    size_t count; /* elements up to the last block's end */
};

/* What `rank` sends, or receives. With gaps where the call allows that, now and then. */
static void lay_out(struct layout *layout, const struct call *call, int rank, int ranks, bool sends) {
    const struct kind *kind = call->kind;
    const bool blocks = sends ? kind->sends_blocks : kind->takes_blocks;
    const bool gaps = kind->counted && kind->collective != KOLO_REDUCE_SCATTERV && call->index % 2;
    layout->count = 0;
    for (int peer = 0; peer < (blocks ? ranks : 1); peer++) {
        layout->offsets[peer] = layout->count + (gaps && blocks ? GAP : 0);
        if (blocks)
            layout->counts[peer] = sends ? block_count(call, rank, peer) : block_count(call, peer, rank);
        else
            layout->counts[peer] = block_count(call, sends ? rank : call->root, sends ? call->root : rank);
        layout->count = layout->offsets[peer] + layout->counts[peer];
    }
}

/* A fresh copy of what `rank` sends. */
static unsigned char *input_of(const struct call *call, int rank, int ranks) {
    struct layout layout;
    lay_out(&layout, call, rank, ranks, true);
    unsigned char *input = malloc(layout.count * kolo_dtype_bytes(call->dtype) + 1);
    const input_style style = call->kind->reduces ? INPUT_SPECIAL : INPUT_BITS;
    input_fill(style, call->dtype, call->op, input, layout.count, random_seed(call->index, (uint64_t)rank));
    return input;
}

/* Writes what rank `self` must find in its receive buffer; what it must find untouched stays. */
static void expect_reduced(const struct call *call, int self, int ranks, unsigned char *const *inputs,
                           unsigned char *expected) {
    const size_t bytes = kolo_dtype_bytes(call->dtype);
    const void *sources[HARNESS_RANKS_MAX];
    struct layout sent, taken;
    lay_out(&taken, call, self, ranks, false);
    for (int rank = 0; rank < ranks; rank++) {
        lay_out(&sent, call, rank, ranks, true);
        sources[rank] = inputs[rank] + (call->kind->sends_blocks ? sent.offsets[self] * bytes : 0);
    }
    const int n = call->kind->collective == KOLO_SCAN ? self + 1 : call->kind->collective == KOLO_EXSCAN ? self : ranks;
    if (n > 0)
        oracle_reduce(call->dtype, call->op, sources, n, taken.count, expected);
}

static void expect_moved(const struct call *call, int self, int ranks, unsigned char *const *inputs,
                         unsigned char *expected) {
    const size_t bytes = kolo_dtype_bytes(call->dtype);
    struct layout sent, taken;
    lay_out(&taken, call, self, ranks, false);
    for (int block = 0; block < (call->kind->takes_blocks ? ranks : 1); block++) {
        const int from = call->kind->takes_blocks ? block : call->root;
        lay_out(&sent, call, from, ranks, true);
        memcpy(expected + taken.offsets[block] * bytes,
               inputs[from] + (call->kind->sends_blocks ? sent.offsets[self] * bytes : 0), taken.counts[block] * bytes);
    }
}

static int make(const struct rank *rank, const struct call *call, void *send, void *recv, const struct layout *sent,
                const struct layout *taken) {
    kolo_comm *comm = rank->comm;
    const size_t count = call->count;
    const kolo_dtype dtype = call->dtype;
    const kolo_op op = call->op;
    const bool packed = call->index % 2 == 0;
    const size_t *sent_at = packed ? NULL : sent->offsets, *taken_at = packed ? NULL : taken->offsets;
    switch (call->kind->collective) {
    case KOLO_ALLREDUCE:
        return kolo_allreduce(comm, send, recv, count, dtype, op);
    case KOLO_BROADCAST:
        return kolo_broadcast(comm, recv, count, dtype, call->root);
    case KOLO_ALLGATHER:
        return kolo_allgather(comm, send, recv, count, dtype);
    case KOLO_ALLGATHERV:
        return kolo_allgatherv(comm, send, recv, taken->counts, taken_at, dtype);
    case KOLO_REDUCE:
        return kolo_reduce(comm, send, recv, count, dtype, op, call->root);
    case KOLO_REDUCE_SCATTER:
        return kolo_reduce_scatter(comm, send, recv, count, dtype, op);
    case KOLO_REDUCE_SCATTERV:
        return kolo_reduce_scatterv(comm, send, recv, sent->counts, dtype, op);
    case KOLO_GATHER:
        return kolo_gather(comm, send, recv, count, dtype, call->root);
    case KOLO_GATHERV:
        return kolo_gatherv(comm, send, sent->count, recv, taken->counts, taken_at, dtype, call->root);
    case KOLO_SCATTER:
        return kolo_scatter(comm, send, recv, count, dtype, call->root);
    case KOLO_SCATTERV:
        return kolo_scatterv(comm, send, sent->counts, sent_at, recv, taken->count, dtype, call->root);
    case KOLO_ALLTOALL:
        return kolo_alltoall(comm, send, recv, count, dtype);
    case KOLO_ALLTOALLV:
        return kolo_alltoallv(comm, send, sent->counts, sent_at, recv, taken->counts, taken_at, dtype);
    case KOLO_SCAN:
        return kolo_scan(comm, send, recv, count, dtype, op);
    default:
        return kolo_exscan(comm, send, recv, count, dtype, op);
    }
}

/* Makes the call, and compares what is then in memory with what must be there. */
static bool make_and_check(const struct rank *rank, const struct call *call, unsigned char *const *inputs) {
    const struct kind *kind = call->kind;
    const int self = rank->rank, ranks = rank->ranks;
    const bool sends = !kind->sent_by_root || self == call->root, takes = !kind->taken_by_root || self == call->root;
    const size_t bytes = kolo_dtype_bytes(call->dtype);
    struct layout sent, taken;
    lay_out(&sent, call, self, ranks, true);
    lay_out(&taken, call, self, ranks, false);
    const size_t own_sent = kind->sends_blocks ? sent.offsets[self] * bytes : 0;
    const size_t own_taken = kind->takes_blocks ? taken.offsets[self] * bytes : 0;
    const size_t larger = (sent.count > taken.count ? sent.count : taken.count) * bytes, room = larger + 2 * MARGIN;
    const bool shared = call->shared && room <= SHARED_BYTES;
    unsigned char *memory = shared ? call->shared[0] : malloc(room), *apart = shared ? call->shared[1] : malloc(room);
    unsigned char *expected = malloc(room);
    memset(memory, GUARD, room);
    unsigned char *base = memory + call->index % 17;
    unsigned char *recv = base, *send = apart + call->index % 5;
    if (call->in_place && sends && takes) { /* one of the two lies within the other */
        recv = kind->sends_blocks && !kind->takes_blocks ? base + own_sent : base;
        send = kind->takes_blocks && !kind->sends_blocks ? base + own_taken : base;
    }
    if (kind->collective == KOLO_BROADCAST)
        send = recv;
    if (sends)
        memcpy(send, inputs[self], sent.count * bytes);
    memcpy(expected, memory, room);
    unsigned char *result = expected + (recv - memory);
    if (takes && kind->reduces)
        expect_reduced(call, self, ranks, inputs, result);
    else if (takes)
        expect_moved(call, self, ranks, inputs, result);
    const int status = make(rank, call, sends ? send : NULL, takes ? recv : NULL, &sent, &taken);
    bool right = expect_status(rank, status, 0, kind->name);
    const size_t at = right ? first_difference(memory, expected, room) : room;
    right = right && expect(rank, at == room, "case %u: %s of %zu %s, %s, root %d%s: byte %zu of the buffer is wrong",
                            call->index, kind->name, call->count, kolo_dtype_name(call->dtype), kolo_op_name(call->op),
                            call->root, call->in_place ? ", in place" : "", at - (size_t)(base - memory));
    if (!shared) {
        free(memory);
        free(apart);
    }
    free(expected);
    return right;
}

static bool run_call(const struct rank *rank, const struct call *call) {
    unsigned char *inputs[HARNESS_RANKS_MAX];
    for (int peer = 0; peer < rank->ranks; peer++)
        inputs[peer] = input_of(call, peer, rank->ranks);
    const bool right = make_and_check(rank, call, inputs);
    for (int peer = 0; peer < rank->ranks; peer++)
        free(inputs[peer]);
    return right;
}

/* alltoallv is the one that does not work in place. */
static bool works_in_place(const struct kind *kind) {
    return kind->collective != KOLO_ALLTOALLV;
}

/* One case in so many is run: those of many ranks take long, as each rank computes what all of them send. */
static uint32_t stride(const struct rank *rank) {
    const uint32_t thinned = arguments.quick ? 5 : 1;
    return rank->ranks > 9 ? 23 * thinned : rank->ranks > 4 ? 7 * thinned : thinned;
}

/* Every dtype and op; counts by turns. */
static void run_dtypes(struct rank *rank) {
    static const size_t counts[] = {1, 7, 55, 0, 300, 2, 56, 1025};
    uint32_t index = 0;
    for (int kind = 0; kind < KINDS; kind++)
        for (kolo_dtype dtype = 0; dtype < KOLO_DTYPES; dtype++)
            for (kolo_op op = 0; op < (kinds[kind].reduces ? KOLO_OPS : 1); op++) {
                index++;
                if (!kolo_op_supports(op, dtype) || index % stride(rank))
                    continue;
                const struct call call = {index,
                                          &kinds[kind],
                                          dtype,
                                          op,
                                          (int)(index % (uint32_t)rank->ranks),
                                          counts[index % 8],
                                          index % 3 == 0 && works_in_place(&kinds[kind]),
                                          NULL};
                if (!run_call(rank, &call))
                    return;
            }
}

/* Every root, in place and out of place, and sizes from nothing to many chunks. */
static void run_sizes(struct rank *rank) {
    static const size_t counts[] = {0, 1, 6, 48, 49, 110, 111, 512, 1000, 1023, 4100, 9001};
    const size_t large = rank->ranks > 9 ? 3 : 0; /* of many ranks there are many blocks to check */
    uint32_t index = 0;
    for (int kind = 0; kind < KINDS; kind++)
        for (size_t i = 0; i + large < sizeof counts / sizeof *counts; i++)
            for (int root = 0; root < (kinds[kind].has_root ? rank->ranks : 1); root++)
                for (int in_place = 0; in_place <= works_in_place(&kinds[kind]); in_place++) {
                    index++;
                    if (index % stride(rank))
                        continue;
                    const struct call call = {index,    &kinds[kind], index % 4 ? KOLO_F32 : KOLO_I64,
                                              KOLO_SUM, root,         counts[i],
                                              in_place, NULL};
                    if (!run_call(rank, &call))
                        return;
                }
}

/* Random calls one after another, the same on all ranks, of which some come late now and then. */
static void run_mixed(struct rank *rank) {
    uint64_t random = random_seed(1, (uint64_t)rank->ranks), delays = random_seed(2, (uint64_t)rank->rank);
    unsigned char *shared[2] = {NULL, NULL};
    for (int i = 0; i < 2; i++)
        if (!expect_status(rank, kolo_alloc(rank->comm, SHARED_BYTES, (void **)&shared[i]), 0, "kolo_alloc"))
            return;
    for (uint32_t index = 0; index < (arguments.quick || rank->ranks > 9 ? 60u : 400u); index++) {
        const uint64_t draw = random_next(&random);
        const struct kind *kind = &kinds[draw % KINDS];
        struct call call = {index,
                            kind,
                            (kolo_dtype)((draw >> 8) % KOLO_DTYPES),
                            (kolo_op)((draw >> 16) % KOLO_AVG),
                            (int)((draw >> 24) % (uint64_t)rank->ranks),
                            draw >> 40 & 3 ? (draw >> 44) % 120 : (draw >> 44) % 3000,
                            (draw >> 42 & 1) && works_in_place(kind),
                            NULL};
        const uint64_t users = draw >> 60; /* of buffers of kolo_alloc: most often all, else every other rank */
        if (users > 5 || (users > 2 && rank->rank % 2))
            call.shared = shared;
        const bool in_ring_order = rank->team->algorithm == KOLO_ALGORITHM_RING && kind->collective == KOLO_ALLREDUCE;
        if (in_ring_order && order_matters(call.dtype, call.op))
            continue;
        if (random_below(&delays, 100) == 0)
            sleep_ms((int64_t)random_below(&delays, 3));
        if (!run_call(rank, &call))
            return;
    }
}

int main(int argc, char **argv) {
    static const int counts[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 33};
    static void (*const parts[])(struct rank *) = {run_dtypes, run_sizes, run_mixed};
    harness_begin(argc, argv, "Checks every collective against a sequential reference.");
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        for (int algorithm = 0; algorithm < KOLO_ALGORITHMS; algorithm++)
            for (size_t part = 0; part < 3; part++) {
                const struct team team = {.ranks = counts[i],
                                          .algorithm = (kolo_algorithm)algorithm,
                                          .slot_bytes = SLOT_BYTES,
                                          .run = parts[part]};
                const bool forced = algorithm != KOLO_ALGORITHM_AUTO;
                if (!wants_ranks(counts[i]) || !wants_algorithm((kolo_algorithm)algorithm) ||
                    (forced && (part != 2 || counts[i] > 4)))
                    continue;
                harness_run(&team);
            }
    return harness_end();
}
