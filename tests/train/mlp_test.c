/* The model's gradient, against differences of its loss; and as a sum over shares of a batch. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "mlp.h"
#include "random.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FEATURES = 5, HIDDEN = 7, CLASSES = 3, ROWS = 6 };

typedef struct sample {
    mlp model;
    float inputs[ROWS * FEATURES];
    int32_t labels[ROWS];
} sample;

static int begin(void **state) {
    sample *s = calloc(1, sizeof(*s));
    random_stream stream = random_begin(7, 0);
    for (size_t i = 0; i < ROWS * FEATURES; i++)
        s->inputs[i] = (float)random_normal(&stream);
    for (size_t i = 0; i < ROWS; i++)
        s->labels[i] = (int32_t)(i % CLASSES);
    *state = s;
    mlp_create(&s->model, FEATURES, HIDDEN, CLASSES, ROWS);
    mlp_initialize(&s->model, 3);
    mlp_use_one_thread();
    return 0;
}

static int end(void **state) {
    sample *s = *state;
    mlp_destroy(&s->model);
    free(s);
    return 0;
}

static double loss_with(sample *s, size_t parameter, float value, float *scratch) {
    float kept = s->model.parameters[parameter];
    s->model.parameters[parameter] = value;
    double loss = mlp_gradient(&s->model, s->inputs, s->labels, ROWS, 1, scratch, MLP_REPLACE);
    s->model.parameters[parameter] = kept;
    return loss;
}

/* The largest difference between `gradient` and the slopes of the loss. */
static double worst_difference(sample *s, const float *gradient) {
    float *scratch = calloc(s->model.parameters_count, sizeof(*scratch));
    double worst = 0;
    for (size_t i = 0; i < s->model.parameters_count; i++) {
        float low = s->model.parameters[i] - 1e-3F;
        float high = s->model.parameters[i] + 1e-3F;
        double slope = (loss_with(s, i, high, scratch) - loss_with(s, i, low, scratch)) / ((double)high - (double)low);
        worst = fmax(worst, fabs(slope - (double)gradient[i]));
    }
    free(scratch);
    return worst;
}

static void gradient_is_the_slope_of_the_loss(void **state) {
    sample *s = *state;
    float *gradient = calloc(s->model.parameters_count, sizeof(*gradient));
    mlp_gradient(&s->model, s->inputs, s->labels, ROWS, 1, gradient, MLP_REPLACE);
    assert_true(worst_difference(s, gradient) < 5e-3);
    for (int l = 0; l < MLP_LAYERS; l++) { /* and the check sees one wrong number in any layer */
        gradient[s->model.layers[l].biases] += 0.02F;
        assert_true(worst_difference(s, gradient) > 1e-2);
        gradient[s->model.layers[l].biases] -= 0.02F;
    }
    free(gradient);
}

static void shares_of_a_batch_sum_to_its_gradient(void **state) {
    sample *s = *state;
    size_t count = s->model.parameters_count;
    float *whole = calloc(count, sizeof(*whole));
    float *part = calloc(count, sizeof(*part));
    float *sum = calloc(count, sizeof(*sum));
    float *added = calloc(count, sizeof(*added));
    double loss = mlp_gradient(&s->model, s->inputs, s->labels, ROWS, 1.0F / ROWS, whole, MLP_REPLACE);

    const size_t bounds[] = {0, 1, 1, 4, ROWS}; /* uneven, and one is empty */
    double loss_sum = 0;
    for (size_t share = 0; share < 4; share++) {
        size_t first = bounds[share];
        const float *inputs = s->inputs + first * FEATURES;
        const int32_t *labels = s->labels + first;
        const size_t rows = bounds[share + 1] - first;
        loss_sum += mlp_gradient(&s->model, inputs, labels, rows, 1.0F / ROWS, part, MLP_REPLACE);
        mlp_gradient(&s->model, inputs, labels, rows, 1.0F / ROWS, added, MLP_ADD);
        for (size_t i = 0; i < count; i++)
            sum[i] += part[i];
    }
    assert_true(fabs(loss - loss_sum) < 1e-5);
    for (size_t i = 0; i < count; i++) {
        assert_true(fabsf(whole[i] - sum[i]) < 1e-6F);
        assert_true(fabsf(whole[i] - added[i]) < 1e-6F);
    }
    free(whole);
    free(part);
    free(sum);
    free(added);
}

/* A model that only knows its last biases calls every row the class of the largest. */
static void counts_right_answers(void **state) {
    sample *s = *state;
    memset(s->model.parameters, 0, s->model.parameters_count * sizeof(float));
    s->model.parameters[s->model.layers[MLP_LAYERS - 1].biases + 1] = 1;
    const int32_t labels[2 * ROWS] = {1, 0, 1, 2, 0, 0, 1, 1, 1, 2, 2, 0};
    float inputs[2 * ROWS * FEATURES] = {0};
    assert_int_equal(mlp_correct(&s->model, inputs, labels, 2 * ROWS), 5);
    assert_int_equal(mlp_correct(&s->model, inputs, labels, 1), 1);
    assert_int_equal(mlp_correct(&s->model, inputs, labels, 0), 0);
}

static void same_seed_same_weights(void **state) {
    sample *s = *state;
    mlp other;
    mlp_create(&other, FEATURES, HIDDEN, CLASSES, 1);
    mlp_initialize(&other, 3);
    size_t bytes = other.parameters_count * sizeof(float);
    assert_int_equal(other.parameters_count,
                     FEATURES * HIDDEN + HIDDEN * HIDDEN + HIDDEN * CLASSES + 2 * HIDDEN + CLASSES);
    assert_memory_equal(s->model.parameters, other.parameters, bytes);
    mlp_initialize(&other, 4);
    assert_memory_not_equal(s->model.parameters, other.parameters, bytes);
    mlp_destroy(&other);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(gradient_is_the_slope_of_the_loss, begin, end),
        cmocka_unit_test_setup_teardown(shares_of_a_batch_sum_to_its_gradient, begin, end),
        cmocka_unit_test_setup_teardown(counts_right_answers, begin, end),
        cmocka_unit_test_setup_teardown(same_seed_same_weights, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
