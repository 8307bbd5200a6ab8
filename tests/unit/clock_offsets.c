/* The offset of another node's clock, from round trips (internode/clock_offset.h): it lies within the stated error. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "internode/clock_offset.h"
#include "splitmix64.h"

#define US INT64_C(1000)
#define MS (1000 * US)
#define S  (1000 * MS)

/* Two clocks: the other one shows `offset_ns` more at time 0 of this one, and gains 1 ns in `ns_per_ns`, or loses it.
 */
struct clocks {
    int64_t offset_ns, ns_per_ns;
};

static int64_t true_offset_ns(const struct clocks *clocks, int64_t now_ns) {
    return clocks->offset_ns + (clocks->ns_per_ns ? now_ns / clocks->ns_per_ns : 0);
}

/* A round trip that takes so long there and back. */
static void trip(struct kolo_clock_offset *offset, const struct clocks *clocks, int64_t asked_ns, int64_t there_ns,
                 int64_t back_ns) {
    const int64_t answered_ns = asked_ns + there_ns;
    kolo_clock_offset_take(offset, asked_ns, answered_ns + true_offset_ns(clocks, answered_ns), answered_ns + back_ns);
}

/* Returns the error that is stated. */
static int64_t check(const struct kolo_clock_offset *offset, const struct clocks *clocks) {
    uint64_t error_ns;
    const int64_t found_ns = kolo_clock_offset_ns(offset, &error_ns);
    const int64_t true_ns = true_offset_ns(clocks, offset->heard_ns);
    assert_true(llabs(found_ns - true_ns) <= (int64_t)error_ns);
    return (int64_t)error_ns;
}

static void test_one_trip(void **state) {
    (void)state;
    static const int64_t delays[][2] = {{50 * US, 50 * US}, {0, 20 * MS}, {20 * MS, 0}, {0, 0}, {1, 3 * S}, {3 * S, 1}};
    for (size_t i = 0; i < sizeof delays / sizeof *delays; i++)
        for (int sign = -1; sign <= 1; sign++) {
            const struct clocks clocks = {.offset_ns = sign * 86400 * S, .ns_per_ns = sign * 20000};
            struct kolo_clock_offset offset = {0};
            trip(&offset, &clocks, 7 * S, delays[i][0], delays[i][1]);
            const int64_t half_ns = (delays[i][0] + delays[i][1]) / 2;
            const int64_t error_ns = check(&offset, &clocks);
            assert_true(error_ns >= half_ns && error_ns <= half_ns + half_ns / 10000 + 3);
        }
}

/* A trip that was quick there and one that was quick back bound the offset from both sides. */
static void test_trips_complete_each_other(void **state) {
    (void)state;
    const struct clocks clocks = {.offset_ns = -5 * S};
    struct kolo_clock_offset offset = {0};
    trip(&offset, &clocks, 1 * S, 10 * US, 15 * MS);
    assert_true(check(&offset, &clocks) > 7 * MS);
    trip(&offset, &clocks, 1 * S + 20 * MS, 15 * MS, 10 * US);
    assert_true(check(&offset, &clocks) < 15 * US);
}

/* What was known once is worth less as time goes by. */
static void test_ages(void **state) {
    (void)state;
    const struct clocks clocks = {.offset_ns = S, .ns_per_ns = 20000};
    struct kolo_clock_offset offset = {0};
    trip(&offset, &clocks, 1 * S, 5 * US, 5 * US);
    trip(&offset, &clocks, 11 * S, 4 * MS, 4 * MS);
    assert_true(check(&offset, &clocks) >= 400 * US && check(&offset, &clocks) <= 600 * US);
    trip(&offset, &clocks, 12 * S, 5 * US, 5 * US);
    assert_true(check(&offset, &clocks) < 6 * US);
}

/* A clock that jumps, or runs at an impossible rate: what was known is forgotten. */
static void test_forgets(void **state) {
    (void)state;
    const struct clocks before = {.offset_ns = S}, after = {.offset_ns = -S}, odd = {.offset_ns = S, .ns_per_ns = 1000};
    struct kolo_clock_offset offset = {0};
    trip(&offset, &before, 1 * S, 5 * US, 5 * US);
    trip(&offset, &after, 2 * S, 3 * MS, 1 * MS);
    check(&offset, &after);
    for (int64_t now_ns = 3 * S; now_ns < 10 * S; now_ns += S) {
        trip(&offset, &odd, now_ns, 5 * US, 5 * US);
        check(&offset, &odd);
    }
    const struct kolo_clock_offset kept = offset;
    kolo_clock_offset_take(&offset, 12 * S, 0, 11 * S); /* no round trip */
    assert_memory_equal(&kept, &offset, sizeof kept);
}

static int64_t below(uint64_t *random, int64_t limit) {
    return (int64_t)random_below(random, (uint64_t)limit);
}

/* Any delays, and any drift that two clocks may have. */
static void test_random(void **state) {
    (void)state;
    uint64_t random = 1;
    for (int run = 0; run < 1000; run++) {
        const int64_t parts = below(&random, 1000000) + 20000;
        const struct clocks clocks = {.offset_ns = below(&random, S) - S / 2, .ns_per_ns = run % 2 ? parts : -parts};
        struct kolo_clock_offset offset = {0};
        int64_t now_ns = S;
        for (int i = 0; i < 100; i++) {
            const int64_t longest_ns = INT64_C(1) << below(&random, 26);
            const int64_t there_ns = below(&random, longest_ns), back_ns = below(&random, longest_ns);
            trip(&offset, &clocks, now_ns, there_ns, back_ns);
            assert_true(check(&offset, &clocks) <= (there_ns + back_ns) / 2 + 5000);
            now_ns += there_ns + back_ns + below(&random, 100 * MS);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_one_trip),
                                       cmocka_unit_test(test_trips_complete_each_other), cmocka_unit_test(test_ages),
                                       cmocka_unit_test(test_forgets), cmocka_unit_test(test_random)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
