/* The network of kolo-train's own training. A row of the table is a row of a layer's matrix of weights, or its biases.
 * All of them are needed in every step: a dense problem. */
#include <stdlib.h>
#include <string.h>

#include "mlp.h"
#include "problem.h"

enum { EVALUATED_ROWS = 512 }; /* of the training rows, at most */

typedef struct digits {
    mlp model;
    float *no_parameters; /* its own, which are not used: all are the caller's */
    float *scratch;       /* a gradient that nobody looks at */
    size_t *row_columns;
    size_t *first_rows; /* 0, 1, 2, ... */
    dataset batch, evaluated;
} digits;

static void destroy(problem *p) {
    digits *d = p->own;
    if (d == NULL)
        return;
    d->model.parameters = d->no_parameters;
    mlp_destroy(&d->model);
    free(d->scratch);
    free(d->row_columns);
    free(d->first_rows);
    dataset_free(&d->batch);
    dataset_free(&d->evaluated);
    free(d);
}

static int lay_out_rows(problem *p, digits *d) {
    for (int l = 0; l < MLP_LAYERS; l++)
        p->rows += d->model.layers[l].inputs + 1;
    d->row_columns = calloc(p->rows, sizeof *d->row_columns);
    if (d->row_columns == NULL)
        return -1;
    size_t row = 0;
    for (int l = 0; l < MLP_LAYERS; l++)
        for (size_t i = 0; i <= d->model.layers[l].inputs; i++)
            d->row_columns[row++] = d->model.layers[l].outputs;
    p->row_columns = d->row_columns;
    return 0;
}

static int create(problem *p) {
    const dataset *train = p->train;
    const size_t evaluated = train->rows < EVALUATED_ROWS ? train->rows : EVALUATED_ROWS;
    const size_t rows_max = p->ids_max > evaluated ? p->ids_max : evaluated;
    digits *d = p->own = calloc(1, sizeof *d);
    p->examples = train->rows;
    if (d == NULL || mlp_create(&d->model, train->features, p->settings->hidden, train->classes, rows_max) < 0)
        return -1;
    d->no_parameters = d->model.parameters;
    d->scratch = malloc(d->model.parameters_count * sizeof *d->scratch);
    d->first_rows = calloc(evaluated, sizeof *d->first_rows);
    d->batch.features = d->evaluated.features = train->features;
    if (d->scratch == NULL || d->first_rows == NULL || dataset_reserve(&d->batch, p->ids_max) < 0 ||
        dataset_reserve(&d->evaluated, evaluated) < 0 || lay_out_rows(p, d) < 0)
        return -1;
    for (size_t i = 0; i < evaluated; i++)
        d->first_rows[i] = i;
    d->evaluated.rows = evaluated;
    dataset_copy_rows(&d->evaluated, train, d->first_rows);
    return 0;
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
    return mlp_gradient(with(d, values), d->evaluated.inputs, d->evaluated.labels, d->evaluated.rows, 1, d->scratch,
                        MLP_REPLACE) /
           (double)d->evaluated.rows;
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
