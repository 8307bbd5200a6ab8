#include "perf_sampler.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int perf_sampler_join(perf_sampler *sampler, double *values, size_t count) {
    return kolo_allreduce(sampler->comm, values, values, count, KOLO_F64, KOLO_MAX);
}

int perf_wrong_join(kolo_comm *comm, int64_t *wrong) {
    const int64_t own = *wrong;
    const int status = kolo_allreduce(comm, wrong, wrong, 1, KOLO_I64, KOLO_SUM);
    *wrong = *wrong > own ? *wrong : own;
    return status;
}

static int make_call(perf_sampler *sampler) {
    return sampler->call(sampler, &sampler->messages[0].call);
}

/* The time of one call, from `calls` of them. */
static int take_sample(perf_sampler *sampler, int calls, double *sample_us) {
    /* Where ranks share a processor, one that rewrites its buffer would take that from another one's last call. */
    int status = sampler->options->buffers == PERF_WARM ? 0 : kolo_barrier(sampler->comm);
    for (int i = 0; i < sampler->at_once; i++)
        perf_message_prepare_sample(&sampler->messages[i]);
    if (status == 0)
        status = kolo_barrier(sampler->comm);
    double begin_us = perf_now_us();
    for (int i = 0; i < calls && status == 0; i++)
        status = make_call(sampler);
    *sample_us = (perf_now_us() - begin_us) / calls;
    return status;
}

/* The next sample, or where something is turned on and off two of them, of which each comes first as often. */
static int take_timed_sample(perf_sampler *sampler, const perf_row *row) {
    double *const samples_us[] = {sampler->samples_us + row->samples, sampler->turned_us + row->samples};
    int status = 0;
    if (sampler->turn == NULL)
        return take_sample(sampler, row->calls_per_sample, samples_us[0]);
    for (int i = 0; i < 2 && status == 0; i++) {
        const int on = (row->samples + i) % 2;
        sampler->turn(on);
        status = take_sample(sampler, row->calls_per_sample, samples_us[on]);
    }
    sampler->turn(false);
    return status;
}

static uint64_t check(const perf_sampler *sampler, int seed) {
    uint64_t wrong = 0;
    for (int i = 0; i < sampler->at_once; i++)
        wrong += perf_message_check(&sampler->messages[i], seed);
    return wrong;
}

/* One verified call. */
static int verify_call(perf_sampler *sampler, double *call_us, uint64_t *wrong) {
    for (int i = 0; i < sampler->at_once; i++)
        perf_message_begin_check(&sampler->messages[i]);
    int status = kolo_barrier(sampler->comm);
    double begin_us = perf_now_us();
    if (status == 0)
        status = make_call(sampler);
    *call_us = perf_now_us() - begin_us;
    if (status == 0)
        *wrong += check(sampler, PERF_SEED_VERIFIED);
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
    int status = perf_sampler_join(sampler, call_us, 1);
    for (int i = 0; i < (wanted < 0 ? usual : wanted) && status == 0; i++) {
        if (*call_us > sampler->slow_call_us)
            break;
        status = take_sample(sampler, calls_of_sample(sampler, row->bytes, *call_us), call_us);
        if (status == 0)
            status = perf_sampler_join(sampler, call_us, 1);
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
            status = take_timed_sample(sampler, row);
        spent_us = fmax(spent_us + perf_now_us() - begin_us, 1e-3);
        if (iters > 0 || status != 0)
            break;
        status = perf_sampler_join(sampler, &spent_us, 1);
        wanted = fmin(fmin(floor(row->samples * sampler->budget_us / spent_us), row->samples * 4), PERF_SAMPLES_MAX);
    }
    return status;
}

/* The slowest rank's time of every sample, and what all ranks found wrong. */
static int summarize(perf_sampler *sampler, perf_row *row, uint64_t wrong) {
    int status = perf_sampler_join(sampler, sampler->samples_us, (size_t)row->samples);
    if (status == 0 && sampler->options->check) {
        row->wrong = (int64_t)wrong;
        status = perf_wrong_join(sampler->comm, &row->wrong);
    }
    if (status == 0)
        row->time_us = perf_statistics_of(sampler->samples_us, (size_t)row->samples);
    if (status == 0 && sampler->turn != NULL)
        status = perf_sampler_join(sampler, sampler->turned_us, (size_t)row->samples);
    if (status == 0 && sampler->turn != NULL)
        row->turned_us = perf_statistics_of(sampler->turned_us, (size_t)row->samples).median;
    return status;
}

void perf_sampler_begin(perf_sampler *sampler, size_t bytes, bool in_place) {
    for (int i = 0; i < sampler->at_once; i++)
        perf_message_begin(&sampler->messages[i], bytes, in_place);
}

void perf_sampler_fill(const perf_sampler *sampler) {
    for (int i = 0; i < sampler->at_once; i++)
        perf_message_fill(&sampler->messages[i]);
}

int perf_sampler_row(perf_sampler *sampler, size_t bytes, bool in_place, perf_row *row) {
    const perf_options *options = sampler->options;
    uint64_t wrong = 0;
    double call_us = 0;
    perf_sampler_begin(sampler, bytes, in_place);
    *row = (perf_row){.bytes = bytes, .count = sampler->messages[0].call.count, .in_place = in_place, .wrong = -1};

    int status = options->check ? verify_call(sampler, &call_us, &wrong) : 0;
    perf_sampler_fill(sampler);
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
        if (!perf_message_feeds_on_results(&sampler->messages[0]))
            wrong += check(sampler, PERF_SEED_TIMED);
        status = verify_call(sampler, &call_us, &wrong);
    }
    return status == 0 ? summarize(sampler, row, wrong) : status;
}

int perf_sampler_prepare(perf_sampler *sampler, size_t bytes, bool always_in_place) {
    const int samples = sampler->options->iters > 0 ? sampler->options->iters : PERF_SAMPLES_MAX;
    if (sampler->at_once == 0)
        sampler->at_once = 1;
    sampler->messages = calloc((size_t)sampler->at_once, sizeof(perf_message));
    sampler->samples_us = malloc(2 * (size_t)samples * sizeof(double));
    sampler->turned_us = sampler->samples_us + (sampler->samples_us != NULL ? samples : 0);
    int status = sampler->messages == NULL || sampler->samples_us == NULL;
    for (int i = 0; i < sampler->at_once && status == 0; i++) {
        sampler->messages[i] =
            (perf_message){.collective = sampler->collective, .options = sampler->options, .program = sampler->program};
        status = perf_message_prepare(&sampler->messages[i], sampler->comm, bytes, always_in_place);
    }
    if (status == 0)
        return 0;
    fprintf(stderr, "%s: rank %d: no memory for buffers of %zu bytes and %d samples; use a smaller %s\n",
            sampler->program, kolo_comm_rank(sampler->comm), bytes, samples, sampler->smaller);
    return 1;
}

void perf_sampler_free(perf_sampler *sampler) {
    for (int i = 0; i < sampler->at_once && sampler->messages != NULL; i++)
        perf_message_free(&sampler->messages[i]);
    free(sampler->messages);
    free(sampler->samples_us);
    sampler->messages = NULL;
    sampler->samples_us = NULL;
}
