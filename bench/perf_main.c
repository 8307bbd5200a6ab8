/* kolo-perf: times kolo's collectives and measures what the hardware allows. */
#include <math.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kolo.h"
#include "kolo_tools.h"
#include "launched_rank.h"
#include "perf_options.h"
#include "perf_report.h"
#include "perf_sampler.h"
#include "perf_team.h"

/* The sampler of kolo-perf: kolo's collectives, and what kolo's counters say of them. */

enum { EXIT_FAILED = 1, ROOT = 0, SAMPLES_MIN = 10 };
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
    const char *name = "none";
    for (int i = 0; i < KOLO_ALGORITHMS; i++) {
        uint64_t calls = after->calls_by_algorithm[i] - before->calls_by_algorithm[i];
        if (calls > calls_max) {
            calls_max = calls;
            name = kolo_algorithm_name((kolo_algorithm)i);
        }
    }
    return name;
}

static int watch(perf_sampler *sampler, perf_row *row, bool ended) {
    kolo_stats after = {.stats_bytes = sizeof(after)};
    before.stats_bytes = sizeof(before);
    int status = kolo_comm_stats(sampler->comm, ended ? &after : &before);
    if (status != KOLO_OK || !ended)
        return status;
    row->algorithm = algorithm_between(&before, &after);
    /* What this rank's node sent, or received if that is more. */
    const uint64_t sent = after.net_sent_bytes - before.net_sent_bytes;
    const uint64_t received = after.net_received_bytes - before.net_received_bytes;
    row->link_bytes = (double)(sent > received ? sent : received) / (row->samples * row->calls_per_sample);
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

/* Allocates what all rows need. Returns 0, or 1 after saying on stderr what this rank lacks; perf_sampler_free either
 * way. */
static int perf_run_prepare(perf_sampler *sampler, const perf_options *options, kolo_comm *comm) {
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

/* Measures messages of `bytes` bytes; collective over all ranks. Returns 0 with *row filled, the same on every rank, or
 * a negative KOLO_ERR_*. */
static int perf_run_row(perf_sampler *sampler, size_t bytes, perf_row *row) {
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

/* Before the communicator exists, so that the other ranks sleep meanwhile and leave their CPUs to the measurement. */
static void measure_limits(perf_limits *limits, const perf_options *options, int ranks) {
    if (perf_limits_begin(limits, ranks, ranks > 1) != 0)
        return;
    perf_job job = perf_job_of(options, ranks);
    perf_limits_request request = perf_bound_request(&job, limits->cpus, perf_sizes_max_bytes(options));
    request.point_us = PERF_POINT_QUICK_US;
    perf_limits_measure(limits, &request);
}

/* The limits were measured for the job as rank 0 guessed it to be. Where it is another one they say nothing about it.
 * Collective. */
static int confirm_limits(perf_limits *limits, kolo_comm *comm) {
    const int ranks = kolo_comm_size(comm), nodes = kolo_comm_nodes(comm);
    cpu_set_t set; /* the CPUs that any rank may use */
    if (perf_place_affinity(&set) != 0)
        CPU_ZERO(&set); /* as if it had no CPU: the other ranks wait for this call */
    const int status = kolo_allreduce(comm, &set, &set, sizeof(set), KOLO_U8, KOLO_BOR);
    const int used = ranks < CPU_COUNT(&set) ? ranks : CPU_COUNT(&set);
    if (status != KOLO_OK || limits->reason[0] != '\0')
        return status;
    if (nodes > 1)
        snprintf(limits->reason, sizeof(limits->reason), "it is that of one machine, and the job has %d nodes", nodes);
    else if (limits->ranks != ranks || limits->cpus != used)
        snprintf(limits->reason, sizeof(limits->reason), "measured for %d ranks on %d CPUs, but the job has %d on %d",
                 limits->ranks, limits->cpus, ranks, used);
    return KOLO_OK;
}

/* Rank 0 alone knows whether anybody still reads the rows. Collective. */
static int agree_on_end(perf_sampler *sampler, const perf_report *report, bool *ends) {
    int32_t wanted = kolo_comm_rank(sampler->comm) == 0 && perf_report_is_wanted(report);
    int status = kolo_broadcast(sampler->comm, &wanted, 1, KOLO_I32, 0);
    *ends = wanted == 0;
    return status;
}

/* All rows, each of one message size: one result, or those out of place and in place. Returns 0 or a KOLO_ERR_*, as
 * perf_run_row, and adds up the wrong elements. */
static int run_rows(perf_sampler *sampler, perf_report *report, int64_t *wrong) {
    const int places = sampler->options->both_places ? 2 : 1;
    perf_sizes sizes = {0};
    int status = KOLO_OK;
    bool ends = false;
    while (status == KOLO_OK && !ends && perf_sizes_next(&sizes, sampler->options)) {
        perf_row rows[2];
        for (int i = 0; i < places && status == KOLO_OK; i++) {
            sampler->in_place = places == 2 ? i == 1 : sampler->in_place;
            status = perf_run_row(sampler, sizes.bytes, &rows[i]);
            *wrong += status == KOLO_OK && rows[i].wrong > 0 ? rows[i].wrong : 0;
        }
        if (status != KOLO_OK)
            break;
        if (kolo_comm_rank(sampler->comm) == 0)
            perf_report_rows(report, rows, places);
        status = agree_on_end(sampler, report, &ends);
    }
    return status;
}

/* A hypervisor may move a virtual machine's CPUs to other cores at any time, nearer to one another or farther apart. */
static void say_if_machine_changed(const perf_limits *limits, FILE *table) {
    const double ratio_max = 1.5;
    perf_limits after = *limits;
    perf_limits_request request = {.pieces = 1u << PERF_LATENCY, .point_us = PERF_POINT_QUICK_US};
    double before_ns = limits->exchange.ns;
    after.hop = after.exchange = after.exchange_nearest = (perf_latency){0};
    if (before_ns == 0 || perf_limits_measure(&after, &request) != 0)
        return;
    double after_ns = after.exchange.ns;
    if (after_ns > before_ns * ratio_max || before_ns > after_ns * ratio_max)
        fprintf(table,
                "# careful: an exchange of a cache line took %.0f ns before the run and %.0f ns\n"
                "#   after it, so %%bound compares different machines; run again\n",
                before_ns, after_ns);
}

static void say_error(int rank) {
    char prefix[32];
    const char *message = kolo_error_message();
    snprintf(prefix, sizeof(prefix), "rank %d: ", rank);
    bool names_itself = strncmp(message, prefix, strlen(prefix)) == 0;
    fprintf(stderr, "kolo-perf: %s%s\n", names_itself ? "" : prefix, message);
}

static int begin_report(perf_report *report, const perf_options *options, kolo_comm *comm, const perf_limits *limits) {
    if (perf_report_open(report, options, kolo_comm_size(comm), kolo_comm_nodes(comm),
                         limits->reason[0] == '\0' ? limits : NULL) != 0)
        return 1;
    perf_report_head(report, options->both_places ? "--place both leaves it out"
                             : options->limits    ? limits->reason
                                                  : NULL);
    return KOLO_OK;
}

static void end_report(perf_report *report, int64_t wrong) {
    if (report->limits != NULL && !report->reader_gone)
        say_if_machine_changed(report->limits, report->table);
    perf_report_end(report, wrong);
    if (wrong > 0)
        fprintf(stderr, "kolo-perf: %lld elements were wrong; the first of each rank and row are named above\n",
                (long long)wrong);
}

/* Everything that happens within a communicator. Returns the exit status. */
static int run_collective(const perf_options *options, kolo_comm *comm, perf_limits *limits) {
    int rank = kolo_comm_rank(comm);
    perf_sampler sampler = {0};
    perf_report report = {0};
    int64_t wrong = 0;
    int status = options->limits ? confirm_limits(limits, comm) : KOLO_OK;
    if (status == KOLO_OK)
        status = perf_run_prepare(&sampler, options, comm);
    if (status == KOLO_OK && rank == 0)
        status = begin_report(&report, options, comm, limits);
    if (status == KOLO_OK)
        status = run_rows(&sampler, &report, &wrong);
    if (status < 0)
        say_error(rank);
    if (status > 0) /* this rank's own trouble, already told: the others shall not wait for it */
        kolo_comm_abort(comm, EXIT_FAILED);
    perf_sampler_free(&sampler);
    if (status == KOLO_OK && rank == 0)
        end_report(&report, wrong);
    if (rank == 0 && report.options != NULL && perf_report_close(&report) != 0)
        return EXIT_FAILED;
    return status == KOLO_OK && wrong == 0 ? EXIT_SUCCESS : EXIT_FAILED;
}

int main(int argc, char **argv) {
    signal(SIGPIPE, SIG_IGN); /* head has seen enough: the ranks end together, and none of them says that it was lost */
    launched_rank place = launched_rank_guess();
    const perf_options *options = perf_options_read(argc, argv, place.rank == 0);
    if (options->collective == PERF_LIMITS)
        return place.rank == 0 ? perf_limits_report(options, place.size) : EXIT_SUCCESS;

    static perf_limits limits = {.reason = "rank 0 learnt its rank too late to measure"};
    if (options->limits && place.rank == 0)
        measure_limits(&limits, options, place.size);

    kolo_options creation = KOLO_OPTIONS_INIT;
    creation.algorithm = options->algorithm;
    kolo_comm *comm = NULL;
    if (kolo_comm_create(&comm, &creation) != KOLO_OK) {
        say_error(place.rank);
        return EXIT_FAILED;
    }
    int exit_status = run_collective(options, comm, &limits);
    kolo_comm_destroy(comm);
    return exit_status;
}
