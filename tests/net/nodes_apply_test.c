/* kolo_allreduce_apply and optimizers of several nodes: on every rank the parameters are those of kolo_reduce_scatterv
 * and the update that each rank makes of its range, whatever ranks share a node; with several lanes of connections,
 * without gradients, without parameters, and in the background. */
#include <stdlib.h>
#include <string.h>

#include "kolo_optimizer.h"
#include "harness.h"
#include "node_files.h"

enum { SLOT_BYTES = 4096, CALLS = 12, STEPS = 3 };

struct setup {
    int node_of[HARNESS_RANKS_MAX];
};

/* One call, as the function sees it. */
struct update {
    const struct rank *rank;
    size_t first, owned, next;
    float *kept; /* where there are no parameters */
    bool has_gradients;
};

static void update(void *context, size_t first, size_t count, const void *gradients, void *parameters) {
    struct update *update = context;
    expect(update->rank, first == update->next && first + count <= update->first + update->owned && count > 0,
           "elements %zu to %zu, of %zu from %zu on", first, first + count, update->owned, update->first);
    expect(update->rank, !gradients == !update->has_gradients, "gradients");
    update->next = first + count;
    for (size_t i = 0; i < count; i++) {
        const float gradient = gradients ? ((const float *)gradients)[i] : 3;
        if (parameters)
            ((float *)parameters)[i] = ((float *)parameters)[i] * 2 + gradient;
        else
            update->kept[first + i] = gradient;
    }
}

static float parameter(int owner, size_t i) {
    return (float)(i % 101 + (size_t)owner * 7);
}

static void fill(float *values, size_t count, int rank, uint32_t index) {
    for (size_t i = 0; i < count; i++)
        values[i] = (float)((i * 13 + (size_t)rank * 5 + index) % 61) / 3;
}

static bool check_call(struct rank *rank, uint32_t index) {
    static const size_t counts[] = {0, 1, 33, 1000, 5003, 20011};
    const size_t count = counts[index % 6];
    const bool no_gradients = index == 7, no_parameters = index == 8, in_background = index % 4 == 2;
    float *gradients = malloc((count + 1) * 4), *parameters = malloc((count + 1) * 4), *own = malloc((count + 1) * 4);
    size_t *counts_of = malloc((size_t)rank->ranks * sizeof *counts_of), first;
    struct update context = {.rank = rank, .kept = calloc(count + 1, 4), .has_gradients = !no_gradients};
    kolo_request *request = NULL;
    fill(gradients, count, rank->rank, index);
    for (size_t i = 0; i < count; i++)
        parameters[i] = parameter(rank->rank, i);
    for (int peer = 0; peer < rank->ranks; peer++)
        kolo_apply_owned(rank->comm, peer, count, KOLO_F32, &first, &counts_of[peer]);
    kolo_apply_owned(rank->comm, rank->rank, count, KOLO_F32, &context.first, &context.owned);
    context.next = context.first;
    const float *const g = no_gradients ? NULL : gradients;
    float *const p = no_parameters ? NULL : parameters;
    int status = in_background
                     ? kolo_iallreduce_apply(rank->comm, g, p, count, KOLO_F32, KOLO_AVG, update, &context, &request)
                     : kolo_allreduce_apply(rank->comm, g, p, count, KOLO_F32, KOLO_AVG, update, &context);
    if (status == 0)
        status = kolo_request_wait(request);
    bool good = expect_status(rank, status, 0, "kolo_allreduce_apply") &&
                expect(rank, context.next == context.first + context.owned, "not all was updated") &&
                expect_status(rank, kolo_reduce_scatterv(rank->comm, gradients, own, counts_of, KOLO_F32, KOLO_AVG), 0,
                              "kolo_reduce_scatterv");
    for (size_t i = 0; good && i < context.owned; i++) {
        const float reduced = no_gradients ? 3 : own[i];
        if (no_parameters)
            good = expect(rank, context.kept[context.first + i] == reduced, "gradient %zu", i);
        own[i] = parameter(rank->rank, context.first + i) * 2 + reduced;
    }
    float *all = malloc((count + 1) * 4);
    good = good &&
           expect_status(rank, kolo_allgatherv(rank->comm, own, all, counts_of, NULL, KOLO_F32), 0, "kolo_allgatherv");
    good = good && (no_parameters || expect(rank, memcmp(all, parameters, count * 4) == 0, "call %u is wrong", index));
    free(gradients);
    free(parameters);
    free(own);
    free(all);
    free(counts_of);
    free(context.kept);
    return good;
}

/* An optimizer with all that it has: all ranks end with the same bits. */
static void check_optimizer(struct rank *rank) {
    enum { COUNT = 3001 };
    static const size_t segments[] = {1000, COUNT};
    float gradients[COUNT], parameters[COUNT];
    kolo_optimizer_options options = KOLO_OPTIMIZER_OPTIONS_INIT;
    kolo_optimizer *optimizer = NULL;
    options.count = COUNT;
    options.segments = segments;
    options.nsegments = 2;
    options.clip_norm = 1;
    options.skip_nonfinite = 1;
    if (!expect_status(rank, kolo_optimizer_create(rank->comm, &options, NULL, 0, &optimizer), 0, "create"))
        return;
    fill(parameters, COUNT, 0, 0);
    for (int step = 0; step < STEPS; step++) {
        kolo_step_info info = {.info_bytes = sizeof info};
        uint64_t sum = 0;
        fill(gradients, COUNT, rank->rank, (uint32_t)step);
        expect_status(rank, kolo_optimizer_begin_segment(optimizer, 1, gradients + 1000, parameters + 1000), 0,
                      "begin");
        expect_status(rank, kolo_optimizer_step(optimizer, gradients, parameters, &info), 0, "step");
        expect(rank, info.norm > 1 && info.clip < 1 && info.steps == (uint64_t)step + 1, "norm %g", info.norm);
        for (size_t i = 0; i < COUNT; i++) {
            uint32_t bits;
            memcpy(&bits, &parameters[i], 4);
            sum = sum * 31 + bits;
        }
        record_result(rank, (uint32_t)step, sum);
    }
    kolo_optimizer_destroy(optimizer);
}

static void run(struct rank *rank) {
    const struct setup *setup = rank->team->argument;
    nodes_place(&rank->options, setup->node_of[rank->rank]);
    bool good = expect_status(rank, kolo_comm_create(&rank->comm, &rank->options), 0, "kolo_comm_create");
    for (uint32_t index = 0; good && index < CALLS; index++)
        good = check_call(rank, index);
    if (good)
        check_optimizer(rank);
    kolo_comm_destroy(rank->comm);
    rank->comm = NULL;
}

int main(int argc, char **argv) {
    static const int layouts[][NODES_MAX] = {{1, 1}, {2, 2}, {1, 3}, {2, 1, 2}, {1, 1, 1}};
    harness_begin(argc, argv, "Checks kolo_allreduce_apply and optimizers of several nodes.");
    nodes_open();
    setenv("KOLO_SECRET", "none", 1);
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
        struct setup setup;
        const int ranks = nodes_lay_out(layouts[i], setup.node_of);
        if (!wants_ranks(ranks))
            continue;
        nodes_meet_at("127.0.0.1");
        setenv("KOLO_NET_ORDER", i % 2 ? "rank" : "node", 1);
        harness_run(&(struct team){
            .ranks = ranks, .slot_bytes = SLOT_BYTES, .creates_itself = true, .run = run, .argument = &setup});
    }
    return harness_end();
}
