/* The kernels of own operations: every input once, in order, for 1 to 1024 of them, whichever the result replaces, and
 * nothing but results where those go. And their numbers, of which each names one operation for good. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "reduce/own_ops.h"

enum { COUNT_MAX = 900, SOURCES_MAX = KOLO_RANKS_MAX };

/* A run of numbers. Only one that follows another can be joined to it. */
struct run {
    uint32_t first, end, element;
};

static int own_context;
static const struct run *destinations[2]; /* of the kernel under way */

static void join(const void *in, void *inout, size_t count, void *context) {
    const struct run *left = in;
    struct run *result = inout;
    assert_true(context == &own_context);
    for (int i = 0; i < 2; i++) /* other ranks may look there */
        assert_true(result + count <= destinations[i] || result >= destinations[i] + COUNT_MAX);
    for (size_t i = 0; i < count; i++) {
        assert_true(left[i].end == result[i].first && left[i].element == result[i].element);
        result[i].first = left[i].first;
    }
}

static struct run (*inputs)[COUNT_MAX];
static const void *sources[SOURCES_MAX];
static kolo_op op;

/* The kernel's next results go to `one` and `other`. */
static void fill(uint32_t n, const struct run *one, const struct run *other) {
    destinations[0] = one;
    destinations[1] = other;
    for (uint32_t i = 0; i < n; i++) {
        sources[i] = inputs[i];
        for (uint32_t element = 0; element < COUNT_MAX; element++)
            inputs[i][element] = (struct run){i, i + 1, element};
    }
}

/* `count` elements of all of them, and nothing behind those. */
static void check(const struct run *result, uint32_t n, size_t count) {
    for (size_t i = 0; i < count; i++)
        assert_true(result[i].first == 0 && result[i].end == n && result[i].element == i);
    assert_true(!(count < COUNT_MAX && n > 1 && result[count].first == 0 && result[count].end == n));
}

static void test_fold(void **state) {
    static const uint32_t several[] = {1, 2, 3, 4, 5, 7, 8, 13, 33, 1024};
    static const size_t counts[] = {0, 1, 5, COUNT_MAX - 1};
    static struct run apart[COUNT_MAX];
    const kolo_kernel *kernel = kolo_own_op_kernel(op);
    (void)state;
    for (uint32_t i = 0; i < 10 * 4; i++) {
        const uint32_t n = several[i / 4];
        for (uint32_t replaced = 0; replaced <= n; replaced += n > 40 ? 341 : 1) {
            struct run *result = replaced < n ? inputs[replaced] : apart;
            fill(n, result, result);
            memset(apart, 0xff, sizeof apart);
            kernel->fold(result, sources, n, counts[i % 4], n);
            check(result, n, counts[i % 4]);
        }
    }
}

static void test_others(void **state) {
    const kolo_kernel *kernel = kolo_own_op_kernel(op);
    (void)state;
    for (int replaced = 0; replaced < 2; replaced++) {
        fill(3, inputs[0], inputs[1]);
        kernel->fold_to_both(inputs[replaced], inputs[!replaced], sources, COUNT_MAX, 2);
        check(inputs[0], 2, COUNT_MAX);
        check(inputs[1], 2, COUNT_MAX);
        fill(3, inputs[replaced], inputs[replaced]);
        kernel->chain(inputs[replaced], inputs[0], inputs[1], COUNT_MAX);
        check(inputs[replaced], 2, COUNT_MAX);
        fill(3, inputs[2], inputs[2]);
        kernel->chain_end(inputs[2], inputs[0], inputs[1], COUNT_MAX, 2);
        check(inputs[2], 2, COUNT_MAX);
        fill(3, inputs[replaced], inputs[replaced]);
        kernel->fold_partial(inputs[replaced], sources, 3, COUNT_MAX);
        check(inputs[replaced], 3, COUNT_MAX);
        fill(3, inputs[replaced], inputs[replaced]);
        kernel->fold_partials(inputs[replaced], sources, 3, COUNT_MAX);
        check(inputs[replaced], 3, COUNT_MAX);
        fill(3, inputs[replaced], inputs[replaced]);
        kernel->finish(inputs[replaced], sources, 3, COUNT_MAX, 3);
        check(inputs[replaced], 3, COUNT_MAX);
    }
}

static void test_table(void **state) {
    (void)state;
    assert_true(!kolo_own_op_kernel(KOLO_SUM) && !kolo_own_op_kernel((kolo_op)(KOLO_OPS_OWN + 63)));
    const kolo_kernel *kernel = kolo_own_op_kernel(op);
    assert_true(kernel->is_own && kernel->keeps_order);
    assert_true(kernel->element_bytes == sizeof(struct run) && kernel->acc_bytes == sizeof(struct run));
}

/* Takes one place until no number is left for it. A number of an operation that is gone names no other one. */
static void test_numbers(void **state) {
    kolo_op kept[KOLO_OPS_OWN_MAX], stale = KOLO_SUM, other = KOLO_SUM;
    uint32_t places = 0, made = 1, repeated = 0;
    (void)state;
    while (places < KOLO_OPS_OWN_MAX - 2) /* `op` has one, too */
        assert_int_equal(0, kolo_own_op_add(&kept[places++], join, &own_context, 8, false));
    assert_int_equal(0, kolo_own_op_add(&stale, join, &own_context, 8, false));
    assert_int_equal(KOLO_ERR_UNSUPPORTED, kolo_own_op_add(&other, join, &own_context, 8, false));
    assert_non_null(strstr(kolo_error_message(), "64 operations"));
    assert_true(kolo_own_op_remove(stale));
    for (; made <= (1 << 24) && kolo_own_op_add(&other, join, &own_context, 8, false) == 0; made++) {
        repeated += kolo_own_op_kernel(stale) != NULL;
        assert_true(kolo_own_op_remove(other));
    }
    assert_int_equal(0, repeated);
    assert_int_equal(1 << 24, made);
    assert_non_null(strstr(kolo_error_message(), "no number is left"));
    assert_true(kolo_own_op_remove(kept[0]));
    assert_int_equal(0, kolo_own_op_add(&kept[0], join, &own_context, 8, false)); /* at another place */
    while (places > 0)
        assert_true(kolo_own_op_remove(kept[--places]));
}

int main(void) {
    inputs = malloc(SOURCES_MAX * sizeof *inputs);
    if (!inputs || kolo_own_op_add(&op, join, &own_context, sizeof(struct run), false) < 0)
        return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fold),
        cmocka_unit_test(test_others),
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_numbers),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    free(inputs);
    return failed;
}
