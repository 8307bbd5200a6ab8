/* A sparse logistic regression. An example has a few of many features, drawn by Zipf's law, and a label, drawn with the
 * probability that the known weights give it. The known weights' own loss is what no training can beat by more than
 * chance. A row of the table is a feature's weight.
 *
 * A matrix factorization. An example is an entry of a matrix: the product of a row's and a column's known factors, and
 * noise. The root of the mean square of the noise is what no training can beat by more than chance. A row of the table
 * has the factors of a row of the matrix or, behind those, of a column. */
#include <math.h>
#include <string.h>

#include "complain.h"
#include "problem.h"

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

static void initialize_logistic(const problem *p, float *values) {
    memset(values, 0, p->elements * sizeof *values);
}

const problem_kind problem_logistic = {.measure = "loss",
                                       .known = "of the weights that the labels are drawn from",
                                       .rule = TRAIN_RULE_ADAGRAD,
                                       .rate = 0.1,
                                       .epochs = 1,
                                       .create = create_logistic,
                                       .initialize = initialize_logistic,
                                       .choose = problem_choose,
                                       .gradient = problem_gradient,
                                       .loss = problem_loss,
                                       .example_rows = FEATURES_OF_ONE,
                                       .evaluated = 4096,
                                       .draw = draw_features,
                                       .example_loss = logistic_loss};

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

static void initialize_factors(const problem *p, float *values) {
    draw_normal(p, FOR_FIRST_VALUES, 0.5, values);
}

const problem_kind problem_factorization = {.measure = "RMSE",
                                            .known = "of the noise that was added",
                                            .rule = TRAIN_RULE_ADAGRAD,
                                            .rate = 0.2,
                                            .epochs = 6,
                                            .create = create_factorization,
                                            .initialize = initialize_factors,
                                            .choose = problem_choose,
                                            .gradient = problem_gradient,
                                            .loss = problem_loss,
                                            .example_rows = 2,
                                            .evaluated = 8192,
                                            .is_root = true,
                                            .draw = draw_entry,
                                            .example_loss = squared_error};
