/* Which ranks share the processor, and whether one of them is behind, or runs. */
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "comm/step/progress.h"

enum { RANKS = 130, SELF = 3, NEIGHBOUR = 129, CALLS = 7, PROGRESS = 40 };

static cpu_set_t allowed;
static kolo_comm comm;
static void *memory;

static void use_cpu(int cpu) {
    cpu_set_t only;
    CPU_ZERO(&only);
    CPU_SET(cpu, &only);
    assert_int_equal(sched_setaffinity(0, sizeof only, &only), 0);
    assert_int_equal(sched_getcpu(), cpu);
}

static int first_cpu(int from) {
    while (from < CPU_SETSIZE && !CPU_ISSET(from, &allowed))
        from++;
    return from < CPU_SETSIZE ? from : -1;
}

static bool is_behind(void) {
    return kolo_oversubscription_look(&comm.waiter, UINT32_MAX, INT64_MAX) == KOLO_NEIGHBOUR_BEHIND;
}

/* By then it knows of all ranks what they show now. */
static void look_round(void) {
    for (uint32_t i = 0; i < RANKS; i++)
        is_behind();
}

static void put_on(uint32_t rank, int cpu) {
    atomic_store(&comm.segment.members[rank].processor, (uint64_t)cpu + 1);
}

static void set_far(uint32_t rank, uint64_t calls, uint64_t progress) {
    atomic_store(&comm.segment.signals[rank].calls, calls);
    atomic_store(&comm.segment.signals[rank].progress, progress);
}

/* All ranks have come as far as SELF, on processors that do not exist. */
static void begin(void) {
    const struct kolo_layout layout = kolo_layout_compute(RANKS, KOLO_PAGE_BYTES, false);
    memory = aligned_alloc(KOLO_PAGE_BYTES, layout.allocated);
    assert_non_null(memory);
    assert_int_equal(sched_getaffinity(0, sizeof allowed, &allowed), 0);
    memset(memory, 0, layout.slots);
    comm = (kolo_comm){.rank = SELF, .size = RANKS, .call.number = CALLS};
    kolo_segment_view(&comm.segment, memory, layout.allocated, RANKS, KOLO_PAGE_BYTES, false);
    comm.signal = &comm.segment.signals[SELF];
    comm.waiter.owner = &comm;
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        set_far(rank, CALLS, PROGRESS);
        put_on(rank, 100000 + (int)rank);
    }
    use_cpu(first_cpu(0));
}

static void end(void) {
    assert_int_equal(sched_setaffinity(0, sizeof allowed, &allowed), 0);
    free(memory);
}

static void test_unknown_until_all_were_looked_at(void **state) {
    (void)state;
    begin();
    for (uint32_t i = 0; i + 1 < RANKS; i++)
        assert_true(is_behind());
    assert_false(is_behind());
    assert_false(is_behind());
    end();
}

static void test_shows_its_processor(void **state) {
    (void)state;
    begin();
    is_behind();
    assert_int_equal(atomic_load(&comm.segment.members[SELF].processor), (uint64_t)first_cpu(0) + 1);
    end();
}

static void test_neighbour_behind(void **state) {
    (void)state;
    begin();
    put_on(NEIGHBOUR, first_cpu(0));
    look_round();
    assert_false(is_behind());
    set_far(NEIGHBOUR, CALLS - 1, PROGRESS);
    assert_true(is_behind());
    set_far(NEIGHBOUR, CALLS, PROGRESS - 1);
    assert_true(is_behind());
    set_far(NEIGHBOUR, CALLS, PROGRESS);
    assert_false(is_behind());
    set_far(NEIGHBOUR, CALLS + 1, PROGRESS + 1);
    assert_false(is_behind());
    end();
}

static void test_neighbour_that_runs(void **state) {
    (void)state;
    enum { EARLIER_US = 50, LATER_US = 70, PEER = 1, RANK_BITS = 11 };
    kolo_atomic_u64 *waiting;
    begin();
    waiting = &comm.segment.signals[NEIGHBOUR].waiting;
    put_on(NEIGHBOUR, first_cpu(0));
    look_round();
    assert_int_equal(kolo_oversubscription_look(&comm.waiter, UINT32_MAX, INT64_MAX), KOLO_NEIGHBOUR_RUNS);
    atomic_store(waiting, UINT64_C(60) << RANK_BITS | (PEER + 1));
    assert_int_equal(kolo_oversubscription_look(&comm.waiter, UINT32_MAX, INT64_MAX), KOLO_NEIGHBOURS_WAIT);
    assert_int_equal(kolo_oversubscription_look(&comm.waiter, UINT32_MAX, LATER_US * 1000), KOLO_NEIGHBOURS_WAIT);
    assert_int_equal(kolo_oversubscription_look(&comm.waiter, UINT32_MAX, EARLIER_US * 1000), KOLO_NEIGHBOUR_RUNS);
    set_far(NEIGHBOUR, CALLS - 1, PROGRESS);
    assert_true(is_behind());
    end();
}

/* As the root of a broadcast, which is as far as those that wait for it. */
static void test_neighbour_that_is_awaited(void **state) {
    (void)state;
    begin();
    put_on(NEIGHBOUR, first_cpu(0));
    look_round();
    for (uint32_t awaited = 0; awaited < RANKS; awaited++)
        assert_int_equal(kolo_oversubscription_look(&comm.waiter, awaited, INT64_MAX) == KOLO_NEIGHBOUR_BEHIND,
                         awaited == NEIGHBOUR);
    assert_false(is_behind());
    end();
}

static void test_others_do_not_count(void **state) {
    (void)state;
    begin();
    look_round();
    for (uint32_t rank = 0; rank < RANKS; rank++)
        if (rank != SELF)
            set_far(rank, 0, 0);
    assert_false(is_behind());
    end();
}

static void test_neighbour_that_comes_and_goes(void **state) {
    (void)state;
    begin();
    look_round();
    set_far(NEIGHBOUR, 0, 0);
    assert_false(is_behind());
    put_on(NEIGHBOUR, first_cpu(0));
    look_round();
    assert_true(is_behind());
    put_on(NEIGHBOUR, 100000);
    look_round();
    assert_false(is_behind());
    end();
}

static void test_moving(void **state) {
    (void)state;
    begin();
    const int other = first_cpu(first_cpu(0) + 1);
    if (other < 0) {
        end();
        return; /* there is nowhere to move to */
    }
    put_on(NEIGHBOUR, other);
    set_far(NEIGHBOUR, 0, 0);
    look_round();
    assert_false(is_behind());
    use_cpu(other);
    assert_true(is_behind());
    assert_int_equal(atomic_load(&comm.segment.members[SELF].processor), (uint64_t)other + 1);
    look_round();
    assert_true(is_behind());
    set_far(NEIGHBOUR, CALLS, PROGRESS);
    assert_false(is_behind());
    end();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unknown_until_all_were_looked_at),
        cmocka_unit_test(test_shows_its_processor),
        cmocka_unit_test(test_neighbour_behind),
        cmocka_unit_test(test_neighbour_that_runs),
        cmocka_unit_test(test_neighbour_that_is_awaited),
        cmocka_unit_test(test_others_do_not_count),
        cmocka_unit_test(test_neighbour_that_comes_and_goes),
        cmocka_unit_test(test_moving),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
