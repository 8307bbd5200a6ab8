/* The little of cmocka that the tests of the kernels use, for a cross-build whose target has no cmocka packaged. */
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct CMUnitTest {
    const char *name;
    void (*run)(void **state);
};

/* clang-format off: it takes the braces for a block */
#define cmocka_unit_test(function)                                                                                     \
    { #function, function }
/* clang-format on */
#define cmocka_run_group_tests(tests, setup, teardown) run_group(tests, sizeof(tests) / sizeof *(tests))

#define print_message(...) printf(__VA_ARGS__)
#define fail_msg(...)      (printf("%s:%d: ", __FILE__, __LINE__), printf(__VA_ARGS__), printf("\n"), exit(1))
#define assert_true(condition)                                                                                         \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            fail_msg("not so: %s", #condition);                                                                        \
    } while (0)
#define assert_false(condition)          assert_true(!(condition))
#define assert_int_equal(a, b)           assert_true((a) == (b))
#define assert_ptr_equal(a, b)           assert_true((a) == (b))
#define assert_non_null(a)               assert_true((a) != NULL)
#define assert_null(a)                   assert_true((a) == NULL)
#define assert_string_equal(a, b)        assert_true(strcmp(a, b) == 0)
#define assert_memory_equal(a, b, bytes) assert_true(memcmp(a, b, bytes) == 0)

static inline int run_group(const struct CMUnitTest *tests, size_t count) {
    for (size_t i = 0; i < count; i++) {
        printf("[ RUN ] %s\n", tests[i].name);
        fflush(stdout);
        tests[i].run(NULL);
        printf("[ OK  ] %s\n", tests[i].name);
    }
    return 0;
}
