/* What workers of a parameter server minimize: a sum over examples, by parameters that are rows of a table. A problem
 * tells how the rows are made, which of them some examples need, and the gradient with respect to these. The generated
 * ones are made from parameters that are known, so that one can tell how near a training has come. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dataset.h"
#include "mlp.h"
#include "random.h"
#include "train_options.h"

enum { EXAMPLE_ROWS_MAX = 16 };

/* One that is generated. */
typedef struct example {
    uint32_t rows[EXAMPLE_ROWS_MAX]; /* of the table that it needs, or their places among those that are chosen */
    float target;
} example;

typedef struct problem problem;

typedef struct problem_kind {
    const char *measure; /* what --until and the report call a loss */
    const char *known;   /* what is known of it; NULL: nothing */
    train_rule rule;     /* what comes without --rule, --rate and --epochs */
    double rate;
    size_t epochs;
    size_t evaluated; /* examples that a loss is the mean of, always the same */

    void (*create)(problem *p);                    /* sets rows, columns or row_columns, and examples */
    void (*initialize)(problem *p, float *values); /* of all rows, which are 0; NULL: they stay so */

    /* Of generated ones: how many rows an example needs, 0 for others; how it is drawn, and its loss, whose gradient
     * times `scale` is added to `gradients` where those are not NULL. */
    size_t example_rows;
    bool is_root; /* the loss is the root of the mean */
    void (*draw)(const problem *p, random_stream *stream, example *one);
    double (*example_loss)(const example *one, const float *values, float scale, float *gradients);
} problem_kind;

struct problem {
    const problem_kind *kind;
    const train_settings *settings;
    const dataset *train, *test; /* of the digits */

    uint64_t rows;
    size_t columns;      /* of each row, unless row_columns is set */
    size_t *row_columns; /* NULL: all the same */
    size_t elements;     /* of all rows */
    size_t examples;
    size_t examples_max; /* of a step of this rank */
    bool chooses;        /* else a step needs all rows */

    /* Of generated ones. */
    float *known_values; /* that examples are made from */
    double *below;       /* [rows] of the logistic one: how probable a feature drawn is that one or one before it */
    double known_loss;
    example *batch, *evaluated;
    uint64_t *ids; /* the rows that were chosen last, each once */
    size_t ids_count;
    uint32_t *named; /* [rows]: the choice that a row was last named in, and then its place there */
    uint32_t choice;

    /* Of the digits. */
    mlp model;      /* its parameters are the caller's */
    float *scratch; /* a gradient that nobody looks at */
    dataset digits;
};

/* Makes the problem that the settings name, for steps of up to `examples_max` examples a rank. It lasts as long as the
 * process. */
void problem_create(problem *p, const train_settings *settings, const dataset *train, const dataset *test,
                    size_t examples_max);

/* Names, in ids, the rows that these examples need, if the problem chooses. */
void problem_choose(problem *p, const size_t *examples, size_t count);

/* Of the examples that were chosen last: the sum of their losses, given the values of the rows that they need, and the
 * gradient of that sum times `scale` with respect to these. */
double problem_gradient(problem *p, const size_t *examples, size_t count, float scale, const float *values,
                        float *gradients);

/* The loss of all rows' values. */
double problem_loss(problem *p, const float *values);

/* How many of the test rows the digits' parameters get right. */
size_t problem_digits_correct(problem *p, const float *values);
