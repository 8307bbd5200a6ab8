/* SPDX-License-Identifier: Apache-2.0
 */
#include "perf_run.h"

#include <math.h>
#include <stdio.h>

#include "kolo_tools.h"

enum { ROOT = 0, SAMPLES_MIN = 10 };
#define ROW_US 3e5 /* about what the timed samples of a row take, where --iters does not say */

static kolo_stats before; /* the timed samples */

static int call(perf_sampler *sampler, size_t count) {
    const perf_options *options = sampler->options;
    kolo_comm *comm = sampler->comm;
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
    kolo_stats after = {.stats_bytes = sizeof(after)};
    before.stats_bytes = sizeof(before);
    int status = kolo_comm_stats(sampler->comm, ended ? &after : &before);
    if (status != KOLO_OK || !ended)
        return status;
    row->algorithm = algorithm_between(&before, &after);
    row->link_bytes = link_bytes_between(&before, &after, row->samples * row->calls_per_sample);
    return kolo_comm_nodes(sampler->comm) > 1 ? perf_sampler_join(sampler, &row->link_bytes, 1, KOLO_MAX) : KOLO_OK;
}

/* Without this a job that is too large would get its memory, and be killed when it touches it. */
static bool exceeds_memory(const perf_sampler *sampler, size_t bytes) {
    kolo_machine machine = {.machine_bytes = sizeof(machine)};
    if (kolo_machine_query(&machine) != KOLO_OK || machine.memory_bytes == 0)
        return false;
    int ranks = kolo_comm_local_size(sampler->comm);
    double needed_bytes = (double)bytes * ranks * (sampler->in_place ? 1 : 2);
    if (needed_bytes <= (double)machine.memory_bytes)
        return false;
    if (kolo_comm_local_rank(sampler->comm) == 0) /* the others find the same */
        fprintf(stderr,
                "kolo-perf: rank %d: messages of %zu bytes need %.1f GB in %d ranks, but the machine has %.1f GB; use "
                "a smaller --max\n",
                kolo_comm_rank(sampler->comm), bytes, needed_bytes * 1e-9, ranks, (double)machine.memory_bytes * 1e-9);
    return true;
}

int perf_run_prepare(perf_sampler *sampler, const perf_options *options, kolo_comm *comm) {
    size_t bytes = perf_sizes_max_bytes(options);
    *sampler = (perf_sampler){.call = call,
                              .watch = watch,
                              .program = "kolo-perf",
                              .collective = perf_collective_name(options->collective),
                              .smaller = "--max",
                              .options = options,
                              .comm = comm,
                              .in_place = options->in_place,
                              .budget_us = ROW_US,
                              .samples_min = SAMPLES_MIN,
                              .slow_call_us = HUGE_VAL};
    return exceeds_memory(sampler, bytes) ? 1 : perf_sampler_prepare(sampler, bytes);
}

int perf_run_row(perf_sampler *sampler, size_t bytes, perf_row *row) {
    const int ranks = kolo_comm_size(sampler->comm);
    int status = perf_sampler_row(sampler, bytes, row);
    if (status != KOLO_OK || row->time_us.median <= 0)
        return status;
    double moved = sampler->options->collective == PERF_ALLREDUCE ? 2.0 * (ranks - 1) / ranks : 1;
    row->algbw_gbps = (double)bytes / row->time_us.median * 1e-3;
    row->busbw_gbps = row->algbw_gbps * moved;
    row->link_gbps = row->link_bytes / row->time_us.median * 1e-3;
    return KOLO_OK;
}
