/* Operations of kolo_op_create agree with a sequential reference in every collective that reduces: elements of many
 * sizes, the order of the ranks, every algorithm, in place, in buffers of kolo_alloc, and in the background. And what
 * is refused, what ranks are told that differ, and how the function's arguments are aligned. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "oracle.h"
#include "own_operations.h"
#include "reference.h"

enum { SLOT_BYTES = 4096, COUNTS = 9 };

static bool run_call(const struct rank *rank, const struct call *call) {
    struct prepared prepared;
    call_prepare(&prepared, call, rank->comm);
    return call_check(rank, &prepared, call_make(&prepared, rank->comm));
}

static struct call make_case(const struct rank *rank, const struct own_operation *own, uint32_t index, size_t count) {
    return (struct call){.index = index,
                         .kind = collective_reducing(index),
                         .dtype = own->dtype,
                         .op = own->op,
                         .root = (int)(index / 8 % (uint32_t)rank->ranks),
                         .count = count,
                         .in_place = index / 7 % 2 && works_in_place(collective_reducing(index))};
}

/* Elements of the largest messages: those of many ranks take long, as each rank computes what all of them send. */
static size_t thinned(const struct rank *rank, const struct own_operation *own, size_t count) {
    const size_t bytes_max = (arguments.quick ? 20000 : 60000) / (size_t)(rank->ranks > 4 ? rank->ranks : 1);
    return count * own->bytes <= bytes_max ? count : bytes_max / own->bytes;
}

/* Every operation with every collective, and counts from nothing to many chunks. */
static void run_each(struct rank *rank) {
    static const size_t counts[COUNTS] = {0, 1, 2, 7, 19, 55, 100, 450, 5000};
    const bool is_forced = rank->team->algorithm != KOLO_ALGORITHM_AUTO;
    const uint32_t stride = (arguments.quick ? 5 : 1) * (rank->ranks > 9 ? 11 : rank->ranks > 4 || is_forced ? 3 : 1);
    uint32_t index = (uint32_t)rank->ranks;
    for (int i = 0; i < OWN_OPERATIONS; i++)
        for (int count = 0; count < COUNTS; count++)
            for (int kind = 0; kind < 8; kind++) {
                const struct own_operation *own = &own_operations[i];
                if (index++ % stride)
                    continue;
                const struct call call = make_case(rank, own, index, thinned(rank, own, counts[count]));
                if (!run_call(rank, &call))
                    return;
            }
}

/* Calls with them and with others, some in the background, in buffers of kolo_alloc and others. */
static void run_mixed(struct rank *rank) {
    enum { PENDING = 5 };
    uint64_t random = random_seed(1, (uint64_t)rank->ranks);
    unsigned char *shared[2] = {NULL, NULL};
    rank->options.progress = rank->ranks % 2 ? 1 : -1;
    if (!expect_status(rank, kolo_comm_create(&rank->comm, &rank->options), 0, "kolo_comm_create"))
        return;
    for (int i = 0; i < 2; i++)
        if (!expect_status(rank, kolo_alloc(rank->comm, SHARED_BYTES, (void **)&shared[i]), 0, "kolo_alloc"))
            return;
    bool right = true;
    for (uint32_t index = 0; right && index < (arguments.quick || rank->ranks > 4 ? 12u : 40u); index++) {
        struct prepared pending[PENDING];
        kolo_request *requests[PENDING];
        for (int i = 0; i < PENDING; i++) {
            const uint64_t draw = random_next(&random);
            const struct own_operation *own = &own_operations[draw % OWN_OPERATIONS];
            const size_t count = (draw >> 24) % (i == 0 ? 6000 : 600);
            struct call call = make_case(rank, own, (uint32_t)(draw >> 8) % 10000, thinned(rank, own, count));
            if (draw >> 40 & 1)
                call.dtype = KOLO_I32, call.op = KOLO_SUM, call.kind = &collective_shapes[(draw >> 41) % COLLECTIVES];
            call.in_place = call.in_place && works_in_place(call.kind);
            if (i == 0) /* alone, with buffers of all ranks or of some */
                call.shared = draw >> 60 & 1 || rank->rank % 2 ? shared : NULL;
            call_prepare(&pending[i], &call, rank->comm);
            if (i == 0)
                right = call_check(rank, &pending[i], call_make(&pending[i], rank->comm)) && right;
            else if (right)
                right = expect_status(rank, call_issue(&pending[i], rank->comm, &requests[i]), 0, "issuing");
        }
        for (int i = 1; right && i < PENDING; i++)
            right = call_check(rank, &pending[i], kolo_request_wait(requests[i]));
    }
    kolo_comm_destroy(rank->comm);
    rank->comm = NULL;
}

static void run_agreeing(int ranks, int algorithm) {
    const struct team each = {
        .ranks = ranks, .algorithm = (kolo_algorithm)algorithm, .slot_bytes = SLOT_BYTES, .run = run_each};
    struct team mixed = each;
    mixed.run = run_mixed;
    mixed.creates_itself = true;
    if (!wants_ranks(ranks) || !wants_algorithm((kolo_algorithm)algorithm) ||
        (algorithm != KOLO_ALGORITHM_AUTO && (ranks > 4 || ranks == 1)))
        return;
    harness_run(&each);
    if (ranks <= 4 || algorithm == KOLO_ALGORITHM_AUTO)
        harness_run(&mixed);
}

/* Alignment. */

static void check_alignment(const void *in, void *inout, size_t count, void *context) {
    const struct own_operation *own = context;
    const size_t lowest = own->bytes & -own->bytes, alignment = lowest < 16 ? lowest : 16;
    if ((uintptr_t)in % alignment || (uintptr_t)inout % alignment)
        abort();
    own->function(in, inout, count, context);
}

static void run_aligned(struct rank *rank) {
    for (int i = 0; i < OWN_OPERATIONS; i++) {
        struct own_operation *own = &own_operations[i];
        kolo_op op = KOLO_SUM;
        if (!expect_status(rank, kolo_op_create(&op, check_alignment, own, own->bytes, 0), 0, "kolo_op_create"))
            return;
        for (uint32_t index = 0; index < 24; index++) {
            const size_t count = 1 + index * index % 40;
            unsigned char *send = calloc(count * (size_t)rank->ranks, own->bytes), *recv = calloc(count, own->bytes);
            const int status = index % 3 == 0   ? kolo_allreduce(rank->comm, send, recv, count, own->dtype, op)
                               : index % 3 == 1 ? kolo_scan(rank->comm, send, recv, count, own->dtype, op)
                                                : kolo_reduce_scatter(rank->comm, send, recv, count, own->dtype, op);
            expect_status(rank, status, 0, own->name);
            free(send);
            free(recv);
        }
        expect_status(rank, kolo_op_destroy(op), 0, "kolo_op_destroy");
    }
}

/* What is refused. */

static void keep(const void *in, void *inout, size_t count, void *context) {
    (void)in, (void)inout, (void)count, (void)context;
}

static void run_refused(struct rank *rank) {
    kolo_comm *comm = rank->comm;
    kolo_op op = KOLO_MAX, other = KOLO_MAX;
    unsigned char data[128] = {0}, apart[128] = {0};
    refused(rank, kolo_op_create(NULL, keep, NULL, 8, 0), "op is NULL");
    refused(rank, kolo_op_create(&op, NULL, NULL, 8, 0), "function is NULL");
    refused(rank, kolo_op_create(&op, keep, NULL, 0, 0), "element_bytes 0: must be from 1 to 2048");
    refused(rank, kolo_op_create(&op, keep, NULL, 2049, 0), "element_bytes 2049");
    refused(rank, kolo_op_create(&op, keep, NULL, 8, 2), "flags 0x2");
    refused(rank, kolo_op_destroy(KOLO_SUM), "no operation of kolo_op_create");
    expect(rank, op == KOLO_MAX, "a refused kolo_op_create sets the operation");
    expect_status(rank, kolo_op_create(&op, keep, NULL, 24, 0), 0, "kolo_op_create");
    refused(rank, kolo_allreduce(comm, data, apart, 1, KOLO_F64, op), "f64 has 8 bytes, and the operation is for");
    refused(rank, kolo_allreduce(comm, data, apart, 1, (kolo_dtype)30, op), "dtype 30");
    refused(rank, kolo_allreduce(comm, data, apart, 1, KOLO_OPAQUE, KOLO_SUM), "dtype opaque is only for");
    refused(rank, kolo_broadcast(comm, data, 1, KOLO_OPAQUE, 0), "dtype opaque is only for");
    refused(rank, kolo_allreduce(comm, data, data + 24, 2, KOLO_OPAQUE, op),
            "overlap: for in place pass the same address");
    refused(rank, kolo_reduce_scatter(comm, data, data + 24, 2, KOLO_OPAQUE, op), "overlap");
    refused(rank, kolo_scan(comm, data, apart, SIZE_MAX / 24, KOLO_OPAQUE, op), "more elements than memory can hold");
    refused(rank, kolo_reduce(comm, data, apart, 1, KOLO_OPAQUE, op, rank->ranks), "root");
    kolo_request *request = NULL;
    refused(rank, kolo_iallreduce(comm, data, apart, 1, KOLO_F32, op, &request), "kolo_iallreduce: dtype f32");
    expect_status(rank, kolo_op_destroy(op), 0, "kolo_op_destroy");
    refused(rank, kolo_op_destroy(op), "no operation of kolo_op_create");
    expect_status(rank, kolo_op_create(&other, keep, NULL, 24, 0), 0, "kolo_op_create");
    expect(rank, other != op, "a number is used again");
    for (uint32_t i = 0; i < COLLECTIVES; i++)
        refused(rank,
                kolo_call_make(comm, &(kolo_call){.call_bytes = sizeof(kolo_call),
                                                  .collective = collective_reducing(i)->collective,
                                                  .dtype = KOLO_OPAQUE,
                                                  .op = op,
                                                  .send = data,
                                                  .recv = apart,
                                                  .count = 1}),
                "or it was destroyed");
    expect_status(rank, kolo_op_destroy(other), 0, "kolo_op_destroy");
    expect_status(rank, kolo_barrier(comm), 0, "a barrier after what was refused");
}

enum { OTHERS = KOLO_OPS_OWN_MAX - OWN_OPERATIONS, OTHERS_COUNT = 2000 };

/* Adds a number of the operation's own, too. */
static void add_more(const void *in, void *inout, size_t count, void *context) {
    const uint32_t *left = in;
    uint32_t *result = inout;
    for (size_t i = 0; i < count; i++)
        result[i] += left[i] + (uint32_t)(uintptr_t)context;
}

/* Each calls its own function, with its own context, in lines and in slots. */
static void run_others(struct rank *rank) {
    static const size_t counts[] = {3, OTHERS_COUNT};
    const kolo_op *others = rank->team->argument;
    const uint32_t ranks = (uint32_t)rank->ranks;
    uint32_t data[OTHERS_COUNT];
    for (uint32_t i = 0; i < 2 * OTHERS; i++) {
        const uint32_t last = (uint32_t)counts[i % 2] - 1, more = 1000 + i / 2;
        for (uint32_t at = 0; at < OTHERS_COUNT; at++)
            data[at] = at + (uint32_t)rank->rank;
        const int status = kolo_allreduce(rank->comm, data, data, counts[i % 2], KOLO_U32, others[i / 2]);
        expect_status(rank, status, 0, "kolo_allreduce");
        expect(rank, data[last] == ranks * last + ranks * (ranks - 1) / 2 + (ranks - 1) * more, "operation %u: %u",
               i / 2, data[last]);
    }
}

/* As many as there may be, then one more. */
static void run_full_table(void) {
    static const kolo_algorithm algorithms[] = {KOLO_ALGORITHM_AUTO, KOLO_ALGORITHM_MESH, KOLO_ALGORITHM_RING,
                                                KOLO_ALGORITHM_TREE};
    kolo_op others[OTHERS], more = KOLO_SUM;
    for (uintptr_t i = 0; i < OTHERS; i++)
        expect_status(NULL, kolo_op_create(&others[i], add_more, (void *)(1000 + i), 4, KOLO_OP_COMMUTATIVE), 0,
                      "kolo_op_create");
    if (expect_status(NULL, kolo_op_create(&more, keep, NULL, 1, 0), KOLO_ERR_UNSUPPORTED, "one more"))
        expect_message(NULL, "one more", "64 operations", NULL);
    for (int ranks = 2; ranks <= 3; ranks++)
        for (int i = 0; i < 4; i++)
            if (wants_ranks(ranks) && wants_algorithm(algorithms[i]))
                harness_run(&(struct team){.ranks = ranks,
                                           .algorithm = algorithms[i],
                                           .slot_bytes = SLOT_BYTES,
                                           .run = run_others,
                                           .argument = others});
    for (int i = 0; i < OTHERS; i++)
        expect_status(NULL, kolo_op_destroy(others[i]), 0, "kolo_op_destroy");
}

/* Ranks that differ. */

struct own_call {
    size_t bytes;
    unsigned flags;
    kolo_dtype dtype;
    kolo_op op; /* of kolo_types.h, in place of an own operation, if bytes is 0 */
    size_t count;
    const char *words;
};

struct difference {
    struct own_call common, odd;
};

static const struct difference differences[] = {
    {{24, 0, KOLO_OPAQUE, 0, 5, "allreduce of 5 elements of 24 bytes, own operation, not commutative"},
     {12, 0, KOLO_OPAQUE, 0, 5, "allreduce of 5 elements of 12 bytes, own operation, not commutative"}},
    {{24, 0, KOLO_OPAQUE, 0, 900, "allreduce of 900 elements of 24 bytes, own operation, not commutative"},
     {12, 0, KOLO_OPAQUE, 0, 1800, "allreduce of 1800 elements of 12 bytes, own operation, not commutative"}},
    {{24, 1, KOLO_OPAQUE, 0, 900, "allreduce of 900 elements of 24 bytes, own operation"},
     {24, 0, KOLO_OPAQUE, 0, 900, "allreduce of 900 elements of 24 bytes, own operation, not commutative"}},
    {{8, 1, KOLO_F64, 0, 3, "allreduce of 3 f64, own operation"},
     {8, 1, KOLO_OPAQUE, 0, 3, "allreduce of 3 elements of 8 bytes, own operation"}},
    {{8, 1, KOLO_F64, 0, 3, "allreduce of 3 f64, own operation"}, {0, 0, KOLO_F64, 0, 3, "allreduce of 3 f64, sum"}},
    {{0, 0, KOLO_F32, KOLO_MAX, 2000, "allreduce of 2000 f32, max"},
     {4, 1, KOLO_F32, 0, 2000, "allreduce of 2000 f32, own operation"}},
    {{2048, 0, KOLO_OPAQUE, 0, 2, "allreduce of 2 elements of 2048 bytes, own operation, not commutative"},
     {2047, 0, KOLO_OPAQUE, 0, 2, "allreduce of 2 elements of 2047 bytes, own operation, not commutative"}},
};

static void run_difference(struct rank *rank) {
    enum { ROOM = 50000 };
    const struct difference *difference = rank->team->argument;
    const struct own_call *call = rank->rank == 1 ? &difference->odd : &difference->common;
    kolo_op op = call->op;
    unsigned char *data = calloc(ROOM, 1), *recv = calloc(ROOM, 1);
    if (call->bytes)
        expect_status(rank, kolo_op_create(&op, keep, NULL, call->bytes, call->flags), 0, "kolo_op_create");
    int status = 0;
    for (int i = 0; status == 0 && i < 4; i++)
        status = kolo_allreduce(rank->comm, data, recv, call->count, call->dtype, op);
    if (expect_status(rank, status, KOLO_ERR_MISMATCH, call->words))
        expect_message(rank, call->words, "disagree", difference->common.words, difference->odd.words, NULL);
    if (call->bytes)
        expect_status(rank, kolo_op_destroy(op), 0, "kolo_op_destroy");
    free(data);
    free(recv);
}

int main(int argc, char **argv) {
    static const int counts[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 33};
    harness_begin(argc, argv, "Checks operations of kolo_op_create.");
    own_operations_create();
    run_full_table();
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        for (int algorithm = 0; algorithm < KOLO_ALGORITHMS; algorithm++)
            run_agreeing(counts[i], algorithm);
    setenv("KOLO_ALGO", "tree:2:4", 1);
    for (int ranks = 5; ranks <= 9; ranks += 2)
        if (wants_ranks(ranks) && wants_algorithm(KOLO_ALGORITHM_TREE))
            harness_run(&(struct team){
                .ranks = ranks, .algorithm = KOLO_ALGORITHM_TREE, .slot_bytes = SLOT_BYTES, .run = run_each});
    unsetenv("KOLO_ALGO");
    for (int ranks = 1; ranks <= 4; ranks++)
        for (int algorithm = 0; wants_ranks(ranks) && algorithm < KOLO_ALGORITHMS; algorithm++)
            if (wants_algorithm((kolo_algorithm)algorithm))
                harness_run(&(struct team){.ranks = ranks,
                                           .algorithm = (kolo_algorithm)algorithm,
                                           .slot_bytes = SLOT_BYTES,
                                           .run = run_aligned});
    for (int ranks = 1; ranks <= 3; ranks++)
        if (wants_ranks(ranks))
            harness_run(&(struct team){.ranks = ranks, .slot_bytes = SLOT_BYTES, .run = run_refused});
    for (size_t i = 0; i < sizeof differences / sizeof *differences; i++)
        for (int ranks = 2; ranks <= 3; ranks++)
            if (wants_ranks(ranks))
                harness_run(&(struct team){
                    .ranks = ranks, .slot_bytes = 8192, .run = run_difference, .argument = &differences[i]});
    return harness_end();
}
