/* The kernels of compression: every instance gives the bits of the portable one and touches nothing but its buffers;
 * the portable one does what training_kernels.h says; and the k largest elements are those that sorting finds. */
#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cpu/features.h"
#include "reduce/float16.h"
#include "reducer_support.h"
#include "training/compress/compressed.h"
#include "training/kernels/training_kernels.h"

enum { COUNT_MAX = 1100, SWEEP = 140, TOPK_MAX = 150000 };

static test_arguments arguments;
static guarded values_area, residual_area, result_area;

/* One call, in words of the failure messages. */
struct test_case {
    const char *instance, *kernel;
    size_t count;
    fill_style style;
    bool feedback;
};

static void fail_case(const struct test_case *test, const char *what) {
    fail_msg("%s %s count=%zu style=%d %s: %s; --seed %" PRIu64, test->instance, test->kernel, test->count, test->style,
             test->feedback ? "with residual" : "without residual", what, arguments.seed);
}

/* Compares `bytes` bytes at a guarded place with what is due there, and looks around it. */
static void check(const struct test_case *test, guarded area, const void *place, const void *due, size_t bytes,
                  const char *what) {
    if (memcmp(place, due, bytes) != 0)
        fail_case(test, what);
    if (!guarded_intact(area, place, bytes))
        fail_case(test, "bytes beside a buffer were written");
}

/* What a case begins with, and what the portable instance makes of it. */
struct expectation {
    float values[COUNT_MAX], residual[COUNT_MAX], left[COUNT_MAX];
    uint16_t halves[COUNT_MAX];
    uint64_t words[KOLO_SIGNS_BLOCK / KOLO_SIGNS_WORD];
    float expanded[COUNT_MAX];
    uint32_t indices[COUNT_MAX];
};

static struct expectation due;

static void run_halves(struct test_case *test, const char *kernel, kolo_halve_fn *portable, kolo_halve_fn *instance,
                       uint64_t *state) {
    const size_t bytes = test->count * sizeof(float);
    test->kernel = kernel;
    memcpy(due.left, due.residual, sizeof due.left);
    portable(due.halves, due.values, test->feedback ? due.left : NULL, test->count);
    unsigned char *values = guarded_place(values_area, bytes, state);
    unsigned char *residual = guarded_place(residual_area, bytes, state);
    unsigned char *halves = guarded_place(result_area, bytes / 2, state);
    memcpy(values, due.values, bytes);
    memcpy(residual, due.residual, bytes);
    instance(halves, values, test->feedback ? residual : NULL, test->count);
    check(test, result_area, halves, due.halves, bytes / 2, "the halves differ");
    check(test, values_area, values, due.values, bytes, "the values were written");
    check(test, residual_area, residual, due.left, bytes, "the residual differs");
}

static void run_signs(struct test_case *test, const kolo_training_kernels *instance, uint64_t *state) {
    const size_t bytes = test->count * sizeof(float), words = (test->count + 63) / 64 * sizeof *due.words;
    test->kernel = "to_signs";
    memcpy(due.left, due.residual, sizeof due.left);
    const float mean =
        kolo_training_kernels_portable.to_signs(due.words, due.values, test->feedback ? due.left : NULL, test->count);
    unsigned char *values = guarded_place(values_area, bytes, state);
    unsigned char *residual = guarded_place(residual_area, bytes, state);
    unsigned char *signs = guarded_place(result_area, words, state);
    memcpy(values, due.values, bytes);
    memcpy(residual, due.residual, bytes);
    const float found = instance->to_signs(signs, values, test->feedback ? residual : NULL, test->count);
    if (f32_bits(found) != f32_bits(mean))
        fail_case(test, "the mean differs");
    check(test, result_area, signs, due.words, words, "the signs differ");
    check(test, values_area, values, due.values, bytes, "the values were written");
    check(test, residual_area, residual, due.left, bytes, "the residual differs");

    test->kernel = "from_signs";
    kolo_training_kernels_portable.from_signs(due.expanded, due.words, mean, test->count);
    unsigned char *expanded = guarded_place(values_area, bytes, state);
    instance->from_signs(expanded, signs, mean, test->count);
    check(test, values_area, expanded, due.expanded, bytes, "the values differ");
}

static void run_collect(struct test_case *test, const kolo_training_kernels *instance, uint64_t *state) {
    const size_t bytes = test->count * sizeof(float), room = random_below(state, test->count + 2);
    const uint32_t least = random_below(state, 4) == 0 || test->count == 0
                               ? (uint32_t)random_below(state, INT32_MAX)
                               : f32_bits(due.values[random_below(state, test->count)]) & INT32_MAX;
    test->kernel = "collect";
    const size_t found = kolo_training_kernels_portable.collect(due.indices, room, due.values, test->count, least);
    const size_t stored = found < room ? found : room;
    unsigned char *values = guarded_place(values_area, bytes, state);
    uint32_t *indices = (uint32_t *)result_area.begin; /* which, alone, are aligned */
    memcpy(values, due.values, bytes);
    memset(indices, 0xa5, (room + 1) * sizeof *indices);
    if (instance->collect(indices, room, values, test->count, least) != found)
        fail_case(test, "another number was found");
    if (memcmp(indices, due.indices, stored * sizeof *indices) != 0 || indices[stored] != 0xa5a5a5a5)
        fail_case(test, "the indices differ");
}

static void run_case(size_t count, fill_style style, uint64_t *state) {
    fill(KOLO_F32, style, due.values, count, state);
    fill(KOLO_F32, random_below(state, 4) ? FILL_NUMBERS : style, due.residual, count, state);
    const kolo_reducer *reducer;
    for (uint32_t i = 0; (reducer = kolo_reducer_at(kolo_cpu_features(), i)); i++) {
        const kolo_training_kernels *portable = &kolo_training_kernels_portable,
                                    *instance = kolo_training_kernels_of(reducer);
        for (int feedback = 0; feedback < 2; feedback++) {
            struct test_case test = {reducer->name, NULL, count, style, feedback};
            run_halves(&test, "to_bf16", portable->to_bf16, instance->to_bf16, state);
            run_halves(&test, "to_f16", portable->to_f16, instance->to_f16, state);
            if (count > 0 && count <= KOLO_SIGNS_BLOCK)
                run_signs(&test, instance, state);
            run_collect(&test, instance, state);
        }
    }
}

static void test_instances_agree(void **context) {
    static const size_t longer[] = {255, 256, 257, 448, 500, 511, 512, 513, 1023, 1024, COUNT_MAX};
    uint64_t state = arguments.seed, cases = 0;
    (void)context;
    for (int style = 0; style < FILL_STYLES; style++) {
        for (size_t count = 0; count <= SWEEP; count++)
            if (cases++ % arguments.thin == 0)
                run_case(count, (fill_style)style, &state);
        for (size_t i = 0; i < sizeof longer / sizeof *longer; i++)
            if (cases++ % arguments.thin == 0)
                run_case(longer[i], (fill_style)style, &state);
    }
}

/* What is sent and what is left make up what was given; nothing that is left is infinite or NaN. */
static void test_halves(void **context) {
    const float values[] = {1.0f, 1.00390625f, 3.0e38f, 70000.0f, INFINITY, -INFINITY, NAN, -0.0f, 0x1p-30f, 65519.0f};
    const uint16_t bf16[] = {0x3f80, 0x3f80, 0x7f62, 0x4789, 0x7f80, 0xff80, 0x7fc0, 0x8000, 0x3080, 0x4780};
    const uint16_t f16[] = {0x3c00, 0x3c04, 0x7c00, 0x7c00, 0x7c00, 0xfc00, 0x7e00, 0x8000, 0x0000, 0x7bff};
    const float bf16_left[] = {0, 0.00390625f, NAN, -144.0f, 0, 0, 0, 0, 0, -17.0f};
    const float f16_left[] = {0, 0, 0, 0, 0, 0, 0, 0, 0x1p-30f, 15.0f};
    enum { COUNT = sizeof values / sizeof *values };
    uint16_t halves[COUNT];
    float residual[COUNT] = {0};
    (void)context;
    kolo_training_kernels_portable.to_bf16(halves, values, NULL, COUNT);
    assert_memory_equal(halves, bf16, sizeof bf16);
    memset(halves, 0, sizeof halves);
    float without_sign[COUNT];
    memcpy(without_sign, values, sizeof values);
    kolo_training_kernels_portable.to_bf16(halves, without_sign, residual, COUNT);
    for (size_t i = 0; i < COUNT; i++) { /* -0 + 0 is +0 */
        assert_int_equal(halves[i], i == 7 ? 0 : bf16[i]);
        if (i == 2)
            assert_true(residual[i] == values[i] - f32_from_BF16(bf16[i]));
        else
            assert_true(residual[i] == bf16_left[i]);
    }
    memset(residual, 0, sizeof residual);
    kolo_training_kernels_portable.to_f16(halves, values, residual, COUNT);
    for (size_t i = 0; i < COUNT; i++) {
        assert_int_equal(halves[i], i == 7 ? 0 : f16[i]);
        assert_true(residual[i] == f16_left[i]);
    }
}

static void test_signs(void **context) {
    const float values[] = {1.0f, -3.0f, 0.0f, -0.0f, 6.0f};
    float residual[5] = {0}, received[5];
    uint64_t word = ~UINT64_C(0);
    (void)context;
    assert_true(kolo_training_kernels_portable.to_signs(&word, values, NULL, 5) == 2.0f);
    assert_int_equal(word, 1 << 1 | 1 << 3);
    assert_true(kolo_training_kernels_portable.to_signs(&word, values, residual, 5) == 2.0f);
    assert_int_equal(word, 1 << 1); /* -0 + 0 is +0 */
    const float left[] = {-1.0f, -1.0f, -2.0f, -2.0f, 4.0f}, due_there[] = {2.0f, -2.0f, 2.0f, 2.0f, 2.0f};
    assert_memory_equal(residual, left, sizeof left);
    kolo_training_kernels_portable.from_signs(received, &word, 2.0f, 5);
    assert_memory_equal(received, due_there, sizeof due_there);

    /* One NaN or infinity shows in the whole block, and in no residual. */
    const float strange[] = {NAN, INFINITY};
    for (int i = 0; i < 2; i++) {
        const float block[] = {1.0f, strange[i], -1.0f};
        const float mean = kolo_training_kernels_portable.to_signs(&word, block, residual, 3);
        assert_int_equal(f32_bits(mean), i == 0 ? 0x7fc00000 : 0x7f800000);
        for (int element = 0; element < 3; element++)
            assert_true(residual[element] == 0);
    }
}

/* Elements by magnitude, NaNs and then the largest first, and of equals the first. */
static const float *sorted_values;

static int by_magnitude(const void *a, const void *b) {
    const uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;
    const uint32_t x = isnan(sorted_values[i]) ? INT32_MAX : f32_bits(sorted_values[i]) & INT32_MAX;
    const uint32_t y = isnan(sorted_values[j]) ? INT32_MAX : f32_bits(sorted_values[j]) & INT32_MAX;
    return x != y ? (x < y ? 1 : -1) : i < j ? -1 : i > j;
}

static int ascending(const void *a, const void *b) {
    const uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;
    return i < j ? -1 : i > j;
}

static void check_choice(const float *values, size_t count, size_t k, const char *what) {
    uint32_t *order = malloc(count * sizeof *order), *chosen = malloc((k + 1) * sizeof *chosen);
    uint32_t *work = malloc(kolo_topk_room(count, k) * sizeof *work + 1);
    assert_true(order && chosen && work);
    for (size_t i = 0; i < count; i++)
        order[i] = (uint32_t)i;
    sorted_values = values;
    qsort(order, count, sizeof *order, by_magnitude);
    qsort(order, k, sizeof *order, ascending);
    const kolo_reducer *reducer;
    for (uint32_t i = 0; (reducer = kolo_reducer_at(kolo_cpu_features(), i)); i++) {
        chosen[k] = 0xa5a5a5a5;
        kolo_topk_choose(kolo_training_kernels_of(reducer), chosen, k, values, count, work);
        if (memcmp(chosen, order, k * sizeof *chosen) != 0 || chosen[k] != 0xa5a5a5a5)
            fail_msg("%s: %zu of %zu, %s: not the largest; --seed %" PRIu64, reducer->name, k, count, what,
                     arguments.seed);
    }
    free(order);
    free(chosen);
    free(work);
}

/* Also where the sample says nothing of the rest: it takes elements at a stride. */
static void test_largest_are_chosen(void **context) {
    static float values[TOPK_MAX];
    static const size_t counts[] = {1, 2, 3, 50, 1000, 32767, 32768, 65536, 100003, TOPK_MAX};
    const size_t sizes = sizeof counts / sizeof *counts / (arguments.thin > 1 ? 2 : 1);
    uint64_t state = arguments.seed + 1;
    (void)context;
    for (size_t size = 0; size < sizes; size++) {
        const size_t count = counts[size], some = 1 + random_below(&state, count);
        for (int style = 0; style < FILL_STYLES; style++) {
            fill(KOLO_F32, (fill_style)style, values, count, &state);
            check_choice(values, count, 1, "random");
            check_choice(values, count, (count + 99) / 100, "random");
            check_choice(values, count, some, "random");
            check_choice(values, count, count, "random");
        }
        for (size_t i = 0; i < count; i++)
            values[i] = i % 2 ? -1.0f : 1.0f;
        check_choice(values, count, (count + 9) / 10, "all equal");
        memset(values, 0, sizeof values);
        for (size_t i = 0; i < count; i++)
            if (count >= 4096 && i % (count / 4096) == 0)
                values[i] = 1.0f + (float)i;
        check_choice(values, count, (count + 3) / 4, "large only where the sample is taken");
        for (size_t i = 0; i < count; i++)
            values[i] = values[i] != 0 ? 0 : 1.0f + (float)i;
        check_choice(values, count, (count + 999) / 1000, "large only beside the sample");
    }
}

int main(int argc, char **argv) {
    arguments = test_arguments_read(argc, argv);
    values_area = guarded_create(COUNT_MAX * sizeof(float));
    residual_area = guarded_create(COUNT_MAX * sizeof(float));
    result_area = guarded_create((COUNT_MAX + 2) * sizeof(float));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_halves),
        cmocka_unit_test(test_signs),
        cmocka_unit_test(test_largest_are_chosen),
        cmocka_unit_test(test_instances_agree),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    guarded_destroy(values_area);
    guarded_destroy(residual_area);
    guarded_destroy(result_area);
    return failed;
}
