/* Buckets: tensors that become ready in a random order of its own on each rank, in several threads or in one, are
 * reduced to the bits that kolo_allreduce gives one by one, step after step; with a progress thread and without, of any
 * sizes and caps. Buckets follow the order of rank 0's first step. What is wrong is refused by name, and a rank that
 * dies or does not come ends a step with an error on all others. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kolo_fusion.h"
#include "kolo_lanes.h"
#include "harness.h"
#include "oracle.h"

enum { TENSORS = 200, STEPS = 12, PATTERNS = 8, HOOKS = 3, COUNT_MAX = 700 };

struct setup {
    void (*part)(struct rank *rank);
    size_t bucket_bytes;
    kolo_dtype dtype;
    kolo_op op;
    int steps, lanes; /* 0: as the team has it */
    bool progress, keep_order, has_threads, skips;
};

/* A model's gradients on one rank; what they are in each of some steps, by turns, and what they must become. */
struct model {
    kolo_tensor tensors[TENSORS];
    size_t first[TENSORS];
    unsigned char *data, *inputs[PATTERNS], *expected[PATTERNS];
    size_t count, bytes;
};

static void make_model(struct model *model, kolo_dtype dtype, uint64_t seed) {
    uint64_t random = random_seed(seed, 1);
    model->count = 0;
    for (size_t i = 0; i < TENSORS; i++) {
        model->first[i] = model->count;
        model->tensors[i].count = i % 17 == 3 ? 0 : 1 + random_below(&random, i % 5 ? 40 : COUNT_MAX);
        model->count += model->tensors[i].count;
    }
    model->bytes = model->count * kolo_dtype_bytes(dtype);
    model->data = malloc(model->bytes + 1);
    for (int i = 0; i < PATTERNS; i++) {
        model->inputs[i] = malloc(model->bytes + 1);
        model->expected[i] = malloc(model->bytes + 1);
    }
    for (size_t i = 0; i < TENSORS; i++)
        model->tensors[i].data = model->data + model->first[i] * kolo_dtype_bytes(dtype);
}

static void free_model(struct model *model) {
    free(model->data);
    for (int i = 0; i < PATTERNS; i++) {
        free(model->inputs[i]);
        free(model->expected[i]);
    }
}

static bool skips(const struct setup *setup, int rank, int step, size_t tensor) {
    return setup->skips && (tensor * 7 + (size_t)(rank + step % PATTERNS)) % 5 == 0;
}

/* The gradients of a step, and their reduction by a sequential reference. */
static void fill(const struct rank *rank, struct model *model, const struct setup *setup, int step) {
    const void *sources[HARNESS_RANKS_MAX];
    const size_t bytes = kolo_dtype_bytes(setup->dtype);
    for (int peer = 0; peer < rank->ranks; peer++) {
        unsigned char *input = malloc(model->bytes + 1);
        input_fill(INPUT_SPECIAL, setup->dtype, setup->op, input, model->count,
                   random_seed((uint64_t)step, (uint64_t)peer + 2));
        if (peer == rank->rank)
            memcpy(model->inputs[step], input, model->bytes);
        for (size_t i = 0; i < TENSORS; i++)
            if (skips(setup, peer, step, i))
                memset(input + model->first[i] * bytes, 0, model->tensors[i].count * bytes);
        sources[peer] = input;
    }
    oracle_reduce(setup->dtype, setup->op, sources, rank->ranks, model->count, model->expected[step]);
    for (int peer = 0; peer < rank->ranks; peer++)
        free((void *)sources[peer]);
}

/* The hooks of a backward pass: each marks its part of the order. */
struct hook {
    kolo_buckets *buckets;
    const size_t *order;
    size_t begin, end;
    int status;
};

static void *run_hook(void *argument) {
    struct hook *hook = argument;
    for (size_t i = hook->begin; hook->status == 0 && i < hook->end; i++)
        hook->status = kolo_bucket_ready(hook->buckets, hook->order[i]);
    return NULL;
}

static int mark_all(kolo_buckets *buckets, const size_t *order, size_t count, bool has_threads) {
    struct hook hooks[HOOKS];
    pthread_t threads[HOOKS];
    int status = 0;
    const size_t used = has_threads ? HOOKS : 1;
    for (size_t i = 0; i < used; i++) {
        hooks[i] = (struct hook){buckets, order, count * i / used, count * (i + 1) / used, 0};
        if (has_threads)
            pthread_create(&threads[i], NULL, run_hook, &hooks[i]);
        else
            run_hook(&hooks[i]);
    }
    for (size_t i = 0; i < used; i++) {
        if (has_threads)
            pthread_join(threads[i], NULL);
        status = hooks[i].status < 0 ? hooks[i].status : status;
    }
    return status;
}

static size_t draw_order(const struct setup *setup, int rank, int step, size_t order[TENSORS]) {
    uint64_t random = random_seed((uint64_t)step + 77, (uint64_t)rank);
    size_t count = 0;
    for (size_t i = 0; i < TENSORS; i++)
        if (!skips(setup, rank, step, i))
            order[count++] = i;
    for (size_t i = count; i > 1; i--) {
        const size_t other = random_below(&random, i), moved = order[i - 1];
        order[i - 1] = order[other];
        order[other] = moved;
    }
    return count;
}

static void run_steps(struct rank *rank) {
    const struct setup *setup = rank->team->argument;
    kolo_bucket_options options = KOLO_BUCKET_OPTIONS_INIT;
    kolo_buckets *buckets = NULL;
    struct model model;
    size_t order[TENSORS];
    make_model(&model, setup->dtype, setup->bucket_bytes);
    options.dtype = setup->dtype;
    options.op = setup->op;
    options.bucket_bytes = setup->bucket_bytes;
    options.keep_order = setup->keep_order;
    options.unused = setup->skips ? KOLO_BUCKET_UNUSED_ZERO : KOLO_BUCKET_UNUSED_ERROR;
    bool right = expect_status(rank, kolo_bucket_create(rank->comm, model.tensors, TENSORS, &options, &buckets), 0,
                               "kolo_bucket_create");
    for (int step = 0; right && step < setup->steps; step++) {
        const int pattern = step % PATTERNS;
        if (step == pattern)
            fill(rank, &model, setup, pattern);
        memcpy(model.data, model.inputs[pattern], model.bytes);
        const size_t count = draw_order(setup, rank->rank, step, order);
        right = expect_status(rank, mark_all(buckets, order, count, setup->has_threads), 0, "kolo_bucket_ready") &&
                expect_status(rank, kolo_bucket_wait(buckets), 0, "kolo_bucket_wait");
        const size_t at = right ? first_difference(model.data, model.expected[pattern], model.bytes) : model.bytes;
        right = right && expect(rank, at == model.bytes, "step %d: byte %zu of %zu is wrong", step, at, model.bytes);
        if (right && step % 5 == 4) /* between steps the communicator is free */
            right = expect_status(rank, kolo_barrier(rank->comm), 0, "kolo_barrier");
    }
    expect_status(rank, kolo_bucket_destroy(buckets), 0, "kolo_bucket_destroy");
    free_model(&model);
}

static size_t count_of(const kolo_buckets *buckets) {
    kolo_bucket_info info = {.info_bytes = sizeof info};
    return kolo_bucket_query(buckets, &info) == 0 ? info.buckets : 0;
}

/* What is wrong, and that the step goes on after it. */
static void run_refusals(struct rank *rank) {
    float data[6] = {1, 2, 3, 4, 5, 6};
    const kolo_tensor tensors[] = {{data, 2}, {data + 2, 3}, {data + 5, 1}};
    kolo_bucket_options options = KOLO_BUCKET_OPTIONS_INIT;
    kolo_buckets *buckets = NULL;
    refused(rank, kolo_bucket_create(NULL, tensors, 3, NULL, &buckets), "comm is NULL");
    refused(rank, kolo_bucket_create(kolo_comm_lane(rank->comm, 0), tensors, 3, NULL, &buckets), "is a lane");
    refused(rank, kolo_bucket_create(rank->comm, tensors, 3, NULL, NULL), "buckets is NULL");
    refused(rank, kolo_bucket_create(rank->comm, NULL, 3, NULL, &buckets), "tensors is NULL");
    refused(rank, kolo_bucket_create(rank->comm, (kolo_tensor[]){{NULL, 1}}, 1, NULL, &buckets), "tensor 0: data");
    options.op = KOLO_BAND;
    refused(rank, kolo_bucket_create(rank->comm, tensors, 3, &options, &buckets), "there is no op");
    options.op = KOLO_MAX;
    options.unused = KOLO_BUCKET_UNUSED_ZERO;
    refused(rank, kolo_bucket_create(rank->comm, tensors, 3, &options, &buckets), "not for max");
    options.op = KOLO_SUM;
    options.keep_order = 2;
    refused(rank, kolo_bucket_create(rank->comm, tensors, 3, &options, &buckets), "keep_order 2");
    options.keep_order = 0;
    options.unused = KOLO_BUCKET_UNUSED_ERROR;
    options.bucket_bytes = 8;
    refused(rank, kolo_bucket_ready(NULL, 0), "buckets is NULL");
    refused(rank, kolo_bucket_wait(NULL), "buckets is NULL");
    expect_status(rank, kolo_bucket_destroy(NULL), 0, "kolo_bucket_destroy of NULL");
    if (!expect_status(rank, kolo_bucket_create(rank->comm, tensors, 3, &options, &buckets), 0, "kolo_bucket_create"))
        return;
    expect(rank, count_of(buckets) == 3, "%zu buckets", count_of(buckets));
    refused(rank, kolo_bucket_ready(buckets, 3), "tensor 3: there are 3");
    refused(rank, kolo_bucket_wait(buckets), "tensor 2 was not marked ready in this step, as 3 of 3");
    expect_status(rank, kolo_bucket_ready(buckets, 2), 0, "kolo_bucket_ready");
    refused(rank, kolo_bucket_ready(buckets, 2), "tensor 2 was ready already");
    expect_status(rank, kolo_bucket_ready(buckets, 0), 0, "kolo_bucket_ready");
    refused(rank, kolo_bucket_wait(buckets), "tensor 1 was not marked ready in this step, as 1 of 3");
    expect_status(rank, kolo_bucket_ready(buckets, 1), 0, "kolo_bucket_ready");
    expect_status(rank, kolo_bucket_wait(buckets), 0, "kolo_bucket_wait");
    expect(rank, data[0] == (float)rank->ranks && data[5] == 6 * (float)rank->ranks, "%g and %g", data[0], data[5]);
    expect(rank, count_of(buckets) == 3, "%zu buckets", count_of(buckets));
    expect_status(rank, kolo_bucket_destroy(buckets), 0, "kolo_bucket_destroy");
}

/* After the first step buckets are made in the order of rank 0: 2 and 0 then fit one. */
static void run_learning(struct rank *rank) {
    static const size_t orders[][3] = {{2, 0, 1}, {1, 0, 2}, {0, 1, 2}};
    float data[6] = {0};
    const kolo_tensor tensors[] = {{data, 2}, {data + 2, 3}, {data + 5, 1}};
    kolo_bucket_options options = KOLO_BUCKET_OPTIONS_INIT;
    kolo_buckets *buckets = NULL;
    options.bucket_bytes = 12;
    if (!expect_status(rank, kolo_bucket_create(rank->comm, tensors, 3, &options, &buckets), 0, "kolo_bucket_create"))
        return;
    expect(rank, count_of(buckets) == 3, "%zu buckets at first", count_of(buckets));
    for (int step = 0; step < 3; step++) {
        for (int i = 0; i < 3; i++)
            expect_status(rank, kolo_bucket_ready(buckets, orders[(rank->rank + step) % 3][i]), 0, "kolo_bucket_ready");
        expect_status(rank, kolo_bucket_wait(buckets), 0, "kolo_bucket_wait");
        expect(rank, count_of(buckets) == 2, "%zu buckets after step %d", count_of(buckets), step);
    }
    expect_status(rank, kolo_bucket_destroy(buckets), 0, "kolo_bucket_destroy");
}

/* The last rank leaves in the middle of a step: all others hear of it, in ready or in wait, and can do no more. */
static void run_leaving(struct rank *rank) {
    static float data[4][4096];
    kolo_tensor tensors[4];
    kolo_buckets *buckets = NULL;
    kolo_bucket_options options = KOLO_BUCKET_OPTIONS_INIT;
    options.bucket_bytes = sizeof data[0];
    for (int i = 0; i < 4; i++)
        tensors[i] = (kolo_tensor){calloc(4096, sizeof(float)), 4096};
    if (!expect_status(rank, kolo_bucket_create(rank->comm, tensors, 4, &options, &buckets), 0, "kolo_bucket_create"))
        return;
    if (rank->rank == rank->ranks - 1) {
        expect_status(rank, kolo_bucket_ready(buckets, 3), 0, "kolo_bucket_ready");
        kolo_comm_destroy(rank->comm); /* ends what is in flight */
        rank->comm = NULL;
        event_set();
        expect_status(rank, kolo_bucket_destroy(buckets), KOLO_ERR_STATE, "kolo_bucket_destroy after the communicator");
    } else {
        int status = 0;
        for (size_t i = 0; status == 0 && i < 4; i++) {
            while (i == 3 && event_ns() == 0) /* else that bucket might be complete before the last rank leaves */
                sleep_ms(1);
            status = kolo_bucket_ready(buckets, i);
        }
        if (status == 0)
            status = kolo_bucket_wait(buckets);
        expect_status(rank, status, KOLO_ERR_PEER_DEAD, "a step of which a rank leaves");
        expect_status(rank, kolo_bucket_ready(buckets, 0), KOLO_ERR_STATE, "kolo_bucket_ready after that");
        expect_status(rank, kolo_bucket_wait(buckets), KOLO_ERR_STATE, "kolo_bucket_wait after that");
        expect_status(rank, kolo_bucket_destroy(buckets), 0, "kolo_bucket_destroy");
    }
    for (int i = 0; i < 4; i++)
        free(tensors[i].data);
}

/* All ranks but the last are in a step of their first buckets, which the last one has destroyed: it makes the first
 * step of others of the same size. */
static void run_abandoned(struct rank *rank) {
    float data[4] = {0};
    const kolo_tensor tensor = {data, 4};
    const bool is_last = rank->rank == rank->ranks - 1;
    for (kolo_compression kind = KOLO_COMPRESSION_NONE; kind < KOLO_COMPRESSIONS; kind++) {
        kolo_bucket_options options = KOLO_BUCKET_OPTIONS_INIT;
        kolo_buckets *first = NULL, *second = NULL;
        kolo_comm *comm;
        options.compression = kind;
        options.keep_order = 1;
        if (!expect_status(rank, kolo_comm_dup(rank->comm, &comm), 0, "kolo_comm_dup") ||
            !expect_status(rank, kolo_bucket_create(comm, &tensor, 1, &options, &first), 0, "kolo_bucket_create"))
            return;
        int status = is_last ? 0 : kolo_bucket_ready(first, 0);
        expect_status(rank, status, 0, "kolo_bucket_ready");
        status = kolo_bucket_destroy(first);
        if (is_last && status == 0 &&
            expect_status(rank, kolo_bucket_create(comm, &tensor, 1, &options, &second), 0, "kolo_bucket_create")) {
            status = kolo_bucket_ready(second, 0);
            if (status == 0)
                status = kolo_bucket_wait(second);
        }
        if (expect_status(rank, status, KOLO_ERR_MISMATCH, kolo_name(KOLO_NAME_COMPRESSION, kind)))
            expect_difference(rank, "the number of the buckets", "2", rank->ranks - 1, "1");
        kolo_bucket_destroy(second);
        kolo_comm_destroy(comm);
    }
}

static void add_floats(const void *in, void *inout, size_t count, void *context) {
    (void)context;
    for (size_t i = 0; i < count; i++)
        ((float *)inout)[i] += ((const float *)in)[i];
}

/* Ranks whose tensors differ, though what is sent for them is as long, whatever it is. The last kind: an operation of
 * kolo_op_create, whose numbers differ between the ranks. */
static void run_mismatch(struct rank *rank) {
    float data[8] = {0};
    const size_t first = rank->rank == 1 ? 3 : 4;
    const kolo_tensor tensors[] = {{data, first}, {data + first, 8 - first}};
    kolo_op ops[2];
    for (int i = 0; i < 2; i++)
        expect_status(rank, kolo_op_create(&ops[i], add_floats, NULL, sizeof(float), KOLO_OP_COMMUTATIVE), 0,
                      "kolo_op_create");
    for (int kind = 0; kind <= KOLO_COMPRESSIONS; kind++) {
        const bool is_own = kind == KOLO_COMPRESSIONS;
        kolo_bucket_options options = KOLO_BUCKET_OPTIONS_INIT;
        kolo_buckets *buckets = NULL;
        kolo_comm *comm;
        options.op = is_own ? ops[rank->rank == 1] : KOLO_SUM;
        options.compression = is_own ? KOLO_COMPRESSION_NONE : (kolo_compression)kind;
        options.compression_share = 0.01;
        if (!expect_status(rank, kolo_comm_dup(rank->comm, &comm), 0, "kolo_comm_dup") ||
            !expect_status(rank, kolo_bucket_create(comm, tensors, 2, &options, &buckets), 0, "kolo_bucket_create"))
            return;
        int status = kolo_bucket_ready(buckets, 0);
        if (status == 0)
            status = kolo_bucket_ready(buckets, 1);
        if (status == 0)
            status = kolo_bucket_wait(buckets);
        if (expect_status(rank, status, KOLO_ERR_MISMATCH, kolo_name(KOLO_NAME_COMPRESSION, options.compression)))
            expect_difference(rank, "tensors[1].count", "5", 1, "4");
        expect_status(rank, kolo_bucket_destroy(buckets), 0, "kolo_bucket_destroy");
        kolo_comm_destroy(comm);
    }
    for (int i = 0; i < 2; i++)
        kolo_op_destroy(ops[i]);
}

static void start(struct rank *rank) {
    const struct setup *setup = rank->team->argument;
    kolo_options options = rank->options;
    options.progress = setup->progress;
    options.threads = setup->lanes ? setup->lanes : options.threads;
    if (!expect_status(rank, kolo_comm_create(&rank->comm, &options), 0, "kolo_comm_create"))
        return;
    setup->part(rank);
    kolo_comm_destroy(rank->comm);
    rank->comm = NULL;
}

static void run(int ranks, const struct setup *setup) {
    if (wants_ranks(ranks))
        harness_run(&(struct team){
            .ranks = ranks, .run = start, .creates_itself = true, .argument = setup, .slot_bytes = 8192});
}

int main(int argc, char **argv) {
    static const int counts[] = {1, 2, 3, 4, 5, 9};
    static const size_t caps[] = {1, 2000, 20000, 0};
    harness_begin(argc, argv, "Checks tensors in buckets.");
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        for (uint32_t way = 0; way < 8; way++) {
            const struct setup setup = {.part = run_steps,
                                        .bucket_bytes = caps[way % 4],
                                        .dtype = way == 5   ? KOLO_BF16
                                                 : way == 6 ? KOLO_F64
                                                            : KOLO_F32,
                                        .op = way % 3 ? KOLO_AVG : KOLO_SUM,
                                        .steps = arguments.calls ? (int)arguments.calls : STEPS,
                                        .progress = way & 1,
                                        .keep_order = way == 2,
                                        .has_threads = way & 1 && way != 3,
                                        .skips = way == 4 || way == 7};
            if ((!arguments.quick && counts[i] < 9) || (way + i) % 3 == 0)
                run(counts[i], &setup);
        }
        run(counts[i], &(struct setup){.part = run_refusals, .lanes = 2});
        run(counts[i], &(struct setup){.part = run_learning});
        if (counts[i] > 1) {
            run(counts[i], &(struct setup){.part = run_leaving, .progress = counts[i] & 1});
            run(counts[i], &(struct setup){.part = run_mismatch});
            run(counts[i], &(struct setup){.part = run_abandoned});
        }
    }
    return harness_end();
}
