#include "perf_sampler.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROOT = 0 }; /* of a broadcast */

const perf_buffer *perf_sampler_result(const perf_sampler *sampler) {
    return sampler->in_place ? &sampler->send : &sampler->recv;
}

int perf_sampler_join(perf_sampler *sampler, double *values, size_t count, kolo_op op) {
    return kolo_allreduce(sampler->comm, values, values, count, KOLO_F64, op);
}

static bool reduces(const perf_sampler *sampler) {
    return sampler->options->collective == PERF_ALLREDUCE;
}

/* In place and without rewriting the buffer, each call works on the last one's result. */
static bool feeds_on_results(const perf_sampler *sampler) {
    return reduces(sampler) && sampler->in_place && sampler->options->buffers == PERF_WARM;
}

static void fill_send(perf_sampler *sampler, size_t count) {
    const perf_tables *tables = sampler->tables;
    const char *values = feeds_on_results(sampler) ? tables->neutral : tables->input[PERF_SEED_TIMED];
    perf_table_fill(sampler->send.data, count, kolo_dtype_bytes(sampler->options->dtype), values);
}

/* Brings the buffers into the state that the options ask for; not timed. */
static void prepare_sample(perf_sampler *sampler, size_t count) {
    const perf_options *options = sampler->options;
    size_t bytes = count * kolo_dtype_bytes(options->dtype);
    bool sends = reduces(sampler) || kolo_comm_rank(sampler->comm) == ROOT;
    bool send_is_spent = reduces(sampler) && sampler->in_place;
    if (options->buffers == PERF_WARM)
        return;
    if (sends && (options->buffers == PERF_DIRTY || send_is_spent))
        fill_send(sampler, count);
    if (options->buffers == PERF_COLD) {
        perf_flush(sampler->send.data, bytes);
        if (!sampler->in_place)
            perf_flush(sampler->recv.data, bytes);
    }
}

/* The time of one call, from `calls` of them. */
static int take_sample(perf_sampler *sampler, size_t count, int calls, double *sample_us) {
    prepare_sample(sampler, count);
    int status = kolo_barrier(sampler->comm);
    double begin_us = perf_now_us();
    for (int i = 0; i < calls && status == 0; i++)
        status = sampler->call(sampler, count);
    *sample_us = (perf_now_us() - begin_us) / calls;
    return status;
}

/* What recv holds before a verified call: differs from the expected result nearly everywhere. */
enum { POISON = 0xa7 };

/* Before a verified call: fresh inputs (PERF_SEED_VERIFIED), a result buffer that holds something else, guard bytes. */
static void begin_check(perf_sampler *sampler, size_t count) {
    size_t element_bytes = kolo_dtype_bytes(sampler->options->dtype), bytes = count * element_bytes;
    perf_buffer_guard(&sampler->send, bytes);
    if (!sampler->in_place) {
        perf_buffer_guard(&sampler->recv, bytes);
        memset(sampler->recv.data, POISON, bytes);
    }
    perf_table_fill(sampler->send.data, count, element_bytes, sampler->tables->input[PERF_SEED_VERIFIED]);
}

static uint64_t element_bits(const void *elements, size_t index, size_t element_bytes) {
    uint64_t bits = 0; /* all supported machines are little-endian */
    memcpy(&bits, (const char *)elements + index * element_bytes, element_bytes);
    return bits;
}

/* `table` is what the first `count` elements of `data` should repeat. */
static size_t compare(const perf_sampler *sampler, const char *what, const void *data, size_t count,
                      const void *table) {
    const perf_options *options = sampler->options;
    size_t element_bytes = kolo_dtype_bytes(options->dtype);
    size_t first = 0;
    size_t wrong = perf_table_wrong(data, count, element_bytes, table, &first);
    if (wrong > 0) {
        int digits = (int)element_bytes * 2;
        fprintf(stderr,
                "%s: rank %d: %s of %zu %s: %s element %zu is 0x%0*llx, should be 0x%0*llx (wrong elements: %zu)\n",
                sampler->program, kolo_comm_rank(sampler->comm), sampler->collective, count,
                kolo_dtype_name(options->dtype), what, first, digits,
                (unsigned long long)element_bits(data, first, element_bytes), digits,
                (unsigned long long)element_bits(table, first % PERF_TABLE_PERIOD, element_bytes), wrong);
    }
    return wrong;
}

static size_t compare_guards(const perf_sampler *sampler, const char *what, const perf_buffer *buffer, size_t bytes) {
    size_t changed = perf_buffer_guards_changed(buffer, bytes);
    if (changed > 0)
        fprintf(stderr, "%s: rank %d: %s of %zu bytes: bytes overwritten beside %s: %zu\n", sampler->program,
                kolo_comm_rank(sampler->comm), sampler->collective, bytes, what, changed);
    return changed;
}

/* Compares the buffers, as the last call left them, with that seed's values: every element of the result, of `send`
 * where it must not change, and the guard bytes. Returns how many are wrong on this rank, and says on stderr where the
 * first one is. */
static uint64_t check_result(const perf_sampler *sampler, size_t count, int seed) {
    const perf_tables *tables = sampler->tables;
    const perf_buffer *result = perf_sampler_result(sampler);
    size_t bytes = count * kolo_dtype_bytes(sampler->options->dtype);
    uint64_t wrong = compare(sampler, "result", result->data, count, tables->expected[seed]);
    wrong += compare_guards(sampler, sampler->in_place ? "the buffer" : "recv", result, bytes);
    if (!sampler->in_place) {
        wrong += compare(sampler, "send, which must stay as it is,", sampler->send.data, count, tables->input[seed]);
        wrong += compare_guards(sampler, "send", &sampler->send, bytes);
    }
    return wrong;
}

/* One verified call. */
static int verify_call(perf_sampler *sampler, size_t count, double *call_us, uint64_t *wrong) {
    begin_check(sampler, count);
    int status = kolo_barrier(sampler->comm);
    double begin_us = perf_now_us();
    if (status == 0)
        status = sampler->call(sampler, count);
    *call_us = perf_now_us() - begin_us;
    if (status == 0)
        *wrong += check_result(sampler, count, PERF_SEED_VERIFIED);
    return status;
}

/* Calls in a sample, by the time that one has taken. */
static int calls_of_sample(const perf_sampler *sampler, size_t bytes, double call_us) {
    if (sampler->options->buffers != PERF_WARM || bytes > PERF_BATCH_BYTES_MAX)
        return 1;
    return call_us < PERF_SLOW_BATCH_CALL_US ? PERF_BATCH_CALLS : PERF_SLOW_BATCH_CALLS;
}

/* *call_us is the time of one call, before and after. */
static int warm_up(perf_sampler *sampler, const perf_row *row, double *call_us) {
    const int wanted = sampler->options->warmup;
    const int usual = row->bytes <= 64 << 10 ? 10 : row->bytes <= 4 << 20 ? 5 : 2;
    int status = perf_sampler_join(sampler, call_us, 1, KOLO_MAX);
    for (int i = 0; i < (wanted < 0 ? usual : wanted) && status == 0; i++) {
        if (*call_us > sampler->slow_call_us)
            break;
        status = take_sample(sampler, row->count, calls_of_sample(sampler, row->bytes, *call_us), call_us);
        if (status == 0)
            status = perf_sampler_join(sampler, call_us, 1, KOLO_MAX);
    }
    return status;
}

/* First as many samples as there have to be, then as many as fit into the rest of the time, by the slowest rank's
 * clock; not too many at once, as the first may have been lucky. */
static int take_timed_samples(perf_sampler *sampler, perf_row *row, double call_us) {
    const int iters = sampler->options->iters;
    double wanted = iters > 0 ? iters : call_us > sampler->slow_call_us ? 1 : sampler->samples_min;
    double spent_us = 0;
    int status = 0;
    while (row->samples < wanted && status == 0) {
        double begin_us = perf_now_us();
        for (; row->samples < wanted && status == 0; row->samples++)
            status = take_sample(sampler, row->count, row->calls_per_sample, &sampler->samples_us[row->samples]);
        spent_us = fmax(spent_us + perf_now_us() - begin_us, 1e-3);
        if (iters > 0 || status != 0)
            break;
        status = perf_sampler_join(sampler, &spent_us, 1, KOLO_MAX);
        wanted = fmin(fmin(floor(row->samples * sampler->budget_us / spent_us), row->samples * 4), PERF_SAMPLES_MAX);
    }
    return status;
}

/* The slowest rank's time of every sample, and what all ranks found wrong. */
static int summarize(perf_sampler *sampler, perf_row *row, uint64_t wrong) {
    double wrong_of_all = (double)wrong;
    int status = perf_sampler_join(sampler, sampler->samples_us, (size_t)row->samples, KOLO_MAX);
    if (status == 0 && sampler->options->check) {
        status = perf_sampler_join(sampler, &wrong_of_all, 1, KOLO_SUM);
        row->wrong = (int64_t)wrong_of_all;
    }
    if (status == 0)
        row->time_us = perf_statistics_of(sampler->samples_us, (size_t)row->samples);
    return status;
}

int perf_sampler_row(perf_sampler *sampler, size_t bytes, perf_row *row) {
    const perf_options *options = sampler->options;
    size_t count = bytes / kolo_dtype_bytes(options->dtype);
    uint64_t wrong = 0;
    double call_us = 0;
    *row = (perf_row){.bytes = bytes, .count = count, .in_place = sampler->in_place, .wrong = -1};

    int status = options->check ? verify_call(sampler, count, &call_us, &wrong) : 0;
    fill_send(sampler, count);
    if (status == 0)
        status = warm_up(sampler, row, &call_us);
    row->calls_per_sample = calls_of_sample(sampler, bytes, call_us);
    if (status == 0)
        status = sampler->watch(sampler, row, false);
    if (status == 0)
        status = take_timed_samples(sampler, row, call_us);
    if (status == 0)
        status = sampler->watch(sampler, row, true);
    if (options->check && status == 0) {
        if (!feeds_on_results(sampler))
            wrong += check_result(sampler, count, PERF_SEED_TIMED);
        status = verify_call(sampler, count, &call_us, &wrong);
    }
    return status == 0 ? summarize(sampler, row, wrong) : status;
}

static void make_tables(perf_sampler *sampler) {
    const perf_options *options = sampler->options;
    perf_tables *tables = sampler->tables;
    const int rank = kolo_comm_rank(sampler->comm), ranks = kolo_comm_size(sampler->comm);
    kolo_op op = reduces(sampler) ? options->op : KOLO_MAX; /* a broadcast may carry any values: MAX's are the freest */
    const int expected = reduces(sampler) && options->check ? PERF_ALL_RANKS : ROOT;
    for (uint64_t seed = 0; seed < PERF_SEEDS; seed++) {
        perf_values_of(tables->input[seed], options->dtype, op, ranks, rank, seed);
        perf_values_of(tables->expected[seed], options->dtype, op, ranks, expected, seed);
    }
    perf_values_neutral(tables->neutral, options->dtype, op);
}

int perf_sampler_prepare(perf_sampler *sampler, size_t bytes) {
    const int samples = sampler->options->iters > 0 ? sampler->options->iters : PERF_SAMPLES_MAX;
    kolo_comm *alloc = sampler->options->alloc ? sampler->comm : NULL;
    sampler->tables = malloc(sizeof(*sampler->tables));
    sampler->samples_us = malloc((size_t)samples * sizeof(double));
    if (sampler->tables == NULL || sampler->samples_us == NULL ||
        perf_buffer_allocate(&sampler->send, bytes, alloc) != 0 ||
        (!sampler->in_place && perf_buffer_allocate(&sampler->recv, bytes, alloc) != 0)) {
        fprintf(stderr, "%s: rank %d: no memory for buffers of %zu bytes and %d samples; use a smaller %s\n",
                sampler->program, kolo_comm_rank(sampler->comm), bytes, samples, sampler->smaller);
        return 1;
    }
    make_tables(sampler);
    return 0;
}

void perf_sampler_free(perf_sampler *sampler) {
    perf_buffer_free(&sampler->send);
    perf_buffer_free(&sampler->recv);
    free(sampler->tables);
    free(sampler->samples_us);
    sampler->tables = NULL;
    sampler->samples_us = NULL;
}
