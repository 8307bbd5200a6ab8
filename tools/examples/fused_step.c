/* A linear model learns by AdamW, whose update is a part of the all-reduce.
 * Each rank has data of its own, and the optimizer's state of a part of the
 * weights.
 *
 *     cc fused_step.c -o fused_step $(pkg-config --cflags --libs kolo)
 *     kolorun -n 2 ./fused_step
 *
 * It prints how far the model is from its data, with other numbers:
 *
 *     step   0: loss 89.3823
 *     step 100: loss 0.0080
 *     step 200: loss 0.0000
 *     step 300: loss 0.0000
 */
#include <kolo.h>
#include <kolo_optimizer.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FEATURES = 1000, ROWS = 64, STEPS = 300 };
static float weights[FEATURES], gradients[FEATURES], x[ROWS][FEATURES], y[ROWS];

static void check(int status) {
    if (status < 0)
        fprintf(stderr, "%s\n", kolo_error_message()), exit(1);
}

/* Rows of this rank alone, which weights of 1 explain. */
static void make_data(int rank) {
    srand(rank + 1);
    for (int row = 0; row < ROWS; row++)
        for (int i = 0; i < FEATURES; i++) {
            x[row][i] = (float)rand() / RAND_MAX - 0.5f;
            y[row] += x[row][i];
        }
}

/* The mean squared error of this rank's rows, and its gradients. */
static double backward(void) {
    double loss = 0;
    memset(gradients, 0, sizeof gradients);
    for (int row = 0; row < ROWS; row++) {
        float error = -y[row];
        for (int i = 0; i < FEATURES; i++)
            error += weights[i] * x[row][i];
        for (int i = 0; i < FEATURES; i++)
            gradients[i] += 2 * error * x[row][i] / ROWS;
        loss += error * error / ROWS;
    }
    return loss;
}

int main(void) {
    kolo_comm *comm;
    kolo_optimizer *optimizer; /* AdamW, by default */
    kolo_optimizer_options options = KOLO_OPTIMIZER_OPTIONS_INIT;
    kolo_parameter_group group = KOLO_PARAMETER_GROUP_INIT;
    options.count = group.end = FEATURES;
    options.clip_norm = 10;
    group.learning_rate = 0.01;
    check(kolo_comm_create(&comm, NULL));
    check(kolo_optimizer_create(comm, &options, &group, 1, &optimizer));
    make_data(kolo_comm_rank(comm));
    for (int step = 0; step <= STEPS; step++) {
        double loss = backward();
        check(kolo_optimizer_step(optimizer, gradients, weights, NULL));
        check(kolo_allreduce(comm, &loss, &loss, 1, KOLO_F64, KOLO_AVG));
        if (step % 100 == 0 && kolo_comm_rank(comm) == 0)
            printf("step %3d: loss %.4f\n", step, loss);
    }
    kolo_optimizer_destroy(optimizer);
    return kolo_comm_destroy(comm);
}
