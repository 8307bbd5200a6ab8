/* Times steps of AdamW, one size of the parameters after the other, in two ways that take turns, so that both see the
 * same machine: an optimizer of all ranks (fused), and kolo_allreduce followed by the update of all parameters on every
 * rank, by an optimizer of that rank alone and so with the same kernels (apart). Both must end with the same bits. */
#include "perf_modes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kolo_optimizer.h"
#include "perf_buffers.h"

enum { SAMPLES_MIN = 5, WARMUP = 3, FUSED = 0, APART, WAYS };
#define ROW_US 1e6 /* about what the timed samples of a row take, where --iters does not say */

/* One size, as one rank has it. */
struct steps {
    kolo_comm *comm, *alone; /* of all ranks, and of this one */
    const perf_options *options;
    size_t bytes, count;
    perf_buffer gradients, reduced, parameters[WAYS];
    kolo_optimizer *optimizers[WAYS];
    double *samples_us[WAYS], medians[WAYS];
    int samples; /* of each way */
};

static void fill(const struct steps *steps, const perf_buffer *buffer, int rank) {
    const size_t element_bytes = kolo_dtype_bytes(steps->options->dtype);
    for (size_t i = 0; i < steps->count; i++) {
        const float value = (float)((int)((i * 31 + (size_t)rank * 17) % 255) - 127) / 64;
        uint32_t bits;
        memcpy(&bits, &value, sizeof(bits));
        if (steps->options->dtype == KOLO_F64)
            ((double *)buffer->data)[i] = value;
        else if (steps->options->dtype == KOLO_F32)
            ((float *)buffer->data)[i] = value;
        else /* as bf16; read as f16 they are other numbers, and finite */
            memcpy((char *)buffer->data + i * element_bytes, &(uint16_t){(uint16_t)(bits >> 16)}, sizeof(uint16_t));
    }
}

static int create(struct steps *steps) {
    kolo_optimizer_options options = KOLO_OPTIMIZER_OPTIONS_INIT;
    kolo_parameter_group group = KOLO_PARAMETER_GROUP_INIT;
    options.dtype = steps->options->dtype;
    options.count = group.end = steps->count;
    group.weight_decay = 0.01;
    int status = kolo_optimizer_create(steps->comm, &options, &group, 1, &steps->optimizers[FUSED]);
    if (status == KOLO_OK)
        status = kolo_optimizer_create(steps->alone, &options, &group, 1, &steps->optimizers[APART]);
    return status;
}

static int make_step(const struct steps *steps, int way, double *us) {
    int status = kolo_barrier(steps->comm);
    const double begin_us = perf_now_us();
    const void *gradients = steps->gradients.data;
    if (status == KOLO_OK && way == APART) {
        status =
            kolo_allreduce(steps->comm, gradients, steps->reduced.data, steps->count, steps->options->dtype, KOLO_AVG);
        gradients = steps->reduced.data;
    }
    if (status == KOLO_OK)
        status = kolo_optimizer_step(steps->optimizers[way], gradients, steps->parameters[way].data, NULL);
    *us = perf_now_us() - begin_us;
    return status;
}

static int take_samples(struct steps *steps) {
    const int warmup = perf_options_warmup(steps->options, WARMUP);
    double spent_us = 0, us;
    int status = KOLO_OK;
    for (int i = 0; i < warmup * WAYS && status == KOLO_OK; i++) {
        status = make_step(steps, i % WAYS, &us);
        spent_us += us;
    }
    steps->samples =
        perf_options_samples(steps->options, ROW_US, spent_us / fmax(warmup, 1), SAMPLES_MIN, PERF_SAMPLES_MAX);
    if (status == KOLO_OK)
        status = kolo_broadcast(steps->comm, &steps->samples, 1, KOLO_I32, 0);
    for (int i = 0; i < steps->samples * WAYS && status == KOLO_OK; i++)
        status = make_step(steps, i % WAYS, &steps->samples_us[i % WAYS][i / WAYS]);
    return status;
}

/* Bytes of state of one optimizer. */
static double state_bytes(kolo_optimizer *optimizer, kolo_dtype dtype) {
    double bytes = 0;
    for (int which = 0; which < KOLO_OPTIMIZER_STATES; which++) {
        void *values;
        size_t count = 0;
        kolo_optimizer_local_state(optimizer, (kolo_optimizer_state)which, &values, &count);
        bytes += (double)count * (dtype == KOLO_F64 ? 8 : 4);
    }
    return bytes;
}

static void destroy(struct steps *steps) {
    for (int way = 0; way < WAYS; way++) {
        kolo_optimizer_destroy(steps->optimizers[way]);
        steps->optimizers[way] = NULL;
    }
}

/* The slowest rank's medians, in us; and the bytes that differ, of all ranks. */
static int run_row(void *of, size_t bytes, int64_t *wrong) {
    struct steps *steps = of;
    double *medians = steps->medians;
    int64_t found = 0;
    destroy(steps);
    steps->bytes = bytes;
    steps->count = bytes / kolo_dtype_bytes(steps->options->dtype);
    fill(steps, &steps->gradients, kolo_comm_rank(steps->comm));
    for (int way = 0; way < WAYS; way++)
        fill(steps, &steps->parameters[way], 100);
    int status = create(steps);
    if (status == KOLO_OK)
        status = take_samples(steps);
    if (status != KOLO_OK)
        return status;
    const unsigned char *fused = steps->parameters[FUSED].data, *apart = steps->parameters[APART].data;
    for (size_t i = 0; i < bytes; i++)
        found += fused[i] != apart[i];
    for (int way = 0; way < WAYS; way++)
        medians[way] = perf_statistics_of(steps->samples_us[way], (size_t)steps->samples).median;
    status = kolo_allreduce(steps->comm, medians, medians, WAYS, KOLO_F64, KOLO_MAX);
    if (status == KOLO_OK)
        status = perf_wrong_join(steps->comm, &found);
    *wrong = found;
    return status;
}

static void print_head(const perf_report *report) {
    FILE *table = report->table;
    fprintf(table, "# kolo-perf %s: optimizer, AdamW, %s, %d ranks\n", kolo_version(),
            kolo_name(KOLO_NAME_DTYPE, report->options->dtype), report->ranks);
    perf_report_machine(report);
    fprintf(table,
            "# fused: a step of an optimizer of all ranks; apart: an all-reduce, and the\n"
            "#   update of all parameters on each rank; medians of the slowest rank\n"
            "# state: of a rank; MB = 10^6 bytes\n"
            "#\n#%10s %10s %10s %7s %9s %9s %6s\n#%10s %10s %10s %7s %9s %9s\n",
            "bytes", "fused", "apart", "ratio", "state", "apart", "#wrong", "", "us", "us", "", "MB", "MB");
}

static void report_row(void *of, perf_report *report, int64_t wrong) {
    const struct steps *steps = of;
    const double *medians = steps->medians;
    const double state[WAYS] = {state_bytes(steps->optimizers[FUSED], steps->options->dtype),
                                state_bytes(steps->optimizers[APART], steps->options->dtype)};
    const double ratio = medians[APART] / medians[FUSED];
    perf_print_bytes(report->table, steps->bytes, 10);
    perf_print_digits(report->table, medians[FUSED], 10);
    perf_print_digits(report->table, medians[APART], 10);
    fprintf(report->table, " %7.2f %9.2f %9.2f", ratio, state[FUSED] * 1e-6, state[APART] * 1e-6);
    perf_print_wrong(report->table, wrong);
    fprintf(report->table, "\n");
    perf_field fields[PERF_FIELDS_MAX] = {
        {.name = "collective", .text = "optimizer"},
        {"ranks", PERF_NUMBER, NULL, report->ranks, 0},
        {"bytes", PERF_NUMBER, NULL, (double)steps->bytes, 0},
        {"count", PERF_NUMBER, NULL, (double)steps->count, 0},
        {.name = "dtype", .text = kolo_name(KOLO_NAME_DTYPE, report->options->dtype)},
        {"fused_us", PERF_NUMBER, NULL, medians[FUSED], 4},
        {"apart_us", PERF_NUMBER, NULL, medians[APART], 4},
        {"ratio", PERF_NUMBER, NULL, ratio, 4},
        {"state_bytes", PERF_NUMBER, NULL, state[FUSED], 0},
        {"state_bytes_apart", PERF_NUMBER, NULL, state[APART], 0},
        {"wrong", PERF_NUMBER, NULL, (double)wrong, 0},
        {"iters", PERF_NUMBER, NULL, steps->samples, 0},
    };
    perf_report_record(report, fields);
}

static int allocate(struct steps *steps, size_t bytes) {
    const size_t samples = steps->options->iters ? (size_t)steps->options->iters : PERF_SAMPLES_MAX;
    bool good = perf_buffer_allocate(&steps->gradients, bytes, 0, NULL) == 0 &&
                perf_buffer_allocate(&steps->reduced, bytes, 0, NULL) == 0;
    for (int way = 0; way < WAYS; way++) {
        steps->samples_us[way] = malloc(samples * sizeof(*steps->samples_us[way]));
        good = good && steps->samples_us[way] && perf_buffer_allocate(&steps->parameters[way], bytes, 0, NULL) == 0;
    }
    return good ? 0 : -1;
}

static void release(struct steps *steps) {
    destroy(steps);
    perf_buffer_free(&steps->gradients);
    perf_buffer_free(&steps->reduced);
    for (int way = 0; way < WAYS; way++) {
        perf_buffer_free(&steps->parameters[way]);
        free(steps->samples_us[way]);
    }
    kolo_comm_destroy(steps->alone);
}

int perf_optimizer_run(const perf_options *options, kolo_comm *comm, perf_report *report, int64_t *wrong) {
    const int rank = kolo_comm_rank(comm);
    const size_t bytes = perf_sizes_max_bytes(options, kolo_dtype_bytes(options->dtype));
    struct steps steps = {.comm = comm, .options = options};
    const perf_walk walk = {"optimizer", options, comm,      false, "both ways give the same bits",
                            &steps,      run_row, report_row};
    int status = kolo_comm_split(comm, rank, 0, &steps.alone);
    if (status == KOLO_OK && allocate(&steps, bytes) != 0) {
        fprintf(stderr, "kolo-perf: rank %d: no memory for parameters of %zu bytes; use a smaller --max\n", rank,
                bytes);
        status = 1;
    }
    if (status == KOLO_OK && rank == 0)
        print_head(report);
    if (status == KOLO_OK)
        status = perf_walk_sizes(&walk, report, wrong);
    release(&steps);
    return status;
}
