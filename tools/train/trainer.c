#include "trainer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "complain.h"
#include "kolo_trace.h"
#include "now.h"
#include "random.h"

static const double momentum = 0.9, adamw_weight_decay = 0.01, topk_share = 0.01;
static const char cannot_sum[] = "cannot sum the gradients";

/* Compared as integers: as floats, 0 would equal -0 and a NaN would differ from itself. */
int replicas_identical(kolo_comm *comm, const float *values, size_t count) {
    static const char cannot[] = "cannot compare the parameters";
    uint32_t *lowest = allocate(2 * count, sizeof(*lowest)), *highest = lowest + count;
    int rc = check(comm, kolo_allreduce(comm, values, lowest, count, KOLO_U32, KOLO_MIN), cannot);
    if (rc == 0)
        rc = check(comm, kolo_allreduce(comm, values, highest, count, KOLO_U32, KOLO_MAX), cannot);
    if (rc == 0)
        rc = memcmp(lowest, highest, count * sizeof(*lowest)) == 0;
    free(lowest);
    return rc;
}

/* The share of a batch is another one with each number of ranks. */
static void make_room(trainer *t) {
    const size_t rows = t->settings->batch_rows / (size_t)kolo_comm_size(t->comm) + 1;
    dataset_reserve(&t->batch, rows);
    mlp_reserve(&t->model, rows);
}

static kolo_op op_of(const train_settings *settings) {
    return settings->way.exact ? KOLO_SUM_EXACT : KOLO_SUM;
}

static void open_buckets(trainer *t) {
    const train_settings *settings = t->settings;
    if (settings->way.fused || (!settings->way.overlap && settings->way.compress == KOLO_COMPRESSION_NONE))
        return;
    kolo_tensor tensors[MLP_LAYERS];
    for (int l = 0; l < MLP_LAYERS; l++) {
        const mlp_layer *layer = &t->model.layers[l];
        tensors[l] = (kolo_tensor){t->gradient + layer->weights, layer->biases + layer->outputs - layer->weights};
    }
    kolo_bucket_options options = KOLO_BUCKET_OPTIONS_INIT;
    options.op = op_of(settings);
    options.bucket_bytes = settings->way.overlap ? 1 : 0; /* each layer goes out by itself */
    options.compression = settings->way.compress;
    options.compression_share = topk_share;
    options.error_feedback = !settings->way.no_feedback;
    if (kolo_bucket_create(t->comm, tensors, MLP_LAYERS, &options, &t->buckets) < 0)
        give_up("cannot make buckets of gradients: %s", kolo_error_message());
}

kolo_comm *comm_of_one_rank(const char *cannot) {
    kolo_options options = KOLO_OPTIONS_INIT;
    kolo_comm *comm;
    options.rank = 0;
    options.size = 1;
    if (kolo_comm_create(&comm, &options) < 0)
        give_up("%s: %s", cannot, kolo_error_message());
    return comm;
}

static int open_optimizer(trainer *t) {
    const train_settings *settings = t->settings;
    size_t ends[MLP_LAYERS];
    for (int l = 0; l < MLP_LAYERS; l++)
        ends[l] = t->model.layers[l].biases + t->model.layers[l].outputs;
    if (!settings->way.fused)
        t->alone = comm_of_one_rank("cannot make the optimizer of one rank");
    kolo_optimizer_options options = KOLO_OPTIMIZER_OPTIONS_INIT;
    kolo_parameter_group group = KOLO_PARAMETER_GROUP_INIT;
    options.count = group.end = t->model.parameters_count;
    options.segments = settings->way.overlap ? ends : NULL;
    options.nsegments = settings->way.overlap ? MLP_LAYERS : 0;
    options.op = KOLO_SUM; /* the ranks' gradients have been divided by the rows of the whole batch */
    options.kind = settings->optimizer == TRAIN_SGD ? KOLO_OPTIMIZER_SGD : KOLO_OPTIMIZER_ADAMW;
    group.learning_rate = settings->rate;
    group.momentum = settings->optimizer == TRAIN_SGD ? momentum : 0;
    group.weight_decay = settings->optimizer == TRAIN_ADAMW ? adamw_weight_decay : 0;
    return check(t->comm,
                 kolo_optimizer_create(settings->way.fused ? t->comm : t->alone, &options, &group, 1, &t->optimizer),
                 "cannot make the optimizer");
}

/* Puts the parameters where all ranks of the machine have them. A rank changes only what it owns of them, and only when
 * the gradients of all ranks are there: so when none computes with them. */
static int share_parameters(trainer *t) {
    const size_t bytes = t->model.parameters_count * sizeof(*t->model.parameters);
    const int rc = check(t->comm, kolo_alloc_with(t->comm, bytes, KOLO_ALLOC_SHARED, &t->shared),
                         "--shared-parameters: cannot allocate them");
    if (rc < 0)
        return rc;
    free(t->model.parameters);
    t->model.parameters = t->shared;
    return 0;
}

int trainer_create(trainer *t, kolo_comm *comm, const train_options *options, const dataset *train,
                   const dataset *test) {
    const train_settings *settings = &options->settings;
    const size_t step_rows = train_settings_step_rows(settings);
    *t = (trainer){.comm = comm,
                   .ranks = {.at_first = kolo_comm_size(comm), .now = kolo_comm_size(comm)},
                   .options = options,
                   .settings = settings,
                   .train = train,
                   .test = test,
                   .batch = {.features = train->features},
                   .steps_of_epoch = (train->rows + step_rows - 1) / step_rows};
    t->steps_planned = smaller(settings->steps_max, t->steps_of_epoch * settings->epochs);
    t->epochs_planned = (t->steps_planned + t->steps_of_epoch - 1) / t->steps_of_epoch;
    mlp_create(&t->model, train->features, settings->hidden, train->classes, 0);
    make_room(t);
    t->gradient = allocate(t->model.parameters_count + 1, sizeof(*t->gradient));
    t->order = allocate(train->rows, sizeof(*t->order));
    t->losses = allocate(t->steps_planned, sizeof(*t->losses));
    t->results = allocate(t->epochs_planned, sizeof(*t->results));
    const int rc = settings->way.shared_parameters ? share_parameters(t) : 0;
    t->model.context = t;
    return rc == 0 ? open_optimizer(t) : rc;
}

int trainer_begin(trainer *t) {
    static const char cannot[] = "cannot share the first weights";
    if (kolo_comm_rank(t->comm) == 0)
        mlp_initialize(&t->model, t->settings->seed);
    open_buckets(t);
    const int rc =
        check(t->comm, kolo_broadcast(t->comm, t->model.parameters, t->model.parameters_count, KOLO_F32, 0), cannot);
    if (rc < 0 || t->shared == NULL)
        return rc;
    return check(t->comm, kolo_barrier(t->comm), cannot); /* until then another rank may still be storing them */
}

void trainer_destroy(trainer *t) {
    kolo_bucket_destroy(t->buckets);
    kolo_optimizer_destroy(t->optimizer);
    kolo_comm_destroy(t->alone);
    if (t->shared != NULL) {
        kolo_free(t->comm, t->shared);
        t->model.parameters = NULL;
    }
    mlp_destroy(&t->model);
    free(t->gradient);
    free(t->order);
    dataset_free(&t->batch);
    free(t->losses);
    free(t->results);
    *t = (trainer){0};
}

/* The gradients of a layer are there, and its parameters are no longer needed in this step. */
static void send_layer(void *context, int l) {
    trainer *t = context;
    const size_t first = t->model.layers[l].weights;
    if (t->layers_rc == 0 && t->buckets != NULL)
        t->layers_rc = check(t->comm, kolo_bucket_ready(t->buckets, (size_t)l), cannot_sum);
    else if (t->layers_rc == 0)
        t->layers_rc = check(
            t->comm,
            kolo_optimizer_begin_segment(t->optimizer, (size_t)l, t->gradient + first, t->model.parameters + first),
            cannot_sum);
}

static int update(trainer *t) {
    kolo_trace_begin("update");
    const int rc = kolo_optimizer_step(t->optimizer, t->gradient, t->model.parameters, NULL);
    kolo_trace_end();
    return check(t->comm, rc, "cannot update the parameters");
}

/* What is left of the layers when the backward pass has ended: those that are not out yet, and waiting. */
static int finish_layers(trainer *t) {
    for (int l = MLP_LAYERS - 1; l >= 0 && t->model.ready == NULL && t->buckets != NULL; l--)
        send_layer(t, l);
    if (t->layers_rc == 0 && t->buckets != NULL)
        t->layers_rc = check(t->comm, kolo_bucket_wait(t->buckets), cannot_sum);
    return t->layers_rc == 0 && t->settings->way.fused ? update(t) : t->layers_rc;
}

/* Sums the gradients, and the loss, over the ranks, and moves the parameters. */
static int sum_and_update(trainer *t, epoch_result *result) {
    const int fused = t->settings->way.fused, by_layers = fused || t->buckets != NULL; /* but not the loss */
    const size_t count = t->model.parameters_count;
    float *summed = by_layers ? t->gradient + count : t->gradient;
    const double before_s = now_s();
    int rc = by_layers ? finish_layers(t) : 0;
    if (rc == 0)
        rc = check(t->comm,
                   kolo_allreduce(t->comm, summed, summed, by_layers ? 1 : count + 1, KOLO_F32, op_of(t->settings)),
                   cannot_sum);
    const double summed_s = now_s();
    if (rc == 0 && !fused)
        rc = update(t);
    result->allreduce_seconds += summed_s - before_s;
    result->update_seconds += fused ? 0 : now_s() - summed_s;
    return rc;
}

/* The gradient of this rank's share of a batch, rows[0 .. count-1] of the training rows. Returns its losses' sum. */
static double run_batch(trainer *t, const size_t *rows, size_t count, float scale, enum mlp_store store) {
    const share own = share_of(count, kolo_comm_rank(t->comm), kolo_comm_size(t->comm));
    t->batch.rows = own.count;
    dataset_copy_rows(&t->batch, t->train, rows + own.first);
    return mlp_gradient(&t->model, t->batch.inputs, t->batch.labels, t->batch.rows, scale, t->gradient, store);
}

/* One step, on rows[0 .. count-1] of the training rows: a batch after the other, and then the update. */
static int run_step(trainer *t, const size_t *rows, size_t count, epoch_result *result) {
    /* Each rank divides by the rows of the whole step, so that the ranks' sum is their mean, however unevenly the rows
     * are dealt out. */
    const float scale = 1.0F / (float)count;
    const size_t batch = t->settings->batch_rows;
    float *loss = t->gradient + t->model.parameters_count;
    double loss_sum = 0;
    t->layers_rc = 0;
    const double begin_s = now_s(), begin_cpu_s = now_of_thread_s();
    for (size_t row = 0; row < count; row += batch) {
        const int is_last = count - row <= batch;
        t->model.ready = t->settings->way.overlap && is_last ? send_layer : NULL;
        loss_sum += run_batch(t, rows + row, smaller(batch, count - row), scale, row > 0 ? MLP_ADD : MLP_REPLACE);
    }
    *loss = (float)(loss_sum / (double)count);

    const double compute_seconds = now_s() - begin_s;
    t->compute_seconds += compute_seconds;
    t->starved_seconds += compute_seconds - (now_of_thread_s() - begin_cpu_s); /* it waits for nobody there */

    if (sum_and_update(t, result) < 0)
        return LOST;
    t->losses[t->steps++] = *loss;
    result->loss += (double)*loss * (double)count;
    result->samples += count;
    if (!isfinite(*loss))
        give_up_together("the loss of step %zu is not finite: training diverged; try a smaller --rate than %g",
                         t->steps, t->settings->rate);
    return 0;
}

/* What of the present epoch is left, from the row on at which the steps so far have ended. */
static int finish_steps(trainer *t, epoch_result *result) {
    const size_t step_rows = train_settings_step_rows(t->settings), rows = t->train->rows;
    const double start_s = now_s();
    int rc = 0;
    for (size_t row = (t->steps - t->epochs * t->steps_of_epoch) * step_rows;
         rc == 0 && row < rows && t->steps < t->steps_planned; row += step_rows)
        rc = run_step(t, t->order + row, smaller(step_rows, rows - row), result);
    result->seconds += now_s() - start_s;
    return rc;
}

/* Each rank tests its share of the testing rows. The times are averaged on the way. */
static int finish_epoch(trainer *t, epoch_result *result) {
    const int ranks = kolo_comm_size(t->comm);
    const dataset *test = t->test;
    const share own = share_of(test->rows, kolo_comm_rank(t->comm), ranks);
    const size_t correct =
        mlp_correct(&t->model, test->inputs + own.first * test->features, test->labels + own.first, own.count);
    double sums[] = {(double)correct, result->seconds, result->allreduce_seconds, result->update_seconds};
    if (check(t->comm, kolo_allreduce(t->comm, sums, sums, sizeof sums / sizeof *sums, KOLO_F64, KOLO_SUM),
              "cannot sum the test results") < 0)
        return LOST;
    result->test_correct = (size_t)sums[0];
    result->seconds = sums[1] / ranks;
    result->allreduce_seconds = sums[2] / ranks;
    result->update_seconds = sums[3] / ranks;
    result->loss /= (double)result->samples;
    result->steps = t->steps;
    t->epochs++;
    return 0;
}

int trainer_run_epoch(trainer *t) {
    epoch_result *result = &t->results[t->epochs];
    random_stream stream = random_begin(t->settings->seed, 1 + t->epochs);
    random_permutation(&stream, t->order, t->train->rows); /* the same on every rank */
    return finish_steps(t, result) < 0 ? LOST : finish_epoch(t, result);
}

void trainer_move(trainer *t, kolo_comm *comm) {
    const int now = kolo_comm_size(comm), more = now - t->ranks.now;
    t->ranks.lost += more < 0 ? -more : 0;
    t->ranks.joined += more > 0 ? more : 0;
    t->ranks.now = now;
    t->comm = comm;
    make_room(t);
    kolo_bucket_destroy(t->buckets);
    t->buckets = NULL;
    open_buckets(t);
}

size_t trainer_state_bytes(const trainer *t) {
    size_t bytes = 0;
    for (int which = 0; which < KOLO_OPTIMIZER_STATES; which++) {
        void *values = NULL;
        size_t count = 0;
        kolo_optimizer_local_state(t->optimizer, (kolo_optimizer_state)which, &values, &count);
        bytes += values != NULL ? count * sizeof(float) : 0;
    }
    return bytes;
}
