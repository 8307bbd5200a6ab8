/* Structs that begin with their size, between programs and libraries of different versions. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "kolo.h"
#include "base/sized.h"

/* Three versions of one struct; the library is of the second one. */
struct old {
    size_t bytes;
    int32_t first, second;
};
struct present {
    size_t bytes;
    int32_t first, second;
    int64_t third;
};
struct coming {
    size_t bytes;
    int32_t first, second;
    int64_t third, fourth;
};

static const struct kolo_sized sized = KOLO_SIZED(struct present, bytes, second);
static const struct present known = {0, 1, 2, 3}, defaults = {0, -1, -2, -3};

static void test_filled(void **state) {
    (void)state;
    struct old old[2] = {{sizeof *old, 8, 8}, {77, 77, 77}};
    struct coming coming = {sizeof coming, 8, 8, 8, 8};
    assert_int_equal(kolo_sized_give(&sized, "test", old, &known), 0);
    assert_int_equal(old[0].bytes, sizeof *old);
    assert_int_equal(old[0].first, 1);
    assert_int_equal(old[0].second, 2);
    assert_int_equal(old[1].bytes, 77);
    assert_int_equal(kolo_sized_give(&sized, "test", &coming, &known), 0);
    assert_int_equal(coming.bytes, sizeof coming);
    assert_int_equal(coming.third, 3);
    assert_int_equal(coming.fourth, 0);
}

static void test_read(void **state) {
    (void)state;
    const struct old old = {sizeof old, 8, 9};
    struct coming coming = {sizeof coming, 8, 9, 10, 0};
    struct present read = defaults;
    assert_int_equal(kolo_sized_read(&sized, "test", &read, &old), 0);
    assert_int_equal(read.second, 9);
    assert_int_equal(read.third, -3);
    assert_int_equal(kolo_sized_read(&sized, "test", &read, &coming), 0);
    assert_int_equal(read.third, 10);
    coming.fourth = INT64_MIN; /* in the last byte only */
    read = defaults;
    assert_int_equal(kolo_sized_read(&sized, "test", &read, &coming), KOLO_ERR_ARG);
    assert_non_null(strstr(kolo_error_message(), "test: bytes is 32, and byte 31 is set"));
    assert_int_equal(read.second, -2);
}

static void test_refused(void **state) {
    (void)state;
    static const size_t sizes[] = {0, 4, sizeof(struct old) - 1, KOLO_SIZED_BYTES_MAX + 1, SIZE_MAX};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct present read = defaults;
        struct coming theirs = {.bytes = sizes[i]};
        assert_int_equal(kolo_sized_give(&sized, "test", &theirs, &known), KOLO_ERR_ARG);
        assert_int_equal(theirs.first, 0);
        assert_non_null(strstr(kolo_error_message(), "sizeof(struct present)"));
        assert_int_equal(kolo_sized_read(&sized, "test", &read, &theirs), KOLO_ERR_ARG);
        assert_int_equal(read.first, -1);
    }
    assert_int_equal(kolo_sized_check(&sized, "test", NULL), KOLO_ERR_ARG);
    assert_non_null(strstr(kolo_error_message(), "NULL"));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_filled), cmocka_unit_test(test_read),
                                       cmocka_unit_test(test_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
