#include "trainer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "complain.h"
#include "now.h"
#include "random.h"

int replicas_share_dataset(kolo_comm *comm, dataset *data) {
    uint64_t shape[3] = {data->rows, data->features, data->classes};
    if (kolo_broadcast(comm, shape, 3, KOLO_U64, 0) < 0)
        return complain_kolo(comm, "cannot share the data's shape");
    if (kolo_comm_rank(comm) != 0 && data->inputs == NULL) {
        *data = (dataset){.rows = shape[0], .features = shape[1], .classes = shape[2]};
        if (dataset_reserve(data, data->rows) < 0)
            return complain(comm, "not enough memory for %zu rows of %zu numbers", data->rows, data->features);
    }
    if (kolo_broadcast(comm, data->inputs, data->rows * data->features, KOLO_F32, 0) < 0 ||
        kolo_broadcast(comm, data->labels, data->rows, KOLO_I32, 0) < 0)
        return complain_kolo(comm, "cannot share the data");
    return 0;
}

/* Compared as integers: as floats, 0 would equal -0 and a NaN would differ from itself. */
int replicas_identical(kolo_comm *comm, const float *values, size_t count, uint32_t *scratch) {
    uint32_t *lowest = scratch;
    uint32_t *highest = scratch + count;
    if (kolo_allreduce(comm, values, lowest, count, KOLO_U32, KOLO_MIN) < 0 ||
        kolo_allreduce(comm, values, highest, count, KOLO_U32, KOLO_MAX) < 0)
        return complain_kolo(comm, "cannot compare the parameters");
    return memcmp(lowest, highest, count * sizeof(*lowest)) == 0;
}

/* Rank r of n takes items share(r) .. share(r + 1) - 1 of `count`: shares differ by at most one item. */
static size_t share(size_t count, int rank, int ranks) {
    return count * (size_t)rank / (size_t)ranks;
}

static size_t smaller(size_t a, size_t b) {
    return a < b ? a : b;
}

/* Of a batch, for one rank, at most. */
static size_t rows_of_share(const trainer *t) {
    return t->options->settings.batch_rows / (size_t)kolo_comm_size(t->comm) + 1;
}

static int allocate(trainer *t) {
    size_t rows = rows_of_share(t);
    if (mlp_create(&t->model, t->train->features, t->options->settings.hidden, t->train->classes, rows) < 0)
        return -1;
    t->gradient = calloc(t->model.parameters_count + 1, sizeof(*t->gradient));
    t->order = calloc(t->train->rows, sizeof(*t->order));
    t->batch.features = t->train->features;
    t->losses = calloc(t->steps_planned, sizeof(*t->losses));
    t->results = calloc(t->epochs_planned, sizeof(*t->results));
    int complete = t->gradient != NULL && t->order != NULL && t->losses != NULL && t->results != NULL;
    return complete ? dataset_reserve(&t->batch, rows) : -1;
}

/* Puts the parameters where all ranks of the machine have them. A rank changes only what it owns of them, and only when
 * the gradients of all ranks are there: so when none computes with them. */
static int share_parameters(trainer *t) {
    const size_t bytes = t->model.parameters_count * sizeof(*t->model.parameters);
    int rc = kolo_alloc_with(t->comm, bytes, KOLO_ALLOC_SHARED, &t->shared);
    if (rc == KOLO_ERR_NO_SPACE || rc == KOLO_ERR_SYSTEM)
        return complain(t->comm, "--shared-parameters: no memory for %zu bytes: %s", bytes, kolo_error_message());
    if (rc < 0)
        return complain_kolo(t->comm, "cannot share the parameters");
    free(t->model.parameters);
    t->model.parameters = t->shared;
    return 0;
}

int trainer_create(trainer *t, kolo_comm *comm, const train_options *options, const dataset *train,
                   const dataset *test) {
    const train_settings *settings = &options->settings;
    size_t step_rows = train_settings_step_rows(settings);
    size_t steps_of_epoch = (train->rows + step_rows - 1) / step_rows;
    size_t steps = smaller(settings->steps_max, steps_of_epoch * settings->epochs);
    *t = (trainer){.comm = comm,
                   .ranks = {.at_first = kolo_comm_size(comm), .now = kolo_comm_size(comm)},
                   .options = options,
                   .train = train,
                   .test = test,
                   .steps_planned = steps,
                   .epochs_planned = (steps + steps_of_epoch - 1) / steps_of_epoch};
    int rc = 0;
    if (allocate(t) < 0)
        rc = complain(comm, "not enough memory for a model with hidden layers of %zu", settings->hidden);
    else if (settings->shared_parameters)
        rc = share_parameters(t);
    if (rc == 0)
        rc = update_create(&t->update, comm, settings, &t->model);
    if (rc == 0)
        rc = exchange_create(&t->exchange, comm, settings, &t->model, &t->update, t->gradient);
    if (rc < 0)
        trainer_destroy(t);
    return rc;
}

int trainer_begin(trainer *t) {
    if (kolo_comm_rank(t->comm) == 0)
        mlp_initialize(&t->model, t->options->settings.seed);
    if (kolo_broadcast(t->comm, t->model.parameters, t->model.parameters_count, KOLO_F32, 0) < 0)
        return complain_kolo(t->comm, "cannot share the first weights");
    if (t->shared != NULL && kolo_barrier(t->comm) < 0) /* until then another rank may still be storing them */
        return complain_kolo(t->comm, "cannot share the first weights");
    return 0;
}

void trainer_destroy(trainer *t) {
    exchange_destroy(&t->exchange);
    update_destroy(&t->update);
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

/* Sums the gradients and the loss over the ranks, and moves the parameters. */
static int sum_and_update(trainer *t, double compute_seconds, epoch_result *result) {
    double before_s = now_s();
    int rc = exchange_finish(&t->exchange, &t->model, compute_seconds);
    double summed_s = now_s();
    if (rc == 0 && !t->options->settings.fused)
        rc = update_step(&t->update, t->comm, t->gradient, t->model.parameters);
    result->allreduce_seconds += summed_s - before_s;
    result->update_seconds += t->options->settings.fused ? 0 : now_s() - summed_s;
    return rc;
}

/* The gradient of this rank's share of a batch, rows[0 .. count-1] of the training rows. Returns its losses' sum. */
static double run_batch(trainer *t, const size_t *rows, size_t count, float scale, enum mlp_store store) {
    int rank = kolo_comm_rank(t->comm);
    int ranks = kolo_comm_size(t->comm);
    size_t first = share(count, rank, ranks);
    t->batch.rows = share(count, rank + 1, ranks) - first;
    dataset_copy_rows(&t->batch, t->train, rows + first);
    return mlp_gradient(&t->model, t->batch.inputs, t->batch.labels, t->batch.rows, scale, t->gradient, store);
}

/* One step, on rows[0 .. count-1] of the training rows: a batch after the other, and then the update. */
static int run_step(trainer *t, const size_t *rows, size_t count, epoch_result *result) {
    /* Each rank divides by the rows of the whole step, so that the ranks' sum is their mean, however unevenly the rows
     * are dealt out. */
    const float scale = 1.0F / (float)count;
    const size_t batch = t->options->settings.batch_rows;
    float *loss = t->gradient + t->model.parameters_count;
    double loss_sum = 0;
    const double begin_s = now_s(), begin_cpu_s = now_of_thread_s();
    exchange_keep(&t->model);
    for (size_t row = 0; row < count; row += batch) {
        if (count - row <= batch)
            exchange_begin(&t->exchange, &t->model, t->steps);
        loss_sum += run_batch(t, rows + row, smaller(batch, count - row), scale, row > 0 ? MLP_ADD : MLP_REPLACE);
    }
    *loss = (float)(loss_sum / (double)count);

    const double compute_seconds = now_s() - begin_s;
    t->compute_seconds += compute_seconds;
    t->starved_seconds += compute_seconds - (now_of_thread_s() - begin_cpu_s); /* it waits for nobody there */

    int rc = sum_and_update(t, compute_seconds, result);
    if (rc < 0)
        return rc;
    t->losses[t->steps++] = *loss;
    result->loss += (double)*loss * (double)count;
    result->samples += count;
    if (isfinite(*loss))
        return 0;
    if (kolo_comm_rank(t->comm) == 0)
        complain(t->comm, "the loss of step %zu is not finite: training diverged; try a smaller --rate than %g",
                 t->steps, t->options->settings.rate);
    return -1;
}

/* What of the present epoch is left, from the row on at which the steps so far have ended. */
static int finish_steps(trainer *t, epoch_result *result) {
    size_t batch = train_settings_step_rows(&t->options->settings);
    size_t steps_of_epoch = (t->train->rows + batch - 1) / batch;
    double start_s = now_s();
    int rc = 0;
    for (size_t row = (t->steps - t->epochs * steps_of_epoch) * batch;
         rc == 0 && row < t->train->rows && t->steps < t->steps_planned; row += batch)
        rc = run_step(t, t->order + row, smaller(batch, t->train->rows - row), result);
    result->seconds += now_s() - start_s;
    return rc;
}

/* Each rank tests its share of the testing rows. The times are averaged on the way. */
static int finish_epoch(trainer *t, epoch_result *result) {
    int rank = kolo_comm_rank(t->comm);
    int ranks = kolo_comm_size(t->comm);
    size_t first = share(t->test->rows, rank, ranks);
    size_t mine = share(t->test->rows, rank + 1, ranks) - first;
    size_t correct = mlp_correct(&t->model, t->test->inputs + first * t->test->features, t->test->labels + first, mine);

    double sums[] = {(double)correct, result->seconds, result->allreduce_seconds, result->update_seconds};
    if (kolo_allreduce(t->comm, sums, sums, sizeof sums / sizeof *sums, KOLO_F64, KOLO_SUM) < 0)
        return complain_kolo(t->comm, "cannot sum the test results");
    result->test_correct = (size_t)sums[0];
    result->seconds = sums[1] / ranks;
    result->allreduce_seconds = sums[2] / ranks;
    result->update_seconds = sums[3] / ranks;
    result->loss /= (double)result->samples;
    result->steps = t->steps;
    return 0;
}

int trainer_run_epoch(trainer *t) {
    epoch_result *result = &t->results[t->epochs];
    random_stream stream = random_begin(t->options->settings.seed, 1 + t->epochs);
    random_permutation(&stream, t->order, t->train->rows); /* the same on every rank */

    int rc = finish_steps(t, result);
    if (rc == 0)
        rc = finish_epoch(t, result);
    if (rc == 0)
        t->epochs++;
    return rc;
}

/* The lowest of the ranks that have got furthest, or a negative status. */
static int find_furthest(const trainer *t) {
    enum { RANK_BITS = 16 };
    uint64_t rank = (uint64_t)kolo_comm_rank(t->comm), rank_mask = (UINT64_C(1) << RANK_BITS) - 1;
    uint64_t position = (uint64_t)(t->steps + t->epochs) << RANK_BITS | (rank_mask - rank);
    uint64_t furthest;
    if (kolo_allreduce(t->comm, &position, &furthest, 1, KOLO_U64, KOLO_MAX) < 0)
        return complain_kolo(t->comm, "cannot agree on where to go on");
    return (int)(rank_mask - (furthest & rank_mask));
}

/* Takes over the root's position, parameters, optimizer state and results: all that steps change. By way of a copy, so
 * that no rank is left with half of another's state when one more is lost meanwhile. */
static int take_over(trainer *t, int root) {
    float *momentum = update_state(&t->update, KOLO_OPTIMIZER_MOMENTUM);
    float *variance = update_state(&t->update, KOLO_OPTIMIZER_VARIANCE);
    const struct {
        void *data;
        size_t bytes;
    } parts[] = {
        {&t->steps, sizeof(t->steps)},
        {&t->epochs, sizeof(t->epochs)},
        {&t->ranks, sizeof(t->ranks)},
        {t->model.parameters, t->model.parameters_count * sizeof(*t->model.parameters)},
        {momentum, momentum != NULL ? t->model.parameters_count * sizeof(*momentum) : 0},
        {variance, variance != NULL ? t->model.parameters_count * sizeof(*variance) : 0},
        {t->losses, t->steps_planned * sizeof(*t->losses)},
        {t->results, t->epochs_planned * sizeof(*t->results)},
    };
    const size_t count = sizeof parts / sizeof *parts;
    size_t bytes = 0;
    for (size_t i = 0; i < count; i++)
        bytes += parts[i].bytes;
    char *all = malloc(bytes);
    if (all == NULL)
        return complain(t->comm, "not enough memory for %zu bytes to go on from", bytes);
    char *at = all;
    for (size_t i = 0; i < count; at += parts[i++].bytes)
        if (parts[i].bytes != 0)
            memcpy(at, parts[i].data, parts[i].bytes);
    int rc = 0;
    if (kolo_broadcast(t->comm, all, bytes, KOLO_U8, root) < 0)
        rc = complain_kolo(t->comm, "cannot share the state to go on from");
    at = all;
    for (size_t i = 0; rc == 0 && i < count; at += parts[i++].bytes)
        if (parts[i].bytes != 0)
            memcpy(parts[i].data, at, parts[i].bytes);
    if (rc == 0)
        kolo_optimizer_set_steps(t->update.optimizer, t->steps);
    free(all);
    return rc;
}

/* The share of a batch is another one now. */
static int make_room(trainer *t) {
    size_t rows = rows_of_share(t);
    if (dataset_reserve(&t->batch, rows) < 0 || mlp_reserve(&t->model, rows) < 0)
        return complain(t->comm, "not enough memory for %zu rows of a batch", rows);
    return 0;
}

static void count_heads(headcount *ranks, int now) {
    if (now < ranks->now)
        ranks->lost += ranks->now - now;
    else
        ranks->joined += now - ranks->now;
    ranks->now = now;
}

int trainer_continue(trainer *t, kolo_comm *comm) {
    t->comm = comm;
    count_heads(&t->ranks, kolo_comm_size(comm));
    int rc = make_room(t);
    if (rc == 0)
        rc = exchange_move(&t->exchange, comm);
    int root = rc == 0 ? find_furthest(t) : rc;
    return root < 0 ? root : take_over(t, root);
}
