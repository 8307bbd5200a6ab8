/* SPDX-License-Identifier: Apache-2.0
 */
#include "perf_run.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "perf_check.h"
#include "perf_flush.h"

enum { SAMPLES_MIN = 10, SAMPLES_MAX = 1000, PROBE_SAMPLES = 3 };
#define ROW_US 3e5 /* about what the timed samples of a row take, where --iters does not say */

enum { ROOT = 0 };

int perf_run_call(perf_run *run, size_t count) {
    const perf_options *options = run->options;
    switch (options->collective) {
    case PERF_ALLREDUCE:
        return kolo_allreduce(run->comm, run->send.data, perf_run_result(run)->data, count, options->dtype,
                              options->op);
    case PERF_BROADCAST:
        return kolo_broadcast(run->comm, run->send.data, count, options->dtype, ROOT);
    default:
        return kolo_barrier(run->comm);
    }
}

const perf_buffer *perf_run_result(const perf_run *run) {
    return run->in_place ? &run->send : &run->recv;
}

/* In place and without rewriting the buffer, each call works on the last one's result. */
static bool feeds_on_results(const perf_run *run) {
    const perf_options *options = run->options;
    return options->collective == PERF_ALLREDUCE && run->in_place && options->buffers == PERF_WARM;
}

static void fill_send(perf_run *run, size_t count) {
    const perf_tables *tables = run->tables;
    const char *values = feeds_on_results(run) ? tables->neutral : tables->input[PERF_SEED_TIMED];
    perf_table_fill(run->send.data, count, kolo_dtype_bytes(run->options->dtype), values);
}

/* Brings the buffers into the state that --buffers asks for; not timed. */
static void prepare_sample(perf_run *run, size_t count) {
    const perf_options *options = run->options;
    size_t bytes = count * kolo_dtype_bytes(options->dtype);
    bool sends = options->collective == PERF_ALLREDUCE || run->rank == ROOT;
    bool send_is_spent = options->collective == PERF_ALLREDUCE && run->in_place;
    if (options->buffers == PERF_WARM)
        return;
    if (sends && (options->buffers == PERF_DIRTY || send_is_spent))
        fill_send(run, count);
    if (options->buffers == PERF_COLD) {
        perf_flush(run->send.data, bytes);
        if (!run->in_place)
            perf_flush(run->recv.data, bytes);
    }
}

/* The time of one call, from `calls` of them. */
static int take_sample(perf_run *run, size_t count, int calls, double *sample_us) {
    prepare_sample(run, count);
    int status = kolo_barrier(run->comm);
    double begin_us = perf_now_us();
    for (int i = 0; i < calls && status == KOLO_OK; i++)
        status = perf_run_call(run, count);
    *sample_us = (perf_now_us() - begin_us) / calls;
    return status;
}

static int take_samples(perf_run *run, size_t count, int calls, int samples, double *samples_us) {
    int status = KOLO_OK;
    for (int i = 0; i < samples && status == KOLO_OK; i++)
        status = take_sample(run, count, calls, &samples_us[i]);
    return status;
}

static int warm_up(perf_run *run, size_t count, const perf_row *row) {
    int samples = run->options->warmup;
    if (samples < 0)
        samples = row->bytes <= 64 << 10 ? 10 : row->bytes <= 4 << 20 ? 5 : 2;
    double ignored_us;
    int status = KOLO_OK;
    for (int i = 0; i < samples && status == KOLO_OK; i++)
        status = take_sample(run, count, row->calls_per_sample, &ignored_us);
    return status;
}

/* How many samples fit into ROW_US, by the slowest rank's clock. */
static int choose_samples(perf_run *run, size_t count, perf_row *row) {
    row->samples = run->options->iters;
    if (row->samples > 0)
        return KOLO_OK;
    double ignored_us[PROBE_SAMPLES];
    double begin_us = perf_now_us();
    int status = take_samples(run, count, row->calls_per_sample, PROBE_SAMPLES, ignored_us);
    double probe_us = (perf_now_us() - begin_us) / PROBE_SAMPLES;
    if (status == KOLO_OK)
        status = kolo_allreduce(run->comm, &probe_us, &probe_us, 1, KOLO_F64, KOLO_MAX);
    if (status != KOLO_OK)
        return status;
    double fitting = probe_us > 0 ? ROW_US / probe_us : SAMPLES_MAX;
    row->samples = fitting < SAMPLES_MIN ? SAMPLES_MIN : fitting > SAMPLES_MAX ? SAMPLES_MAX : (int)fitting;
    return KOLO_OK;
}

static int reserve_samples(perf_run *run, int samples) {
    size_t needed = (size_t)samples;
    if (needed <= run->samples_capacity)
        return KOLO_OK;
    double *grown = realloc(run->samples_us, needed * sizeof(*grown));
    if (grown == NULL) {
        fprintf(stderr, "kolo-perf: rank %d: no memory for %d samples; use a smaller --iters\n", run->rank, samples);
        return 1;
    }
    run->samples_us = grown;
    run->samples_capacity = needed;
    return KOLO_OK;
}

/* The algorithm that completed most calls between two looks at the counters. */
static const char *algorithm_between(const kolo_stats *before, const kolo_stats *after) {
    uint64_t calls_max = 0;
    const char *name = NULL;
    for (int i = 0; i < KOLO_ALGORITHMS; i++) {
        uint64_t calls = after->calls_by_algorithm[i] - before->calls_by_algorithm[i];
        if (calls > calls_max) {
            calls_max = calls;
            name = kolo_algorithm_name((kolo_algorithm)i);
        }
    }
    return name;
}

/* What this rank's node sent, or received if that is more, between two looks, a call. */
static double link_bytes_between(const kolo_stats *before, const kolo_stats *after, int calls) {
    const uint64_t sent = after->net_sent_bytes - before->net_sent_bytes;
    const uint64_t received = after->net_received_bytes - before->net_received_bytes;
    return (double)(sent > received ? sent : received) / calls;
}

static int take_timed_samples(perf_run *run, size_t count, perf_row *row) {
    kolo_stats before = {.stats_bytes = sizeof before};
    kolo_stats after = {.stats_bytes = sizeof after};
    int status = kolo_comm_stats(run->comm, &before);
    if (status == KOLO_OK)
        status = take_samples(run, count, row->calls_per_sample, row->samples, run->samples_us);
    if (status == KOLO_OK)
        status = kolo_comm_stats(run->comm, &after);
    if (status == KOLO_OK)
        row->algorithm = algorithm_between(&before, &after);
    if (status == KOLO_OK && run->nodes > 1) {
        row->link_bytes = link_bytes_between(&before, &after, row->samples * row->calls_per_sample);
        status = kolo_allreduce(run->comm, &row->link_bytes, &row->link_bytes, 1, KOLO_F64, KOLO_MAX);
    }
    return status;
}

/* The slowest rank's time of every sample, on all ranks. */
static int summarize(perf_run *run, perf_row *row) {
    size_t samples = (size_t)row->samples;
    int status = kolo_allreduce(run->comm, run->samples_us, run->samples_us, samples, KOLO_F64, KOLO_MAX);
    if (status != KOLO_OK)
        return status;
    row->time_us = perf_statistics_of(run->samples_us, samples);
    if (row->time_us.median > 0)
        row->algbw_gbps = (double)row->bytes / row->time_us.median * 1e-3;
    double moved = run->options->collective == PERF_ALLREDUCE ? 2.0 * (run->ranks - 1) / run->ranks : 1;
    row->busbw_gbps = row->algbw_gbps * moved;
    if (row->time_us.median > 0)
        row->link_gbps = row->link_bytes / row->time_us.median * 1e-3;
    return KOLO_OK;
}

static int sum_wrong(perf_run *run, uint64_t wrong, perf_row *row) {
    int status = kolo_allreduce(run->comm, &wrong, &wrong, 1, KOLO_U64, KOLO_SUM);
    row->wrong = (int64_t)wrong;
    return status;
}

int perf_run_row(perf_run *run, size_t bytes, perf_row *row) {
    const perf_options *options = run->options;
    bool batches = options->buffers == PERF_WARM && bytes <= PERF_BATCH_BYTES_MAX;
    size_t count = bytes / kolo_dtype_bytes(options->dtype);
    *row = (perf_row){.bytes = bytes,
                      .count = count,
                      .in_place = run->in_place,
                      .calls_per_sample = batches ? PERF_BATCH_CALLS : 1,
                      .wrong = -1};

    uint64_t wrong = 0;
    int status = options->check ? perf_check_call(run, count, &wrong) : KOLO_OK;
    fill_send(run, count);
    if (status == KOLO_OK)
        status = warm_up(run, count, row);
    if (status == KOLO_OK)
        status = choose_samples(run, count, row);
    if (status == KOLO_OK)
        status = reserve_samples(run, row->samples);
    if (status == KOLO_OK)
        status = take_timed_samples(run, count, row);
    if (options->check && status == KOLO_OK) {
        if (!feeds_on_results(run))
            wrong += perf_check_result(run, count, PERF_SEED_TIMED);
        status = perf_check_call(run, count, &wrong);
    }
    if (status == KOLO_OK)
        status = summarize(run, row);
    if (options->check && status == KOLO_OK)
        status = sum_wrong(run, wrong, row);
    return status;
}

static void make_tables(perf_run *run) {
    const perf_options *options = run->options;
    perf_tables *tables = run->tables;
    bool reduces = options->collective == PERF_ALLREDUCE;
    kolo_op op = reduces ? options->op : KOLO_MAX; /* a broadcast may carry any values: those of MAX are the freest */
    for (uint64_t seed = 0; seed < PERF_SEEDS; seed++) {
        perf_values_input(tables->input[seed], options->dtype, op, run->ranks, run->rank, seed);
        if (reduces && options->check)
            perf_values_expected(tables->expected[seed], options->dtype, op, run->ranks, seed);
        else
            perf_values_input(tables->expected[seed], options->dtype, op, run->ranks, ROOT, seed);
    }
    perf_values_neutral(tables->neutral, options->dtype, op);
}

/* Without this a job that is too large would get its memory, and be killed when it touches it. */
static bool exceeds_memory(const perf_run *run, size_t bytes) {
    kolo_machine machine = {.machine_bytes = sizeof(machine)};
    if (kolo_machine_query(&machine) != KOLO_OK || machine.memory_bytes == 0)
        return false;
    int ranks = kolo_comm_local_size(run->comm);
    double needed_bytes = (double)bytes * ranks * (run->options->in_place ? 1 : 2);
    if (needed_bytes <= (double)machine.memory_bytes)
        return false;
    if (kolo_comm_local_rank(run->comm) == 0) /* the others find the same */
        fprintf(
            stderr,
            "kolo-perf: rank %d: messages of %zu bytes need %.1f GB in %d ranks, but the machine has %.1f GB; use a "
            "smaller --max\n",
            run->rank, bytes, needed_bytes * 1e-9, ranks, (double)machine.memory_bytes * 1e-9);
    return true;
}

static int allocate(perf_run *run, size_t bytes) {
    if (exceeds_memory(run, bytes))
        return 1;
    kolo_comm *comm = run->options->alloc ? run->comm : NULL;
    run->tables = malloc(sizeof(*run->tables));
    if (run->tables == NULL || perf_buffer_allocate(&run->send, bytes, comm) != 0 ||
        (!run->options->in_place && perf_buffer_allocate(&run->recv, bytes, comm) != 0)) {
        fprintf(stderr, "kolo-perf: rank %d: no memory for buffers of %zu bytes; use a smaller --max\n", run->rank,
                bytes);
        return 1;
    }
    return 0;
}

int perf_run_prepare(perf_run *run, const perf_options *options, kolo_comm *comm) {
    *run = (perf_run){.options = options, .comm = comm, .in_place = options->in_place};
    run->rank = kolo_comm_rank(comm);
    run->ranks = kolo_comm_size(comm);
    run->nodes = kolo_comm_nodes(comm);
    size_t bytes = perf_sizes_max_bytes(options);
    if (allocate(run, bytes) != 0)
        return 1;
    make_tables(run);
    /* Touched now, so that no timed call pays for page faults. */
    memset(run->send.data, 0, bytes);
    if (!options->in_place)
        memset(run->recv.data, 0, bytes);
    return 0;
}

void perf_run_free(perf_run *run) {
    perf_buffer_free(&run->send);
    perf_buffer_free(&run->recv);
    free(run->tables);
    free(run->samples_us);
    *run = (perf_run){0};
}
