#include "reference.h"

#include <stdlib.h>
#include <string.h>

#include "oracle.h"

enum { GUARD = 0x5a, MARGIN = 64, GAP = 3 };

const struct kind kinds[KINDS] = {
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

bool works_in_place(const struct kind *kind) {
    return kind->collective != KOLO_ALLTOALLV;
}

/* Elements of the block that rank `from` has for rank `to`. */
static size_t block_count(const struct call *call, int from, int to) {
    const int depends = (call->kind->sends_blocks ? 5 * to : 0) + (call->kind->takes_blocks ? 3 * from : 0);
    return call->kind->counted ? (size_t)((depends + (int)call->index) % 4) * call->count / 2 : call->count;
}

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

/* Accumulated in another type: the reference by nodes cannot tell how those round. */
static bool is_half(kolo_dtype dtype) {
    return dtype == KOLO_F16 || dtype == KOLO_BF16;
}

/* A fresh copy of what `rank` sends. */
static unsigned char *input_of(const struct call *call, int rank, int ranks) {
    struct layout layout;
    lay_out(&layout, call, rank, ranks, true);
    unsigned char *input = malloc(layout.count * kolo_dtype_bytes(call->dtype) + 1);
    const bool is_exact = call->node_of && is_half(call->dtype) && order_matters(call->dtype, call->op);
    const input_style style = !call->kind->reduces ? INPUT_BITS : is_exact ? INPUT_EXACT : INPUT_SPECIAL;
    input_fill(style, call->dtype, call->op, input, layout.count, random_seed(call->index, (uint64_t)rank));
    return input;
}

/* The first `n` inputs, reduced node by node. Between the two steps nothing is rounded, so this is for dtypes that are
 * their own type of accumulation. */
static void reduce_by_node(const struct call *call, const void *const *inputs, int n, size_t count,
                           unsigned char *expected) {
    const kolo_op inner = call->op == KOLO_AVG ? KOLO_SUM : call->op;
    const void *partials[HARNESS_RANKS_MAX];
    int nodes = 0;
    for (int first = 0; first < n; first++) { /* nodes are numbered by their first ranks */
        const void *sources[HARNESS_RANKS_MAX];
        int locals = 0;
        bool is_new = true;
        for (int rank = 0; rank < first; rank++)
            is_new &= call->node_of[rank] != call->node_of[first];
        for (int rank = first; rank < n; rank++)
            if (call->node_of[rank] == call->node_of[first])
                sources[locals++] = inputs[rank];
        if (!is_new)
            continue;
        void *partial = malloc(count * kolo_dtype_bytes(call->dtype) + 1);
        oracle_reduce(call->dtype, inner, sources, locals, count, partial);
        partials[nodes++] = partial;
    }
    if (nodes == 1 && n > 1)
        oracle_reduce(call->dtype, call->op, inputs, n, count, expected);
    else
        oracle_fold(call->dtype, call->op, partials, nodes, n, count, expected);
    for (int node = 0; node < nodes; node++)
        free((void *)partials[node]);
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
    if (n > 0 && call->node_of && order_matters(call->dtype, call->op) && !is_half(call->dtype))
        reduce_by_node(call, sources, n, taken.count, expected);
    else if (n > 0)
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

void call_prepare(struct prepared *prepared, const struct call *call, const kolo_comm *comm) {
    const struct kind *kind = call->kind;
    const int self = kolo_comm_rank(comm), ranks = kolo_comm_size(comm);
    const bool sends = !kind->sent_by_root || self == call->root, takes = !kind->taken_by_root || self == call->root;
    const size_t bytes = kolo_dtype_bytes(call->dtype);
    struct layout *sent = &prepared->sent, *taken = &prepared->taken;
    unsigned char *inputs[HARNESS_RANKS_MAX];
    for (int peer = 0; peer < ranks; peer++)
        inputs[peer] = input_of(call, peer, ranks);
    prepared->call = *call;
    lay_out(sent, call, self, ranks, true);
    lay_out(taken, call, self, ranks, false);
    const size_t own_sent = kind->sends_blocks ? sent->offsets[self] * bytes : 0;
    const size_t own_taken = kind->takes_blocks ? taken->offsets[self] * bytes : 0;
    const size_t room = (sent->count > taken->count ? sent->count : taken->count) * bytes + 2 * MARGIN;
    prepared->room = room;
    prepared->shared = call->shared && room <= SHARED_BYTES;
    prepared->memory = prepared->shared ? call->shared[0] : malloc(room);
    prepared->apart = prepared->shared ? call->shared[1] : malloc(room);
    prepared->expected = malloc(room);
    memset(prepared->memory, GUARD, room);
    unsigned char *base = prepared->memory + call->index % 17;
    unsigned char *recv = base, *send = prepared->apart + call->index % 5;
    if (call->in_place && sends && takes) { /* one of the two lies within the other */
        recv = kind->sends_blocks && !kind->takes_blocks ? base + own_sent : base;
        send = kind->takes_blocks && !kind->sends_blocks ? base + own_taken : base;
    }
    if (kind->collective == KOLO_BROADCAST)
        send = recv;
    if (sends)
        memcpy(send, inputs[self], sent->count * bytes);
    memcpy(prepared->expected, prepared->memory, room);
    unsigned char *result = prepared->expected + (recv - prepared->memory);
    if (takes && kind->reduces)
        expect_reduced(call, self, ranks, inputs, result);
    else if (takes)
        expect_moved(call, self, ranks, inputs, result);
    prepared->send = sends ? send : NULL;
    prepared->recv = takes ? recv : NULL;
    for (int peer = 0; peer < ranks; peer++)
        free(inputs[peer]);
}

int call_make(const struct prepared *prepared, kolo_comm *comm) {
    const struct call *call = &prepared->call;
    const struct layout *sent = &prepared->sent, *taken = &prepared->taken;
    void *const send = prepared->send, *const recv = prepared->recv;
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

int call_issue(const struct prepared *prepared, kolo_comm *comm, kolo_request **request) {
    const struct call *call = &prepared->call;
    const struct layout *sent = &prepared->sent, *taken = &prepared->taken;
    void *const send = prepared->send, *const recv = prepared->recv;
    const size_t count = call->count;
    const kolo_dtype dtype = call->dtype;
    const kolo_op op = call->op;
    const bool packed = call->index % 2 == 0;
    const size_t *sent_at = packed ? NULL : sent->offsets, *taken_at = packed ? NULL : taken->offsets;
    switch (call->kind->collective) {
    case KOLO_ALLREDUCE:
        return kolo_iallreduce(comm, send, recv, count, dtype, op, request);
    case KOLO_BROADCAST:
        return kolo_ibroadcast(comm, recv, count, dtype, call->root, request);
    case KOLO_ALLGATHER:
        return kolo_iallgather(comm, send, recv, count, dtype, request);
    case KOLO_ALLGATHERV:
        return kolo_iallgatherv(comm, send, recv, taken->counts, taken_at, dtype, request);
    case KOLO_REDUCE:
        return kolo_ireduce(comm, send, recv, count, dtype, op, call->root, request);
    case KOLO_REDUCE_SCATTER:
        return kolo_ireduce_scatter(comm, send, recv, count, dtype, op, request);
    case KOLO_REDUCE_SCATTERV:
        return kolo_ireduce_scatterv(comm, send, recv, sent->counts, dtype, op, request);
    case KOLO_GATHER:
        return kolo_igather(comm, send, recv, count, dtype, call->root, request);
    case KOLO_GATHERV:
        return kolo_igatherv(comm, send, sent->count, recv, taken->counts, taken_at, dtype, call->root, request);
    case KOLO_SCATTER:
        return kolo_iscatter(comm, send, recv, count, dtype, call->root, request);
    case KOLO_SCATTERV:
        return kolo_iscatterv(comm, send, sent->counts, sent_at, recv, taken->count, dtype, call->root, request);
    case KOLO_ALLTOALL:
        return kolo_ialltoall(comm, send, recv, count, dtype, request);
    case KOLO_ALLTOALLV:
        return kolo_ialltoallv(comm, send, sent->counts, sent_at, recv, taken->counts, taken_at, dtype, request);
    case KOLO_SCAN:
        return kolo_iscan(comm, send, recv, count, dtype, op, request);
    default:
        return kolo_iexscan(comm, send, recv, count, dtype, op, request);
    }
}

bool call_check(const struct rank *rank, struct prepared *prepared, int status) {
    const struct call *call = &prepared->call;
    bool right = expect_status(rank, status, 0, call->kind->name);
    const size_t room = prepared->room;
    const size_t at = right ? first_difference(prepared->memory, prepared->expected, room) : room;
    right =
        right && expect(rank, at == room, "case %u: %s of %zu %s, %s, root %d%s: byte %zu of the buffer is wrong",
                        call->index, call->kind->name, call->count, kolo_dtype_name(call->dtype),
                        kolo_op_name(call->op), call->root, call->in_place ? ", in place" : "", at - call->index % 17);
    if (!prepared->shared) {
        free(prepared->memory);
        free(prepared->apart);
    }
    free(prepared->expected);
    return right;
}
