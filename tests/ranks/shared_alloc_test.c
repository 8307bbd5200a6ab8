/* Buffers of KOLO_ALLOC_SHARED: what one rank writes all have; collectives by which all receive the same store it
 * there, by every algorithm; parameters are updated there to the bits that they have apart; what would depend on which
 * rank is faster is refused alike on all ranks; the memory is what the formula says; and ranks that disagree in them
 * find out. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kolo_optimizer.h"
#include "collective_shapes.h"
#include "harness.h"
#include "oracle.h"
#include "own_operations.h"

enum { CASES = 120, SHARED_MAX = 4 << 20, OWN_MAX = 1 << 20, OWN_BYTES_MAX = 100000, GUARD = 64 };

enum sends { SEND_PRIVATE, SEND_OWN_BUFFER, SEND_SHARED, SENDS };
enum calls { CALL_ALLREDUCE, CALL_BROADCAST, CALL_ALLGATHER, CALL_ALLGATHERV, CALLS };

struct memory {
    unsigned char *shared; /* SHARED_MAX bytes: inputs that all send, and behind them results */
    unsigned char *own;    /* OWN_MAX bytes of kolo_alloc */
    unsigned char *apart;  /* OWN_MAX bytes of malloc */
};

/* What a case does, drawn alike on all ranks. */
struct plan {
    uint32_t index;
    enum calls call;
    enum sends sends;
    kolo_dtype dtype;
    size_t element_bytes;
    kolo_op op;
    const struct own_operation *own; /* NULL: it is none of those */
    input_style style;
    size_t count;  /* of the message, or of a block */
    size_t offset; /* elements, of the result */
    bool in_place; /* the blocks of an all-gather are where they go */
    int root;
};

static struct plan draw_plan(const struct rank *rank, uint32_t index, uint64_t *random) {
    static const size_t counts[] = {0, 1, 13, 300, 1000, 9000, 60000};
    const uint64_t draw = random_next(random);
    struct plan plan = {.index = index,
                        .call = (enum calls)(draw % 7 < 4 ? CALL_ALLREDUCE : draw % 7 - 3),
                        .sends = (enum sends)(draw / 8 % SENDS),
                        .dtype = (kolo_dtype)(draw / 32 % KOLO_DTYPES),
                        .op = (kolo_op)(draw / 1024 % KOLO_OPS),
                        .style = rank->team->algorithm == KOLO_ALGORITHM_RING ? INPUT_EXACT : INPUT_SPECIAL,
                        .offset = draw >> 24 & 31,
                        .in_place = draw >> 30 & 1,
                        .root = (int)((draw >> 40) % (uint64_t)rank->ranks)};
    plan.count = counts[(draw >> 32) % 7] + (draw >> 36) % 3;
    if (plan.call != CALL_ALLREDUCE)
        plan.count /= (size_t)rank->ranks;
    if (!kolo_op_supports(plan.op, plan.dtype))
        plan.op = KOLO_SUM;
    plan.element_bytes = kolo_dtype_bytes(plan.dtype);
    if (plan.call == CALL_ALLREDUCE && draw >> 50 & 1) {
        plan.own = &own_operations[(draw >> 51) % OWN_OPERATIONS];
        plan.op = plan.own->op;
        plan.dtype = plan.own->dtype;
        plan.element_bytes = plan.own->bytes;
        if (plan.count > OWN_BYTES_MAX / plan.element_bytes)
            plan.count = OWN_BYTES_MAX / plan.element_bytes;
    }
    return plan;
}

/* Input of a rank; where all send the same memory, of each. */
static uint64_t seed_of(const struct plan *plan, int rank) {
    return random_seed(plan->sends == SEND_SHARED && plan->call == CALL_ALLREDUCE ? 0 : (uint64_t)rank, plan->index);
}

/* What this rank sends or, where all send the same memory, rank 0. */
static void fill(const struct plan *plan, int rank, unsigned char *elements) {
    const bool is_common = plan->sends == SEND_SHARED && plan->call == CALL_ALLREDUCE;
    if (plan->own)
        own_operation_fill(plan->own, elements, plan->count, is_common ? 0 : rank, seed_of(plan, rank));
    else
        input_fill(plan->style, plan->dtype, plan->op, elements, plan->count, seed_of(plan, rank));
}

/* What all ranks receive. Returns its bytes; the caller frees it. */
static size_t expect_result(const struct rank *rank, const struct plan *plan, unsigned char **expected) {
    const size_t bytes = plan->count * plan->element_bytes;
    const bool gathers = plan->call == CALL_ALLGATHER || plan->call == CALL_ALLGATHERV;
    unsigned char *all = malloc(bytes * (size_t)rank->ranks + 1);
    void *inputs[HARNESS_RANKS_MAX];
    for (int peer = 0; peer < rank->ranks; peer++) {
        inputs[peer] = all + (size_t)peer * bytes;
        fill(plan, peer, inputs[peer]);
    }
    *expected = gathers ? all : malloc(bytes + 1);
    if (plan->own)
        own_operation_reduce(plan->own, (const void *const *)inputs, rank->ranks, plan->count, *expected);
    else if (plan->call == CALL_ALLREDUCE)
        oracle_reduce(plan->dtype, plan->op, (const void *const *)inputs, rank->ranks, plan->count, *expected);
    else if (!gathers)
        memcpy(*expected, inputs[plan->root], bytes);
    if (!gathers)
        free(all);
    return gathers ? bytes * (size_t)rank->ranks : bytes;
}

/* Fills this rank's input and says where it is. A shared one is rank 0's to fill, or the root's, or, of blocks in
 * place, each rank's own. */
static unsigned char *fill_input(const struct rank *rank, const struct plan *plan, const struct memory *memory,
                                 unsigned char *recv) {
    const size_t bytes = plan->count * plan->element_bytes;
    unsigned char *send = plan->sends == SEND_PRIVATE ? memory->apart : memory->own;
    bool fills = true;
    if (plan->call == CALL_BROADCAST) {
        send = recv;
        fills = rank->rank == plan->root;
    } else if (plan->call == CALL_ALLREDUCE && plan->sends == SEND_SHARED) {
        send = memory->shared;
        fills = rank->rank == 0;
    } else if (plan->call != CALL_ALLREDUCE && plan->in_place) {
        send = recv + (size_t)rank->rank * bytes;
    }
    if (fills)
        fill(plan, rank->rank, send);
    return send;
}

static int make_call(const struct rank *rank, const struct plan *plan, const void *send, void *recv) {
    size_t counts[HARNESS_RANKS_MAX];
    for (int peer = 0; peer < rank->ranks; peer++)
        counts[peer] = plan->count;
    switch (plan->call) {
    case CALL_ALLREDUCE:
        return kolo_allreduce(rank->comm, send, recv, plan->count, plan->dtype, plan->op);
    case CALL_BROADCAST:
        return kolo_broadcast(rank->comm, recv, plan->count, plan->dtype, plan->root);
    case CALL_ALLGATHER:
        return kolo_allgather(rank->comm, send, recv, plan->count, plan->dtype);
    default:
        return kolo_allgatherv(rank->comm, send, recv, counts, NULL, plan->dtype);
    }
}

static bool run_case(const struct rank *rank, const struct plan *plan, const struct memory *memory) {
    unsigned char *guarded = memory->shared + SHARED_MAX / 2;
    unsigned char *recv = guarded + GUARD + plan->offset * plan->element_bytes, *expected;
    const unsigned char *send = fill_input(rank, plan, memory, recv);
    const size_t bytes = expect_result(rank, plan, &expected);
    if (rank->rank == 0) {
        memset(guarded, 0x5a, (size_t)(recv - guarded));
        memset(recv + bytes, 0x5a, GUARD);
    }
    bool right = expect_status(rank, kolo_barrier(rank->comm), 0, "kolo_barrier") &&
                 expect_status(rank, make_call(rank, plan, send, recv), 0, "a collective into shared memory");
    if (right) {
        const size_t at = first_difference(recv, expected, bytes);
        right = expect(rank, at == bytes, "case %" PRIu32 ": call %d of %zu %s, %s: byte %zu of %zu is wrong",
                       plan->index, plan->call, plan->count, kolo_name(KOLO_NAME_DTYPE, plan->dtype),
                       plan->own ? plan->own->name : kolo_name(KOLO_NAME_OP, plan->op), at, bytes);
    }
    right = right && expect_status(rank, kolo_barrier(rank->comm), 0, "kolo_barrier") &&
            expect(rank, recv[-1] == 0x5a && recv[bytes] == 0x5a && recv[bytes + GUARD - 1] == 0x5a,
                   "case %" PRIu32 ": memory around the result has changed", plan->index) &&
            expect_status(rank, kolo_barrier(rank->comm), 0, "kolo_barrier");
    free(expected);
    return right;
}

static uint64_t direct_calls(const struct rank *rank) {
    kolo_stats stats = {.stats_bytes = sizeof stats};
    kolo_comm_stats(rank->comm, &stats);
    return stats.calls_by_algorithm[KOLO_ALGORITHM_DIRECT];
}

static void run_collectives(struct rank *rank) {
    uint64_t random = random_seed(1, (uint64_t)rank->ranks);
    struct memory memory = {.apart = malloc(OWN_MAX)};
    const uint32_t cases = arguments.quick || rank->ranks > 5 ? CASES / 4 : CASES;
    bool right =
        expect_status(rank, kolo_alloc_with(rank->comm, SHARED_MAX, KOLO_ALLOC_SHARED, (void **)&memory.shared), 0,
                      "kolo_alloc_with") &&
        expect_status(rank, kolo_alloc_with(rank->comm, OWN_MAX, 0, (void **)&memory.own), 0, "kolo_alloc_with");
    for (uint32_t index = 0; right && index < cases; index++) {
        const struct plan plan = draw_plan(rank, index, &random);
        right = run_case(rank, &plan, &memory);
    }
    if (right && rank->ranks > 1 && rank->team->algorithm == KOLO_ALGORITHM_DIRECT)
        expect(rank, direct_calls(rank) >= cases / 10, "only %" PRIu64 " calls were direct", direct_calls(rank));
    free(memory.apart);
}

/* What one rank writes all have, until they free it themselves; it is zeroed before, and accounted for. */
static void run_same_memory(struct rank *rank) {
    static const size_t sizes[] = {1, 4096, 5000, 300000, (2 << 20) + 1};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const size_t bytes = sizes[i];
        unsigned char *buffer = NULL;
        if (!expect_status(rank, kolo_alloc_with(rank->comm, bytes, KOLO_ALLOC_SHARED, (void **)&buffer), 0,
                           "kolo_alloc_with"))
            return;
        expect(rank, (uintptr_t)buffer % 4096 == 0 && buffer[0] == 0 && buffer[bytes - 1] == 0,
               "%zu bytes are not aligned or not zeroed", bytes);
        kolo_barrier(rank->comm);
        for (size_t at = (size_t)rank->rank; at < bytes; at += (size_t)rank->ranks)
            buffer[at] = (unsigned char)(at * 7 + 1);
        kolo_barrier(rank->comm);
        size_t right = 0;
        while (right < bytes && buffer[right] == (unsigned char)(right * 7 + 1))
            right++;
        expect(rank, right == bytes, "byte %zu of %zu is not what another rank has written", right, bytes);
        kolo_stats stats = {.stats_bytes = sizeof stats};
        kolo_comm_stats(rank->comm, &stats);
        expect(rank, stats.buffer_bytes >= bytes && stats.buffer_bytes < bytes + (2 << 20),
               "%zu bytes are accounted for as %" PRIu64, bytes, stats.buffer_bytes);
        kolo_barrier(rank->comm);
        if (rank->rank != 0)
            expect_status(rank, kolo_free(rank->comm, buffer), 0, "kolo_free");
        if (rank->rank == 0) {
            sleep_ms(5);
            expect(rank, buffer[bytes - 1] == (unsigned char)((bytes - 1) * 7 + 1),
                   "another rank's kolo_free emptied it");
            expect_status(rank, kolo_free(rank->comm, buffer), 0, "kolo_free");
        }
    }
}

/* Calls of which one rank would write what another one uses. All are large enough for AUTO to need no copies. */
static void run_refused(struct rank *rank) {
    enum { COUNT = 100000 };
    float *shared, *own;
    const size_t block = COUNT / (size_t)rank->ranks;
    if (!expect_status(rank,
                       kolo_alloc_with(rank->comm, 2 * COUNT * sizeof(float), KOLO_ALLOC_SHARED, (void **)&shared), 0,
                       "kolo_alloc_with") ||
        !expect_status(rank, kolo_alloc(rank->comm, COUNT * sizeof(float), (void **)&own), 0, "kolo_alloc"))
        return;
    for (size_t i = 0; i < COUNT; i++)
        own[i] = (float)rank->rank;
    kolo_comm *comm = rank->comm;
    float *shifted = shared + (rank->rank == 1 ? 1000 : 0);
    const int statuses[] = {kolo_allreduce(comm, shared, shared, COUNT, KOLO_F32, KOLO_SUM),
                            kolo_allreduce(comm, own, shifted, COUNT, KOLO_F32, KOLO_SUM),
                            kolo_allreduce(comm, rank->rank == 0 ? shared + 50 : own, rank->rank == 1 ? shared : own,
                                           COUNT, KOLO_F32, KOLO_SUM),
                            kolo_scan(comm, own, shared, COUNT, KOLO_F32, KOLO_SUM),
                            kolo_alltoall(comm, own, shared, block, KOLO_F32),
                            kolo_reduce_scatter(comm, own, shared, block, KOLO_F32, KOLO_SUM),
                            kolo_allgather(comm, own, shifted, block, KOLO_F32)};
    for (size_t i = 0; i < sizeof statuses / sizeof *statuses; i++)
        expect_status(rank, statuses[i], KOLO_ERR_ARG, "a call whose ranks disturb each other");
    expect_message(rank, "ranks that disturb each other", "shared memory", "another rank", NULL);
    kolo_barrier(comm);
    expect(rank, shared[0] == 0 && shared[1000] == 0 && own[0] == (float)rank->rank, "a refused call changed memory");
    kolo_barrier(comm);
    /* Places for one rank alone are fine, in place too. */
    float *alone = shared + (size_t)rank->rank * block;
    for (size_t i = 0; i < block; i++)
        alone[i] = 1;
    expect_status(rank, kolo_allreduce(comm, alone, alone, block, KOLO_F32, KOLO_SUM), 0, "in place, each its own");
    expect(rank, alone[0] == (float)rank->ranks && alone[block - 1] == (float)rank->ranks, "the sum is %g",
           (double)alone[0]);
    /* Not all in the same place: rank 0 elsewhere, the others in one. */
    expect_status(rank, kolo_barrier(comm), 0, "kolo_barrier");
    float *recv = rank->rank == 0 ? shared + COUNT / 2 : shared;
    expect_status(rank, kolo_allreduce(comm, own, recv, COUNT / 2, KOLO_F32, KOLO_MAX), 0, "two places");
    expect(rank, recv[0] == (float)(rank->ranks - 1) && recv[COUNT / 2 - 1] == (float)(rank->ranks - 1),
           "the maximum is %g", (double)recv[0]);
}

static void leave(void *context, size_t first, size_t count, const void *gradients, void *parameters) {
    (void)context, (void)first, (void)count, (void)gradients, (void)parameters;
}

/* Every collective that can do without copies, where rank 1 receives in a part of where the others do, or sends from
 * there. Lanes that divide a call have slices apart, and refuse it nevertheless. */
static void run_every_refused(struct rank *rank) {
    const bool has_lanes = rank->team->argument;
    const size_t block = has_lanes ? 140000 : 100000 / (size_t)rank->ranks, all = block * (size_t)rank->ranks;
    float *shared, *own;
    rank->options.threads = has_lanes ? 2 : 1;
    if (!expect_status(rank, kolo_comm_create(&rank->comm, &rank->options), 0, "kolo_comm_create") ||
        !expect_status(rank, kolo_alloc_with(rank->comm, 2 * all * sizeof(float), KOLO_ALLOC_SHARED, (void **)&shared),
                       0, "kolo_alloc_with") ||
        !expect_status(rank, kolo_alloc(rank->comm, 2 * all * sizeof(float), (void **)&own), 0, "kolo_alloc"))
        return;
    for (size_t i = 0; i < all; i++)
        own[i] = (float)rank->rank + 1;
    for (int i = 0; i < 2 * COLLECTIVES; i++) {
        const collective_shape *shape = &collective_shapes[i / 2];
        const bool sends = i % 2;
        float *const part = shared + block * 3 / 4;
        if (shape->collective == KOLO_BARRIER || shape->collective == KOLO_ALLREDUCE_MANY || shape->counted ||
            (sends ? shape->collective == KOLO_BROADCAST : shape->taken_by_root))
            continue;
        const kolo_call call = {.call_bytes = sizeof call,
                                .collective = shape->collective,
                                .dtype = KOLO_F32,
                                .op = KOLO_SUM,
                                .root = sends && shape->sent_by_root ? 1 : 0,
                                .send = sends && rank->rank == 1 ? part : own,
                                .recv = rank->rank == 0   ? shared
                                        : sends           ? own + all
                                        : rank->rank == 1 ? part
                                                          : shared,
                                .count = block,
                                .function = leave};
        char function[64];
        snprintf(function, sizeof function, "kolo_%s: rank ", kolo_name(KOLO_NAME_COLLECTIVE, (int)shape->collective));
        expect_status(rank, kolo_call_make(rank->comm, &call), KOLO_ERR_ARG, function);
        expect_message(rank, "ranks that disturb each other", function, "shared memory", "another rank", NULL);
    }
    expect_status(rank, kolo_barrier(rank->comm), 0, "kolo_barrier");
    for (size_t i = 0; i < all; i++)
        if (!expect(rank, shared[i] == 0 && own[i] == (float)rank->rank + 1 && own[all + i] == 0,
                    "a refused call changed element %zu", i))
            break;
    expect_status(rank, kolo_barrier(rank->comm), 0, "kolo_barrier");
    /* What a rank sends may be in place, in the block of the root or in the one buffer of all. */
    float *mine = shared + (size_t)rank->rank * block;
    for (size_t i = 0; i < block; i++)
        mine[i] = (float)rank->rank + 1;
    expect_status(rank, kolo_gather(rank->comm, mine, shared, block, KOLO_F32, 1), 0, "gather in place");
    expect_status(rank, kolo_barrier(rank->comm), 0, "kolo_barrier");
    expect_status(rank, kolo_broadcast(rank->comm, shared, all, KOLO_F32, 1), 0, "broadcast in place");
    for (size_t i = 0; i < all; i++)
        if (!expect(rank, shared[i] == (float)(i / block + 1), "element %zu is %g", i, (double)shared[i]))
            break;
    expect_status(rank, kolo_barrier(rank->comm), 0, "kolo_barrier");
}

static void run_bad_arguments(struct rank *rank) {
    unsigned char *buffer = NULL;
    kolo_comm *comm = rank->comm;
    expect_status(rank, kolo_alloc_with(NULL, 10, 1, (void **)&buffer), KOLO_ERR_ARG, "without a communicator");
    expect_status(rank, kolo_alloc_with(comm, 10, 1, NULL), KOLO_ERR_ARG, "without a buffer");
    expect_status(rank, kolo_alloc_with(comm, 0, 1, (void **)&buffer), KOLO_ERR_ARG, "of 0 bytes");
    expect_status(rank, kolo_alloc_with(comm, SIZE_MAX, 1, (void **)&buffer), KOLO_ERR_ARG, "of SIZE_MAX");
    expect_status(rank, kolo_alloc_with(comm, 10, 2, (void **)&buffer), KOLO_ERR_ARG, "with an unknown flag");
    expect_message(rank, "an unknown flag", "kolo_alloc_with", "0x2", "0x1", NULL);
    expect_status(rank, kolo_alloc_with(comm, (size_t)1 << 39, 1, (void **)&buffer), KOLO_ERR_NO_SPACE, "of 2^39");
    if (rank->rank == 0)
        expect_message(rank, "2^39 bytes", "kolo_alloc_with", "available", "549755813888", NULL);
    expect(rank, buffer == NULL, "a failed call set the buffer");
    if (!expect_status(rank, kolo_alloc_with(comm, 10000, 1, (void **)&buffer), 0, "kolo_alloc_with after a failure"))
        return;
    expect_status(rank, kolo_free(comm, buffer + 4096), KOLO_ERR_ARG, "kolo_free of the inside of a buffer");
    expect_status(rank, kolo_barrier(comm), 0, "kolo_barrier after errors");
    expect_status(rank, kolo_free(comm, buffer), 0, "kolo_free");
    expect_status(rank, kolo_free(comm, buffer), KOLO_ERR_ARG, "kolo_free twice");
}

static void run_mismatch(struct rank *rank) {
    void *buffer;
    const int status = kolo_alloc_with(rank->comm, 4000, rank->rank == 1 ? 0 : KOLO_ALLOC_SHARED, &buffer);
    expect_status(rank, status, KOLO_ERR_MISMATCH, "shared on one rank, not on another");
    expect_message(rank, "mismatch", "disagree", "alloc of 4000 bytes, shared", NULL);
}

/* Bytes of this process's memory, where shared pages count by their share: huge pages of the system's pool too, which
 * another program may set aside at any time, and which the kernel counts in full; here all ranks share them. Without
 * files': libraries are shared with whatever else runs on the machine, and these shares change whenever that begins or
 * ends. -1: not known. */
static int64_t memory_bytes(int sharers) {
    char line[256];
    long long kib, all = 0;
    int found = 0;
    FILE *file = fopen("/proc/self/smaps_rollup", "r");
    while (file && fgets(line, sizeof line, file)) {
        const bool pooled = sscanf(line, "Shared_Hugetlb: %lld kB", &kib) == 1;
        if (pooled || sscanf(line, "Private_Hugetlb: %lld kB", &kib) == 1 ||
            sscanf(line, "Pss_Anon: %lld kB", &kib) == 1 || sscanf(line, "Pss_Shmem: %lld kB", &kib) == 1) {
            all += pooled ? kib / sharers : kib;
            found++;
        }
    }
    if (file)
        fclose(file);
    return found == 4 ? all * 1024 : -1;
}

/* How much more memory all ranks have when each has buffers for gradients and parameters. */
static int64_t measure(const struct rank *rank, size_t bytes, unsigned flags) {
    unsigned char *gradients, *parameters;
    kolo_barrier(rank->comm);
    int64_t before = memory_bytes(rank->ranks), after, all = 0;
    kolo_barrier(rank->comm);
    if (!expect_status(rank, kolo_alloc(rank->comm, bytes, (void **)&gradients), 0, "kolo_alloc") ||
        !expect_status(rank, kolo_alloc_with(rank->comm, bytes, flags, (void **)&parameters), 0, "kolo_alloc_with"))
        return -1;
    memset(gradients, 1, bytes);
    unsigned sum = 0; /* every rank reads all parameters */
    for (size_t at = 0; at < bytes; at += 4096)
        sum += parameters[at];
    kolo_barrier(rank->comm);
    after = memory_bytes(rank->ranks) + (sum != 0);
    kolo_barrier(rank->comm);
    before = after - before;
    expect_status(rank, kolo_allreduce(rank->comm, &before, &all, 1, KOLO_I64, KOLO_SUM), 0, "kolo_allreduce");
    kolo_free(rank->comm, gradients);
    kolo_free(rank->comm, parameters);
    kolo_barrier(rank->comm);
    return all;
}

static void run_memory(struct rank *rank) {
    const size_t bytes = 8 << 20;
    const int64_t n = rank->ranks, k = (int64_t)bytes, slack = k / 4;
    if (memory_bytes(rank->ranks) < 0) /* no /proc, or an old kernel */
        return;
    const int64_t plain = measure(rank, bytes, 0), shared = measure(rank, bytes, KOLO_ALLOC_SHARED);
    expect(rank, plain > 2 * n * k - slack && plain < 2 * n * k + slack,
           "%" PRId64 " ranks with parameters of their own take %" PRId64 " bytes, not 2 N K = %" PRId64, n, plain,
           2 * n * k);
    expect(rank, shared > (n + 1) * k - slack && shared < (n + 1) * k + slack,
           "%" PRId64 " ranks that share parameters take %" PRId64 " bytes, not (N + 1) K = %" PRId64, n, shared,
           (n + 1) * k);
}

/* A child of fork has the memory, as the ranks do, but not the right to use the communicator. */
static void run_forked(struct rank *rank) {
    unsigned char *buffer;
    if (!expect_status(rank, kolo_alloc_with(rank->comm, 10000, KOLO_ALLOC_SHARED, (void **)&buffer), 0,
                       "kolo_alloc_with"))
        return;
    if (rank->rank == 0)
        memset(buffer, 7, 10000);
    kolo_barrier(rank->comm);
    const pid_t child = fork();
    if (child == 0) {
        void *more;
        const bool refused = buffer[9999] == 7 && kolo_free(rank->comm, buffer) == KOLO_ERR_STATE &&
                             kolo_alloc_with(rank->comm, 10, 1, &more) == KOLO_ERR_STATE;
        kolo_comm_destroy(rank->comm);
        _exit(refused ? 0 : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    expect(rank, WIFEXITED(status) && WEXITSTATUS(status) == 0, "the forked child is not as it should be");
    expect(rank, buffer[0] == 7 && buffer[9999] == 7, "the forked child took the memory away");
    expect_status(rank, kolo_barrier(rank->comm), 0, "kolo_barrier");
}

/* By how much each of them moves in a step; momentum of what the owner alone keeps. */
static void descend(void *context, size_t first, size_t count, const void *gradients, void *parameters) {
    float *momentum = context;
    for (size_t i = 0; i < count; i++) {
        momentum[first + i] = 0.9F * momentum[first + i] + ((const float *)gradients)[i];
        ((float *)parameters)[i] -= 0.1F * momentum[first + i];
    }
}

/* Steps of kolo_allreduce_apply on one copy of the parameters, at an offset in it, as on one in each rank. */
static void run_apply(struct rank *rank) {
    enum { COUNT_MAX = 70000, OFFSETS = 40, STEPS = 4 };
    static const size_t counts[] = {1, 31, 1000, 9001, COUNT_MAX};
    float *one, *own = calloc(COUNT_MAX, sizeof *own), *momentum = calloc(2 * COUNT_MAX, sizeof *momentum), *mapped;
    float *gradients = calloc(COUNT_MAX, sizeof *gradients);
    bool right =
        expect_status(
            rank, kolo_alloc_with(rank->comm, (COUNT_MAX + OFFSETS) * sizeof *one, KOLO_ALLOC_SHARED, (void **)&one), 0,
            "kolo_alloc_with") &&
        expect_status(rank, kolo_alloc(rank->comm, COUNT_MAX * sizeof *mapped, (void **)&mapped), 0, "alloc");
    for (size_t step = 0; right && step < STEPS * (sizeof counts / sizeof *counts); step++) {
        const size_t count = counts[step / STEPS], bytes = count * sizeof *one;
        float *shared = one + (step / STEPS * 13) % OFFSETS, *sent = step % 2 ? mapped : gradients;
        if (step % STEPS == 0) { /* other parameters, and none has moved yet */
            memset(momentum, 0, 2 * COUNT_MAX * sizeof *momentum);
            input_fill(INPUT_NEAR, KOLO_F32, KOLO_SUM, own, count, random_seed(step, 99));
            if (rank->rank == 0)
                memcpy(shared, own, bytes);
            right = expect_status(rank, kolo_barrier(rank->comm), 0, "kolo_barrier");
        }
        input_fill(INPUT_NEAR, KOLO_F32, KOLO_SUM, sent, count, random_seed(step, (uint64_t)rank->rank));
        right = right &&
                expect_status(rank,
                              kolo_allreduce_apply(rank->comm, sent, own, count, KOLO_F32, KOLO_AVG, descend, momentum),
                              0, "kolo_allreduce_apply") &&
                expect_status(rank,
                              kolo_allreduce_apply(rank->comm, sent, shared, count, KOLO_F32, KOLO_AVG, descend,
                                                   momentum + COUNT_MAX),
                              0, "kolo_allreduce_apply on one copy");
        const size_t at = first_difference(shared, own, bytes), odd = at < bytes ? at / sizeof *one : 0;
        right = right &&
                expect(rank, at == bytes, "step %zu: parameter %zu of %zu is %a in one copy, %a in one of each rank",
                       step, odd, count, (double)shared[odd], (double)own[odd]) &&
                expect_status(rank, kolo_barrier(rank->comm), 0, "kolo_barrier");
    }
    free(own);
    free(gradients);
    free(momentum);
}

static void run_teams(int ranks) {
    static void (*const runs[])(struct rank *) = {run_same_memory, run_refused, run_bad_arguments,
                                                  run_mismatch,    run_forked,  run_memory};
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        const bool needs_peers = runs[i] == run_mismatch || runs[i] == run_refused;
        const bool needs_processes = runs[i] == run_forked || runs[i] == run_memory;
        if ((needs_peers && ranks == 1) || (needs_processes && arguments.threads))
            continue;
        harness_run(&(struct team){.ranks = ranks, .by_descriptor = ranks % 2, .run = runs[i]});
    }
    for (int lanes = 0; ranks > 1 && lanes < (ranks < 4 ? 2 : 1); lanes++)
        harness_run(&(struct team){
            .ranks = ranks, .creates_itself = true, .run = run_every_refused, .argument = lanes ? &lanes : NULL});
    for (int algorithm = 0; algorithm < KOLO_ALGORITHMS; algorithm++)
        if (wants_algorithm((kolo_algorithm)algorithm))
            harness_run(&(struct team){
                .ranks = ranks, .algorithm = (kolo_algorithm)algorithm, .slot_bytes = 16384, .run = run_collectives});
    if (wants_algorithm(KOLO_ALGORITHM_AUTO))
        harness_run(&(struct team){.ranks = ranks, .slot_bytes = 16384, .run = run_apply});
    if (wants_algorithm(KOLO_ALGORITHM_DIRECT))
        harness_run(&(struct team){.ranks = ranks, .algorithm = KOLO_ALGORITHM_DIRECT, .run = run_apply});
}

int main(int argc, char **argv) {
    static const int counts[] = {1, 2, 3, 4, 5, 9};
    harness_begin(argc, argv, "Checks buffers that all ranks have, and what is received in them.");
    own_operations_create();
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        if (wants_ranks(counts[i]) && (!arguments.quick || counts[i] != 4))
            run_teams(counts[i]);
    return harness_end();
}
