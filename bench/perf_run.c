/* SPDX-License-Identifier: Apache-2.0
 */
#include "perf_run.h"

#include <math.h>
#include <stdio.h>

#include "kolo_tools.h"

enum { ROOT = 0, SAMPLES_MIN = 10 };
#define ROW_US 3e5 /* about what the timed samples of a row take, where --iters does not say */

static perf_run *run_of(perf_sampler *sampler) {
    return (perf_run *)sampler; /* its first member */
}

static int call(perf_sampler *sampler, size_t count) {
    const perf_options *options = sampler->options;
    kolo_comm *comm = run_of(sampler)->comm;
    void *send = sampler->send.data, *recv = perf_sampler_result(sampler)->data;
    switch (options->collective) {
    case PERF_ALLREDUCE:
        return kolo_allreduce(comm, send, recv, count, options->dtype, options->op);
    case PERF_BROADCAST:
        return kolo_broadcast(comm, send, count, options->dtype, ROOT);
    default:
        return kolo_barrier(comm);
    }
}

static int meet(perf_sampler *sampler) {
    return kolo_barrier(run_of(sampler)->comm);
}

static int join(perf_sampler *sampler, double *values, size_t count, bool sums) {
    return kolo_allreduce(run_of(sampler)->comm, values, values, count, KOLO_F64, sums ? KOLO_SUM : KOLO_MAX);
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

static int watch(perf_sampler *sampler, perf_row *row, bool ended) {
    perf_run *run = run_of(sampler);
    const kolo_stats before = run->before;
    run->before = (kolo_stats){.stats_bytes = sizeof(run->before)};
    int status = kolo_comm_stats(run->comm, &run->before);
    if (status != KOLO_OK || !ended)
        return status;
    row->algorithm = algorithm_between(&before, &run->before);
    row->link_bytes = link_bytes_between(&before, &run->before, row->samples * row->calls_per_sample);
    return run->nodes > 1 ? join(sampler, &row->link_bytes, 1, false) : KOLO_OK;
}

/* Without this a job that is too large would get its memory, and be killed when it touches it. */
static bool exceeds_memory(const perf_run *run, size_t bytes) {
    kolo_machine machine = {.machine_bytes = sizeof(machine)};
    if (kolo_machine_query(&machine) != KOLO_OK || machine.memory_bytes == 0)
        return false;
    int ranks = kolo_comm_local_size(run->comm);
    double needed_bytes = (double)bytes * ranks * (run->sampler.in_place ? 1 : 2);
    if (needed_bytes <= (double)machine.memory_bytes)
        return false;
    if (kolo_comm_local_rank(run->comm) == 0) /* the others find the same */
        fprintf(stderr,
                "kolo-perf: rank %d: messages of %zu bytes need %.1f GB in %d ranks, but the machine has %.1f GB; use "
                "a smaller --max\n",
                run->sampler.rank, bytes, needed_bytes * 1e-9, ranks, (double)machine.memory_bytes * 1e-9);
    return true;
}

int perf_run_prepare(perf_run *run, const perf_options *options, kolo_comm *comm) {
    static const perf_calls calls = {call, meet, join, watch};
    size_t bytes = perf_sizes_max_bytes(options);
    *run = (perf_run){.sampler = {.program = "kolo-perf",
                                  .collective = perf_collective_name(options->collective),
                                  .smaller = "--max",
                                  .options = options,
                                  .calls = &calls,
                                  .rank = kolo_comm_rank(comm),
                                  .ranks = kolo_comm_size(comm),
                                  .in_place = options->in_place,
                                  .comm = options->alloc ? comm : NULL,
                                  .budget_us = ROW_US,
                                  .samples_min = SAMPLES_MIN,
                                  .slow_call_us = HUGE_VAL},
                      .comm = comm,
                      .nodes = kolo_comm_nodes(comm)};
    return exceeds_memory(run, bytes) ? 1 : perf_sampler_prepare(&run->sampler, bytes);
}

int perf_run_row(perf_run *run, size_t bytes, perf_row *row) {
    const int ranks = run->sampler.ranks;
    int status = perf_sampler_row(&run->sampler, bytes, row);
    if (status != KOLO_OK || row->time_us.median <= 0)
        return status;
    double moved = run->sampler.options->collective == PERF_ALLREDUCE ? 2.0 * (ranks - 1) / ranks : 1;
    row->algbw_gbps = (double)bytes / row->time_us.median * 1e-3;
    row->busbw_gbps = row->algbw_gbps * moved;
    row->link_gbps = row->link_bytes / row->time_us.median * 1e-3;
    return KOLO_OK;
}
