/* Awake time: runs as the clock does while it is looked at often enough, and hardly while nobody looks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"

#define MS KOLO_NS_PER_MS

/* Sleeps in slices, as all who wait do. Returns how long that took by the clock. */
static int64_t sleep_awake(struct kolo_awake *awake, int64_t ns) {
    const int64_t begin_ns = kolo_clock_ns(), until_ns = kolo_awake_ns(awake) + ns;
    for (int64_t left_ns; (left_ns = until_ns - kolo_awake_ns(awake)) > 0;)
        kolo_clock_sleep(kolo_awake_slice(awake, left_ns));
    return kolo_clock_ns() - begin_ns;
}

static void test_runs(void **state) {
    (void)state;
    static const int64_t limits_ns[] = {1, 300 * MS, 3600000 * MS, KOLO_NEVER_NS};
    for (size_t i = 0; i < sizeof limits_ns / sizeof *limits_ns; i++) {
        struct kolo_awake awake;
        const int64_t begin_ns = kolo_awake_begin(&awake, limits_ns[i]), took_ns = sleep_awake(&awake, 150 * MS);
        assert_true(awake.ns - begin_ns >= 150 * MS);
        assert_true(took_ns >= 150 * MS);
        assert_true(awake.ns <= kolo_clock_ns());
    }
}

/* A gap counts an eighth of the limit, within bounds, and what was meant to take long. */
static void test_gaps(void **state) {
    (void)state;
    static const struct {
        int64_t limit_ns, step_ns;
    } gaps[] = {{1, 100 * MS}, {400 * MS, 100 * MS}, {1600 * MS, 200 * MS}};
    for (size_t i = 0; i < sizeof gaps / sizeof *gaps; i++) {
        struct kolo_awake awake;
        const int64_t begin_ns = kolo_awake_begin(&awake, gaps[i].limit_ns);
        kolo_clock_sleep(400 * MS);
        assert_int_equal(kolo_awake_ns(&awake) - begin_ns, gaps[i].step_ns);
        kolo_clock_sleep(400 * MS);
        assert_int_equal(kolo_awake_after(&awake, 150 * MS) - begin_ns, 2 * gaps[i].step_ns + 150 * MS);
        kolo_clock_sleep(1 * MS);
        assert_true(kolo_awake_ns(&awake) - begin_ns > 2 * gaps[i].step_ns + 150 * MS);
    }
}

static void test_long_gap(void **state) {
    (void)state;
    struct kolo_awake awake;
    const int64_t begin_ns = kolo_awake_begin(&awake, 3600000 * MS);
    kolo_clock_sleep(1200 * MS);
    assert_int_equal(kolo_awake_ns(&awake) - begin_ns, 1000 * MS);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_runs), cmocka_unit_test(test_gaps),
                                       cmocka_unit_test(test_long_gap)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
