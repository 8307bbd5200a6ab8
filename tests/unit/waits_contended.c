/* Waits on a processor that others want: a yield that costs a time slice is not made again soon. */
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

#include "base/clock.h"
#include "sync/wait.h"

enum { YIELDS = 20, FEW = 300, MANY = 3000 };

static kolo_atomic_u64 flag;
static kolo_bell bell;
static long yield_ns; /* what a yield costs */
static int yields;

int sched_yield(void) {
    const struct timespec time = {.tv_nsec = yield_ns};
    yields++;
    return yield_ns ? nanosleep(&time, NULL) : 0;
}

/* The waiter's check, before it would sleep: what it waits for comes. */
static int arrive(kolo_waiter *waiter, const struct kolo_wait *wait) {
    (void)waiter;
    atomic_store(&flag, wait->target);
    return 0;
}

static kolo_waiter new_waiter(void) {
    kolo_waiter waiter = {.spins = KOLO_SPINS_MIN, .spins_max = KOLO_SPINS_MIN, .yields = YIELDS, .check = arrive};
    atomic_store(&waiter.timeout_ns, (uint64_t)KOLO_NEVER_NS);
    return waiter;
}

/* Returns how many waits of `count` made all their yields. */
static int wait_often(kolo_waiter *waiter, int count) {
    int patient = 0;
    yields = 0;
    for (int i = 0; i < count; i++) {
        const int before = yields;
        assert_int_equal(kolo_wait_at_least(waiter, &flag, atomic_load(&flag) + 1, &bell, 0), 0);
        patient += yields - before == YIELDS;
    }
    return patient;
}

static void test_long_yields_are_rare(void **state) {
    kolo_waiter waiter = new_waiter();
    (void)state;
    yield_ns = 2 * KOLO_CONTENDED_NS;
    assert_int_equal(wait_often(&waiter, FEW), 0);
    assert_true(yields >= 2 && yields <= FEW / 50); /* now and then one finds out whether it is still so */
    wait_often(&waiter, MANY);
    assert_true(yields >= 1 && yields <= MANY / 250); /* less often, since it was so again and again */
}

/* One that stands alone is soon forgotten. */
static void test_once(void **state) {
    enum { ONCE = 100 };
    kolo_waiter waiter = new_waiter();
    (void)state;
    yield_ns = 2 * KOLO_CONTENDED_NS;
    wait_often(&waiter, 1);
    assert_in_range(waiter.sleeps_left, 1, ONCE);
    waiter.sleeps_left = 0;
    wait_often(&waiter, 1);
    assert_true(waiter.sleeps_left > 5 * ONCE);
    waiter.sleeps_left = 0;
    waiter.contended_ns -= 2000 * KOLO_NS_PER_MS;
    wait_often(&waiter, 1);
    assert_in_range(waiter.sleeps_left, 1, ONCE);
}

/* A busy machine makes some yields long, so that not all waits are patient. */
static void test_short_yields_are_made(void **state) {
    kolo_waiter waiter = new_waiter();
    (void)state;
    yield_ns = 0;
    assert_true(wait_often(&waiter, MANY) > 0);
    yield_ns = 2 * KOLO_CONTENDED_NS;
    wait_often(&waiter, FEW);
    yield_ns = 0;
    assert_true(wait_often(&waiter, MANY) > 0);
}

static enum kolo_neighbours before, after; /* what the other ranks of the processor do */

static enum kolo_neighbours tell(kolo_waiter *waiter, uint32_t awaited, int64_t since_ns) {
    (void)waiter;
    (void)awaited;
    return since_ns == INT64_MAX ? before : after;
}

/* Where ranks share the processor, a long yield counts only if none of them can have been what ran. */
static void test_neighbours(void **state) {
    (void)state;
    for (before = KOLO_NEIGHBOURS_WAIT; before <= KOLO_NEIGHBOUR_BEHIND; before++)
        for (after = KOLO_NEIGHBOURS_WAIT; after <= KOLO_NEIGHBOUR_BEHIND; after++) {
            kolo_waiter waiter = new_waiter();
            waiter.neighbours = tell;
            yield_ns = 2 * KOLO_CONTENDED_NS;
            wait_often(&waiter, 1);
            assert_int_equal(waiter.sleeps_left > 0, before == KOLO_NEIGHBOURS_WAIT && after == KOLO_NEIGHBOURS_WAIT);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_long_yields_are_rare),
        cmocka_unit_test(test_short_yields_are_made),
        cmocka_unit_test(test_once),
        cmocka_unit_test(test_neighbours),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
