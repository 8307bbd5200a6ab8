/* The kernels of optimizers: every instance gives the bits of the portable one, for numbers and for what is none, at
 * any length and alignment, and touches nothing but its arrays. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cpu/features.h"
#include "reduce/steps/steps.h"
#include "reducer_support.h"

enum { ARRAYS = 4, COUNT_MAX = 300, VARIANTS = 16 }; /* gradients, parameters, first, second */

static test_arguments arguments;
static guarded areas[ARRAYS];

/* One call, in words of the failure messages. */
struct test_case {
    const char *instance, *kernel;
    kolo_dtype dtype;
    size_t count;
    fill_style style;
    unsigned variant;
};

static void fail_case(const struct test_case *test, const char *what) {
    fail_msg("%s %s of %s, count=%zu style=%d variant=%u: %s; --seed %" PRIu64, test->instance, test->kernel,
             dtype_name(test->dtype), test->count, test->style, test->variant, what, arguments.seed);
}

static struct kolo_step_factors factors_of(unsigned variant) {
    return (struct kolo_step_factors){
        .scale = variant & 1 ? 0.37 : 1,
        .decay = variant & 2 ? 0.01 : 0,
        .rate = -0.013,
        .momentum = 0.9,
        .kept = variant & 4 ? 0.9 : 0,
        .undamped = variant & 4 ? 0.8 : 1,
        .shrink = variant & 2 ? 1 : 0.999,
        .beta1_rest = variant & 4 ? 0.1 : 0.6,
        .beta2 = 0.95,
        .beta2_rest = 0.05,
        .bias2_root = 0.3,
        .epsilon = 1e-8,
        .has_momentum = true,
        .nesterov = variant & 8,
    };
}

/* Makes one call by both, and compares all arrays. has_first: false for SGD without momentum. */
static void compare_step(const struct test_case *test, kolo_step_fn *portable, kolo_step_fn *instance, bool has_first,
                         uint64_t *state) {
    static double due[ARRAYS][COUNT_MAX], before[COUNT_MAX];
    const size_t bytes = test->count * dtype_bytes(test->dtype);
    const struct kolo_step_factors factors = factors_of(test->variant);
    unsigned char *at[ARRAYS];
    for (int i = 0; i < ARRAYS; i++) {
        fill(test->dtype, test->style, due[i], test->count, state);
        at[i] = guarded_place(areas[i], bytes, state);
        memcpy(at[i], due[i], bytes);
    }
    memcpy(before, due[0], bytes);
    portable(&factors, test->count, due[0], due[1], has_first ? due[2] : NULL, due[3]);
    instance(&factors, test->count, at[0], at[1], has_first ? at[2] : NULL, at[3]);
    if (memcmp(due[0], before, bytes) != 0)
        fail_case(test, "gradients have changed");
    for (int i = 0; i < ARRAYS; i++) {
        if (memcmp(at[i], due[i], bytes) != 0)
            fail_case(test, "an array differs");
        if (!guarded_intact(areas[i], at[i], bytes))
            fail_case(test, "bytes beside an array were written");
    }
}

static void compare_squares(const struct test_case *test, kolo_squares_fn *portable, kolo_squares_fn *instance,
                            uint64_t *state) {
    double values[COUNT_MAX], due[KOLO_SQUARE_LANES], lanes[KOLO_SQUARE_LANES];
    const size_t bytes = test->count * dtype_bytes(test->dtype);
    fill(test->dtype, test->style, values, test->count, state);
    for (int i = 0; i < KOLO_SQUARE_LANES; i++)
        due[i] = lanes[i] = i / 3.0;
    unsigned char *at = guarded_place(areas[0], bytes, state);
    memcpy(at, values, bytes);
    portable(due, values, test->count);
    instance(lanes, at, test->count);
    for (int i = 0; i < KOLO_SQUARE_LANES; i++) /* which NaN it is does not matter: nobody stores it */
        if (memcmp(&due[i], &lanes[i], sizeof *due) != 0 && (due[i] == due[i] || lanes[i] == lanes[i]))
            fail_case(test, "a sum differs");
}

static void compare_kernels(struct test_case *test, const kolo_steps *instance, int type, uint64_t *state) {
    const kolo_steps *portable = &kolo_steps_portable;
    test->kernel = "sgd";
    compare_step(test, portable->sgd[type], instance->sgd[type], true, state);
    test->kernel = "sgd without momentum";
    compare_step(test, portable->sgd[type], instance->sgd[type], false, state);
    test->kernel = "adam";
    compare_step(test, portable->adam[type], instance->adam[type], true, state);
    test->kernel = "adagrad";
    compare_step(test, portable->adagrad[type], instance->adagrad[type], true, state);
    test->kernel = "squares";
    compare_squares(test, portable->squares[type], instance->squares[type], state);
}

static void test_instances_agree(void **unused) {
    static const kolo_dtype dtypes[KOLO_STEPS_TYPES] = {[KOLO_STEPS_F32] = KOLO_F32, [KOLO_STEPS_F64] = KOLO_F64};
    const uint32_t features = kolo_cpu_features();
    uint64_t state = arguments.seed, cases = 0;
    const kolo_steps *before = &kolo_steps_portable;
    const kolo_reducer *reducer;
    (void)unused;
    for (uint32_t index = 1; (reducer = kolo_reducer_at(features, index)); before = reducer->steps, index++)
        for (int type = 0; type < KOLO_STEPS_TYPES && reducer->steps != before; type++)
            for (size_t count = 0; count <= COUNT_MAX; count += count < 70 ? 1 : 23)
                for (int style = 0; style < FILL_STYLES; style++)
                    for (unsigned variant = 0; variant < VARIANTS; variant++) {
                        struct test_case test = {reducer->name, NULL, dtypes[type], count, (fill_style)style, variant};
                        if (cases++ % arguments.thin == 0)
                            compare_kernels(&test, reducer->steps, type, &state);
                    }
}

/* One element, by hand: the formulas in f64, where all numbers are exact. */
static void test_formulas(void **unused) {
    const struct kolo_step_factors factors = {.scale = 2,
                                              .decay = 0.5,
                                              .rate = -0.5,
                                              .momentum = 0.25,
                                              .kept = 0.5,
                                              .undamped = 0.75,
                                              .shrink = 0.5,
                                              .beta1_rest = 0.25,
                                              .beta2 = 0.75,
                                              .beta2_rest = 0.25,
                                              .bias2_root = 0.5,
                                              .epsilon = 1,
                                              .nesterov = true,
                                              .has_momentum = true};
    double g = 1, p = 4, b = 8; /* g = 2 + 2 = 4; b = 4 + 3 = 7; g = 4 + 7/4; p = 4 - 2.875 */
    (void)unused;
    kolo_steps_portable.sgd[KOLO_STEPS_F64](&factors, 1, &g, &p, &b, NULL);
    assert_true(b == 7 && p == 1.125);
    double m = 0, v = 0; /* g = 2 + 2 = 4; p = 2; m = 1; v = 4; p = 2 - 0.5 / (2 / 0.5 + 1) */
    p = 4;
    kolo_steps_portable.adam[KOLO_STEPS_F64](&factors, 1, &g, &p, &m, &v);
    assert_true(m == 1 && v == 4 && p == 2 - 0.5 / 5);
    double h = 9; /* g = 2 + 2 = 4; h = 9 + 16; p = 4 - 0.5 * 4 / (5 + 1) */
    p = 4;
    kolo_steps_portable.adagrad[KOLO_STEPS_F64](&factors, 1, &g, &p, &h, NULL);
    assert_true(h == 25 && p == 4 - 2 / 6.0);
    assert_true(kolo_steps_power(0.5, 10) == 0x1p-10 && kolo_steps_power(3, 5) == 243 && kolo_steps_power(7, 0) == 1);
}

int main(int argc, char **argv) {
    arguments = test_arguments_read(argc, argv);
    for (int i = 0; i < ARRAYS; i++)
        areas[i] = guarded_create(COUNT_MAX * sizeof(double));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_formulas),
        cmocka_unit_test(test_instances_agree),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    for (int i = 0; i < ARRAYS; i++)
        guarded_destroy(areas[i]);
    return failed;
}
