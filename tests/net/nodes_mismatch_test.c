/* Nodes whose ranks make different calls: every rank of every node gets KOLO_ERR_MISMATCH long before the deadline, and
 * the message tells both calls. Also where no node sends anything, since each waits for another one, and where none
 * waits. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kolo_tools.h"
#include "collective_shapes.h"
#include "harness.h"
#include "named_call.h"
#include "node_files.h"
#include "own_operations.h"

HARNESS_RANKS_DISAGREE

enum {
    CALLS_BEFORE = 3,
    SMALL = 100,
    LARGE = 100000,
    WITHIN_MS = 1000,
    LASTING_CALLS = 100000,
    AHEAD_MAX = 64, /* calls that return before another node has come, as kolo_collectives.h says */
    GATHERED_BYTES = 8 * (SMALL + 1)
};

/* Roots that depend on who calls; and blocks of which rank 0 alone has one. */
enum { OWN = -1, NEXT = -2, ONLY_0 = -3 };

struct call {
    kolo_collective collective;
    size_t count;
    kolo_dtype dtype;
    int op_or_root; /* with KOLO_OPAQUE, which of the own operations */
};

static const struct difference {
    const char *what;
    struct call calls[2]; /* of node 0, and of the other nodes */
    bool lasting;         /* all make such calls until they are told; else one, and a barrier */
} differences[] = {
    {"each waits for another", {{KOLO_BROADCAST, SMALL, KOLO_U8, NEXT}, {KOLO_BROADCAST, SMALL, KOLO_U8, NEXT}}, false},
    {"each waits, large", {{KOLO_BROADCAST, LARGE, KOLO_U8, NEXT}, {KOLO_BROADCAST, LARGE, KOLO_U8, NEXT}}, false},
    {"all are roots", {{KOLO_BROADCAST, SMALL, KOLO_U8, OWN}, {KOLO_BROADCAST, SMALL, KOLO_U8, OWN}}, false},
    {"all are roots, large", {{KOLO_BROADCAST, LARGE, KOLO_U8, OWN}, {KOLO_BROADCAST, LARGE, KOLO_U8, OWN}}, false},
    {"all stay roots", {{KOLO_BROADCAST, SMALL, KOLO_U8, OWN}, {KOLO_BROADCAST, SMALL, KOLO_U8, OWN}}, true},
    {"broadcast's count", {{KOLO_BROADCAST, SMALL, KOLO_U8, 0}, {KOLO_BROADCAST, LARGE, KOLO_U8, 0}}, false},
    {"broadcast's dtype", {{KOLO_BROADCAST, SMALL, KOLO_U8, 0}, {KOLO_BROADCAST, SMALL, KOLO_I8, 0}}, false},
    {"root or all-reduce", {{KOLO_BROADCAST, SMALL, KOLO_U8, OWN}, {KOLO_ALLREDUCE, SMALL, KOLO_U8, KOLO_SUM}}, false},
    {"all-reduce or broadcast",
     {{KOLO_ALLREDUCE, SMALL, KOLO_U8, KOLO_SUM}, {KOLO_BROADCAST, SMALL, KOLO_U8, 0}},
     false},
    {"large all-reduce or not", {{KOLO_ALLREDUCE, LARGE, KOLO_F32, KOLO_SUM}, {KOLO_BROADCAST, 1, KOLO_F32, 0}}, false},
    {"all-gather or broadcast", {{KOLO_ALLGATHER, SMALL, KOLO_U8, 0}, {KOLO_BROADCAST, SMALL, KOLO_U8, 0}}, false},
    {"all-gather's count", {{KOLO_ALLGATHER, SMALL, KOLO_U8, 0}, {KOLO_ALLGATHER, SMALL + 1, KOLO_U8, 0}}, false},
    {"barrier or broadcast", {{KOLO_BARRIER, 0, KOLO_U8, 0}, {KOLO_BROADCAST, SMALL, KOLO_U8, 0}}, false},
    {"root or barrier", {{KOLO_BROADCAST, LARGE, KOLO_U8, OWN}, {KOLO_BARRIER, 0, KOLO_U8, 0}}, false},
    {"all-reduce's count",
     {{KOLO_ALLREDUCE, SMALL, KOLO_F32, KOLO_SUM}, {KOLO_ALLREDUCE, LARGE, KOLO_F32, KOLO_SUM}},
     false},
    {"gather's root", {{KOLO_GATHER, SMALL, KOLO_U8, OWN}, {KOLO_GATHER, SMALL, KOLO_U8, OWN}}, false},
    {"gather's root, nobody has it", {{KOLO_GATHER, SMALL, KOLO_U8, NEXT}, {KOLO_GATHER, SMALL, KOLO_U8, NEXT}}, false},
    {"gather's count", {{KOLO_GATHER, SMALL, KOLO_U8, 0}, {KOLO_GATHER, SMALL + 1, KOLO_U8, 0}}, false},
    {"gather or scatter", {{KOLO_GATHER, SMALL, KOLO_U8, 0}, {KOLO_SCATTER, SMALL, KOLO_U8, 0}}, false},
    {"gather or reduce", {{KOLO_GATHER, SMALL, KOLO_U8, 0}, {KOLO_REDUCE, SMALL, KOLO_U8, 0}}, false},
    {"scatter's root", {{KOLO_SCATTER, SMALL, KOLO_U8, OWN}, {KOLO_SCATTER, SMALL, KOLO_U8, OWN}}, false},
    {"all scatter", {{KOLO_SCATTER, SMALL, KOLO_U8, OWN}, {KOLO_SCATTER, SMALL, KOLO_U8, OWN}}, true},
    {"all gather to others", {{KOLO_GATHER, SMALL, KOLO_U8, NEXT}, {KOLO_GATHER, SMALL, KOLO_U8, NEXT}}, true},
    {"scatter or broadcast", {{KOLO_SCATTER, SMALL, KOLO_U8, 0}, {KOLO_BROADCAST, SMALL, KOLO_U8, 0}}, false},
    {"all-to-all's count", {{KOLO_ALLTOALL, SMALL, KOLO_U8, 0}, {KOLO_ALLTOALL, SMALL + 1, KOLO_U8, 0}}, false},
    {"all-to-all's dtype", {{KOLO_ALLTOALL, SMALL, KOLO_U8, 0}, {KOLO_ALLTOALL, SMALL, KOLO_I8, 0}}, false},
    {"all-to-all or barrier", {{KOLO_ALLTOALL, SMALL, KOLO_U8, 0}, {KOLO_BARRIER, 0, KOLO_U8, 0}}, false},
    {"reduce's root", {{KOLO_REDUCE, LARGE, KOLO_U8, OWN}, {KOLO_REDUCE, LARGE, KOLO_U8, OWN}}, false},
    {"reduce to others", {{KOLO_REDUCE, SMALL, KOLO_U8, NEXT}, {KOLO_REDUCE, SMALL, KOLO_U8, NEXT}}, true},
    {"reduce or all-reduce", {{KOLO_REDUCE, SMALL, KOLO_U8, 0}, {KOLO_ALLREDUCE, SMALL, KOLO_U8, KOLO_SUM}}, false},
    {"reduce-scatter's op",
     {{KOLO_REDUCE_SCATTER, SMALL, KOLO_U8, KOLO_SUM}, {KOLO_REDUCE_SCATTER, SMALL, KOLO_U8, KOLO_MAX}},
     false},
    {"scan's count", {{KOLO_SCAN, SMALL, KOLO_U8, KOLO_SUM}, {KOLO_SCAN, SMALL + 1, KOLO_U8, KOLO_SUM}}, false},
    {"large scan or reduce", {{KOLO_SCAN, LARGE, KOLO_U8, KOLO_SUM}, {KOLO_REDUCE, LARGE, KOLO_U8, 0}}, false},
    {"all-to-all's blocks", {{KOLO_ALLTOALLV, SMALL, KOLO_U8, 1}, {KOLO_ALLTOALLV, SMALL, KOLO_U8, 1}}, false},
    {"large blocks", {{KOLO_ALLTOALLV, LARGE, KOLO_U8, 60000}, {KOLO_ALLTOALLV, LARGE, KOLO_U8, 60000}}, false},
    {"gather's blocks", {{KOLO_GATHERV, SMALL, KOLO_U8, SMALL}, {KOLO_GATHERV, SMALL, KOLO_U8, SMALL}}, false},
    {"gather's large blocks", {{KOLO_GATHERV, LARGE, KOLO_U8, LARGE}, {KOLO_GATHERV, LARGE, KOLO_U8, LARGE}}, false},
    {"scatter's blocks", {{KOLO_SCATTERV, LARGE, KOLO_U8, 60000}, {KOLO_SCATTERV, LARGE, KOLO_U8, 60000}}, false},
    {"all-gather's blocks", {{KOLO_ALLGATHERV, SMALL, KOLO_U8, 1}, {KOLO_ALLGATHERV, SMALL, KOLO_U8, 1}}, false},
    {"all-reduce's op",
     {{KOLO_ALLREDUCE, SMALL, KOLO_F32, KOLO_SUM}, {KOLO_ALLREDUCE, SMALL, KOLO_F32, KOLO_MAX}},
     false},
    {"many tensors' division",
     {{KOLO_ALLREDUCE_MANY, SMALL, KOLO_F32, 1}, {KOLO_ALLREDUCE_MANY, SMALL, KOLO_F32, 2}},
     false},
    {"many tensors' count",
     {{KOLO_ALLREDUCE_MANY, LARGE, KOLO_U8, 1}, {KOLO_ALLREDUCE_MANY, LARGE - 1, KOLO_U8, 1}},
     false},
    {"own operation's elements",
     {{KOLO_ALLREDUCE, SMALL, KOLO_OPAQUE, 3}, {KOLO_ALLREDUCE, SMALL, KOLO_OPAQUE, 1}},
     false},
    {"empty all-gather's dtype", {{KOLO_ALLGATHER, 0, KOLO_U8, 0}, {KOLO_ALLGATHER, 0, KOLO_I8, 0}}, false},
    {"empty all-gather or all-to-all", {{KOLO_ALLGATHER, 0, KOLO_U8, 0}, {KOLO_ALLTOALL, 0, KOLO_U8, 0}}, false},
    {"empty all-gather or all-reduce", {{KOLO_ALLGATHER, 0, KOLO_U8, 0}, {KOLO_ALLREDUCE, 0, KOLO_U8, 0}}, false},
    {"empty reduce-scatter or all-reduce",
     {{KOLO_REDUCE_SCATTER, 0, KOLO_U8, 0}, {KOLO_ALLREDUCE, 0, KOLO_U8, 0}},
     false},
    {"empty broadcasts", {{KOLO_BROADCAST, 0, KOLO_U8, OWN}, {KOLO_BROADCAST, 0, KOLO_U8, OWN}}, true},
    {"one rank's all-gather",
     {{KOLO_ALLGATHERV, SMALL, KOLO_U8, ONLY_0}, {KOLO_ALLGATHERV, SMALL, KOLO_I8, ONLY_0}},
     false},
    {"an update without gradients",
     {{KOLO_ALLREDUCE_APPLY, 1, KOLO_F32, 0}, {KOLO_ALLREDUCE_APPLY, 2, KOLO_F32, 0}},
     false},
    {"own operation or sum", {{KOLO_SCAN, SMALL, KOLO_OPAQUE, 3}, {KOLO_SCAN, SMALL, KOLO_F64, KOLO_SUM}}, false},
};

enum { DIFFERENCES = sizeof differences / sizeof *differences };

/* Behind those of the table, each collective and the next one. */
static struct difference difference_at(size_t which, char *words, size_t words_bytes) {
    if (which < DIFFERENCES)
        return differences[which];
    const kolo_collective first = (kolo_collective)(which - DIFFERENCES);
    const kolo_collective next = (kolo_collective)((first + 1) % COLLECTIVES);
    snprintf(words, words_bytes, "%s or %s", kolo_name(KOLO_NAME_COLLECTIVE, first),
             kolo_name(KOLO_NAME_COLLECTIVE, next));
    return (struct difference){
        words,
        {{first, first == KOLO_BARRIER ? 0 : SMALL, KOLO_U8, 0}, {next, next == KOLO_BARRIER ? 0 : SMALL, KOLO_U8, 0}},
        false};
}

/* The ranks of each node; 0: no more nodes. */
static const int layouts[][NODES_MAX] = {{1, 1}, {2, 1}, {1, 1, 1}, {1, 2, 2}, {1, 1, 1, 1, 1}};

enum { LAYOUTS = sizeof layouts / sizeof *layouts };

struct setup {
    int node_of[HARNESS_RANKS_MAX];
    const struct difference *difference;
    bool may_be_later; /* the call that the failure names: some wait for nobody in the first that differs */
};

/* Blocks of any length: the last rank says of its block for rank 0, or from it, that it has op_or_root elements fewer.
 */
static int make_counted_call(const struct rank *rank, const struct call *call) {
    const size_t ranks = (size_t)rank->ranks, less = call->count - (size_t)call->op_or_root;
    size_t sent[HARNESS_RANKS_MAX], taken[HARNESS_RANKS_MAX];
    const bool is_last = rank->rank + 1 == rank->ranks, only_0 = call->op_or_root == ONLY_0;
    unsigned char *send = calloc(ranks, call->count), *recv = calloc(ranks, call->count);
    for (size_t peer = 0; peer < ranks; peer++)
        sent[peer] = taken[peer] = only_0 && peer > 0 ? 0 : call->count;
    if (is_last && !only_0)
        sent[0] = less;
    int status;
    if (call->collective == KOLO_ALLTOALLV)
        status = kolo_alltoallv(rank->comm, send, sent, NULL, recv, taken, NULL, call->dtype);
    else if (call->collective == KOLO_GATHERV)
        status = kolo_gatherv(rank->comm, send, sent[0], recv, taken, NULL, call->dtype, 0);
    else if (call->collective == KOLO_SCATTERV)
        status = kolo_scatterv(rank->comm, send, taken, NULL, recv, sent[0], call->dtype, 0);
    else
        status = kolo_allgatherv(rank->comm, send, recv, sent, NULL, call->dtype);
    free(send);
    free(recv);
    return status;
}

/* Whether the calls are the same but for the blocks. */
static bool differ_in_blocks(const struct call calls[2]) {
    const kolo_collective collective = calls[0].collective;
    return collective == calls[1].collective &&
           (collective == KOLO_ALLTOALLV || collective == KOLO_GATHERV || collective == KOLO_SCATTERV);
}

/* Whether no rank may succeed in such a call, since each at least waits until all have come. */
static bool waits_for_all(const struct call *call) {
    return !(kolo_collective_has(call->collective) & KOLO_HAS_ROOT) && call->collective != KOLO_ALLTOALLV &&
           collective_inputs(call->collective, 0, 2) == 2;
}

/* Of an update: a kolo_apply_function. */
static void update(void *context, size_t first, size_t count, const void *gradients, void *parameters) {
    (void)context, (void)first, (void)count, (void)gradients, (void)parameters;
}

static kolo_op op_of(const struct call *call) {
    return call->dtype == KOLO_OPAQUE ? own_operations[call->op_or_root].op : (kolo_op)call->op_or_root;
}

static int make_call(const struct rank *rank, const struct call *call, void *data) {
    const int root = call->op_or_root == OWN    ? rank->rank
                     : call->op_or_root == NEXT ? (rank->rank + 1) % rank->ranks
                                                : call->op_or_root;
    static _Thread_local unsigned char gathered[GATHERED_BYTES];
    const kolo_collective collective = call->collective;
    const collective_shape *shape = &collective_shapes[collective];
    const bool is_sum =
        collective == KOLO_REDUCE || collective == KOLO_ALLREDUCE_MANY || collective == KOLO_ALLREDUCE_APPLY;
    const size_t first = collective == KOLO_ALLREDUCE_MANY ? (size_t)root : 0;
    const kolo_tensor tensors[] = {{data, first},
                                   {(char *)data + first * kolo_dtype_bytes(call->dtype), call->count - first}};
    size_t counts[HARNESS_RANKS_MAX];
    for (int peer = 0; peer < rank->ranks; peer++)
        counts[peer] = call->count;
    if (shape->counted && collective != KOLO_REDUCE_SCATTERV)
        return make_counted_call(rank, call);
    return named_call_make(rank->comm, &(kolo_call){.collective = collective,
                                                    .dtype = call->dtype,
                                                    .op = is_sum ? KOLO_SUM : op_of(call),
                                                    .root = root,
                                                    .send = collective == KOLO_ALLREDUCE_APPLY ? NULL
                                                            : shape->sends_blocks              ? gathered
                                                                                               : data,
                                                    .recv = shape->takes_blocks ? gathered : data,
                                                    .count = call->count,
                                                    .send_counts = counts,
                                                    .tensors = tensors,
                                                    .ntensors = 2,
                                                    .function = update});
}

static void differ(struct rank *rank) {
    const struct setup *setup = rank->team->argument;
    const struct difference *difference = setup->difference;
    const struct call *call = &difference->calls[setup->node_of[rank->rank] > 0];
    kolo_options options = rank->options;
    nodes_place(&options, setup->node_of[rank->rank]);
    if (!expect_status(rank, kolo_comm_create(&rank->comm, &options), 0, "kolo_comm_create"))
        return;
    void *data = calloc(LARGE, sizeof(float));
    int status = 0;
    for (int i = 0; status == 0 && i < CALLS_BEFORE; i++)
        status = kolo_barrier(rank->comm);
    const int64_t begin_ns = now_ns();
    const int ahead_max = AHEAD_MAX * (setup->node_of[rank->ranks - 1] + 1);
    int calls = 0;
    while (status == 0 && calls < (difference->lasting ? LASTING_CALLS : 1)) {
        status = make_call(rank, call, data);
        calls += status == 0;
    }
    expect(rank, calls <= (waits_for_all(call) ? 0 : ahead_max), "%s: %d calls have returned 0", difference->what,
           calls);
    if (status == 0)
        status = kolo_barrier(rank->comm);
    const int64_t took_ns = now_ns() - begin_ns;
    if (expect(rank, status == KOLO_ERR_MISMATCH, "%s: status %d (%s)", difference->what, status,
               status ? kolo_error_message() : "no error"))
        expect_message(rank, difference->what, "disagree", differ_in_blocks(difference->calls) ? "expects" : "calls",
                       NULL);
    kolo_failure failure = {.failure_bytes = sizeof failure};
    kolo_comm_failure(rank->comm, &failure);
    /* Also where those that went on have differed in many more since. */
    expect(rank,
           (setup->may_be_later ? failure.call > CALLS_BEFORE : failure.call == CALLS_BEFORE + 1) &&
               !strstr(failure.message, "earlier") && !strstr(failure.message, "unknown"),
           "%s: the failure does not name both calls of the first that differs: %s", difference->what, failure.message);
    expect_prompt(rank, took_ns, WITHIN_MS, difference->what);
    free(data);
    kolo_comm_destroy(rank->comm);
    rank->comm = NULL;
}

static void run_layout(size_t layout, size_t which) {
    static const char *const algorithms[] = {"auto", "tree", "mesh", "ring"};
    char words[64];
    const struct difference difference = difference_at(which, words, sizeof words);
    struct setup setup = {.difference = &difference,
                          .may_be_later =
                              which >= DIFFERENCES && ((kolo_collective_has(difference.calls[0].collective) |
                                                        kolo_collective_has(difference.calls[1].collective)) &
                                                       KOLO_HAS_ROOT)};
    const int ranks = nodes_lay_out(layouts[layout], setup.node_of);
    char links[32];
    const bool is_skipped = which < DIFFERENCES ? arguments.quick && (layout + which) % 3 : which % LAYOUTS != layout;
    if (!wants_ranks(ranks) || is_skipped)
        return;
    snprintf(links, sizeof links, "%s,threads:%zu", which % 2 ? "poll" : "auto", 1 + (layout + which) % 3);
    setenv("KOLO_NET", links, 1);
    setenv("KOLO_NET_ALGO", algorithms[(layout + which) % 4], 1);
    nodes_meet_at("127.0.0.1");
    const struct team team = {
        .ranks = ranks, .slot_bytes = 16384, .creates_itself = true, .run = differ, .argument = &setup};
    harness_run(&team);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv, "Nodes that make different calls.");
    own_operations_create();
    setenv("KOLO_SECRET", "none", 1);
    nodes_open();
    for (size_t layout = 0; layout < LAYOUTS; layout++)
        for (size_t which = 0; which < DIFFERENCES + COLLECTIVES; which++)
            run_layout(layout, which);
    return harness_end();
}
