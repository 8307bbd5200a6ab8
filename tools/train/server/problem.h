/* What workers of a parameter server minimize: a sum over examples, by parameters that are rows of a table. A problem
 * tells how the rows are made, which of them some examples need, and the gradient with respect to these. The generated
 * ones are made from parameters that are known, so that one can tell how near a training has come. */
#ifndef KOLO_TRAIN_PROBLEM_H
#define KOLO_TRAIN_PROBLEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dataset.h"
#include "train_options.h"

typedef struct problem problem;

typedef struct problem_kind {
    const char *measure; /* what --until and the report call a loss */
    const char *known;   /* what is known of it; NULL: nothing */
    train_rule rule;     /* what comes without --rule, --rate and --epochs */
    double rate;
    size_t epochs;

    /* Sets rows, columns or row_columns, and examples. Returns 0, or -1 when memory is short. */
    int (*create)(problem *p);
    void (*destroy)(problem *p);
    void (*initialize)(const problem *p, float *values); /* of all rows */

    /* Names, in ids, the rows that these examples need. NULL: all rows, in their order. */
    void (*choose)(problem *p, const size_t *examples, size_t count);

    /* Of the examples that were chosen last: the sum of their losses, given the values of the rows that they need, and
     * the gradient of that sum times `scale` with respect to these. */
    double (*gradient)(problem *p, const size_t *examples, size_t count, float scale, const float *values,
                       float *gradients);

    /* Of the values of all rows: the mean loss of examples that are always the same. */
    double (*loss)(problem *p, const float *values);
} problem_kind;

struct problem {
    const problem_kind *kind;
    const train_settings *settings;
    const dataset *train, *test; /* of the digits */
    void *own;                   /* the kind's */

    uint64_t rows;
    size_t columns;            /* of each row, unless row_columns is set */
    const size_t *row_columns; /* NULL: all the same */
    size_t elements;           /* of all rows */
    size_t examples;
    double known_loss; /* of the parameters that the examples are made from */

    uint64_t *ids; /* the rows that were chosen last, each once; room for ids_max */
    size_t ids_count, ids_max;
    uint32_t *named; /* [rows]: the choice that a row was last named in, and then its place there */
    uint32_t choice;
};

extern const problem_kind problem_digits, problem_logistic, problem_factorization;

/* Makes the problem that the settings name, for steps of up to `examples_max` examples a rank. Returns 0, or -1 when
 * memory is short. */
int problem_create(problem *p, const train_settings *settings, const dataset *train, const dataset *test,
                   size_t examples_max);
void problem_destroy(problem *p);

/* How many of the test rows the digits' parameters get right. */
size_t problem_digits_correct(problem *p, const float *values);

/* For kinds: room for so many ids of a choice, how a choice begins, and where in it a row is, named if it was not. */
int problem_reserve_ids(problem *p, size_t ids_max);
void problem_begin_choice(problem *p);
size_t problem_place(problem *p, uint64_t row);

#endif
