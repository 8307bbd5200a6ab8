/* Compression of buckets on several nodes, which here are ranks of one machine that inherit different files: the bits
 * of the sequential reference, as on one machine, and fewer bytes between the nodes. The reference adds up in the order
 * of all ranks: so do ONEBIT and TOPK, however these are spread. */
#include <stdlib.h>
#include <string.h>

#include "compression_reference.h"
#include "kolo_fusion.h"
#include "node_files.h"
#include "oracle.h"

enum { TENSORS = 2, STEPS = 3, COUNT_MAX = 30000, RANKS_MAX = 5 };

static const size_t counts[TENSORS] = {700, COUNT_MAX};
#define SHARE 0.02

/* Of bytes sent without compression, where each node has one rank and there are two; with room for headers. */
static const double shares_max[KOLO_COMPRESSIONS] = {1.1, 0.78, 0.78, 2 * SHARE + 0.02, 1.0 / 29 + 0.02};

struct setup {
    int node_of[HARNESS_RANKS_MAX];
    bool two_alone; /* two nodes of one rank */
    bool differs;   /* the order of an all-reduce of these nodes is not that of all ranks */
};

static void fill_input(float *values, int tensor, int step, int rank) {
    input_fill(step == 1 ? INPUT_SPECIAL : INPUT_NEAR, KOLO_F32, KOLO_SUM, values, counts[tensor],
               random_seed((uint64_t)(step * TENSORS + tensor), (uint64_t)rank));
}

/* What all ranks have sent, from the first step on. */
struct reference {
    float residual[RANKS_MAX][TENSORS][COUNT_MAX];
    float sent[RANKS_MAX][COUNT_MAX];
    float values[COUNT_MAX], expected[COUNT_MAX];
};

static bool check_tensor(const struct rank *rank, kolo_compression kind, struct reference *reference, int tensor,
                         int step, const float *found) {
    const void *sent[RANKS_MAX];
    for (int r = 0; r < rank->ranks; r++) {
        sent[r] = reference->sent[r];
        fill_input(reference->values, tensor, step, r);
        reference_compress(kind, SHARE, reference->values, reference->residual[r][tensor], reference->sent[r],
                           counts[tensor]);
    }
    reference_join(kind, KOLO_AVG, sent, rank->ranks, reference->expected, counts[tensor]);
    const size_t bytes = counts[tensor] * sizeof *found, at = first_difference(found, reference->expected, bytes);
    return at == bytes || expect(rank, false, "%s, step %d, tensor %d: element %zu is %a, should be %a",
                                 kolo_name(KOLO_NAME_COMPRESSION, kind), step, tensor, at / sizeof *found,
                                 (double)found[at / sizeof *found], (double)reference->expected[at / sizeof *found]);
}

/* Returns the bytes that the node has sent in all steps; below 0: something was wrong. */
static double run_steps(const struct rank *rank, kolo_compression kind) {
    static _Thread_local float first[700], second[COUNT_MAX];
    float *const data[TENSORS] = {first, second};
    const kolo_tensor tensors[TENSORS] = {{first, counts[0]}, {second, counts[1]}};
    kolo_bucket_options options = KOLO_BUCKET_OPTIONS_INIT;
    kolo_buckets *buckets = NULL;
    kolo_stats before = {.stats_bytes = sizeof before}, after = {.stats_bytes = sizeof after};
    struct reference *reference = calloc(1, sizeof *reference);
    options.compression = kind;
    options.compression_share = SHARE;
    const struct setup *setup = rank->team->argument;
    const bool is_gathered = kind == KOLO_COMPRESSION_ONEBIT || kind == KOLO_COMPRESSION_TOPK;
    const bool is_by_rank = is_gathered || (kind != KOLO_COMPRESSION_NONE && !setup->differs);
    kolo_comm_stats(rank->comm, &before);
    bool right = expect_status(rank, kolo_bucket_create(rank->comm, tensors, TENSORS, &options, &buckets), 0, "create");
    for (int step = 0; right && step < STEPS; step++) {
        for (int i = 0; i < TENSORS; i++)
            fill_input(data[i], i, step, rank->rank);
        for (size_t i = 0; right && i < TENSORS; i++)
            right = expect_status(rank, kolo_bucket_ready(buckets, (i + (size_t)rank->rank) % TENSORS), 0, "ready");
        right = right && expect_status(rank, kolo_bucket_wait(buckets), 0, "wait");
        for (int i = 0; right && is_by_rank && i < TENSORS; i++)
            right = check_tensor(rank, kind, reference, i, step, data[i]);
    }
    kolo_bucket_destroy(buckets);
    free(reference);
    kolo_comm_stats(rank->comm, &after);
    return right ? (double)(after.net_sent_bytes - before.net_sent_bytes) : -1;
}

static void run(struct rank *rank) {
    const struct setup *setup = rank->team->argument;
    nodes_place(&rank->options, setup->node_of[rank->rank]);
    double none = 0, sent = 0;
    bool right = expect_status(rank, kolo_comm_create(&rank->comm, &rank->options), 0, "kolo_comm_create");
    for (kolo_compression kind = KOLO_COMPRESSION_NONE; right && kind < KOLO_COMPRESSIONS; kind++) {
        sent = run_steps(rank, kind);
        none = kind == KOLO_COMPRESSION_NONE ? sent : none;
        right = sent >= 0 && (!setup->two_alone || expect(rank, sent <= shares_max[kind] * none,
                                                          "%s: %.0f bytes were sent, %.0f without compression",
                                                          kolo_name(KOLO_NAME_COMPRESSION, kind), sent, none));
    }
    kolo_comm_destroy(rank->comm);
    rank->comm = NULL;
}

int main(int argc, char **argv) {
    static const int layouts[][NODES_MAX] = {{1, 1}, {2, 1}, {1, 1, 1}, {2, 2, 1}, {1, 2}};
    harness_begin(argc, argv, "Checks compression of buckets on several nodes.");
    nodes_open();
    setenv("KOLO_SECRET", "none", 1);
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
        struct setup setup = {.two_alone = i == 0, .differs = i == 4};
        const int ranks = nodes_lay_out(layouts[i], setup.node_of);
        if (!wants_ranks(ranks) || (arguments.quick && i == 3))
            continue;
        nodes_meet_at("127.0.0.1");
        harness_run(&(struct team){.ranks = ranks, .creates_itself = true, .run = run, .argument = &setup});
    }
    return harness_end();
}
