/* What a control group's limit leaves. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cpu/limits.h"

static void test_left(void **state) {
    (void)state;
    assert_true(kolo_memory_left(1000, 600, 0) == 400);
    assert_true(kolo_memory_left(1000, 600, 500) == 900);
    assert_true(kolo_memory_left(1000, 1000, 0) == 1);
    assert_true(kolo_memory_left(1000, 1200, 100) == 1);
}

/* Version 1 shows a group without a limit as one of nearly INT64_MAX, and its usage rounded. */
static void test_more_to_drop_than_used(void **state) {
    const int64_t unlimited = INT64_MAX - 4095;
    (void)state;
    assert_true(kolo_memory_left(1000, 600, 700) == 1000);
    assert_true(kolo_memory_left(unlimited, 4096, 1 << 20) == (uint64_t)unlimited);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_left), cmocka_unit_test(test_more_to_drop_than_used)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
