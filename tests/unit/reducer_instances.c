/* Every instance of the kernels gives the bits of the portable one and touches nothing but its buffers: over dtypes,
 * ops, numbers of sources, lengths, alignments and aliasing, beside inaccessible pages. */
#include <inttypes.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "cpu/features.h"
#include "reducer_support.h"

enum {
    COUNT_MAX = 1100,  /* longer than any piece that a kernel works in */
    SWEEP_BYTES = 330, /* every length up to this is tried: a block of four vectors, one more, and a rest */
    SAMPLES = 6,       /* lengths tried beyond that, for each number of sources */
    PARTIALS_MAX = 17, /* sources of a fold in parts; more are its kernels' loops once more, and take long */
    SPREAD = COUNT_MAX * 8,
    POOL = 8192, /* elements that inputs are taken from */
    POOL_BYTES = (POOL + COUNT_MAX) * 8
};

static test_arguments arguments;
static const kolo_reducer *portable;
static const kolo_reducer *instance; /* the one being tested; NULL: the portable one makes what is expected of all */

static unsigned char *inputs[KOLO_RANKS_MAX]; /* what the sources hold before the call */
static unsigned char pools[KOLO_DTYPES][FILL_STYLES][POOL_BYTES];
static guarded source_areas[KOLO_RANKS_MAX];
static guarded result_area, second_area;
static unsigned char expected[SPREAD], expected_acc[SPREAD];

/* One call, in words of the failure messages. */
typedef struct test_case {
    const char *kernel;
    kolo_dtype dtype;
    kolo_op op;
    uint32_t n;
    size_t count;
    uint32_t ranks;
    fill_style style;
    int alias; /* index of the source that the destination is; -1: none */
} test_case;

static void describe(const test_case *test, char *text, size_t text_bytes) {
    snprintf(text, text_bytes, "%s %s %s %s n=%u count=%zu ranks=%u style=%d dst=source %d --seed %" PRIu64,
             instance ? instance->name : "reference", test->kernel, dtype_name(test->dtype), op_name(test->op), test->n,
             test->count, test->ranks, test->style, test->alias, arguments.seed);
}

static void fail_case(const test_case *test, const char *what, const void *buffer) {
    char text[256];
    describe(test, text, sizeof text);
    fail_msg("%s: %s; the buffer's address modulo 64 is %u", text, what, (unsigned)((uintptr_t)buffer % 64));
}

/* A kernel that leaves its buffers meets an inaccessible page: says which it was. */
static const test_case *running;

static void report_fault(int signal_number, siginfo_t *info, void *context) {
    (void)context;
    char text[256] = "no kernel was running";
    if (running)
        describe(running, text, sizeof text);
    dprintf(STDERR_FILENO, "%s: signal %d at address %p, outside of its buffers\n", text, signal_number, info->si_addr);
    _exit(1);
}

/* Compares a destination with what is expected there and looks around it. */
static void check_result(const test_case *test, kolo_dtype dtype, guarded area, const unsigned char *result,
                         const unsigned char *wanted) {
    size_t bytes = test->count * dtype_bytes(dtype);
    const bool same = memcmp(result, wanted, bytes) == 0;
    for (size_t i = 0; !same && i < test->count; i++) {
        uint64_t found = bits_at(dtype, result, i), due = bits_at(dtype, wanted, i);
        if (found == due)
            continue;
        char what[96];
        snprintf(what, sizeof what, "element %zu is %" PRIx64 ", should be %" PRIx64, i, found, due);
        fail_case(test, what, result);
    }
    if (!guarded_intact(area, result, bytes))
        fail_case(test, "bytes beside the destination were written", result);
}

static void check_source(const test_case *test, guarded area, const unsigned char *place, const unsigned char *input,
                         size_t bytes) {
    if (memcmp(place, input, bytes) != 0 || !guarded_intact(area, place, bytes))
        fail_case(test, "a source was written", place);
}

/* New elements for the inputs of that type. Each input is a piece of them from a random place on: of one element and
 * another there are many more pairs than elements, and the time goes to the kernels. */
static void fill_pools(kolo_dtype dtype, uint64_t *state) {
    for (int style = 0; style < FILL_STYLES; style++)
        fill(dtype, (fill_style)style, pools[dtype][style], POOL + COUNT_MAX, state);
}

static void fill_input(const test_case *test, kolo_dtype dtype, uint32_t index, uint64_t *state) {
    const size_t element_bytes = dtype_bytes(dtype);
    memcpy(inputs[index], pools[dtype][test->style] + random_below(state, POOL) * element_bytes,
           test->count * element_bytes);
}

static unsigned char *place_input(kolo_dtype dtype, uint32_t index, size_t count, uint64_t *state) {
    size_t bytes = count * dtype_bytes(dtype);
    unsigned char *place = guarded_place(source_areas[index], bytes, state);
    memcpy(place, inputs[index], bytes);
    return place;
}

/* What the sources hold is the same for all instances, for each of which it is copied to other places. */
static void fill_inputs(const test_case *test, kolo_dtype dtype, const void **pristine, uint64_t *state) {
    for (uint32_t i = 0; i < test->n; i++) {
        fill_input(test, dtype, i, state);
        pristine[i] = inputs[i];
    }
}

static void place_inputs(const test_case *test, kolo_dtype dtype, const void **sources, uint64_t *state) {
    for (uint32_t i = 0; i < test->n; i++)
        sources[i] = place_input(dtype, i, test->count, state);
}

static void check_sources(const test_case *test, kolo_dtype dtype, const void *const *sources) {
    for (uint32_t i = 0; i < test->n; i++)
        if ((int)i != test->alias)
            check_source(test, source_areas[i], sources[i], inputs[i], test->count * dtype_bytes(dtype));
}

static void run_fold(const test_case *test, uint64_t *state) {
    const size_t bytes = test->count * dtype_bytes(test->dtype);
    const void *pristine[KOLO_RANKS_MAX], *sources[KOLO_RANKS_MAX];
    fill_inputs(test, test->dtype, pristine, state);
    portable->kernels[test->dtype][test->op].fold(expected, pristine, test->n, test->count, test->ranks);
    for (uint32_t index = 0; (instance = instance_next(&index, test->dtype, test->op));) {
        place_inputs(test, test->dtype, sources, state);
        guarded dst_area = test->alias < 0 ? result_area : source_areas[test->alias];
        unsigned char *dst =
            test->alias < 0 ? guarded_place(dst_area, bytes, state) : (unsigned char *)sources[test->alias];
        instance->kernels[test->dtype][test->op].fold(dst, sources, test->n, test->count, test->ranks);
        check_result(test, test->dtype, dst_area, dst, expected);
        check_sources(test, test->dtype, sources);
    }
}

static kolo_dtype acc_dtype(kolo_dtype dtype) {
    return dtype == KOLO_F16 || dtype == KOLO_BF16 ? KOLO_F32 : dtype;
}

/* fold_to_both, of two sources: each destination may be one of them. */
static void run_fold_to_both(test_case *test, uint64_t *state) {
    const size_t bytes = test->count * dtype_bytes(test->dtype);
    const void *pristine[2], *sources[2];
    test->kernel = "fold_to_both";
    test->alias = (int)random_below(state, 3) - 1;
    int second_alias = (int)random_below(state, 3) - 1;
    if (second_alias == test->alias)
        second_alias = -1;
    fill_inputs(test, test->dtype, pristine, state);
    portable->kernels[test->dtype][test->op].fold(expected, pristine, 2, test->count, test->ranks);
    for (uint32_t index = 0; (instance = instance_next(&index, test->dtype, test->op));) {
        place_inputs(test, test->dtype, sources, state);
        guarded areas[] = {test->alias < 0 ? result_area : source_areas[test->alias],
                           second_alias < 0 ? second_area : source_areas[second_alias]};
        unsigned char *dst =
            test->alias < 0 ? guarded_place(areas[0], bytes, state) : (unsigned char *)sources[test->alias];
        unsigned char *second =
            second_alias < 0 ? guarded_place(areas[1], bytes, state) : (unsigned char *)sources[second_alias];
        instance->kernels[test->dtype][test->op].fold_to_both(dst, second, sources, test->count, test->ranks);
        check_result(test, test->dtype, areas[0], dst, expected);
        check_result(test, test->dtype, areas[1], second, expected);
        for (int i = 0; i < 2; i++)
            if (i != test->alias && i != second_alias)
                check_source(test, source_areas[i], sources[i], inputs[i], bytes);
    }
}

/* widen, of source 1 */
static void run_widen(test_case *test, uint64_t *state) {
    const kolo_dtype acc = acc_dtype(test->dtype);
    const size_t bytes = test->count * dtype_bytes(test->dtype), acc_bytes = test->count * dtype_bytes(acc);
    test->kernel = "widen";
    fill_input(test, test->dtype, 1, state);
    portable->kernels[test->dtype][test->op].widen(expected_acc, inputs[1], test->count);
    for (uint32_t index = 0; (instance = instance_next(&index, test->dtype, test->op));) {
        unsigned char *source = place_input(test->dtype, 1, test->count, state);
        unsigned char *widened = guarded_place(result_area, acc_bytes, state);
        instance->kernels[test->dtype][test->op].widen(widened, source, test->count);
        check_result(test, acc, result_area, widened, expected_acc);
        check_source(test, source_areas[1], source, inputs[1], bytes);
    }
}

/* acc_in is source 0, and may be the destination. */
static void run_chain(test_case *test, uint64_t *state) {
    const kolo_dtype acc = acc_dtype(test->dtype);
    const size_t bytes = test->count * dtype_bytes(test->dtype), acc_bytes = test->count * dtype_bytes(acc);
    test->kernel = "chain";
    fill_input(test, acc, 0, state);
    fill_input(test, test->dtype, 1, state);
    portable->kernels[test->dtype][test->op].chain(expected_acc, inputs[0], inputs[1], test->count);
    for (uint32_t index = 0; (instance = instance_next(&index, test->dtype, test->op));) {
        unsigned char *acc_in = place_input(acc, 0, test->count, state);
        unsigned char *source = place_input(test->dtype, 1, test->count, state);
        guarded out_area = test->alias < 0 ? result_area : source_areas[0];
        unsigned char *acc_out = test->alias < 0 ? guarded_place(out_area, acc_bytes, state) : acc_in;
        instance->kernels[test->dtype][test->op].chain(acc_out, acc_in, source, test->count);
        check_result(test, acc, out_area, acc_out, expected_acc);
        if (acc_out != acc_in)
            check_source(test, source_areas[0], acc_in, inputs[0], acc_bytes);
        check_source(test, source_areas[1], source, inputs[1], bytes);
    }
}

/* acc_in is source 0, and the destination may be source 1 or, where it is of the same type, source 0. */
static void run_chain_end(test_case *test, uint64_t *state) {
    const kolo_dtype acc = acc_dtype(test->dtype);
    const size_t bytes = test->count * dtype_bytes(test->dtype), acc_bytes = test->count * dtype_bytes(acc);
    test->kernel = "chain_end";
    if (test->alias == 0 && acc != test->dtype)
        test->alias = 1;
    fill_input(test, acc, 0, state);
    fill_input(test, test->dtype, 1, state);
    portable->kernels[test->dtype][test->op].chain_end(expected, inputs[0], inputs[1], test->count, test->ranks);
    for (uint32_t index = 0; (instance = instance_next(&index, test->dtype, test->op));) {
        unsigned char *places[] = {place_input(acc, 0, test->count, state),
                                   place_input(test->dtype, 1, test->count, state)};
        guarded dst_area = test->alias < 0 ? result_area : source_areas[test->alias];
        unsigned char *dst = test->alias < 0 ? guarded_place(dst_area, bytes, state) : places[test->alias];
        instance->kernels[test->dtype][test->op].chain_end(dst, places[0], places[1], test->count, test->ranks);
        check_result(test, test->dtype, dst_area, dst, expected);
        if (test->alias != 0)
            check_source(test, source_areas[0], places[0], inputs[0], acc_bytes);
        if (test->alias != 1)
            check_source(test, source_areas[1], places[1], inputs[1], bytes);
    }
}

/* From elements to a partial result. */
static void run_fold_partial(test_case *test, uint64_t *state) {
    const kolo_dtype acc = acc_dtype(test->dtype);
    const void *pristine[KOLO_RANKS_MAX], *sources[KOLO_RANKS_MAX];
    test->kernel = "fold_partial";
    test->alias = -1;
    fill_inputs(test, test->dtype, pristine, state);
    portable->kernels[test->dtype][test->op].fold_partial(expected_acc, pristine, test->n, test->count);
    for (uint32_t index = 0; (instance = instance_next(&index, test->dtype, test->op));) {
        place_inputs(test, test->dtype, sources, state);
        unsigned char *acc_dst = guarded_place(result_area, test->count * dtype_bytes(acc), state);
        instance->kernels[test->dtype][test->op].fold_partial(acc_dst, sources, test->n, test->count);
        check_result(test, acc, result_area, acc_dst, expected_acc);
        check_sources(test, test->dtype, sources);
    }
}

/* finish and fold_partials, from partial results. */
static void run_partials(test_case *test, uint64_t *state) {
    const kolo_kernel *reference = &portable->kernels[test->dtype][test->op];
    const kolo_dtype acc = acc_dtype(test->dtype);
    const void *pristine[KOLO_RANKS_MAX], *sources[KOLO_RANKS_MAX];
    fill_inputs(test, acc, pristine, state);
    reference->finish(expected, pristine, test->n, test->count, test->ranks);
    if (reference->fold_partials)
        reference->fold_partials(expected_acc, pristine, test->n, test->count);
    for (uint32_t index = 0; (instance = instance_next(&index, test->dtype, test->op));) {
        const kolo_kernel *kernel = &instance->kernels[test->dtype][test->op];
        place_inputs(test, acc, sources, state);
        test->kernel = "finish";
        test->alias = -1;
        unsigned char *dst = guarded_place(result_area, test->count * dtype_bytes(test->dtype), state);
        kernel->finish(dst, sources, test->n, test->count, test->ranks);
        check_result(test, test->dtype, result_area, dst, expected);
        check_sources(test, acc, sources);
        if (!kernel->fold_partials)
            continue;

        test->kernel = "fold_partials";
        test->alias = (int)random_below(state, test->n);
        unsigned char *acc_dst = (unsigned char *)sources[test->alias];
        kernel->fold_partials(acc_dst, sources, test->n, test->count);
        check_result(test, acc, source_areas[test->alias], acc_dst, expected_acc);
        check_sources(test, acc, sources);
    }
}

/* All that is left to chance about a case follows from the seed and what else is known of it. */
static test_case make_case(kolo_dtype dtype, kolo_op op, uint32_t n, size_t count, uint64_t *state) {
    *state = arguments.seed;
    const uint64_t identity[] = {dtype, op, n, count};
    for (size_t i = 0; i < sizeof identity / sizeof *identity; i++)
        *state = random_next(state) ^ identity[i];
    return (test_case){
        .kernel = "fold",
        .dtype = dtype,
        .op = op,
        .n = n,
        .count = count,
        .ranks = random_below(state, 2) ? n : 1 + (uint32_t)random_below(state, KOLO_RANKS_MAX),
        .style = (fill_style)random_below(state, FILL_STYLES),
        .alias = random_below(state, 2)   ? -1
                 : random_below(state, 2) ? 0
                                          : (int)random_below(state, n),
    };
}

static void run_case(kolo_dtype dtype, kolo_op op, uint32_t n, size_t count) {
    static uint64_t cases;
    if (cases++ % arguments.thin != 0)
        return;
    uint64_t state;
    test_case test = make_case(dtype, op, n, count, &state);
    running = &test;
    run_fold(&test, &state);
    if (n == 2) {
        run_fold_to_both(&test, &state);
        run_widen(&test, &state);
    }
    if (n == 2 && op != KOLO_SUM_EXACT) {
        run_chain(&test, &state);
        run_chain_end(&test, &state);
    }
    if (n <= PARTIALS_MAX) {
        if (n == 1 || op != KOLO_SUM_EXACT)
            run_fold_partial(&test, &state);
        run_partials(&test, &state);
    }
    running = NULL;
}

/* Few sources: every short length. Many: a sample, for they take long. */
static void sweep_lengths(kolo_dtype dtype, kolo_op op, uint32_t n) {
    const size_t long_counts[] = {509, 512, 521, 1021, 1024, COUNT_MAX};
    size_t swept = SWEEP_BYTES / dtype_bytes(dtype);
    if (n <= 9) {
        for (size_t count = 0; count <= swept; count++)
            run_case(dtype, op, n, count);
        for (size_t i = 0; i < sizeof long_counts / sizeof *long_counts; i++)
            run_case(dtype, op, n, long_counts[i]);
        return;
    }
    uint64_t state = arguments.seed + n;
    for (int i = 0; i < SAMPLES; i++)
        run_case(dtype, op, n, random_below(&state, swept));
}

/* The portable instance is compared with itself too: that shows its aliasing and its bounds. */
static void test_instances_agree(void **state) {
    const uint32_t many[] = {10, 15, 16, 17, 31, 33, 64, 100, 1023, KOLO_RANKS_MAX};
    const struct sigaction on_fault = {.sa_sigaction = report_fault, .sa_flags = SA_SIGINFO};
    (void)state;
    assert_int_equal(sigaction(SIGSEGV, &on_fault, NULL), 0);
    for (int dtype = 0; dtype < KOLO_DTYPES; dtype++) {
        for (int op = 0; op < KOLO_OPS; op++) {
            if (!op_fits((kolo_op)op, (kolo_dtype)dtype))
                continue;
            uint64_t random = arguments.seed ^ (uint64_t)dtype << 8 ^ (uint64_t)op;
            fill_pools((kolo_dtype)dtype, &random);
            fill_pools(acc_dtype((kolo_dtype)dtype), &random);
            for (uint32_t n = 1; n <= 9; n++)
                sweep_lengths((kolo_dtype)dtype, (kolo_op)op, n);
            for (size_t i = 0; i < sizeof many / sizeof *many; i++)
                sweep_lengths((kolo_dtype)dtype, (kolo_op)op, many[i]);
        }
    }
}

/* A dtype has all of its kernels, or none of an op that it lacks, and the sizes that algorithms reckon with. */
static void test_tables_are_complete(void **state) {
    (void)state;
    for (uint32_t i = 0; (instance = kolo_reducer_at(kolo_cpu_features(), i)); i++) {
        printf("instance %s\n", instance->name);
        for (int dtype = 0; dtype < KOLO_DTYPES; dtype++) {
            for (int op = 0; op < KOLO_OPS; op++) {
                const kolo_kernel *kernel = &instance->kernels[dtype][op];
                const bool lacks = !op_fits((kolo_op)op, (kolo_dtype)dtype), is_whole = op == KOLO_SUM_EXACT;
                assert_int_equal(!kernel->fold, lacks);
                assert_int_equal(!kernel->fold_to_both, lacks);
                assert_int_equal(!kernel->chain, lacks || is_whole);
                assert_int_equal(!kernel->chain_end, lacks || is_whole);
                assert_int_equal(!kernel->fold_partial, lacks);
                assert_int_equal(!kernel->fold_partials, lacks || is_whole);
                assert_int_equal(kernel->is_whole, !lacks && is_whole);
                assert_int_equal(!kernel->finish, lacks);
                assert_non_null(kernel->widen);
                assert_int_equal(kernel->element_bytes, dtype_bytes((kolo_dtype)dtype));
                assert_int_equal(kernel->acc_bytes, dtype_bytes(acc_dtype((kolo_dtype)dtype)));
            }
        }
    }
}

int main(int argc, char **argv) {
    arguments = test_arguments_read(argc, argv);
    portable = kolo_reducer_select(0);
    for (int i = 0; i < KOLO_RANKS_MAX; i++) {
        inputs[i] = malloc(SPREAD);
        if (!inputs[i]) {
            fprintf(stderr, "malloc of %d bytes failed\n", SPREAD);
            return 1;
        }
        source_areas[i] = guarded_create(SPREAD);
    }
    result_area = guarded_create(SPREAD);
    second_area = guarded_create(SPREAD);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tables_are_complete),
        cmocka_unit_test(test_instances_agree),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    for (int i = 0; i < KOLO_RANKS_MAX; i++) {
        guarded_destroy(source_areas[i]);
        free(inputs[i]);
    }
    guarded_destroy(result_area);
    guarded_destroy(second_area);
    return failed;
}
