/* Workers learn the weights of a large table, of which each step touches a few.
 * No worker is more than two clocks ahead of the slowest.
 *
 *     cc parameter_server.c -o server $(pkg-config --cflags --libs kolo) -lm
 *     kolorun -n 2 ./server
 *
 * It prints:
 *
 *     worst error of 1000 weights: 0.00
 */
#include <kolo.h>
#include <kolo_table.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>

enum { WEIGHTS = 1000, FEATURES = 3, SAMPLES = 50, CLOCKS = 3000 };

static float true_weight(uint64_t i) { /* what is to be learnt */
    return (float)(i * 7 % 11) - 5;
}

int main(void) {
    kolo_comm *comm;
    kolo_table *table;
    kolo_table_options options = KOLO_TABLE_OPTIONS_INIT;
    options.rows = WEIGHTS;
    options.columns = 1;
    options.rule = KOLO_TABLE_SGD;
    options.learning_rate = 0.2;
    options.staleness = 2; /* 0: all in step */
    if (kolo_comm_create(&comm, NULL) < 0 ||
        kolo_table_create(comm, &options, &table) < 0) {
        fprintf(stderr, "%s\n", kolo_error_message());
        return 1;
    }
    int rc = 0, rank = kolo_comm_rank(comm);
    uint64_t random = (uint64_t)rank + 1;
    for (int clock = 0; rc == 0 && clock < CLOCKS; clock++) {
        uint64_t ids[SAMPLES * FEATURES];
        float weights[SAMPLES * FEATURES], updates[SAMPLES * FEATURES];
        for (int i = 0; i < SAMPLES * FEATURES; i++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            ids[i] = (random >> 33) % WEIGHTS; /* a few of many: sparse */
        }
        rc = kolo_table_pull_rows(table, ids, SAMPLES * FEATURES, weights);
        for (int s = 0; s < SAMPLES; s++) {
            float error = 0;
            for (int i = s * FEATURES; i < (s + 1) * FEATURES; i++)
                error += weights[i] - true_weight(ids[i]);
            for (int i = s * FEATURES; i < (s + 1) * FEATURES; i++)
                updates[i] = error; /* the gradient */
        }
        if (rc == 0)
            rc = kolo_table_push_rows(table, ids, SAMPLES * FEATURES, updates);
        if (rc == 0)
            rc = kolo_table_clock(table);
    }
    float weights[WEIGHTS], worst = 0;
    if (rc == 0)
        rc = kolo_table_pull(table, 0, WEIGHTS, weights);
    for (int i = 0; i < WEIGHTS; i++)
        worst = fmaxf(worst, fabsf(weights[i] - true_weight((uint64_t)i)));
    if (rc < 0)
        fprintf(stderr, "%s\n", kolo_error_message());
    else if (rank == 0)
        printf("worst error of %d weights: %.2f\n", WEIGHTS, worst);
    kolo_table_destroy(table);
    kolo_comm_destroy(comm);
    return rc < 0;
}
