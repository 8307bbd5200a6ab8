/* A linear model learns from data that differ between ranks. Buckets average
 * its gradients while others are still computed.
 *
 *     cc training_loop.c -o training_loop $(pkg-config --cflags --libs kolo)
 *     kolorun -n 2 ./training_loop
 *
 * It prints the model that fits all data:
 *
 *     weights 2.00 4.00 6.00 8.00, bias 1.00
 */
#include <kolo.h>
#include <kolo_fusion.h>
#include <stdio.h>

enum { INPUTS = 4, SAMPLES = 64, STEPS = 200, WEIGHTS = 0, BIAS = 1 };

static float input(int rank, int sample, int i) { /* each rank has its own */
    return (float)((rank * 29 + sample * 13 + i * i * 7) % 17) / 8 - 1;
}

/* From the target, 1 + 2 * x[0] + 4 * x[1] + 6 * x[2] + 8 * x[3]. */
static float error_of(const float *weights, float bias, const float *x) {
    float error = bias - 1;
    for (int i = 0; i < INPUTS; i++)
        error += (weights[i] - 2 * (float)(i + 1)) * x[i];
    return error;
}

int main(void) {
    float weights[INPUTS] = {0}, bias = 0, dweights[INPUTS], dbias;
    const kolo_tensor gradients[] = {{dweights, INPUTS}, {&dbias, 1}};
    kolo_options options = KOLO_OPTIONS_INIT;
    kolo_comm *comm;
    kolo_buckets *buckets;
    options.progress = 1; /* a thread sends buckets while the ranks compute */
    if (kolo_comm_create(&comm, &options) < 0 ||
        kolo_bucket_create(comm, gradients, 2, NULL, &buckets) < 0) {
        fprintf(stderr, "%s\n", kolo_error_message());
        return 1;
    }
    int rc = 0, rank = kolo_comm_rank(comm);
    for (int step = 0; rc == 0 && step < STEPS; step++) {
        float errors[SAMPLES], x[SAMPLES][INPUTS];
        dbias = 0;
        for (int s = 0; s < SAMPLES; s++) {
            for (int i = 0; i < INPUTS; i++)
                x[s][i] = input(rank, s, i);
            errors[s] = error_of(weights, bias, x[s]);
            dbias += errors[s] / SAMPLES;
        }
        rc = kolo_bucket_ready(buckets, BIAS); /* in any order */
        for (int i = 0; i < INPUTS; i++) {
            dweights[i] = 0;
            for (int s = 0; s < SAMPLES; s++)
                dweights[i] += errors[s] * x[s][i] / SAMPLES;
        }
        rc = rc < 0 ? rc : kolo_bucket_ready(buckets, WEIGHTS);
        rc = rc < 0 ? rc : kolo_bucket_wait(buckets); /* they are averages */
        for (int i = 0; i < INPUTS; i++)
            weights[i] -= 0.5f * dweights[i];
        bias -= 0.5f * dbias;
    }
    if (rc < 0)
        fprintf(stderr, "%s\n", kolo_error_message());
    else if (rank == 0)
        printf("weights %.2f %.2f %.2f %.2f, bias %.2f\n", weights[0],
               weights[1], weights[2], weights[3], bias);
    kolo_bucket_destroy(buckets);
    kolo_comm_destroy(comm);
    return rc < 0;
}
