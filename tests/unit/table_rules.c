/* The rules of tables: against their formulas in double precision, and bit by bit against the kernels of optimizers,
 * called as kolo_optimizer does it. What is written is the new version; the old one stays. */
#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cpu/features.h"
#include "reduce/float16.h"
#include "reducer_support.h"
#include "table/rows/rule.h"

enum { COUNT_MAX = 2500, STEPS = 6, VERSION_BYTES = COUNT_MAX * 8, STATE_BYTES = 8 + 2 * COUNT_MAX * 8 };

static test_arguments arguments;
static const size_t counts[] = {1, 2, 7, 64, 1023, COUNT_MAX};

enum { COUNTS = sizeof counts / sizeof *counts };

/* Two versions of a piece, written in turn. */
struct versions {
    struct kolo_version of[2];
    unsigned current;
};

static struct versions versions_create(void) {
    struct versions made = {.current = 0};
    for (int i = 0; i < 2; i++) {
        made.of[i] = (struct kolo_version){calloc(1, VERSION_BYTES), calloc(1, STATE_BYTES)};
        assert_true(made.of[i].values && made.of[i].state);
    }
    return made;
}

static void versions_destroy(struct versions *versions) {
    for (int i = 0; i < 2; i++) {
        free(versions->of[i].values);
        free(versions->of[i].state);
    }
}

static const struct kolo_version *current(const struct versions *versions) {
    return &versions->of[versions->current];
}

/* Applies an update; the other version, which holds rubbish, becomes the current one. */
static void apply(const struct kolo_rule *rule, double rate, const struct kolo_piece *piece, const void *update,
                  struct versions *versions) {
    static uint8_t values[VERSION_BYTES], state[STATE_BYTES], same[VERSION_BYTES];
    const struct kolo_version *from = current(versions), *to = &versions->of[1 - versions->current];
    const size_t bytes = piece->count * rule->element_bytes, state_bytes = kolo_rule_state_bytes(rule, piece->count);
    memcpy(values, from->values, bytes);
    memcpy(state, from->state, state_bytes);
    memcpy(same, update, bytes);
    memset(to->values, 0xa5, VERSION_BYTES);
    memset(to->state, 0xa5, STATE_BYTES);
    kolo_rule_apply(rule, rate, piece, update, from, to);
    assert_memory_equal(from->values, values, bytes);
    assert_memory_equal(from->state, state, state_bytes);
    assert_memory_equal(update, same, bytes);
    for (size_t i = bytes; i < VERSION_BYTES; i++) /* nothing behind the version */
        assert_int_equal(((uint8_t *)to->values)[i], 0xa5);
    for (size_t i = state_bytes; i < STATE_BYTES; i++)
        assert_int_equal(((uint8_t *)to->state)[i], 0xa5);
    versions->current = 1 - versions->current;
}

static kolo_table_options options_of(kolo_table_rule rule, kolo_dtype dtype) {
    kolo_table_options options = KOLO_TABLE_OPTIONS_INIT;
    options.rows = 1;
    options.columns = COUNT_MAX;
    options.rule = rule;
    options.dtype = dtype;
    return options;
}

static struct kolo_rule rule_of(const kolo_table_options *options, uint32_t features) {
    struct kolo_rule rule;
    assert_int_equal(kolo_rule_check(options, 3), 0);
    kolo_rule_init(&rule, options, kolo_reducer_select(features));
    return rule;
}

/* The element of an array of floats, and back with one rounding. */
static double real_at(kolo_dtype dtype, const void *values, size_t index) {
    const uint64_t bits = bits_at(dtype, values, index);
    double value;
    if (dtype == KOLO_F16)
        return f32_from_F16((uint16_t)bits);
    if (dtype == KOLO_BF16)
        return f32_from_BF16((uint16_t)bits);
    if (dtype == KOLO_F32)
        return f32_from_bits((uint32_t)bits);
    memcpy(&value, &bits, sizeof value);
    return value;
}

static void real_store(kolo_dtype dtype, void *values, size_t index, double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    if (dtype == KOLO_F16)
        bits = F16_from_f32((float)value);
    else if (dtype == KOLO_BF16)
        bits = BF16_from_f32((float)value);
    else if (dtype == KOLO_F32)
        bits = f32_bits((float)value);
    bits_store(dtype, values, index, bits);
}

/* ASSIGN and ADD, and what is made of updates that are pushed together, in every dtype and for any bits. */
static void test_assign_and_add(void **unused) {
    static uint8_t update[VERSION_BYTES], old[VERSION_BYTES], due[VERSION_BYTES], sum[VERSION_BYTES];
    struct versions versions = versions_create();
    uint64_t state = arguments.seed;
    (void)unused;
    for (int dtype = 0; dtype < KOLO_DTYPES; dtype++)
        for (int i = 0; i < COUNTS * FILL_STYLES; i++) {
            const struct kolo_piece piece = {0, 0, counts[i % COUNTS]};
            const size_t bytes = piece.count * dtype_bytes((kolo_dtype)dtype);
            const void *const sources[] = {old, update};
            kolo_table_options options = options_of(KOLO_TABLE_ASSIGN, (kolo_dtype)dtype);
            struct kolo_rule rule = rule_of(&options, kolo_cpu_features());
            assert_int_equal(kolo_rule_state_bytes(&rule, piece.count), 0);
            fill((kolo_dtype)dtype, (fill_style)(i / COUNTS), old, piece.count, &state);
            fill((kolo_dtype)dtype, (fill_style)(i / COUNTS), update, piece.count, &state);
            memcpy(current(&versions)->values, old, bytes);
            apply(&rule, 0.5, &piece, update, &versions);
            assert_memory_equal(current(&versions)->values, update, bytes);
            memcpy(sum, old, bytes);
            kolo_rule_combine(&rule, sum, update, piece.count);
            assert_memory_equal(sum, update, bytes);

            options.rule = KOLO_TABLE_ADD;
            rule = rule_of(&options, kolo_cpu_features());
            assert_int_equal(kolo_rule_state_bytes(&rule, piece.count), 0);
            kolo_reducer_at(0, 0)->kernels[dtype][KOLO_SUM].fold(due, sources, 2, piece.count, 1);
            memcpy(current(&versions)->values, old, bytes);
            apply(&rule, 0.5, &piece, update, &versions);
            assert_memory_equal(current(&versions)->values, due, bytes);
            memcpy(sum, old, bytes);
            kolo_rule_combine(&rule, sum, update, piece.count);
            assert_memory_equal(sum, due, bytes);
            if (!rule.is_plain_sum)
                continue;
            kolo_rule_add_short(&(struct kolo_version){old, NULL}, &(struct kolo_version){sum, NULL}, update,
                                piece.count);
            assert_memory_equal(sum, due, bytes);
        }
    versions_destroy(&versions);
}

static void test_add_of_integers(void **unused) {
    const int8_t old[] = {1, 127, -128, -1}, update[] = {2, 1, -1, 1}, due[] = {3, -128, 127, 0};
    const kolo_table_options options = options_of(KOLO_TABLE_ADD, KOLO_I8);
    const struct kolo_rule rule = rule_of(&options, kolo_cpu_features());
    const struct kolo_piece piece = {0, 0, 4};
    struct versions versions = versions_create();
    (void)unused;
    memcpy(current(&versions)->values, old, sizeof old);
    apply(&rule, 1, &piece, update, &versions);
    assert_memory_equal(current(&versions)->values, due, sizeof due);
    versions_destroy(&versions);
}

/* One rule with its settings, in words of the failure messages. */
struct test_case {
    kolo_table_options options;
    uint32_t features;
    size_t count;
};

static double rate_of(int step) {
    return 0.05 / (1 + step % 3); /* step from 1 */
}

/* A piece by formula, in double precision. */
struct formula {
    double p[COUNT_MAX], first[COUNT_MAX], second[COUNT_MAX];
};

static void formula_step(struct formula *formula, const kolo_table_options *options, int step, size_t i, double g) {
    double *p = &formula->p[i], *first = &formula->first[i], *second = &formula->second[i];
    g += options->weight_decay * *p;
    if (options->rule == KOLO_TABLE_SGD) {
        *first = options->momentum * *first + g;
        *p -= rate_of(step) * *first;
    } else if (options->rule == KOLO_TABLE_ADAGRAD) {
        *first += g * g;
        *p -= rate_of(step) * g / (sqrt(*first) + options->epsilon);
    } else {
        *first = options->beta1 * *first + (1 - options->beta1) * g;
        *second = options->beta2 * *second + (1 - options->beta2) * g * g;
        const double m = *first / (1 - pow(options->beta1, step)), v = *second / (1 - pow(options->beta2, step));
        *p -= rate_of(step) * m / (sqrt(v) + options->epsilon);
    }
}

/* A piece by the portable kernels, with the scalars of kolo_optimizer. */
struct optimizer {
    float p32[COUNT_MAX], g32[COUNT_MAX], first32[COUNT_MAX], second32[COUNT_MAX];
    double p64[COUNT_MAX], g64[COUNT_MAX], first64[COUNT_MAX], second64[COUNT_MAX];
};

static void optimizer_step(struct optimizer *optimizer, const kolo_table_options *options, int step, size_t count) {
    const double rate = rate_of(step);
    struct kolo_step_factors factors = {.scale = 1,
                                        .decay = options->weight_decay,
                                        .rate = -rate,
                                        .momentum = options->momentum,
                                        .kept = step == 1 ? 0 : options->momentum,
                                        .undamped = 1,
                                        .has_momentum = options->momentum != 0,
                                        .shrink = 1,
                                        .beta1_rest = 1 - options->beta1,
                                        .beta2 = options->beta2,
                                        .beta2_rest = 1 - options->beta2,
                                        .epsilon = options->epsilon};
    const bool is_f64 = options->dtype == KOLO_F64, is_sgd = options->rule == KOLO_TABLE_SGD;
    const kolo_steps *steps = &kolo_steps_portable;
    kolo_step_fn *const *functions = is_sgd                                ? steps->sgd
                                     : options->rule == KOLO_TABLE_ADAGRAD ? steps->adagrad
                                                                           : steps->adam;
    if (options->rule == KOLO_TABLE_ADAM) {
        factors.rate = -(rate / (1 - kolo_steps_power(options->beta1, (uint64_t)step)));
        factors.bias2_root = kolo_steps_root(1 - kolo_steps_power(options->beta2, (uint64_t)step));
    }
    const bool has_first = !is_sgd || factors.has_momentum;
    if (is_f64)
        functions[KOLO_STEPS_F64](&factors, count, optimizer->g64, optimizer->p64,
                                  has_first ? optimizer->first64 : NULL, optimizer->second64);
    else
        functions[KOLO_STEPS_F32](&factors, count, optimizer->g32, optimizer->p32,
                                  has_first ? optimizer->first32 : NULL, optimizer->second32);
}

/* How far from the formula the values may be, which are below 4: each step rounds once. */
static double tolerance_of(kolo_dtype dtype) {
    return dtype == KOLO_F64 ? 1e-13 : dtype == KOLO_F32 ? 1e-5 : dtype == KOLO_F16 ? STEPS * 0x1p-10 : STEPS * 0x1p-7;
}

static void compare(const struct test_case *test, int step, const void *values, const struct formula *formula,
                    const struct optimizer *optimizer) {
    const kolo_dtype dtype = test->options.dtype;
    for (size_t i = 0; i < test->count; i++) {
        uint64_t due = 0;
        real_store(dtype, &due, 0, dtype == KOLO_F64 ? optimizer->p64[i] : optimizer->p32[i]);
        const double value = real_at(dtype, values, i);
        if (bits_at(dtype, values, i) != bits_at(dtype, &due, 0) ||
            !(fabs(value - formula->p[i]) <= tolerance_of(dtype)))
            fail_msg("%s of %s, momentum %g, decay %g, features %#x, step %d, element %zu of %zu: %.17g, kernels %.17g,"
                     " formula %.17g; --seed %" PRIu64,
                     kolo_name(KOLO_NAME_TABLE_RULE, test->options.rule), dtype_name(dtype), test->options.momentum,
                     test->options.weight_decay, test->features, step, i, test->count, value, real_at(dtype, &due, 0),
                     formula->p[i], arguments.seed);
    }
}

static void check_steps(const struct test_case *test, uint64_t *random) {
    static struct formula formula;
    static struct optimizer optimizer;
    static uint8_t update[VERSION_BYTES];
    const kolo_dtype dtype = test->options.dtype;
    const struct kolo_rule rule = rule_of(&test->options, test->features);
    const struct kolo_piece piece = {0, 0, test->count};
    struct versions versions = versions_create();
    memset(&formula, 0, sizeof formula);
    memset(&optimizer, 0, sizeof optimizer);
    for (size_t i = 0; i < test->count; i++)
        real_store(dtype, current(&versions)->values, i, 1 + (double)random_below(random, 1000) / 1000);
    for (size_t i = 0; i < test->count; i++)
        formula.p[i] = real_at(dtype, current(&versions)->values, i);
    for (int step = 1; step <= STEPS; step++) {
        for (size_t i = 0; i < test->count; i++) {
            const size_t number = random_below(random, 1000);
            real_store(dtype, update, i, number ? (double)number / 500 - 1 + 1e-4 : 0);
            const double g = real_at(dtype, update, i);
            const double p = real_at(dtype, current(&versions)->values, i);
            formula_step(&formula, &test->options, step, i, g);
            optimizer.g32[i] = (float)(optimizer.g64[i] = g);
            optimizer.p32[i] = (float)(optimizer.p64[i] = p); /* of 16 bits: rounded in each step */
        }
        optimizer_step(&optimizer, &test->options, step, test->count);
        apply(&rule, rate_of(step), &piece, update, &versions);
        compare(test, step, current(&versions)->values, &formula, &optimizer);
    }
    if (test->options.rule == KOLO_TABLE_ADAM)
        assert_int_equal(*(uint64_t *)current(&versions)->state, STEPS);
    versions_destroy(&versions);
}

static void test_steps(void **unused) {
    static const kolo_table_rule rules[] = {KOLO_TABLE_SGD, KOLO_TABLE_ADAGRAD, KOLO_TABLE_ADAM};
    static const kolo_dtype dtypes[] = {KOLO_F16, KOLO_BF16, KOLO_F32, KOLO_F64};
    const uint32_t features[] = {0, kolo_cpu_features() & (KOLO_CPU_AVX2 | KOLO_CPU_NEON), kolo_cpu_features()};
    uint64_t random = arguments.seed, cases = 0;
    (void)unused;
    for (int rule = 0; rule < 3; rule++)
        for (int dtype = 0; dtype < 4; dtype++)
            for (int i = 0; i < 3; i++)
                for (int variant = 0; variant < 4; variant++)
                    for (int count = 0; count < COUNTS; count++) {
                        struct test_case test = {options_of(rules[rule], dtypes[dtype]), features[i], counts[count]};
                        test.options.momentum = variant & 1 ? 0.9 : 0;
                        test.options.weight_decay = variant & 2 ? 0.01 : 0;
                        test.options.epsilon = 1e-3; /* so that what rounding leaves of an update of 0 stays small */
                        test.options.beta1 = variant & 1 ? 0.9 : 0.25; /* the two halves of the kernel's lerp */
                        if (cases++ % arguments.thin == 0)
                            check_steps(&test, &random);
                    }
}

/* What the program's function was called with. */
struct call {
    uint64_t row;
    size_t first, count, calls;
};

static void halve_and_count(void *context, uint64_t row, size_t first, size_t count, const void *update, void *values,
                            void *state) {
    struct call *call = context;
    const float *updates = update;
    float *own = values;
    uint8_t *calls = state;
    *call = (struct call){row, first, count, call->calls + 1};
    for (size_t i = 0; i < count; i++)
        own[i] = own[i] / 2 + updates[i];
    ++calls[10];
}

static void test_function(void **unused) {
    struct call call = {0};
    const float updates[] = {1, 2, 3};
    kolo_table_options options = options_of(KOLO_TABLE_FUNCTION, KOLO_F32);
    const struct kolo_piece piece = {UINT64_C(1) << 40, 4096, 3};
    (void)unused;
    options.function = halve_and_count;
    options.context = &call;
    options.state_bytes = 11;
    const struct kolo_rule rule = rule_of(&options, kolo_cpu_features());
    struct versions versions = versions_create();
    assert_int_equal(kolo_rule_state_bytes(&rule, 3), 16);
    apply(&rule, 1, &piece, updates, &versions);
    apply(&rule, 1, &piece, updates, &versions);
    const float *values = current(&versions)->values;
    assert_true(values[0] == 1.5F && values[1] == 3 && values[2] == 4.5F);
    assert_int_equal(((uint8_t *)current(&versions)->state)[10], 2);
    assert_true(call.calls == 2 && call.row == piece.row && call.first == piece.first && call.count == piece.count);
    versions_destroy(&versions);
}

static size_t state_bytes(kolo_table_rule kind, kolo_dtype dtype, double momentum, size_t count) {
    kolo_table_options options = options_of(kind, dtype);
    options.momentum = momentum;
    const struct kolo_rule rule = rule_of(&options, kolo_cpu_features());
    return kolo_rule_state_bytes(&rule, count);
}

static void test_state_bytes(void **unused) {
    (void)unused;
    assert_int_equal(state_bytes(KOLO_TABLE_SGD, KOLO_F32, 0, 5), 0);
    assert_int_equal(state_bytes(KOLO_TABLE_SGD, KOLO_F32, 0.5, 5), 24);
    assert_int_equal(state_bytes(KOLO_TABLE_SGD, KOLO_F64, 0.5, 5), 40);
    assert_int_equal(state_bytes(KOLO_TABLE_SGD, KOLO_BF16, 0.5, 5), 24);
    assert_int_equal(state_bytes(KOLO_TABLE_ADAGRAD, KOLO_F32, 0, 4), 16);
    assert_int_equal(state_bytes(KOLO_TABLE_ADAM, KOLO_F32, 0, 5), 48);
    assert_int_equal(state_bytes(KOLO_TABLE_ADAM, KOLO_F64, 0, 5), 88);
    assert_int_equal(state_bytes(KOLO_TABLE_ADAM, KOLO_F16, 0, 1), 16);
}

static void check_refused(const kolo_table_options *options, const char *named) {
    assert_int_equal(kolo_rule_check(options, 3), KOLO_ERR_ARG);
    if (!strstr(kolo_error_message(), named) || !strstr(kolo_error_message(), "rank 3: kolo_table_create: "))
        fail_msg("\"%s\" does not name %s", kolo_error_message(), named);
}

static void test_refused(void **unused) {
    const kolo_table_options good = options_of(KOLO_TABLE_ADAM, KOLO_F32);
    const double wrong[] = {-1, (double)NAN, (double)INFINITY};
    kolo_table_options options = good;
    const struct {
        double *number;
        const char *name;
    } numbers[] = {{&options.learning_rate, "learning_rate"},
                   {&options.momentum, "momentum"},
                   {&options.beta1, "beta1"},
                   {&options.beta2, "beta2"},
                   {&options.epsilon, "epsilon"},
                   {&options.weight_decay, "weight_decay"}};
    (void)unused;
    assert_int_equal(kolo_rule_check(&good, 3), 0);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        for (size_t k = 0; k < 3; k++) {
            options = good;
            *numbers[i].number = wrong[k];
            check_refused(&options, numbers[i].name);
        }
    options = good;
    options.beta2 = 1;
    check_refused(&options, "beta2 1: must be from 0 to less than 1");
    options = options_of(KOLO_TABLE_RULES, KOLO_F32);
    check_refused(&options, "rule 6");
    options = options_of((kolo_table_rule)-1, KOLO_F32);
    check_refused(&options, "rule -1");
    options = options_of(KOLO_TABLE_ADD, KOLO_DTYPES);
    check_refused(&options, "dtype");
    options = options_of(KOLO_TABLE_ADAGRAD, KOLO_I32);
    check_refused(&options, "dtype i32: must be F32, F64, F16 or BF16 for rule adagrad");
    options = options_of(KOLO_TABLE_FUNCTION, KOLO_I32);
    check_refused(&options, "function is NULL");
    options.function = halve_and_count;
    assert_int_equal(kolo_rule_check(&options, 3), 0);
    options.state_bytes = SIZE_MAX;
    check_refused(&options, "state_bytes");
}

static void test_names(void **unused) {
    static const char *const names[KOLO_TABLE_RULES] = {"assign", "add", "sgd", "adagrad", "adam", "function"};
    (void)unused;
    for (int i = 0; i < KOLO_TABLE_RULES; i++)
        assert_string_equal(kolo_name(KOLO_NAME_TABLE_RULE, i), names[i]);
    assert_null(kolo_name(KOLO_NAME_TABLE_RULE, KOLO_TABLE_RULES));
}

int main(int argc, char **argv) {
    arguments = test_arguments_read(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_assign_and_add), cmocka_unit_test(test_add_of_integers), cmocka_unit_test(test_steps),
        cmocka_unit_test(test_function),       cmocka_unit_test(test_state_bytes),     cmocka_unit_test(test_refused),
        cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
