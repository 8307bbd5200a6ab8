/* The bound of a call (perf_bound.h) on a machine whose limits are round figures: each value here was computed by hand
 * from the table in bench/README.md. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "perf_bound.h"

/* The time of every number of bytes is in proportion to it. */
static perf_curve straight(double gbps) {
    return (perf_curve){.points = 2, .bytes = {1, 1 << 26}, .us = {1e-3 / gbps, (1 << 26) * 1e-3 / gbps}};
}

static perf_limits machine_of(int cpus) {
    perf_limits limits = {.cpus = cpus, .handover_us = 2};
    if (cpus > 1) {
        limits.exchange.ns = 100;
        limits.hop.ns = 60;
        limits.ahead.ns = 20;
        limits.curve[PERF_SENDRECV] = straight(4);
        limits.curve[PERF_FETCH] = straight(5);
    }
    limits.curve[PERF_COPY] = straight(10);
    limits.curve[PERF_UPDATE] = straight(8);
    limits.curve[PERF_READ] = straight(20);
    return limits;
}

typedef struct expectation {
    kolo_collective collective;
    int ranks, cpus;
    perf_buffers buffers;
    bool in_place;
    size_t bytes;
    double exchange_us, handover_us, transfer_us, memory_us, bound_us, sum_us;
} expectation;

enum { M = 1000000 };

/* In us: 1 MB is copied in 100, updated in 125, read in 50, fetched in 200, and sent and received in 250. */
static const expectation expectations[] = {
    /* Each reads and writes the message; half of it is fetched there and half back, which sendrecv has. */
    {KOLO_ALLREDUCE, 2, 2, PERF_WARM, false, M, 0.1, 0, 250, 100, 250, 250.1},
    {KOLO_ALLREDUCE, 2, 2, PERF_WARM, true, M, 0.1, 0, 250, 125, 250, 250.1},
    /* 2 * 3/4 of the message are fetched, half of it beyond sendrecv. */
    {KOLO_ALLREDUCE, 4, 4, PERF_WARM, false, M, 0.1, 0, 350, 100, 350, 350.1},
    {KOLO_ALLREDUCE, 4, 2, PERF_WARM, false, M, 0.1, 2, 250, 200, 250, 252.1},
    /* Crossing counts where the root has rewritten it. */
    {KOLO_BROADCAST, 2, 2, PERF_WARM, false, M, 0.06, 0, 200, 100, 100, 300.06},
    {KOLO_BROADCAST, 2, 2, PERF_DIRTY, false, M, 0.06, 0, 200, 100, 200, 300.06},
    {KOLO_BROADCAST, 16, 16, PERF_DIRTY, false, M, 0.06, 0, 200, 100, 200, 300.06},
    {KOLO_BROADCAST, 4, 2, PERF_DIRTY, false, M, 0.06, 2, 200, 200, 200, 402.06},
    /* A row of 50 calls has one handover; a line is written in each. */
    {KOLO_BROADCAST, 4, 2, PERF_WARM, false, 1000, 0.02, 0.04, 0.2, 0.2, 0.2, 0.46},
    {KOLO_BROADCAST, 2, 2, PERF_WARM, false, 10, 0.02, 0, 0.002, 0.001, 0.02, 0.023},
    {KOLO_BROADCAST, 2, 2, PERF_DIRTY, false, 10, 0.06, 0, 0.002, 0.001, 0.06, 0.063},
    /* The root's core reads as many inputs as any other, and writes the message. */
    {KOLO_REDUCE, 4, 4, PERF_DIRTY, false, M, 0.06, 0, 200, 100, 200, 300.06},
    {KOLO_REDUCE, 4, 2, PERF_WARM, false, M, 0.06, 2, 200, 150, 150, 352.06},
    /* Blocks of a quarter: three quarters are fetched, by each. */
    {KOLO_REDUCE_SCATTER, 4, 4, PERF_DIRTY, false, M, 0.1, 0, 150, 62.5, 150, 212.6},
    {KOLO_ALLGATHER, 4, 4, PERF_DIRTY, false, M, 0.1, 0, 150, 100, 150, 250.1},
    {KOLO_ALLGATHER, 4, 4, PERF_DIRTY, true, M, 0.1, 0, 150, 75, 150, 225.1},
    {KOLO_ALLTOALL, 4, 4, PERF_DIRTY, false, M, 0.1, 0, 150, 100, 150, 250.1},
    /* Two ranks of a core get half of their blocks from the other. */
    {KOLO_ALLTOALL, 4, 2, PERF_DIRTY, false, M, 0.1, 2, 200, 200, 200, 402.1},
    {KOLO_GATHER, 4, 4, PERF_DIRTY, false, M, 0.06, 0, 150, 100, 150, 250.06},
    {KOLO_GATHER, 4, 4, PERF_WARM, true, M, 0.06, 0, 150, 75, 75, 225.06},
    {KOLO_SCATTER, 4, 4, PERF_DIRTY, false, M, 0.06, 0, 50, 25, 50, 75.06},
    {KOLO_SCATTER, 16, 16, PERF_WARM, false, 1600000, 0.06, 0, 20, 10, 10, 30.06},
    {KOLO_SCATTER, 4, 2, PERF_DIRTY, false, M, 0.06, 2, 100, 50, 100, 152.06},
    {KOLO_SCAN, 2, 2, PERF_DIRTY, false, M, 0.06, 0, 200, 100, 200, 300.06},
    {KOLO_BARRIER, 4, 2, PERF_WARM, false, 0, 0.1, 2, 0, 0, 2, 2.1},
    /* One core fetches nothing; a rank alone has nothing to wait for. */
    {KOLO_BROADCAST, 4, 1, PERF_DIRTY, false, M, 0, 6, 0, 300, 300, 306},
    {KOLO_ALLREDUCE, 1, 1, PERF_WARM, true, M, 0, 0, 0, 0, 0, 0},
    /* All inputs come from memory: at the speed of the longest block. */
    {KOLO_REDUCE_SCATTER, 2, 2, PERF_COLD, false, M, 0.1, 0, 100, 75, 75, 175.1},
};

static void check_bounds(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof(expectations) / sizeof(expectations[0]); i++) {
        const expectation *expected = &expectations[i];
        const perf_limits limits = machine_of(expected->cpus);
        const perf_options options = {.in_place = expected->in_place, .buffers = expected->buffers};
        const perf_job job = perf_job_of(&options, perf_collective_find(expected->collective), expected->ranks);
        const perf_bound bound = perf_bound_of(&limits, &job, expected->bytes);
        const double values[][2] = {
            {bound.exchange_us, expected->exchange_us}, {bound.handover_us, expected->handover_us},
            {bound.transfer_us, expected->transfer_us}, {bound.memory_us, expected->memory_us},
            {bound.bound_us, expected->bound_us},       {bound.sum_us, expected->sum_us}};
        for (size_t value = 0; value < sizeof(values) / sizeof(values[0]); value++)
            if (fabs(values[value][0] - values[value][1]) > 1e-6 * values[value][1])
                fail_msg("expectation %zu, value %zu: %g us, not %g", i, value, values[value][0], values[value][1]);
    }
}

static void check_long_message(void **state) {
    const perf_options options = {.buffers = PERF_DIRTY};
    const perf_job job = perf_job_of(&options, perf_collective_find(KOLO_BROADCAST), 2);
    perf_limits limits = machine_of(2);
    (void)state;
    limits.curve[PERF_FETCH] = straight(1e-3);
    const double most_us = perf_bound_of(&limits, &job, 4 << 20).transfer_us;
    assert_true(fabs(most_us - (4 << 20)) < 1);
    assert_true(fabs(most_us - perf_bound_of(&limits, &job, 64 << 20).transfer_us) < 1);
}

/* Nothing is measured that no bound needs, and all that one needs. */
static void check_requests(void **state) {
    const perf_options options = {.buffers = PERF_WARM};
    perf_limits_request request = {0};
    (void)state;
    perf_job job = perf_job_of(&options, perf_collective_find(KOLO_BROADCAST), 2);
    perf_bound_request(&request, &job, 2, 4096);
    assert_int_equal(request.pieces, 1u << PERF_LATENCY | 1u << PERF_FETCH | 1u << PERF_COPY);
    assert_int_equal(request.stream_bytes_max, 4096);
    job = perf_job_of(&options, perf_collective_find(KOLO_REDUCE), 4);
    perf_bound_request(&request, &job, 2, 4096);
    assert_int_equal(request.pieces,
                     1u << PERF_LATENCY | 1u << PERF_HANDOVER | 1u << PERF_FETCH | 1u << PERF_COPY | 1u << PERF_READ);
    assert_int_equal(request.stream_bytes_max, 8192);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(check_bounds), cmocka_unit_test(check_long_message),
                                       cmocka_unit_test(check_requests)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
