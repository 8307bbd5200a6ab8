/* Whether ranks that differ are told from ranks that don't; two threads are the ranks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kolo.h"

#include "trainer.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { RANKS = 2, COUNT = 1001, DIFFERENT_AT = 700 };

/* One comparison: what each rank has at DIFFERENT_AT, and what must come out. */
typedef struct replica_case {
    const char *name;
    uint32_t bits[RANKS];
    int identical;
} replica_case;

static const replica_case cases[] = {
    {"the same number", {0x3f800000, 0x3f800000}, 1},
    {"the last bit differs", {0x3f800000, 0x3f800001}, 0},
    {"0 and -0", {0, 0x80000000}, 0},
    {"the same NaN", {0x7fc00000, 0x7fc00000}, 1},
    {"two NaNs", {0x7fc00000, 0x7fc00001}, 0},
    {"NaN on one rank", {0x7fc00000, 0x3f800000}, 0},
};

enum { CASES = sizeof(cases) / sizeof(cases[0]) };

/* What a rank found; asserted on by the main thread, for cmocka knows only that one. */
typedef struct rank_result {
    int rank;
    char job[64];
    int created;
    int answers[CASES];
    int shared;
    dataset data;
} rank_result;

static void compare_all(kolo_comm *comm, rank_result *result) {
    static const float zeros[COUNT];
    float values[COUNT];
    for (int c = 0; c < CASES; c++) {
        memcpy(values, zeros, sizeof(values));
        memcpy(&values[DIFFERENT_AT], &cases[c].bits[result->rank], sizeof(float));
        result->answers[c] = replicas_identical(comm, values, COUNT);
    }
}

static void share_dataset(kolo_comm *comm, rank_result *result) {
    if (result->rank == 0) {
        result->data = (dataset){.rows = 3, .features = 2, .classes = 9};
        dataset_reserve(&result->data, result->data.rows);
        for (int i = 0; i < 6; i++)
            result->data.inputs[i] = (float)i;
        for (int i = 0; i < 3; i++)
            result->data.labels[i] = 8 - i;
    }
    result->shared = dataset_share(&result->data, comm);
}

static void *run_rank(void *argument) {
    rank_result *result = argument;
    kolo_options options = KOLO_OPTIONS_INIT;
    options.rank = result->rank;
    options.size = RANKS;
    options.job = result->job;
    options.timeout_ms = 20000;
    options.create_timeout_ms = 20000;
    kolo_comm *comm;
    result->created = kolo_comm_create(&comm, &options);
    if (result->created < 0) {
        fprintf(stderr, "rank %d: %s\n", result->rank, kolo_error_message());
        return NULL;
    }
    compare_all(comm, result);
    share_dataset(comm, result);
    kolo_comm_destroy(comm);
    return NULL;
}

static void run_ranks(rank_result *results) {
    pthread_t threads[RANKS];
    for (int rank = 0; rank < RANKS; rank++) {
        results[rank] = (rank_result){.rank = rank, .shared = -1};
        snprintf(results[rank].job, sizeof(results[rank].job), "replicas-test-%ld", (long)getpid());
        assert_int_equal(pthread_create(&threads[rank], NULL, run_rank, &results[rank]), 0);
    }
    for (int rank = 0; rank < RANKS; rank++)
        assert_int_equal(pthread_join(threads[rank], NULL), 0);
}

static void tells_different_replicas(void **state) {
    const rank_result *results = *state;
    for (int rank = 0; rank < RANKS; rank++) {
        assert_int_equal(results[rank].created, 0);
        for (int c = 0; c < CASES; c++)
            if (results[rank].answers[c] != cases[c].identical)
                fail_msg("%s: rank %d answers %d", cases[c].name, rank, results[rank].answers[c]);
    }
}

static void shares_a_dataset(void **state) {
    const rank_result *results = *state;
    for (int rank = 0; rank < RANKS; rank++) {
        const dataset *data = &results[rank].data;
        assert_int_equal(results[rank].shared, 0);
        assert_int_equal(data->rows, 3);
        assert_int_equal(data->features, 2);
        assert_int_equal(data->classes, 9);
        assert_memory_equal(data->inputs, results[0].data.inputs, 6 * sizeof(*data->inputs));
        assert_memory_equal(data->labels, results[0].data.labels, 3 * sizeof(*data->labels));
    }
}

static rank_result results_of_all[RANKS];

static int begin(void **state) {
    run_ranks(results_of_all);
    *state = results_of_all;
    return 0;
}

static int end(void **state) {
    rank_result *results = *state;
    for (int rank = 0; rank < RANKS; rank++)
        dataset_free(&results[rank].data);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tells_different_replicas),
        cmocka_unit_test(shares_a_dataset),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
