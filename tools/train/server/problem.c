#include "problem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "complain.h"

enum { FOR_FIRST_VALUES = (1 << 20) - 1, FOR_KNOWN, FOR_EXAMPLES }; /* what streams of random numbers are for */

/* A sparse logistic regression. An example has a few of many features, drawn by Zipf's law, and a label, drawn with the
 * probability that the known weights give it. The known weights' own loss is what no training can beat by more than
 * chance. A row of the table is a feature's weight. */

enum { FEATURES_OF_ONE = EXAMPLE_ROWS_MAX };

/* The first feature of which `below` is more than `drawn`. */
static uint32_t feature_at(const problem *p, double drawn) {
    size_t low = 0, high = p->rows - 1;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (p->below[middle] > drawn)
            high = middle;
        else
            low = middle + 1;
    }
    return (uint32_t)low;
}

static double score_of(const example *one, const float *values) {
    double score = 0;
    for (int i = 0; i < FEATURES_OF_ONE; i++)
        score += (double)values[one->rows[i]];
    return score;
}

static double probability(double score) {
    return 1 / (1 + exp(-score));
}

static void draw_features(const problem *p, random_stream *stream, example *one) {
    for (int i = 0; i < FEATURES_OF_ONE; i++)
        one->rows[i] = feature_at(p, random_uniform(stream));
    one->target = random_uniform(stream) < probability(score_of(one, p->known_values)) ? 1 : 0;
}

/* Cross-entropy: log(1 + exp(-score)) where the label is 1, log(1 + exp(score)) where it is 0. */
static double logistic_loss(const example *one, const float *values, float scale, float *gradients) {
    const double score = score_of(one, values), wrong = one->target > 0.5F ? -score : score;
    const float slope = scale * ((float)probability(score) - one->target);
    for (int k = 0; k < FEATURES_OF_ONE && gradients != NULL; k++)
        gradients[one->rows[k]] += slope;
    return fmax(wrong, 0) + log1p(exp(-fabs(wrong)));
}

static void create_logistic(problem *p) {
    p->rows = p->settings->server.features;
    p->columns = 1;
    p->examples = 262144;
    p->below = allocate(p->rows, sizeof *p->below);
    p->known_values = allocate(p->rows, sizeof *p->known_values);
    random_stream stream = random_begin(p->settings->seed, FOR_KNOWN);
    double sum = 0;
    for (size_t row = 0; row < p->rows; row++) {
        p->known_values[row] = (float)(0.5 * random_normal(&stream));
        p->below[row] = sum += 1 / (double)(row + 1);
    }
    for (size_t row = 0; row < p->rows; row++)
        p->below[row] /= sum;
}

/* A matrix factorization. An example is an entry of a matrix: the product of a row's and a column's known factors, and
 * noise. The root of the mean square of the noise is what no training can beat by more than chance. A row of the table
 * has the factors of a row of the matrix or, behind those, of a column. */

enum { SIDE = 256, FACTORS = 4 };
static const double noise = 0.25;

static float product(const example *one, const float *values) {
    const float *row = values + (size_t)one->rows[0] * FACTORS, *column = values + (size_t)one->rows[1] * FACTORS;
    float sum = 0;
    for (int i = 0; i < FACTORS; i++)
        sum += row[i] * column[i];
    return sum;
}

static void draw_entry(const problem *p, random_stream *stream, example *one) {
    one->rows[0] = (uint32_t)(random_u64(stream) % SIDE);
    one->rows[1] = (uint32_t)(SIDE + random_u64(stream) % SIDE);
    one->target = product(one, p->known_values) + (float)(noise * random_normal(stream));
}

/* The squared error. The gradient is that of half of it. */
static double squared_error(const example *one, const float *values, float scale, float *gradients) {
    const size_t row = (size_t)one->rows[0] * FACTORS, column = (size_t)one->rows[1] * FACTORS;
    const float error = product(one, values) - one->target;
    for (size_t k = 0; k < FACTORS && gradients != NULL; k++) {
        gradients[row + k] += scale * error * values[column + k];
        gradients[column + k] += scale * error * values[row + k];
    }
    return (double)error * (double)error;
}

static void draw_normal(const problem *p, uint64_t purpose, double deviation, float *values) {
    random_stream stream = random_begin(p->settings->seed, purpose);
    for (size_t i = 0; i < p->rows * p->columns; i++)
        values[i] = (float)(deviation * random_normal(&stream));
}

static void create_factorization(problem *p) {
    p->rows = 2 * SIDE;
    p->columns = FACTORS;
    p->examples = 131072;
    p->known_values = allocate(p->rows * p->columns, sizeof *p->known_values);
    draw_normal(p, FOR_KNOWN, pow(FACTORS, -0.25), p->known_values); /* entries have a variance of 1 */
}

static void initialize_factors(problem *p, float *values) {
    draw_normal(p, FOR_FIRST_VALUES, 0.5, values);
}

/* The network of kolo-train's own training. A row of the table is a row of a layer's matrix of weights, or its biases.
 * All of them are needed in every step: a dense problem. */

static void create_digits(problem *p) {
    const dataset *train = p->train;
    mlp *model = &p->model;
    p->examples = train->rows;
    mlp_create(model, train->features, p->settings->hidden, train->classes, p->examples_max);
    mlp_reserve(model, smaller(train->rows, p->kind->evaluated));
    free(model->parameters);
    p->scratch = allocate(model->parameters_count, sizeof *p->scratch);
    p->digits.features = train->features;
    dataset_reserve(&p->digits, p->examples_max);
    for (const mlp_layer *layer = model->layers; layer < model->layers + MLP_LAYERS; layer++) {
        p->row_columns = enlarge(p->row_columns, p->rows + layer->inputs + 1, sizeof *p->row_columns);
        for (size_t i = 0; i <= layer->inputs; i++)
            p->row_columns[p->rows++] = layer->outputs;
    }
}

/* The model only reads its parameters. */
static mlp *with(problem *p, const float *values) {
    p->model.parameters = (float *)(uintptr_t)values;
    return &p->model;
}

static void initialize_digits(problem *p, float *values) {
    mlp_initialize(with(p, values), p->settings->seed);
}

size_t problem_digits_correct(problem *p, const float *values) {
    return mlp_correct(with(p, values), p->test->inputs, p->test->labels, p->test->rows);
}

/* What problems have in common. */

static void draw(const problem *p, size_t purpose, example *one) {
    random_stream stream = random_begin(p->settings->seed, FOR_EXAMPLES + purpose);
    p->kind->draw(p, &stream, one);
}

/* Where in the choice a row is, named if it was not. */
static uint32_t place(problem *p, uint32_t row) {
    uint32_t *named = p->named + 2 * (size_t)row;
    if (named[0] != p->choice) {
        named[0] = p->choice;
        named[1] = (uint32_t)p->ids_count;
        p->ids[p->ids_count++] = row;
    }
    return named[1];
}

void problem_choose(problem *p, const size_t *examples, size_t count) {
    p->ids_count = 0;
    if (++p->choice == 0 && p->chooses) { /* after 2^32 of them */
        memset(p->named, 0, p->rows * 2 * sizeof *p->named);
        p->choice = 1;
    }
    for (size_t i = 0; i < count && p->chooses; i++) {
        draw(p, examples[i], &p->batch[i]);
        for (size_t k = 0; k < p->kind->example_rows; k++)
            p->batch[i].rows[k] = place(p, p->batch[i].rows[k]);
    }
}

double problem_gradient(problem *p, const size_t *examples, size_t count, float scale, const float *values,
                        float *gradients) {
    double sum = 0;
    if (!p->chooses) {
        p->digits.rows = count;
        dataset_copy_rows(&p->digits, p->train, examples);
        return mlp_gradient(with(p, values), p->digits.inputs, p->digits.labels, count, scale, gradients, MLP_REPLACE);
    }
    memset(gradients, 0, p->ids_count * p->columns * sizeof *gradients);
    for (size_t i = 0; i < count; i++)
        sum += p->kind->example_loss(&p->batch[i], values, scale, gradients);
    return sum;
}

double problem_loss(problem *p, const float *values) {
    const size_t count = smaller(p->examples, p->kind->evaluated);
    double sum = 0;
    if (!p->chooses)
        sum = mlp_gradient(with(p, values), p->train->inputs, p->train->labels, count, 1, p->scratch, MLP_REPLACE);
    for (size_t i = 0; i < count && p->chooses; i++)
        sum += p->kind->example_loss(&p->evaluated[i], values, 0, NULL);
    sum /= (double)count;
    return p->kind->is_root ? sqrt(sum) : sum;
}

static const problem_kind kinds[] = {[TRAIN_DIGITS] = {.measure = "loss",
                                                       .rule = TRAIN_RULE_MOMENTUM,
                                                       .rate = 0.1,
                                                       .epochs = 30,
                                                       .evaluated = 512,
                                                       .create = create_digits,
                                                       .initialize = initialize_digits},
                                     [TRAIN_LOGISTIC] = {.measure = "loss",
                                                         .known = "of the weights that the labels are drawn from",
                                                         .rule = TRAIN_RULE_ADAGRAD,
                                                         .rate = 0.1,
                                                         .epochs = 1,
                                                         .evaluated = 4096,
                                                         .create = create_logistic,
                                                         .example_rows = FEATURES_OF_ONE,
                                                         .draw = draw_features,
                                                         .example_loss = logistic_loss},
                                     [TRAIN_FACTORIZATION] = {.measure = "RMSE",
                                                              .known = "of the noise that was added",
                                                              .rule = TRAIN_RULE_ADAGRAD,
                                                              .rate = 0.2,
                                                              .epochs = 6,
                                                              .evaluated = 8192,
                                                              .create = create_factorization,
                                                              .initialize = initialize_factors,
                                                              .example_rows = 2,
                                                              .is_root = true,
                                                              .draw = draw_entry,
                                                              .example_loss = squared_error}};

void problem_create(problem *p, const train_settings *settings, const dataset *train, const dataset *test,
                    size_t examples_max) {
    const problem_kind *kind = &kinds[settings->server.problem];
    *p = (problem){.kind = kind, .settings = settings, .train = train, .test = test, .examples_max = examples_max};
    kind->create(p);
    p->elements = p->rows * p->columns;
    for (uint64_t row = 0; p->row_columns != NULL && row < p->rows; row++)
        p->elements += p->row_columns[row];
    p->chooses = kind->example_rows > 0;
    if (!p->chooses)
        return;
    p->batch = allocate(examples_max, sizeof *p->batch);
    p->evaluated = allocate(kind->evaluated, sizeof *p->evaluated);
    p->ids = allocate(examples_max * kind->example_rows, sizeof *p->ids);
    p->named = allocate(p->rows, 2 * sizeof *p->named);
    for (size_t i = 0; i < kind->evaluated; i++)
        draw(p, p->examples + i, &p->evaluated[i]);
    p->known_loss = problem_loss(p, p->known_values);
}
