#include "trainer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "complain.h"
#include "now.h"
#include "random.h"

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
    const size_t rows = t->options->settings.batch_rows / (size_t)kolo_comm_size(t->comm) + 1;
    dataset_reserve(&t->batch, rows);
    mlp_reserve(&t->model, rows);
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
    return rc == 0 ? step_create(&t->step, comm, settings, &t->model, t->gradient) : rc;
}

int trainer_begin(trainer *t) {
    static const char cannot[] = "cannot share the first weights";
    if (kolo_comm_rank(t->comm) == 0)
        mlp_initialize(&t->model, t->options->settings.seed);
    const int rc =
        check(t->comm, kolo_broadcast(t->comm, t->model.parameters, t->model.parameters_count, KOLO_F32, 0), cannot);
    if (rc < 0 || t->shared == NULL)
        return rc;
    return check(t->comm, kolo_barrier(t->comm), cannot); /* until then another rank may still be storing them */
}

void trainer_destroy(trainer *t) {
    step_destroy(&t->step);
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
    const double before_s = now_s();
    int rc = step_sum(&t->step, compute_seconds);
    const double summed_s = now_s();
    result->allreduce_seconds += summed_s - before_s;
    if (rc < 0 || t->options->settings.way.fused)
        return rc;
    rc = step_update(&t->step);
    result->update_seconds += now_s() - summed_s;
    return rc;
}

/* The gradient of this rank's share of a batch, rows[0 .. count-1] of the training rows. Returns its losses' sum. */
static double run_batch(trainer *t, const size_t *rows, size_t count, float scale, enum mlp_store store) {
    const int rank = kolo_comm_rank(t->comm), ranks = kolo_comm_size(t->comm);
    const size_t first = first_of_share(count, rank, ranks);
    t->batch.rows = first_of_share(count, rank + 1, ranks) - first;
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
    for (size_t row = 0; row < count; row += batch) {
        step_begin(&t->step, t->steps, count - row <= batch);
        loss_sum += run_batch(t, rows + row, smaller(batch, count - row), scale, row > 0 ? MLP_ADD : MLP_REPLACE);
    }
    *loss = (float)(loss_sum / (double)count);

    const double compute_seconds = now_s() - begin_s;
    t->compute_seconds += compute_seconds;
    t->starved_seconds += compute_seconds - (now_of_thread_s() - begin_cpu_s); /* it waits for nobody there */

    if (sum_and_update(t, compute_seconds, result) < 0)
        return LOST;
    t->losses[t->steps++] = *loss;
    result->loss += (double)*loss * (double)count;
    result->samples += count;
    if (!isfinite(*loss))
        give_up_together("the loss of step %zu is not finite: training diverged; try a smaller --rate than %g",
                         t->steps, t->options->settings.rate);
    return 0;
}

/* What of the present epoch is left, from the row on at which the steps so far have ended. */
static int finish_steps(trainer *t, epoch_result *result) {
    const size_t step_rows = train_settings_step_rows(&t->options->settings), rows = t->train->rows;
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
    const int rank = kolo_comm_rank(t->comm), ranks = kolo_comm_size(t->comm);
    const size_t first = first_of_share(t->test->rows, rank, ranks);
    const size_t own = first_of_share(t->test->rows, rank + 1, ranks) - first;
    size_t correct = mlp_correct(&t->model, t->test->inputs + first * t->test->features, t->test->labels + first, own);
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
    random_stream stream = random_begin(t->options->settings.seed, 1 + t->epochs);
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
    step_move(&t->step, comm);
}
