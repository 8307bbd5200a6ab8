/* A classifier of three dense layers, with ReLU between them and softmax at the end. All parameters lie in one flat
 * array, and so does their gradient: that is what makes averaging over ranks a single all-reduce. */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { MLP_LAYERS = 3 };

typedef struct mlp_layer {
    size_t inputs;
    size_t outputs;
    size_t weights;  /* where in the parameters its inputs x outputs matrix begins, row by row */
    size_t biases;   /* and its vector of outputs */
    float *values;   /* rows_max x outputs: what it computed last */
    float *gradient; /* rows_max x outputs: of the loss, with respect to that */
} mlp_layer;

typedef struct mlp {
    size_t rows_max; /* rows that one call can take */
    size_t parameters_count;
    float *parameters;
    mlp_layer layers[MLP_LAYERS];

    /* Not NULL: told of each layer when mlp_gradient has its gradient and needs its parameters no longer, from the last
     * one to the first. */
    void (*ready)(void *context, int layer);
    void *context;
} mlp;

/* Sets up the layers features - hidden - hidden - classes, with all parameters 0. Want of memory ends the process, here
 * and below. */
void mlp_create(mlp *model, size_t features, size_t hidden, size_t classes, size_t rows_max);
void mlp_destroy(mlp *model);

/* Makes room for calls with up to `rows_max` rows. */
void mlp_reserve(mlp *model, size_t rows_max);

/* Draws the weights at random, scaled to their layer's inputs (He et al. 2015); biases are 0. */
void mlp_initialize(mlp *model, uint64_t seed);

enum mlp_store { MLP_REPLACE, MLP_ADD };

/* Sum over the rows of each one's cross-entropy loss. The gradient of that sum times `scale` replaces what is in
 * gradient[0 .. parameters_count-1], or is added to it. 0 rows are fine: their gradient is 0. */
double mlp_gradient(mlp *model, const float *inputs, const int32_t *labels, size_t rows, float scale, float *gradient,
                    enum mlp_store store);

/* How many of the rows are classified right. */
size_t mlp_correct(mlp *model, const float *inputs, const int32_t *labels, size_t rows);

/* Keeps the BLAS library to the calling thread: with a rank on each core, threads beside it would only get in the
 * way of the other ranks. */
void mlp_use_one_thread(void);
