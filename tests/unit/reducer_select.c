/* Which instance is chosen, and how KOLO_CPU masks instruction sets. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cpu/features.h"
#include "reducer_support.h"

static uint32_t mask_of(const char *text) {
    uint32_t mask = 0;
    if (text)
        setenv("KOLO_CPU", text, 1);
    else
        unsetenv("KOLO_CPU");
    assert_int_equal(kolo_cpu_mask_read(&mask), 0);
    return mask;
}

static void test_mask_names(void **state) {
    (void)state;
    assert_int_equal(mask_of(NULL), UINT32_MAX);
    assert_int_equal(mask_of(""), UINT32_MAX);
    assert_int_equal(mask_of("portable"), 0);
    assert_int_equal(mask_of("avx2"), KOLO_CPU_AVX2);
    assert_int_equal(mask_of("neon"), KOLO_CPU_NEON);
    assert_int_equal(mask_of("avx512,avx2"), KOLO_CPU_AVX512 | KOLO_CPU_AVX2);
    assert_int_equal(mask_of("avx512bf16"), KOLO_CPU_AVX512BF16);
    assert_int_equal(mask_of("portable,avx2"), KOLO_CPU_AVX2);
}

/* Nothing unreadable is taken for something else; the message quotes the value and says what could be there. */
static void test_mask_errors(void **state) {
    (void)state;
    const char *const unreadable[] = {"sse9",  "avx",   "avx2 ",      " avx2", "AVX2",
                                      "avx2,", ",avx2", "avx2,,neon", ",",     "0"};
    for (size_t i = 0; i < sizeof unreadable / sizeof *unreadable; i++) {
        uint32_t mask = 12345;
        setenv("KOLO_CPU", unreadable[i], 1);
        assert_int_equal(kolo_cpu_mask_read(&mask), KOLO_ERR_ARG);
        assert_int_equal(mask, 12345);
        char quoted[64];
        snprintf(quoted, sizeof quoted, "KOLO_CPU=%s: \"", unreadable[i]);
        assert_non_null(strstr(kolo_error_message(), quoted));
        assert_non_null(strstr(kolo_error_message(), "portable"));
    }
}

static void test_features_format(void **state) {
    (void)state;
    char text[32];
    kolo_cpu_features_format(0, text, sizeof text);
    assert_string_equal(text, "none");
    kolo_cpu_features_format(KOLO_CPU_AVX512 | KOLO_CPU_AVX2, text, sizeof text);
    assert_string_equal(text, "avx2 avx512");
    kolo_cpu_features_format(KOLO_CPU_AVX512BF16 | KOLO_CPU_AVX512 | KOLO_CPU_AVX2, text, sizeof text);
    assert_string_equal(text, "avx2 avx512 avx512bf16");
    kolo_cpu_features_format(KOLO_CPU_NEON, text, sizeof text);
    assert_string_equal(text, "neon");
    kolo_cpu_features_format(KOLO_CPU_AVX512 | KOLO_CPU_AVX2, text, 7); /* what fits, and a terminator */
    assert_string_equal(text, "avx2 a");
}

/* AVX-512 without AVX2 does not exist, nor AVX512-BF16 without AVX-512, and no CPU has both these and NEON. */
static void test_features_are_consistent(void **state) {
    (void)state;
    uint32_t features = kolo_cpu_features();
    assert_int_equal(features, kolo_cpu_features());
    assert_true(!(features & KOLO_CPU_AVX512) || features & KOLO_CPU_AVX2);
    assert_true(!(features & KOLO_CPU_AVX512BF16) || features & KOLO_CPU_AVX512);
#if defined(__aarch64__)
    assert_int_equal(features, KOLO_CPU_NEON);
#else
    assert_true(!(features & KOLO_CPU_NEON));
#endif
}

static void test_selection(void **state) {
    (void)state;
    assert_string_equal(kolo_reducer_select(0)->name, "portable");
#if defined(__x86_64__)
    assert_string_equal(kolo_reducer_select(KOLO_CPU_AVX2)->name, "avx2");
    assert_string_equal(kolo_reducer_select(KOLO_CPU_AVX512 | KOLO_CPU_AVX2)->name, "avx512");
    assert_string_equal(kolo_reducer_select(KOLO_CPU_AVX512BF16 | KOLO_CPU_AVX512)->name, "avx512bf16");
    assert_string_equal(kolo_reducer_select(KOLO_CPU_NEON)->name, "portable");
#elif defined(__aarch64__)
    assert_string_equal(kolo_reducer_select(KOLO_CPU_NEON)->name, "neon");
    assert_string_equal(kolo_reducer_select(KOLO_CPU_AVX2)->name, "portable");
#endif
}

#if defined(__x86_64__)
/* avx512bf16 is avx512 but for the folds of BF16 that round. */
static void test_avx512bf16(void **state) {
    (void)state;
    const kolo_reducer *plain = kolo_reducer_select(KOLO_CPU_AVX512),
                       *native = kolo_reducer_select(KOLO_CPU_AVX512BF16);
    for (int dtype = 0; dtype < KOLO_DTYPES; dtype++) {
        for (int op = 0; op < KOLO_OPS; op++) {
            kolo_kernel expected = plain->kernels[dtype][op], found = native->kernels[dtype][op];
            if (dtype == KOLO_BF16 && (op == KOLO_SUM || op == KOLO_PROD || op == KOLO_AVG)) {
                assert_true(found.fold && found.fold != expected.fold);
                assert_true(found.fold_to_both && found.fold_to_both != expected.fold_to_both);
                found.fold = expected.fold;
                found.fold_to_both = expected.fold_to_both;
            }
            assert_memory_equal(&found, &expected, sizeof found);
        }
    }
}
#endif

/* The list starts with the portable instance and ends with the one that is chosen. */
static void test_list(void **state) {
    (void)state;
    const uint32_t masks[] = {
        0, KOLO_CPU_AVX2, KOLO_CPU_AVX512 | KOLO_CPU_AVX2, KOLO_CPU_AVX512BF16, KOLO_CPU_NEON, UINT32_MAX};
    for (size_t i = 0; i < sizeof masks / sizeof *masks; i++) {
        uint32_t count = 0;
        while (count < 8 && kolo_reducer_at(masks[i], count))
            count++;
        assert_true(count >= 1 && count < 8);
        assert_ptr_equal(kolo_reducer_at(masks[i], 0), kolo_reducer_select(0));
        assert_ptr_equal(kolo_reducer_at(masks[i], count - 1), kolo_reducer_select(masks[i]));
        assert_null(kolo_reducer_at(masks[i], count + 1));
    }
}

int main(int argc, char **argv) {
    test_arguments_read(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mask_names),
        cmocka_unit_test(test_mask_errors),
        cmocka_unit_test(test_features_format),
        cmocka_unit_test(test_features_are_consistent),
        cmocka_unit_test(test_selection),
#if defined(__x86_64__)
        cmocka_unit_test(test_avx512bf16),
#endif
        cmocka_unit_test(test_list),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
