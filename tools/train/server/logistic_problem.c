/* A sparse logistic regression. An example has a few of many features, drawn by Zipf's law, and a label, drawn with the
 * probability that the known weights give it. The known weights' own loss is what no training can beat by more than
 * chance. A row of the table is a feature's weight. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "problem.h"
#include "random.h"

enum { EXAMPLES = 262144, EVALUATED = 4096, FEATURES_OF_ONE = 16 };

/* What the streams of random numbers are for. */
enum { FOR_WEIGHTS = 1 << 20, FOR_EXAMPLES, FOR_EVALUATED = FOR_EXAMPLES + EXAMPLES };

typedef struct example {
    uint32_t features[FEATURES_OF_ONE]; /* a row, or its place among those that are needed */
    float label;                        /* 0 or 1 */
} example;

typedef struct logistic {
    double *below;  /* [rows]: how probable it is that a feature drawn is that one or one before it */
    float *weights; /* [rows]: the known ones */
    example *batch; /* [ids_max as it was asked for]: those that were chosen last */
    example *evaluated;
} logistic;

static void destroy(problem *p) {
    logistic *l = p->own;
    if (l == NULL)
        return;
    free(l->below);
    free(l->weights);
    free(l->batch);
    free(l->evaluated);
    free(l);
}

/* The first feature of which `below` is more than `drawn`. */
static uint32_t feature_at(const logistic *l, size_t rows, double drawn) {
    size_t low = 0, high = rows - 1;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (l->below[middle] > drawn)
            high = middle;
        else
            low = middle + 1;
    }
    return (uint32_t)low;
}

static double score_of(const example *one, const float *values) {
    double score = 0;
    for (int i = 0; i < FEATURES_OF_ONE; i++)
        score += (double)values[one->features[i]];
    return score;
}

static double probability(double score) {
    return 1 / (1 + exp(-score));
}

/* Cross-entropy: log(1 + exp(-score)) where the label is 1, log(1 + exp(score)) where it is 0. */
static double loss_of(double score, float label) {
    const double wrong = label > 0.5F ? -score : score;
    return fmax(wrong, 0) + log1p(exp(-fabs(wrong)));
}

static void draw(const problem *p, example *one, uint64_t purpose) {
    const logistic *l = p->own;
    random_stream stream = random_begin(p->settings->seed, purpose);
    for (int i = 0; i < FEATURES_OF_ONE; i++)
        one->features[i] = feature_at(l, p->rows, random_uniform(&stream));
    one->label = random_uniform(&stream) < probability(score_of(one, l->weights)) ? 1 : 0;
}

static double loss(problem *p, const float *values) {
    const logistic *l = p->own;
    double sum = 0;
    for (size_t i = 0; i < EVALUATED; i++)
        sum += loss_of(score_of(&l->evaluated[i], values), l->evaluated[i].label);
    return sum / EVALUATED;
}

static int create(problem *p) {
    logistic *l = p->own = calloc(1, sizeof *l);
    p->rows = p->settings->server.features;
    p->columns = 1;
    p->examples = EXAMPLES;
    if (l == NULL)
        return -1;
    l->below = calloc(p->rows, sizeof *l->below);
    l->weights = calloc(p->rows, sizeof *l->weights);
    l->batch = calloc(p->ids_max, sizeof *l->batch);
    l->evaluated = calloc(EVALUATED, sizeof *l->evaluated);
    if (l->below == NULL || l->weights == NULL || l->batch == NULL || l->evaluated == NULL ||
        problem_reserve_ids(p, p->ids_max * FEATURES_OF_ONE) < 0)
        return -1;
    random_stream stream = random_begin(p->settings->seed, FOR_WEIGHTS);
    double sum = 0;
    for (size_t row = 0; row < p->rows; row++) {
        l->weights[row] = (float)(0.5 * random_normal(&stream));
        l->below[row] = sum += 1 / (double)(row + 1);
    }
    for (size_t row = 0; row < p->rows; row++)
        l->below[row] /= sum;
    for (size_t i = 0; i < EVALUATED; i++)
        draw(p, &l->evaluated[i], FOR_EVALUATED + i);
    p->known_loss = loss(p, l->weights);
    return 0;
}

static void initialize(const problem *p, float *values) {
    memset(values, 0, p->elements * sizeof *values);
}

static void choose(problem *p, const size_t *examples, size_t count) {
    logistic *l = p->own;
    problem_begin_choice(p);
    for (size_t i = 0; i < count; i++) {
        example *one = &l->batch[i];
        draw(p, one, FOR_EXAMPLES + examples[i]);
        for (int k = 0; k < FEATURES_OF_ONE; k++)
            one->features[k] = (uint32_t)problem_place(p, one->features[k]);
    }
}

static double gradient(problem *p, const size_t *examples, size_t count, float scale, const float *values,
                       float *gradients) {
    const logistic *l = p->own;
    double sum = 0;
    (void)examples;
    memset(gradients, 0, p->ids_count * sizeof *gradients);
    for (size_t i = 0; i < count; i++) {
        const example *one = &l->batch[i];
        const double score = score_of(one, values);
        const float slope = scale * ((float)probability(score) - one->label);
        sum += loss_of(score, one->label);
        for (int k = 0; k < FEATURES_OF_ONE; k++)
            gradients[one->features[k]] += slope;
    }
    return sum;
}

const problem_kind problem_logistic = {.measure = "loss",
                                       .known = "of the weights that the labels are drawn from",
                                       .rule = TRAIN_RULE_ADAGRAD,
                                       .rate = 0.1,
                                       .epochs = 1,
                                       .create = create,
                                       .destroy = destroy,
                                       .initialize = initialize,
                                       .choose = choose,
                                       .gradient = gradient,
                                       .loss = loss};
