#include "mlp.h"

#include "complain.h"
#include "kolo_trace.h"
#include "random.h"

#include <cblas.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Each BLAS has its own way to set its threads; those that are not linked in are null. */
extern void openblas_set_num_threads(int threads) __attribute__((weak));
extern void bli_thread_set_num_threads(long threads) __attribute__((weak));
extern void MKL_Set_Num_Threads(int threads) __attribute__((weak));
extern void omp_set_num_threads(int threads) __attribute__((weak));

void mlp_use_one_thread(void) {
    if (openblas_set_num_threads != NULL)
        openblas_set_num_threads(1);
    if (bli_thread_set_num_threads != NULL)
        bli_thread_set_num_threads(1);
    if (MKL_Set_Num_Threads != NULL)
        MKL_Set_Num_Threads(1);
    if (omp_set_num_threads != NULL)
        omp_set_num_threads(1);
}

void mlp_create(mlp *model, size_t features, size_t hidden, size_t classes, size_t rows_max) {
    const size_t widths[MLP_LAYERS + 1] = {features, hidden, hidden, classes};
    *model = (mlp){0};
    for (int l = 0; l < MLP_LAYERS; l++) {
        mlp_layer *layer = &model->layers[l];
        layer->inputs = widths[l];
        layer->outputs = widths[l + 1];
        layer->weights = model->parameters_count;
        layer->biases = layer->weights + layer->inputs * layer->outputs;
        model->parameters_count = layer->biases + layer->outputs;
    }
    model->parameters = allocate(model->parameters_count, sizeof(float));
    mlp_reserve(model, rows_max);
}

void mlp_reserve(mlp *model, size_t rows_max) {
    model->rows_max = rows_max > model->rows_max ? rows_max : model->rows_max;
    for (int l = 0; l < MLP_LAYERS; l++) {
        mlp_layer *layer = &model->layers[l];
        layer->values = enlarge(layer->values, model->rows_max * layer->outputs, sizeof(float));
        layer->gradient = enlarge(layer->gradient, model->rows_max * layer->outputs, sizeof(float));
    }
}

void mlp_destroy(mlp *model) {
    for (int l = 0; l < MLP_LAYERS; l++) {
        free(model->layers[l].values);
        free(model->layers[l].gradient);
    }
    free(model->parameters);
    *model = (mlp){0};
}

void mlp_initialize(mlp *model, uint64_t seed) {
    random_stream stream = random_begin(seed, 0);
    memset(model->parameters, 0, model->parameters_count * sizeof(float));
    for (int l = 0; l < MLP_LAYERS; l++) {
        const mlp_layer *layer = &model->layers[l];
        double deviation = sqrt(2.0 / (double)layer->inputs);
        for (size_t i = layer->weights; i < layer->biases; i++)
            model->parameters[i] = (float)(deviation * random_normal(&stream));
    }
}

/* c = a x b + beta c, where a or b may be taken transposed; all row by row, and without gaps. */
static void multiply(CBLAS_TRANSPOSE transpose_a, CBLAS_TRANSPOSE transpose_b, size_t rows, size_t columns,
                     size_t inner, const float *a, const float *b, float beta, float *c) {
    size_t a_width = transpose_a == CblasTrans ? rows : inner;
    size_t b_width = transpose_b == CblasTrans ? inner : columns;
    cblas_sgemm(CblasRowMajor, transpose_a, transpose_b, (int)rows, (int)columns, (int)inner, 1.0F, a, (int)a_width, b,
                (int)b_width, beta, c, (int)columns);
}

static const float *inputs_of(const mlp *model, int l, const float *inputs) {
    return l == 0 ? inputs : model->layers[l - 1].values;
}

/* Layer by layer: values = inputs x weights + biases, and no negative ones between layers. */
static void forward(mlp *model, const float *inputs, size_t rows) {
    for (int l = 0; l < MLP_LAYERS; l++) {
        const mlp_layer *layer = &model->layers[l];
        for (size_t row = 0; row < rows; row++)
            memcpy(layer->values + row * layer->outputs, model->parameters + layer->biases,
                   layer->outputs * sizeof(float));
        multiply(CblasNoTrans, CblasNoTrans, rows, layer->outputs, layer->inputs, inputs_of(model, l, inputs),
                 model->parameters + layer->weights, 1.0F, layer->values);
        for (size_t i = 0; l < MLP_LAYERS - 1 && i < rows * layer->outputs; i++)
            layer->values[i] = layer->values[i] > 0 ? layer->values[i] : 0;
    }
}

/* From the layer's own gradient: that of its weights and biases, and that of the layer before it. */
static void layer_backward(mlp *model, int l, const float *inputs, size_t rows, float *gradient, enum mlp_store store) {
    const mlp_layer *layer = &model->layers[l];
    multiply(CblasTrans, CblasNoTrans, layer->inputs, layer->outputs, rows, inputs, layer->gradient,
             store == MLP_ADD ? 1.0F : 0.0F, gradient + layer->weights);
    float *biases = gradient + layer->biases;
    if (store == MLP_REPLACE)
        memset(biases, 0, layer->outputs * sizeof(float));
    for (size_t row = 0; row < rows; row++)
        for (size_t i = 0; i < layer->outputs; i++)
            biases[i] += layer->gradient[row * layer->outputs + i];
    if (l == 0)
        return;

    mlp_layer *before = &model->layers[l - 1];
    multiply(CblasNoTrans, CblasTrans, rows, layer->inputs, layer->outputs, layer->gradient,
             model->parameters + layer->weights, 0.0F, before->gradient);
    for (size_t i = 0; i < rows * before->outputs; i++)
        before->gradient[i] = before->values[i] > 0 ? before->gradient[i] : 0;
}

/* Cross-entropy of softmax(scores) against the label; gradient = scale x (softmax(scores) - 1 at the label). */
static double row_loss(const float *scores, size_t classes, size_t label, float scale, float *gradient) {
    float largest = scores[0];
    for (size_t i = 1; i < classes; i++)
        largest = fmaxf(largest, scores[i]);
    float sum = 0;
    for (size_t i = 0; i < classes; i++) {
        gradient[i] = expf(scores[i] - largest);
        sum += gradient[i];
    }
    for (size_t i = 0; i < classes; i++)
        gradient[i] *= scale / sum;
    gradient[label] -= scale;
    return log((double)sum) - ((double)scores[label] - (double)largest);
}

double mlp_gradient(mlp *model, const float *inputs, const int32_t *labels, size_t rows, float scale, float *gradient,
                    enum mlp_store store) {
    const mlp_layer *last = &model->layers[MLP_LAYERS - 1];
    double loss_sum = 0;
    kolo_trace_begin("forward");
    if (rows > 0)
        forward(model, inputs, rows);
    else if (store == MLP_REPLACE)
        memset(gradient, 0, model->parameters_count * sizeof(float));
    for (size_t row = 0; row < rows; row++)
        loss_sum += row_loss(last->values + row * last->outputs, last->outputs, (size_t)labels[row], scale,
                             last->gradient + row * last->outputs);
    kolo_trace_end();
    kolo_trace_begin("backward");
    for (int l = MLP_LAYERS - 1; l >= 0; l--) {
        if (rows > 0)
            layer_backward(model, l, inputs_of(model, l, inputs), rows, gradient, store);
        if (model->ready != NULL)
            model->ready(model->context, l);
    }
    kolo_trace_end();
    return loss_sum;
}

static size_t index_of_largest(const float *values, size_t count) {
    size_t best = 0;
    for (size_t i = 1; i < count; i++)
        best = values[i] > values[best] ? i : best;
    return best;
}

size_t mlp_correct(mlp *model, const float *inputs, const int32_t *labels, size_t rows) {
    const mlp_layer *last = &model->layers[MLP_LAYERS - 1];
    size_t correct = 0;
    for (size_t first = 0; first < rows; first += model->rows_max) {
        size_t count = rows - first < model->rows_max ? rows - first : model->rows_max;
        forward(model, inputs + first * model->layers[0].inputs, count);
        for (size_t row = 0; row < count; row++)
            correct +=
                index_of_largest(last->values + row * last->outputs, last->outputs) == (size_t)labels[first + row];
    }
    return correct;
}
