#include "problem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "complain.h"

static void draw(const problem *p, size_t purpose, example *one) {
    random_stream stream = random_begin(p->settings->seed, FOR_EXAMPLES + purpose);
    p->kind->draw(p, &stream, one);
}

void problem_create(problem *p, const train_settings *settings, const dataset *train, const dataset *test,
                    size_t examples_max) {
    static const problem_kind *const kinds[] = {[TRAIN_DIGITS] = &problem_digits,
                                                [TRAIN_LOGISTIC] = &problem_logistic,
                                                [TRAIN_FACTORIZATION] = &problem_factorization};
    const problem_kind *kind = kinds[settings->server.problem];
    *p = (problem){.kind = kind, .settings = settings, .train = train, .test = test, .examples_max = examples_max};
    kind->create(p);
    p->elements = p->rows * p->columns;
    for (uint64_t row = 0; p->row_columns != NULL && row < p->rows; row++)
        p->elements += p->row_columns[row];
    if (kind->choose == NULL)
        return;
    p->batch = allocate(examples_max, sizeof *p->batch);
    p->evaluated = allocate(kind->evaluated, sizeof *p->evaluated);
    p->ids = allocate(examples_max * kind->example_rows, sizeof *p->ids);
    p->named = allocate(p->rows, 2 * sizeof *p->named);
    for (size_t i = 0; i < kind->evaluated; i++)
        draw(p, p->examples + i, &p->evaluated[i]);
    p->known_loss = problem_loss(p, p->known_values);
}

void problem_destroy(problem *p) {
    if (p->kind != NULL && p->kind->destroy != NULL)
        p->kind->destroy(p);
    free(p->row_columns);
    free(p->known_values);
    free(p->below);
    free(p->batch);
    free(p->evaluated);
    free(p->ids);
    free(p->named);
    *p = (problem){0};
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
    if (++p->choice == 0) { /* after 2^32 of them */
        memset(p->named, 0, p->rows * 2 * sizeof *p->named);
        p->choice = 1;
    }
    for (size_t i = 0; i < count; i++) {
        draw(p, examples[i], &p->batch[i]);
        for (size_t k = 0; k < p->kind->example_rows; k++)
            p->batch[i].rows[k] = place(p, p->batch[i].rows[k]);
    }
}

double problem_gradient(problem *p, const size_t *examples, size_t count, float scale, const float *values,
                        float *gradients) {
    double sum = 0;
    (void)examples;
    memset(gradients, 0, p->ids_count * p->columns * sizeof *gradients);
    for (size_t i = 0; i < count; i++)
        sum += p->kind->example_loss(&p->batch[i], values, scale, gradients);
    return sum;
}

double problem_loss(problem *p, const float *values) {
    double sum = 0;
    for (size_t i = 0; i < p->kind->evaluated; i++)
        sum += p->kind->example_loss(&p->evaluated[i], values, 0, NULL);
    sum /= (double)p->kind->evaluated;
    return p->kind->is_root ? sqrt(sum) : sum;
}
