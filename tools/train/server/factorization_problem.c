/* A matrix factorization. An example is an entry of a matrix: the product of a row's and a column's known factors, and
 * noise. The root of the mean square of the noise is what no training can beat by more than chance. A row of the table
 * has the factors of a row of the matrix or, behind those, of a column. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "problem.h"
#include "random.h"

enum { EXAMPLES = 131072, EVALUATED = 8192, SIDE = 256, FACTORS = 4 };
enum { FOR_FACTORS = 1 << 20, FOR_FIRST_VALUES, FOR_EXAMPLES, FOR_EVALUATED = FOR_EXAMPLES + EXAMPLES };
static const double noise = 0.25;

typedef struct entry {
    uint32_t row, column; /* as rows of the table, or their places among those that are needed */
    float value;
} entry;

typedef struct factorization {
    float *factors; /* the known ones */
    entry *batch, *evaluated;
} factorization;

static void destroy(problem *p) {
    factorization *f = p->own;
    if (f == NULL)
        return;
    free(f->factors);
    free(f->batch);
    free(f->evaluated);
    free(f);
}

static float product(const entry *one, const float *values) {
    const float *row = values + (size_t)one->row * FACTORS, *column = values + (size_t)one->column * FACTORS;
    float sum = 0;
    for (int i = 0; i < FACTORS; i++)
        sum += row[i] * column[i];
    return sum;
}

static void draw(const problem *p, entry *one, uint64_t purpose) {
    const factorization *f = p->own;
    random_stream stream = random_begin(p->settings->seed, purpose);
    one->row = (uint32_t)(random_u64(&stream) % SIDE);
    one->column = (uint32_t)(SIDE + random_u64(&stream) % SIDE);
    one->value = product(one, f->factors) + (float)(noise * random_normal(&stream));
}

static double loss(problem *p, const float *values) {
    const factorization *f = p->own;
    double sum = 0;
    for (size_t i = 0; i < EVALUATED; i++) {
        const double error = (double)(product(&f->evaluated[i], values) - f->evaluated[i].value);
        sum += error * error;
    }
    return sqrt(sum / EVALUATED);
}

static void draw_normal(const problem *p, uint64_t purpose, double deviation, float *values) {
    random_stream stream = random_begin(p->settings->seed, purpose);
    for (size_t i = 0; i < p->rows * p->columns; i++)
        values[i] = (float)(deviation * random_normal(&stream));
}

static int create(problem *p) {
    factorization *f = p->own = calloc(1, sizeof *f);
    p->rows = 2 * SIDE;
    p->columns = FACTORS;
    p->examples = EXAMPLES;
    if (f == NULL)
        return -1;
    f->factors = calloc(p->rows * p->columns, sizeof *f->factors);
    f->batch = calloc(p->ids_max, sizeof *f->batch);
    f->evaluated = calloc(EVALUATED, sizeof *f->evaluated);
    if (f->factors == NULL || f->batch == NULL || f->evaluated == NULL || problem_reserve_ids(p, 2 * p->ids_max) < 0)
        return -1;
    draw_normal(p, FOR_FACTORS, pow(FACTORS, -0.25), f->factors); /* entries have a variance of 1 */
    for (size_t i = 0; i < EVALUATED; i++)
        draw(p, &f->evaluated[i], FOR_EVALUATED + i);
    p->known_loss = loss(p, f->factors);
    return 0;
}

static void initialize(const problem *p, float *values) {
    draw_normal(p, FOR_FIRST_VALUES, 0.5, values);
}

static void choose(problem *p, const size_t *examples, size_t count) {
    factorization *f = p->own;
    problem_begin_choice(p);
    for (size_t i = 0; i < count; i++) {
        entry *one = &f->batch[i];
        draw(p, one, FOR_EXAMPLES + examples[i]);
        one->row = (uint32_t)problem_place(p, one->row);
        one->column = (uint32_t)problem_place(p, one->column);
    }
}

/* Half of the squared error of each entry. The loss that it returns is the squared error. */
static double gradient(problem *p, const size_t *examples, size_t count, float scale, const float *values,
                       float *gradients) {
    const factorization *f = p->own;
    double sum = 0;
    (void)examples;
    memset(gradients, 0, p->ids_count * FACTORS * sizeof *gradients);
    for (size_t i = 0; i < count; i++) {
        const entry *one = &f->batch[i];
        const size_t row = (size_t)one->row * FACTORS, column = (size_t)one->column * FACTORS;
        const float error = product(one, values) - one->value;
        sum += (double)error * (double)error;
        for (int k = 0; k < FACTORS; k++) {
            gradients[row + (size_t)k] += scale * error * values[column + (size_t)k];
            gradients[column + (size_t)k] += scale * error * values[row + (size_t)k];
        }
    }
    return sum;
}

const problem_kind problem_factorization = {.measure = "RMSE",
                                            .known = "of the noise that was added",
                                            .rule = TRAIN_RULE_ADAGRAD,
                                            .rate = 0.2,
                                            .epochs = 6,
                                            .create = create,
                                            .destroy = destroy,
                                            .initialize = initialize,
                                            .choose = choose,
                                            .gradient = gradient,
                                            .loss = loss};
