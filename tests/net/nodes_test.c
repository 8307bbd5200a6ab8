/* The collectives of a communicator of several nodes, which here are ranks of one machine that inherit different files:
 * all algorithms between nodes, both transports, 1 to 3 network threads, uneven nodes; right sums, the same bits on all
 * ranks, and with KOLO_NET_ORDER=rank those of one machine, however the ranks are spread. And what all ranks are told
 * when they call different things, when one aborts, leaves, dies or starts another program on another node.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "harness.h"
#include "node_files.h"
#include "oracle.h"
#include "own_operations.h"
#include "reference.h"

enum {
    CALLS = 24,
    CALLS_QUICK = 8,
    FAMILY_CALLS = 30,
    FAMILY_CALLS_QUICK = 15,
    COUNT_MAX = 90000,
    SLOT_BYTES = 4096,
    CODE = 7,
    CALLS_BEFORE = 3,
    LATE_MS = 700,
    COMPUTING_MS = 2000,
    WITHIN_MS = 500
};

/* The ranks of each node; 0: no more nodes. */
static const int layouts[][NODES_MAX] = {{1, 1}, {2, 2}, {3, 1}, {1, 2, 3}, {2, 1, 1, 2}};

enum { LAYOUTS = sizeof layouts / sizeof *layouts };

/* The node of each rank; -1: no more ranks. What each node has is not one subtree of those that the ranks are added by.
 */
static const int spreads[][7] = {{0, 0, 1, 1, 1, 1, -1}, {0, 1, 1, 1, 1, 1, -1}, {0, 1, 1, 1, 2, 2, -1},
                                 {0, 1, 0, 1, 0, 1, -1}, {0, 1, 2, 0, 1, 2, -1}, {0, 1, 1, 0, 2, -1},
                                 {0, 0, 0, 1, 1, -1},    {0, 1, 1, -1},          {0, 0, 1, 0, -1}};

enum { SPREADS = sizeof spreads / sizeof *spreads };

enum ending { END_WELL, END_MISMATCH, END_ABORT, END_LEAVE, END_DEATH, END_EXEC };

struct setup {
    int node_of[HARNESS_RANKS_MAX];
    enum ending ending;
    int odd;         /* the rank by which it ends */
    bool rank_order; /* KOLO_NET_ORDER=rank */
};

static bool create(struct rank *rank) {
    const struct setup *setup = rank->team->argument;
    kolo_options options = rank->options;
    nodes_place(&options, setup->node_of[rank->rank]);
    if (!expect_status(rank, kolo_comm_create(&rank->comm, &options), 0, "kolo_comm_create"))
        return false;
    int nodes = 0, local = 0, local_size = 0;
    for (int peer = 0; peer < rank->ranks; peer++) {
        nodes = setup->node_of[peer] >= nodes ? setup->node_of[peer] + 1 : nodes;
        local += peer < rank->rank && setup->node_of[peer] == setup->node_of[rank->rank];
        local_size += setup->node_of[peer] == setup->node_of[rank->rank];
    }
    return expect(rank,
                  kolo_comm_rank(rank->comm) == rank->rank && kolo_comm_size(rank->comm) == rank->ranks &&
                      kolo_comm_nodes(rank->comm) == nodes && info_of(rank->comm).node == setup->node_of[rank->rank] &&
                      info_of(rank->comm).local_rank == local && info_of(rank->comm).local_size == local_size,
                  "rank %d of %d, node %d of %d, local rank %d of %d", kolo_comm_rank(rank->comm),
                  kolo_comm_size(rank->comm), info_of(rank->comm).node, kolo_comm_nodes(rank->comm),
                  info_of(rank->comm).local_rank, info_of(rank->comm).local_size);
}

/* A call like the others, drawn from the seed. */
struct basic_call {
    kolo_dtype dtype;
    kolo_op op;
    size_t count;
    int root;
    input_style style;
    bool in_place, alloc;
    enum { CALL_ALLREDUCE, CALL_BROADCAST, CALL_ALLGATHER, CALL_BARRIER } kind;
};

static struct basic_call draw(const struct rank *rank, uint32_t index) {
    static const input_style styles[] = {INPUT_EXACT, INPUT_NEAR, INPUT_BITS};
    uint64_t state = random_seed(1000, index);
    struct basic_call call = {.dtype = (kolo_dtype)random_below(&state, KOLO_DTYPES),
                              .op = (kolo_op)random_below(&state, KOLO_OPS),
                              .root = (int)random_below(&state, (uint64_t)rank->ranks),
                              .style = styles[random_below(&state, 3)],
                              .in_place = random_below(&state, 2),
                              .alloc = random_below(&state, 4) == 0};
    static const size_t ends[] = {4, 300, 9000, COUNT_MAX};
    call.count = (size_t)random_below(&state, ends[random_below(&state, 4)]);
    const uint64_t kind = random_below(&state, 10);
    call.kind = kind < 5 ? CALL_ALLREDUCE : kind < 7 ? CALL_BROADCAST : kind < 9 ? CALL_ALLGATHER : CALL_BARRIER;
    const struct setup *setup = rank->team->argument;
    if (setup->rank_order && index % 4) { /* mostly what shows the order */
        call.kind = CALL_ALLREDUCE;
        call.style = INPUT_NEAR;
        call.dtype = (kolo_dtype)(KOLO_F16 + random_below(&state, 4));
        call.op = (kolo_op[]){KOLO_SUM, KOLO_PROD, KOLO_AVG}[random_below(&state, 3)];
    }
    if (!kolo_op_supports(call.op, call.dtype))
        call.op = KOLO_SUM;
    return call;
}

static uint64_t seed_of(int rank, uint32_t index) {
    return random_seed((uint64_t)rank, index);
}

static void check_sum(const struct rank *rank, const struct basic_call *call, uint32_t index, const void *recv) {
    const size_t bytes = call->count * kolo_dtype_bytes(call->dtype);
    void *inputs[HARNESS_RANKS_MAX], *expected = malloc(bytes + 1);
    for (int peer = 0; peer < rank->ranks; peer++) {
        inputs[peer] = malloc(bytes + 1);
        input_fill(call->style, call->dtype, call->op, inputs[peer], call->count, seed_of(peer, index));
    }
    oracle_reduce(call->dtype, call->op, (const void *const *)inputs, rank->ranks, call->count, expected);
    const size_t at = first_difference(recv, expected, bytes) / kolo_dtype_bytes(call->dtype);
    expect(rank, at == call->count, "call %u: %zu %s, %s: element %zu is wrong", index, call->count,
           kolo_name(KOLO_NAME_DTYPE, call->dtype), kolo_name(KOLO_NAME_OP, call->op), at);
    for (int peer = 0; peer < rank->ranks; peer++)
        free(inputs[peer]);
    free(expected);
}

static bool call_allreduce(struct rank *rank, const struct basic_call *call, uint32_t index, void *send, void *recv) {
    const size_t bytes = call->count * kolo_dtype_bytes(call->dtype);
    if (call->in_place)
        recv = send;
    input_fill(call->style, call->dtype, call->op, send, call->count, seed_of(rank->rank, index));
    if (!expect_status(rank, kolo_allreduce(rank->comm, send, recv, call->count, call->dtype, call->op), 0,
                       "allreduce"))
        return false;
    const struct setup *setup = rank->team->argument;
    const bool is_known = setup->rank_order || call->style == INPUT_EXACT || !order_matters(call->dtype, call->op);
    if (is_known && rank->rank == (int)(index % (uint32_t)rank->ranks)) /* the others' must be the same */
        check_sum(rank, call, index, recv);
    record_result(rank, index, hash_bytes(recv, bytes));
    return true;
}

static bool call_broadcast(struct rank *rank, const struct basic_call *call, uint32_t index, void *buffer) {
    const size_t bytes = call->count * kolo_dtype_bytes(call->dtype);
    input_fill(INPUT_BITS, call->dtype, KOLO_SUM, buffer, call->count, seed_of(rank->rank, index));
    if (!expect_status(rank, kolo_broadcast(rank->comm, buffer, call->count, call->dtype, call->root), 0, "broadcast"))
        return false;
    void *wanted = malloc(bytes + 1);
    input_fill(INPUT_BITS, call->dtype, KOLO_SUM, wanted, call->count, seed_of(call->root, index));
    expect(rank, memcmp(buffer, wanted, bytes) == 0, "call %u: %zu bytes from rank %d", index, bytes, call->root);
    free(wanted);
    return true;
}

static bool call_allgather(struct rank *rank, const struct basic_call *call, uint32_t index, void *send) {
    const size_t bytes = call->count * kolo_dtype_bytes(call->dtype);
    unsigned char *recv = malloc(bytes * (size_t)rank->ranks + 1), *wanted = malloc(bytes + 1);
    if (call->in_place)
        send = recv + (size_t)rank->rank * bytes;
    input_fill(INPUT_BITS, call->dtype, KOLO_SUM, send, call->count, seed_of(rank->rank, index));
    bool good =
        expect_status(rank, kolo_allgather(rank->comm, send, recv, call->count, call->dtype), 0, "kolo_allgather");
    for (int peer = 0; good && peer < rank->ranks; peer++) {
        input_fill(INPUT_BITS, call->dtype, KOLO_SUM, wanted, call->count, seed_of(peer, index));
        good = expect(rank, memcmp(recv + (size_t)peer * bytes, wanted, bytes) == 0, "call %u: %zu bytes of rank %d",
                      index, bytes, peer);
    }
    free(recv);
    free(wanted);
    return good;
}

/* Memory of this rank that all of its node have mapped: kolo's, or what mmap gave. */
static bool get_memory(const struct rank *rank, size_t bytes, bool by_share, void **memory) {
    if (!by_share)
        return expect_status(rank, kolo_alloc(rank->comm, bytes, memory), 0, "kolo_alloc");
    const size_t whole = (bytes + 4095) / 4096 * 4096;
    *memory = mmap(NULL, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return expect_status(rank, kolo_share(rank->comm, *memory, whole), 0, "kolo_share");
}

static void put_memory(const struct rank *rank, size_t bytes, bool by_share, void *memory) {
    expect_status(rank, kolo_free(rank->comm, memory), 0, "kolo_free");
    if (by_share)
        munmap(memory, (bytes + 4095) / 4096 * 4096);
}

static bool make_call(struct rank *rank, uint32_t index) {
    const struct basic_call call = draw(rank, index);
    const size_t bytes = call.count * kolo_dtype_bytes(call.dtype) + 1;
    void *send = NULL, *recv = malloc(bytes), *own = malloc(bytes);
    void *shared = NULL; /* of each node's ranks together */
    bool good = true;
    if (call.alloc)
        good = get_memory(rank, bytes, index % 2, &send);
    if (good && call.alloc && call.kind == CALL_ALLREDUCE && index % 3)
        good =
            expect_status(rank, kolo_alloc_with(rank->comm, bytes, KOLO_ALLOC_SHARED, &shared), 0, "kolo_alloc_with");
    if (good && call.kind == CALL_ALLREDUCE)
        good = call_allreduce(rank, &call, index, call.alloc ? send : own, shared ? shared : recv);
    else if (good && call.kind == CALL_BROADCAST)
        good = call_broadcast(rank, &call, index, call.alloc ? send : own);
    else if (good && call.kind == CALL_ALLGATHER)
        good = call_allgather(rank, &call, index, call.alloc ? send : own);
    else if (good)
        good = expect_status(rank, kolo_barrier(rank->comm), 0, "kolo_barrier");
    if (call.alloc && send)
        put_memory(rank, bytes, index % 2, send);
    if (shared)
        expect_status(rank, kolo_free(rank->comm, shared), 0, "kolo_free");
    free(recv);
    free(own);
    return good;
}

/* An all-reduce of an operation of kolo_op_create. */
static bool make_own_call(struct rank *rank, uint32_t index) {
    static const size_t counts[] = {1, 300, 30};
    const struct own_operation *own = &own_operations[index % OWN_OPERATIONS];
    const struct call call = {.index = index,
                              .kind = &collective_shapes[KOLO_ALLREDUCE],
                              .dtype = own->dtype,
                              .op = own->op,
                              .count = counts[index % 3]};
    struct prepared prepared;
    call_prepare(&prepared, &call, rank->comm);
    return call_check(rank, &prepared, call_make(&prepared, rank->comm));
}

/* KOLO_SUM_EXACT, whose bits are those of one machine however the nodes exchange what they have. */
static bool make_exact_call(struct rank *rank, uint32_t index) {
    static const size_t counts[] = {1, 300, 30, 3000, 0, 77};
    const collective_shape *kind = collective_reducing(index);
    const struct call call = {.index = index,
                              .kind = kind,
                              .dtype = (kolo_dtype)(KOLO_F16 + index % 4),
                              .op = KOLO_SUM_EXACT,
                              .root = (int)(index % (uint32_t)rank->ranks),
                              .count = counts[index % 6],
                              .in_place = index / 8 % 2 && works_in_place(kind)};
    struct prepared prepared;
    call_prepare(&prepared, &call, rank->comm);
    return call_check(rank, &prepared, call_make(&prepared, rank->comm));
}

static void end_well(struct rank *rank) {
    const uint32_t calls = arguments.quick ? CALLS_QUICK : CALLS;
    if (!create(rank))
        return;
    for (uint32_t index = 0; index < calls && make_call(rank, index); index++)
        ;
    for (uint32_t index = 0; index < calls / 2 && make_own_call(rank, index); index++)
        ;
    for (uint32_t index = 0; index < calls / 8 * 7 && make_exact_call(rank, index); index++)
        ;
    kolo_comm_destroy(rank->comm);
    rank->comm = NULL;
}

/* Where the ranks of two nodes alternate, a slot is too small for an element of each. The communicator stays usable. */
static void call_too_large(struct rank *rank) {
    const struct setup *setup = rank->team->argument;
    const struct own_operation *own = own_operations;
    while (own->bytes < KOLO_OP_ELEMENT_BYTES_MAX)
        own++;
    bool alternates = rank->ranks == 6;
    for (int peer = 0; peer < rank->ranks; peer++)
        alternates &= setup->node_of[peer] == peer % 2;
    void *data = calloc(1, own->bytes);
    const int status = kolo_allreduce(rank->comm, data, data, 1, own->dtype, own->op);
    record_result(rank, 0, (uint64_t)status);
    if (status < 0 || alternates)
        if (expect_status(rank, status, KOLO_ERR_UNSUPPORTED, "too large an element"))
            expect_message(rank, own->name, "elements of 2048 bytes", "slots of 6144 bytes", "KOLO_SLOT_BYTES", NULL);
    expect_status(rank, kolo_barrier(rank->comm), 0, "a barrier after that");
    free(data);
}

/* Every collective, one after another; those that reduce mostly with what shows the order. */
static void end_well_with_family(struct rank *rank) {
    static const size_t ends[] = {3, 100, 3000, 3000, 9000};
    const struct setup *setup = rank->team->argument;
    uint64_t random = random_seed(2000, (uint64_t)rank->ranks), delays = random_seed(3000, (uint64_t)rank->rank);
    bool good = create(rank);
    for (uint32_t index = 0; good && index < (arguments.quick ? FAMILY_CALLS_QUICK : FAMILY_CALLS); index++) {
        const uint64_t draw = random_next(&random);
        const collective_shape *kind = &collective_shapes[index % COLLECTIVES];
        struct call call = {.index = (uint32_t)(draw % 1000),
                            .kind = kind,
                            .dtype = (kolo_dtype)((draw >> 10) % KOLO_DTYPES),
                            .op = (kolo_op)((draw >> 16) % KOLO_OPS),
                            .root = (int)((draw >> 24) % (uint64_t)rank->ranks),
                            .count = (size_t)random_below(&random, ends[(draw >> 32) % 5]),
                            .in_place = (draw >> 40) % 2 && works_in_place(kind)};
        if (kind->reduces && (draw >> 44) % 2) {
            call.dtype = (kolo_dtype)(KOLO_F32 + (draw >> 46) % 2);
            call.op = (kolo_op[]){KOLO_SUM, KOLO_PROD, KOLO_AVG}[(draw >> 48) % 3];
        }
        if (!kolo_op_supports(call.op, call.dtype))
            call.op = KOLO_SUM;
        if (kind->reduces && (draw >> 52) % 3 == 0) {
            const struct own_operation *own = &own_operations[(draw >> 54) % OWN_OPERATIONS];
            if (own->bytes > SLOT_BYTES / 4) /* see call_too_large */
                own = &own_operations[0];
            call.dtype = own->dtype;
            call.op = own->op;
            call.count %= 40000 / own->bytes;
        }
        if (random_below(&delays, 50) == 0)
            sleep_ms((int64_t)random_below(&delays, 4));
        call.node_of = setup->rank_order ? NULL : setup->node_of;
        struct prepared prepared;
        call_prepare(&prepared, &call, rank->comm);
        good = call_check(rank, &prepared, call_make(&prepared, rank->comm));
    }
    if (good)
        call_too_large(rank);
    kolo_comm_destroy(rank->comm);
    rank->comm = NULL;
}

static int sum_some(kolo_comm *comm, size_t count) {
    float values[64] = {0};
    return kolo_allreduce(comm, values, values, count, KOLO_F32, KOLO_SUM);
}

/* What the odd rank does instead of its next call. */
static int do_odd_thing(struct rank *rank, enum ending ending) {
    switch (ending) {
    case END_MISMATCH:
        return sum_some(rank->comm, 33);
    case END_ABORT:
        kolo_comm_abort(rank->comm, CODE);
        break;
    case END_DEATH:
        kill(getpid(), SIGKILL);
        break;
    default:
        break;
    }
    return 0;
}

static void check_failure(struct rank *rank, const struct setup *setup, int status) {
    static const int wanted[] = {[END_MISMATCH] = KOLO_ERR_MISMATCH,
                                 [END_ABORT] = KOLO_ERR_ABORTED,
                                 [END_LEAVE] = KOLO_ERR_PEER_DEAD,
                                 [END_DEATH] = KOLO_ERR_PEER_DEAD};
    kolo_failure failure = {.failure_bytes = sizeof failure};
    expect_status(rank, status, wanted[setup->ending], "the call that the odd rank did not make");
    expect_status(rank, kolo_comm_failure(rank->comm, &failure), 0, "kolo_comm_failure");
    const int culprit = failure.rank, odd = setup->odd;
    /* Of ranks that differ, leaders speak for their nodes. */
    expect(rank, setup->ending == END_MISMATCH ? culprit >= 0 && culprit < rank->ranks : culprit == odd,
           "rank %d is blamed, not %d: %s", culprit, odd, failure.message);
    expect(rank, setup->ending != END_ABORT || failure.code == CODE, "code %d", failure.code);
    expect(rank, setup->ending != END_MISMATCH || strstr(failure.message, "allreduce of 33 f32"), "%s",
           failure.message);
}

static void end_badly(struct rank *rank) {
    const struct setup *setup = rank->team->argument;
    int status = create(rank) ? 0 : 1;
    for (int i = 0; status == 0 && i < CALLS_BEFORE; i++)
        status = sum_some(rank->comm, 32);
    if (rank->rank == setup->odd)
        status = do_odd_thing(rank, setup->ending);
    else if (status == 0)
        status = sum_some(rank->comm, 32);
    const bool is_out = rank->rank == setup->odd && setup->ending != END_MISMATCH;
    if (rank->comm && !is_out)
        check_failure(rank, setup, status);
    kolo_comm_destroy(rank->comm);
    rank->comm = NULL;
}

/* The last rank ends while the leader of its node computes, and the other node waits for both. */
static void end_unseen(struct rank *rank) {
    const struct setup *setup = rank->team->argument;
    kolo_failure failure = {.failure_bytes = sizeof failure};
    const int last = rank->ranks - 1;
    if (!create(rank))
        return;
    expect_status(rank, sum_some(rank->comm, 1), 0, "kolo_allreduce before that");
    if (rank->rank == last && setup->ending == END_DEATH)
        raise(SIGKILL);
    if (rank->rank == last && setup->ending == END_EXEC)
        execlp("sleep", "sleep", "5", NULL);
    const int64_t begin_ns = now_ns();
    if (rank->rank != last) {
        sleep_ms(rank->rank == last - 1 ? COMPUTING_MS : 0);
        expect_status(rank, sum_some(rank->comm, 1), KOLO_ERR_PEER_DEAD, "kolo_allreduce without the last rank");
        kolo_comm_failure(rank->comm, &failure);
        expect(rank, failure.rank == last, "rank %d is at fault: %s", failure.rank, failure.message);
    }
    if (rank->rank < last - 1)
        expect_prompt(rank, now_ns() - begin_ns, WITHIN_MS, "the end of a rank");
    kolo_comm_destroy(rank->comm);
    rank->comm = NULL;
}

/* Rank 1 of another node is late: how often rank 0 says so, and whom it names. */
static void await_late(struct rank *rank) {
    char log[8192] = "";
    const int file = memfd_create("log", MFD_CLOEXEC), terminal = dup(STDERR_FILENO);
    int32_t one = 1;
    setenv("KOLO_LOG", "warn,stall:100", 1);
    if (!create(rank))
        return;
    fflush(stderr);
    dup2(file, STDERR_FILENO);
    if (rank->rank == 1)
        sleep_ms(LATE_MS);
    const int64_t begin_ns = now_ns();
    const int status = kolo_allreduce(rank->comm, &one, &one, 1, KOLO_I32, KOLO_SUM);
    const int64_t wait_ms = (now_ns() - begin_ns) / 1000000;
    fflush(stderr);
    dup2(terminal, STDERR_FILENO);
    expect_status(rank, status, 0, "kolo_allreduce with a late node");
    int warnings = 0, most = 0;
    const ssize_t length = pread(file, log, sizeof log - 1, 0);
    for (const char *at = log; (at = strstr(at, "has waited")); at++)
        warnings++;
    for (int64_t ms = 100; ms <= wait_ms && rank->rank == 0; ms *= 2)
        most++;
    expect(rank, length >= 0 && warnings <= most && warnings >= most / 2, "%d warnings in %lld ms:\n%s", warnings,
           (long long)wait_ms, log);
    expect(rank, warnings == 0 || strstr(log, "(allreduce of 1 i32, sum) for node 1 (rank 1); begun"),
           "the warning is:\n%s", log);
    kolo_comm_destroy(rank->comm);
    rank->comm = NULL;
}

static void run_team(int ranks, const struct setup *setup, void (*run)(struct rank *)) {
    if (!wants_ranks(ranks))
        return;
    nodes_meet_at("127.0.0.1");
    const struct team team = {.ranks = ranks,
                              .slot_bytes = run == end_well_with_family ? SLOT_BYTES : 4 * SLOT_BYTES,
                              .creates_itself = true,
                              .victim = setup->ending >= END_DEATH ? 1 + setup->odd : 0,
                              .run = run,
                              .argument = setup};
    harness_run(&team);
}

static void run_layout(const int *counts, struct setup *setup, void (*run)(struct rank *)) {
    run_team(nodes_lay_out(counts, setup->node_of), setup, run);
}

static void set_links(bool polls, size_t lanes) {
    char text[32];
    snprintf(text, sizeof text, "%s,threads:%zu", polls ? "poll" : "auto", lanes);
    setenv("KOLO_NET", text, 1);
}

static void run_ways(void) {
    static const char *const algorithms[] = {"auto", "mesh", "ring", "tree", "central"};
    for (size_t layout = 0; layout < LAYOUTS; layout++)
        for (size_t algorithm = 0; algorithm < sizeof algorithms / sizeof *algorithms; algorithm++) {
            struct setup setup = {.ending = END_WELL};
            setenv("KOLO_NET_ALGO", algorithms[algorithm], 1);
            set_links((layout + algorithm) % 2, 1 + (layout + algorithm) % 3);
            run_layout(layouts[layout], &setup, end_well);
        }
    unsetenv("KOLO_NET_ALGO");
    unsetenv("KOLO_NET");
}

static void run_orders(void) {
    static const char *const algorithms[] = {"auto", "mesh", "tree", "central"};
    setenv("KOLO_NET_ORDER", "rank", 1);
    for (size_t spread = 0; spread < SPREADS; spread++)
        for (size_t way = 0; way < 2; way++) {
            struct setup setup = {.ending = END_WELL, .rank_order = true};
            int ranks = nodes_lay_out((const int[NODES_MAX]){0}, setup.node_of);
            for (; spreads[spread][ranks] >= 0; ranks++)
                setup.node_of[ranks] = spreads[spread][ranks];
            setenv("KOLO_NET_ALGO", algorithms[way ? 1 + spread % 3 : 0], 1);
            set_links((spread + way) % 2, 1 + spread % 3);
            run_team(ranks, &setup, end_well);
        }
    unsetenv("KOLO_NET_ORDER");
    unsetenv("KOLO_NET_ALGO");
    unsetenv("KOLO_NET");
}

/* Few slots' worth of memory, so that most calls take several tickets. */
static void run_family(void) {
    static const int large[][NODES_MAX] = {{4, 3, 5}, {1, 1, 1, 1, 1}, {2, 1, 3, 1, 2}};
    for (size_t layout = 0; layout < LAYOUTS + SPREADS + 3; layout++)
        for (int way = 0; way < 2; way++) {
            struct setup setup = {.ending = END_WELL, .rank_order = way};
            int ranks = 0;
            if (layout < LAYOUTS) {
                ranks = nodes_lay_out(layouts[layout], setup.node_of);
            } else if (layout < LAYOUTS + SPREADS) {
                for (nodes_lay_out((const int[NODES_MAX]){0}, setup.node_of); spreads[layout - LAYOUTS][ranks] >= 0;
                     ranks++)
                    setup.node_of[ranks] = spreads[layout - LAYOUTS][ranks];
            } else {
                ranks = nodes_lay_out(large[layout - LAYOUTS - SPREADS], setup.node_of);
            }
            setenv("KOLO_NET_ORDER", way ? "rank" : "node", 1);
            set_links((layout + (size_t)way) % 2, 1 + layout % 3);
            run_team(ranks, &setup, end_well_with_family);
        }
    unsetenv("KOLO_NET_ORDER");
    unsetenv("KOLO_NET");
}

static void run_endings(void) {
    for (size_t layout = 1; layout < LAYOUTS; layout++)
        for (enum ending ending = END_MISMATCH; ending <= END_DEATH; ending++) {
            int ranks = 0;
            for (int node = 0; node < NODES_MAX; node++)
                ranks += layouts[layout][node];
            if (ending == END_DEATH && arguments.threads)
                continue;
            struct setup setup = {.ending = ending};
            uint64_t state = random_seed(layout, ending);
            setup.odd = (int)random_below(&state, (uint64_t)ranks);
            set_links(false, 1 + (layout + ending) % 2);
            run_layout(layouts[layout], &setup, end_badly);
        }
}

int main(int argc, char **argv) {
    harness_begin(argc, argv, "Communicators of several nodes.");
    own_operations_create();
    setenv("KOLO_SECRET", "none", 1);
    nodes_open();
    run_ways();
    run_orders();
    run_family();
    run_endings();
    set_links(false, 1);
    run_layout(layouts[1], &(struct setup){.ending = END_LEAVE, .odd = 3}, end_unseen);
    for (enum ending ending = END_DEATH; !arguments.threads && ending <= END_EXEC; ending++)
        run_layout(layouts[1], &(struct setup){.ending = ending, .odd = 3}, end_unseen);
    if (!arguments.threads) /* which share what they write to */
        run_layout(layouts[0], &(struct setup){0}, await_late);
    return harness_end();
}
