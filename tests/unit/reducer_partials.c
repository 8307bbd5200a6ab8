/* Folding in groups gives the bits of one fold over all ranks, in every instance: groups of a power of two of ranks in
 * their order, the last of which may be smaller, and groups of such groups. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "cpu/features.h"
#include "reducer_support.h"

enum {
    N_MAX = 40,
    COUNT_SHORT = 37,  /* more than a vector of any dtype and a rest, or less than one */
    COUNT_LONG = 1037, /* longer than any piece that a kernel works in */
    ACC_BYTES_MAX = 8
};

static test_arguments arguments;
static const kolo_reducer *instance;
static unsigned char inputs[N_MAX][COUNT_LONG * ACC_BYTES_MAX];
static unsigned char partials[2][N_MAX][COUNT_LONG * ACC_BYTES_MAX];
static unsigned char expected[COUNT_LONG * ACC_BYTES_MAX], found[COUNT_LONG * ACC_BYTES_MAX];

typedef struct test_case {
    kolo_dtype dtype;
    kolo_op op;
    uint32_t n;
    uint32_t group; /* ranks of a group */
    uint32_t outer; /* groups of a group of groups; 1: there are none */
    size_t count;
} test_case;

static uint32_t groups_of(uint32_t n, uint32_t group) {
    return (n + group - 1) / group;
}

static uint32_t group_size(uint32_t n, uint32_t group, uint32_t index) {
    return n - index * group < group ? n - index * group : group;
}

static void check(const test_case *test) {
    const bool same = memcmp(found, expected, test->count * dtype_bytes(test->dtype)) == 0;
    for (size_t i = 0; !same && i < test->count; i++) {
        uint64_t is = bits_at(test->dtype, found, i), due = bits_at(test->dtype, expected, i);
        if (is != due)
            fail_msg("%s %s %s n=%u in groups of %u, %u of these in one, count=%zu: element %zu is %" PRIx64
                     ", should be %" PRIx64 "; --seed %" PRIu64,
                     instance->name, dtype_name(test->dtype), op_name(test->op), test->n, test->group, test->outer,
                     test->count, i, is, due, arguments.seed);
    }
}

/* What each group of n sources folds to, by `fold`, in rows of `to`, whose addresses replace the sources. */
static uint32_t fold_groups(kolo_fold_partial_fn *fold, unsigned char (*to)[COUNT_LONG * ACC_BYTES_MAX],
                            const void **sources, uint32_t n, uint32_t group, size_t count) {
    const uint32_t groups = groups_of(n, group);
    for (uint32_t g = 0; g < groups; g++)
        fold(to[g], sources + g * group, group_size(n, group, g), count);
    for (uint32_t g = 0; g < groups; g++)
        sources[g] = to[g];
    return groups;
}

static void run_case(const test_case *test) {
    static uint64_t cases;
    if (cases++ % arguments.thin != 0)
        return;
    const kolo_kernel *kernel = &instance->kernels[test->dtype][test->op];
    const void *sources[N_MAX];
    for (uint32_t i = 0; i < test->n; i++)
        sources[i] = inputs[i];
    uint32_t n = fold_groups(kernel->fold_partial, partials[0], sources, test->n, test->group, test->count);
    if (test->outer > 1)
        n = fold_groups(kernel->fold_partials, partials[1], sources, n, test->outer, test->count);
    kernel->finish(found, sources, n, test->count, test->n);
    check(test);
}

static void run_cases(kolo_dtype dtype, kolo_op op, uint32_t n, size_t count) {
    const void *sources[N_MAX];
    for (uint32_t i = 0; i < n; i++)
        sources[i] = inputs[i];
    instance->kernels[dtype][op].fold(expected, sources, n, count, n);
    const uint32_t group_max = op == KOLO_SUM_EXACT ? 1 : 16, outer_max = op == KOLO_SUM_EXACT ? 1 : 4;
    for (uint32_t group = 1; group <= group_max; group *= 2)
        for (uint32_t outer = 1; outer <= outer_max; outer *= 2)
            run_case(&(test_case){dtype, op, n, group, outer, count});
}

static void sweep(kolo_dtype dtype, kolo_op op) {
    for (uint32_t n = 2; n <= N_MAX; n++) {
        const size_t count = n % 8 ? COUNT_SHORT : COUNT_LONG;
        uint64_t random = arguments.seed ^ (uint64_t)dtype << 16 ^ (uint64_t)op << 8 ^ n;
        fill_style style = (fill_style)random_below(&random, FILL_STYLES);
        for (uint32_t i = 0; i < n; i++)
            fill(dtype, style, inputs[i], count, &random);
        for (uint32_t index = 0; (instance = instance_next(&index, dtype, op));)
            run_cases(dtype, op, n, count);
    }
}

static void test_groups(void **state) {
    (void)state;
    for (int dtype = 0; dtype < KOLO_DTYPES; dtype++) {
        for (int op = 0; op < KOLO_OPS; op++) {
            if (op_fits((kolo_op)op, (kolo_dtype)dtype))
                sweep((kolo_dtype)dtype, (kolo_op)op);
        }
    }
}

/* Groups of three are not aligned with the tree, and sums of floats show it: were the test above blind to the order,
 * these would agree too. */
static void test_groups_that_do_not_fit(void **state) {
    (void)state;
    const uint32_t n = 12, group = 3;
    uint32_t differing = 0;
    uint64_t random = arguments.seed;
    instance = kolo_reducer_select(kolo_cpu_features());
    const kolo_kernel *kernel = &instance->kernels[KOLO_F32][KOLO_SUM];
    const void *sources[N_MAX];
    for (uint32_t i = 0; i < n; i++) {
        fill(KOLO_F32, FILL_NUMBERS, inputs[i], COUNT_LONG, &random);
        sources[i] = inputs[i];
    }
    kernel->fold(expected, sources, n, COUNT_LONG, n);
    uint32_t groups = fold_groups(kernel->fold_partial, partials[0], sources, n, group, COUNT_LONG);
    kernel->finish(found, sources, groups, COUNT_LONG, n);
    for (size_t i = 0; i < COUNT_LONG; i++)
        differing += bits_at(KOLO_F32, found, i) != bits_at(KOLO_F32, expected, i);
    if (differing < COUNT_LONG / 10)
        fail_msg("only %" PRIu32 " of %d sums depend on the order; --seed %" PRIu64, differing, COUNT_LONG,
                 arguments.seed);
}

int main(int argc, char **argv) {
    arguments = test_arguments_read(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_groups),
        cmocka_unit_test(test_groups_that_do_not_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
