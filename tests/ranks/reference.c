#include "reference.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kolo_tools.h"
#include "named_call.h"
#include "oracle.h"
#include "own_operations.h"

enum { GUARD = 0x5a, RUBBISH = 0xc3, MARGIN = 64, GAP = 3 };

bool works_in_place(const collective_shape *kind) {
    return kind->collective != KOLO_ALLTOALLV && kind->collective != KOLO_ALLREDUCE_APPLY;
}

static const struct own_operation *own_of(const struct call *call) {
    return call->kind->reduces ? own_operation(call->op) : NULL;
}

static size_t element_bytes(const struct call *call) {
    const struct own_operation *own = own_of(call);
    return own ? own->bytes : kolo_dtype_bytes(call->dtype);
}

/* Elements of the block that rank `from` has for rank `to`. */
static size_t block_count(const struct call *call, int from, int to) {
    const int depends = (call->kind->sends_blocks ? 5 * to : 0) + (call->kind->takes_blocks ? 3 * from : 0);
    if (call->kind->collective == KOLO_BARRIER)
        return 0;
    return call->kind->counted ? (size_t)((depends + (int)(call->index + call->uneven)) % 4) * call->count / 2
                               : call->count;
}

/* Whether a count differs that others than `rank` know. */
static bool counts_differ(const struct call *common, const struct call *odd, int rank, int ranks) {
    const collective_shape *kind = common->kind;
    const bool known_to_all = kind->sends_blocks != kind->takes_blocks && !kind->has_root;
    bool differ = false;
    for (int from = 0; from < ranks; from++)
        for (int to = 0; to < ranks; to++) {
            const bool moves =
                (!kind->sent_by_root || from == common->root) && (!kind->taken_by_root || to == common->root);
            const bool is_theirs = (from == rank) != (to == rank) && moves;
            differ |= (known_to_all || is_theirs) && block_count(common, from, to) != block_count(odd, from, to);
        }
    return differ;
}

/* Divides the call's elements into tensors, of which some are empty: counts[t] elements from starts[t] on. In every
 * other division they are listed from the last one to the first. Returns how many there are. */
static size_t divide(const struct call *call, size_t counts[TENSORS_MAX], size_t starts[TENSORS_MAX]) {
    uint64_t random = random_seed(call->count, call->uneven);
    const size_t most = random_below(&random, TENSORS_MAX);
    const bool is_reversed = random_next(&random) & 1;
    size_t number = 0, done = 0;
    for (; number < most && done < call->count; number++) {
        const size_t left = call->count - done;
        starts[number] = done;
        counts[number] = number % 4 == 2 ? 0 : 1 + random_below(&random, number % 3 ? left : (left + 15) / 16);
        done += counts[number];
    }
    if (done < call->count || random_next(&random) & 1) {
        starts[number] = done;
        counts[number++] = call->count - done;
    }
    for (size_t i = 0; is_reversed && i < number / 2; i++) {
        const size_t count = counts[i], start = starts[i];
        counts[i] = counts[number - 1 - i];
        starts[i] = starts[number - 1 - i];
        counts[number - 1 - i] = count;
        starts[number - 1 - i] = start;
    }
    return number;
}

static bool tensors_differ(const struct call *common, const struct call *odd) {
    size_t counts[TENSORS_MAX], others[TENSORS_MAX], starts[TENSORS_MAX];
    const size_t number = divide(common, counts, starts);
    return number != divide(odd, others, starts) || memcmp(counts, others, number * sizeof *counts) != 0;
}

/* Of the program's own operations ranks see the shape alone. */
static bool ops_differ(const struct call *common, const struct call *odd) {
    const struct own_operation *own = own_of(common), *other = own_of(odd);
    return own && other ? own->bytes != other->bytes || own->is_commutative != other->is_commutative
                        : common->op != odd->op;
}

bool calls_differ(const struct call *common, const struct call *odd, int rank, int ranks) {
    const collective_shape *kind = common->kind;
    return kind->collective != odd->kind->collective ||
           (kind->collective != KOLO_BARRIER &&
            (common->dtype != odd->dtype || (kind->reduces && ops_differ(common, odd)) ||
             (kind->has_root && common->root != odd->root) || counts_differ(common, odd, rank, ranks) ||
             (kind->collective == KOLO_ALLREDUCE_MANY && tensors_differ(common, odd))));
}

/* What `rank` sends, or receives. With gaps where the call allows that, now and then. */
static void lay_out(struct layout *layout, const struct call *call, int rank, int ranks, bool sends) {
    const collective_shape *kind = call->kind;
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

/* Fills in what `rank` sends, or its block for rank `to`. */
static void fill(const struct call *call, int rank, int to, size_t count, unsigned char *input) {
    const bool is_exact = call->node_of && is_half(call->dtype) && order_matters(call->dtype, call->op);
    const input_style style = !call->kind->reduces ? INPUT_BITS : is_exact ? INPUT_EXACT : INPUT_SPECIAL;
    const int block = call->kind->sends_blocks ? to : 0;
    const uint64_t seed = random_seed(call->index, (uint64_t)(rank * HARNESS_RANKS_MAX + block));
    if (own_of(call))
        own_operation_fill(own_of(call), input, count, rank, seed);
    else
        input_fill(style, call->dtype, call->op, input, count, seed);
}

/* A fresh copy of what `rank` sends to rank `self`. */
static unsigned char *input_for(const struct call *call, int rank, int self, int ranks) {
    struct layout layout;
    lay_out(&layout, call, rank, ranks, true);
    const size_t count = layout.counts[call->kind->sends_blocks ? self : 0];
    unsigned char *input = malloc(count * element_bytes(call) + 1);
    fill(call, rank, self, count, input);
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
    const void *sources[HARNESS_RANKS_MAX];
    struct layout taken;
    lay_out(&taken, call, self, ranks, false);
    for (int rank = 0; rank < ranks; rank++)
        sources[rank] = inputs[rank];
    const int n = collective_inputs(call->kind->collective, self, ranks);
    if (n > 0 && own_of(call))
        own_operation_reduce(own_of(call), sources, n, taken.count, expected);
    else if (n > 0 && call->node_of && order_matters(call->dtype, call->op) && !is_half(call->dtype))
        reduce_by_node(call, sources, n, taken.count, expected);
    else if (n > 0)
        oracle_reduce(call->dtype, call->op, sources, n, taken.count, expected);
}

static void expect_moved(const struct call *call, int self, int ranks, unsigned char *const *inputs,
                         unsigned char *expected) {
    const size_t bytes = kolo_dtype_bytes(call->dtype);
    struct layout taken;
    lay_out(&taken, call, self, ranks, false);
    for (int block = 0; block < (call->kind->takes_blocks ? ranks : 1); block++)
        memcpy(expected + taken.offsets[block] * bytes, inputs[call->kind->takes_blocks ? block : call->root],
               taken.counts[block] * bytes);
}

void call_tell(const struct call *call, char *words) {
    snprintf(words, CALL_WORDS, "case %u: %s of %zu %s, %s, root %d%s", call->index,
             kolo_name(KOLO_NAME_COLLECTIVE, call->kind->collective), call->count,
             kolo_name(KOLO_NAME_DTYPE, call->dtype),
             own_of(call) ? own_of(call)->name : kolo_name(KOLO_NAME_OP, call->op), call->root,
             call->in_place ? ", in place" : "");
}

void call_prepare(struct prepared *prepared, const struct call *call, const kolo_comm *comm) {
    const collective_shape *kind = call->kind;
    const int self = kolo_comm_rank(comm), ranks = kolo_comm_size(comm);
    const bool sends = !kind->sent_by_root || self == call->root, takes = !kind->taken_by_root || self == call->root;
    const size_t bytes = element_bytes(call);
    struct layout *sent = &prepared->sent, *taken = &prepared->taken;
    unsigned char *inputs[HARNESS_RANKS_MAX];
    for (int peer = 0; peer < ranks; peer++) {
        const bool needed = takes && (kind->reduces || kind->takes_blocks || peer == call->root);
        inputs[peer] = needed ? input_for(call, peer, self, ranks) : NULL;
    }
    prepared->call = *call;
    lay_out(sent, call, self, ranks, true);
    lay_out(taken, call, self, ranks, false);
    const size_t own_sent = kind->sends_blocks ? sent->offsets[self] * bytes : 0;
    const size_t own_taken = kind->takes_blocks ? taken->offsets[self] * bytes : 0;
    const size_t room = (sent->count > taken->count ? sent->count : taken->count) * bytes + 2 * MARGIN;
    prepared->room = room;
    prepared->shared = call->shared && room <= SHARED_BYTES;
    prepared->memory = prepared->shared ? call->shared[0] : malloc(room);
    prepared->apart = prepared->shared ? call->shared[1] : calloc(1, room);
    prepared->expected = malloc(room);
    memset(prepared->memory, GUARD, room);
    unsigned char *base = prepared->memory + call->index % 17;
    unsigned char *recv = base, *send = prepared->apart + call->index % 5;
    if (call->in_place && sends && takes) { /* one of the two lies within the other */
        recv = kind->sends_blocks && !kind->takes_blocks ? base + own_sent : base;
        send = kind->takes_blocks && !kind->sends_blocks ? base + own_taken : base;
    }
    if (kind->collective == KOLO_BROADCAST || kind->collective == KOLO_ALLREDUCE_MANY)
        send = recv;
    if (sends)
        for (int to = 0; to < (kind->sends_blocks ? ranks : 1); to++)
            fill(call, self, to, sent->counts[to], send + sent->offsets[to] * bytes);
    prepared->send_hash = hash_bytes(prepared->apart, room);
    memcpy(prepared->expected, prepared->memory, room);
    unsigned char *result = prepared->expected + (recv - prepared->memory);
    if (takes && kind->reduces)
        expect_reduced(call, self, ranks, inputs, result);
    else if (takes)
        expect_moved(call, self, ranks, inputs, result);
    prepared->send = sends ? send : NULL;
    prepared->recv = takes ? recv : NULL;
    size_t counts[TENSORS_MAX], starts[TENSORS_MAX];
    prepared->ntensors = divide(call, counts, starts);
    for (size_t i = 0; i < prepared->ntensors; i++)
        prepared->tensors[i] = (kolo_tensor){counts[i] ? recv + starts[i] * bytes : NULL, counts[i]};
    for (int peer = 0; peer < ranks; peer++)
        free(inputs[peer]);
}

/* Of an update, after which the parameters are the reduced gradients. */
static void take_gradients(void *context, size_t first, size_t count, const void *gradients, void *parameters) {
    (void)first;
    memcpy(parameters, gradients, count * (size_t)(uintptr_t)context);
}

kolo_call call_value(const struct prepared *prepared) {
    const struct call *call = &prepared->call;
    const collective_shape *kind = call->kind;
    const struct layout *sent = &prepared->sent, *taken = &prepared->taken;
    const bool packed = call->index % 2 == 0;
    return (kolo_call){.call_bytes = sizeof(kolo_call),
                       .collective = kind->collective,
                       .dtype = call->dtype,
                       .op = call->op,
                       .root = call->root,
                       .send = prepared->send,
                       .recv = prepared->recv,
                       .count = !kind->counted       ? call->count
                                : kind->sent_by_root ? taken->count
                                                     : sent->count,
                       .send_counts = sent->counts,
                       .send_offsets = packed ? NULL : sent->offsets,
                       .recv_counts = taken->counts,
                       .recv_offsets = packed ? NULL : taken->offsets,
                       .tensors = prepared->tensors,
                       .ntensors = prepared->ntensors,
                       .function = take_gradients,
                       .context = (void *)(uintptr_t)element_bytes(call)};
}

int call_make(const struct prepared *prepared, kolo_comm *comm) {
    const kolo_call call = call_value(prepared);
    return named_call_make(comm, &call);
}

int call_issue(const struct prepared *prepared, kolo_comm *comm, kolo_request **request) {
    const kolo_call call = call_value(prepared);
    return named_call_start(comm, &call, request);
}

/* Memory of calls that failed. */
static struct failed {
    struct failed *next;
    unsigned char *memory;
    size_t bytes;
    bool shared;
} * failed_calls;
static pthread_mutex_t failed_lock = PTHREAD_MUTEX_INITIALIZER;

static void keep(unsigned char *memory, size_t bytes, bool shared) {
    struct failed *failed = malloc(sizeof *failed);
    pthread_mutex_lock(&failed_lock);
    *failed = (struct failed){failed_calls, memory, bytes, shared};
    failed_calls = failed;
    pthread_mutex_unlock(&failed_lock);
}

/* The call is over, and its buffers are the caller's again. */
static void give_back(struct prepared *prepared, int status) {
    memset(prepared->memory, RUBBISH, prepared->room);
    memset(prepared->apart, RUBBISH, prepared->room);
    if (status >= 0) {
        call_free(prepared);
        return;
    }
    keep(prepared->memory, prepared->room, prepared->shared);
    keep(prepared->apart, prepared->room, prepared->shared);
    free(prepared->expected);
}

void calls_untouched(const struct rank *rank) {
    pthread_mutex_lock(&failed_lock);
    for (struct failed *failed; (failed = failed_calls);) {
        size_t at = 0;
        while (at < failed->bytes && failed->memory[at] == RUBBISH)
            at++;
        expect(rank, at == failed->bytes, "somebody has written to byte %zu of %zu%s after the call had failed", at,
               failed->bytes, failed->shared ? ", in a buffer of kolo_alloc," : "");
        failed_calls = failed->next;
        if (!failed->shared)
            free(failed->memory);
        free(failed);
    }
    pthread_mutex_unlock(&failed_lock);
}

bool call_check(const struct rank *rank, struct prepared *prepared, int status) {
    const struct call *call = &prepared->call;
    if (!prepared->memory) {
        free(prepared->expected);
        return true;
    }
    bool right = expect_status(rank, status, 0, kolo_name(KOLO_NAME_COLLECTIVE, call->kind->collective));
    const size_t room = prepared->room;
    const size_t at = right ? first_difference(prepared->memory, prepared->expected, room) : room;
    char words[CALL_WORDS];
    call_tell(call, words);
    right = right && expect(rank, at == room, "%s: byte %zu of the buffer is wrong", words, at - call->index % 17);
    right = right && expect(rank, prepared->send_hash == hash_bytes(prepared->apart, room),
                            "%s: the call has written into what it sends", words);
    give_back(prepared, status);
    return right;
}

void call_free(struct prepared *prepared) {
    if (!prepared->shared) {
        free(prepared->memory);
        free(prepared->apart);
    }
    free(prepared->expected);
}
