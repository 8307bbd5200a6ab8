/* The network of kolo-train's own training. A row of the table is a row of a layer's matrix of weights, or its biases.
 * All of them are needed in every step: a dense problem. */
#include <stdlib.h>

#include "complain.h"
#include "mlp.h"
#include "problem.h"

typedef struct digits {
    mlp model;        /* its parameters are the caller's */
    float *scratch;   /* a gradient that nobody looks at */
    size_t evaluated; /* of the training rows, the first */
    dataset batch;
} digits;

static void create(problem *p) {
    enum { EVALUATED_ROWS = 512 };
    const dataset *train = p->train;
    digits *d = p->own = allocate(1, sizeof *d);
    p->examples = train->rows;
    d->evaluated = smaller(train->rows, EVALUATED_ROWS);
    const size_t rows_max = p->examples_max > d->evaluated ? p->examples_max : d->evaluated;
    mlp_create(&d->model, train->features, p->settings->hidden, train->classes, rows_max);
    free(d->model.parameters);
    d->scratch = allocate(d->model.parameters_count, sizeof *d->scratch);
    d->batch.features = train->features;
    dataset_reserve(&d->batch, p->examples_max);
    for (int l = 0; l < MLP_LAYERS; l++) {
        const mlp_layer *layer = &d->model.layers[l];
        p->row_columns = enlarge(p->row_columns, p->rows + layer->inputs + 1, sizeof *p->row_columns);
        for (size_t i = 0; i <= layer->inputs; i++)
            p->row_columns[p->rows++] = layer->outputs;
    }
}

static void destroy(problem *p) {
    digits *d = p->own;
    d->model.parameters = NULL;
    mlp_destroy(&d->model);
    free(d->scratch);
    dataset_free(&d->batch);
    free(d);
}

static void initialize(const problem *p, float *values) {
    digits *d = p->own;
    d->model.parameters = values;
    mlp_initialize(&d->model, p->settings->seed);
}

/* The model only reads its parameters. */
static mlp *with(digits *d, const float *values) {
    d->model.parameters = (float *)(uintptr_t)values;
    return &d->model;
}

static double gradient(problem *p, const size_t *examples, size_t count, float scale, const float *values,
                       float *gradients) {
    digits *d = p->own;
    d->batch.rows = count;
    dataset_copy_rows(&d->batch, p->train, examples);
    return mlp_gradient(with(d, values), d->batch.inputs, d->batch.labels, count, scale, gradients, MLP_REPLACE);
}

static double loss(problem *p, const float *values) {
    digits *d = p->own;
    const double sum =
        mlp_gradient(with(d, values), p->train->inputs, p->train->labels, d->evaluated, 1, d->scratch, MLP_REPLACE);
    return sum / (double)d->evaluated;
}

size_t problem_digits_correct(problem *p, const float *values) {
    return mlp_correct(with(p->own, values), p->test->inputs, p->test->labels, p->test->rows);
}

const problem_kind problem_digits = {.measure = "loss",
                                     .rule = TRAIN_RULE_MOMENTUM,
                                     .rate = 0.1,
                                     .epochs = 30,
                                     .create = create,
                                     .destroy = destroy,
                                     .initialize = initialize,
                                     .gradient = gradient,
                                     .loss = loss};
