/* SPDX-License-Identifier: Apache-2.0
 */
#include "perf_limits_report.h"

#include <stdint.h>

#include "perf_bound.h"
#include "perf_report.h"

typedef struct session {
    const perf_options *options;
    perf_job job;
    perf_limits limits;
    FILE *json;
} session;

/* A curve and how it is shown. */
typedef struct curve_row {
    perf_piece piece;
    const char *name;
    const char *meaning;
    const perf_curve *curve;
} curve_row;

static void show_latency(const session *session, const char *name, const char *meaning, perf_latency latency) {
    if (latency.ns == 0)
        return;
    printf("# %-10s %9.1f ns  (fastest %.1f)  %s\n", name, latency.ns, latency.min_ns, meaning);
    if (session->json != NULL)
        fprintf(session->json,
                "{\"collective\": \"limits\", \"limit\": \"%s\", \"cpus\": %d, \"time_ns\": %.2f, \"min_ns\": %.2f}\n",
                name, session->limits.cpus, latency.ns, latency.min_ns);
}

static void show_latencies(const session *session) {
    const perf_limits *limits = &session->limits;
    printf("#\n# One cache line between two cores; the slowest pair of those tried\n");
    show_latency(session, "hop", "one way: half of a round trip", limits->hop);
    show_latency(session, "exchange", "both write a line and read the other's", limits->exchange);
    if (limits->cpus > 2)
        show_latency(session, "nearest", "the exchange of the fastest pair", limits->exchange_nearest);
    if (limits->cpus < 2)
        printf("# none: the job has one CPU\n");
    perf_latency handover = {limits->handover_us * 1e3, limits->handover_us * 1e3};
    show_latency(session, "handover", "one process gives its CPU to another", handover);
    fflush(stdout);
}

static void show_curve(const session *session, const curve_row *row) {
    printf("#\n# %s\n# %12s %12s %9s  %s\n", row->meaning, "bytes/core", "us", "GB/s", "fastest way");
    if (row->curve->points == 0)
        printf("# none: the job has one CPU\n");
    for (int point = 0; point < row->curve->points; point++) {
        size_t bytes = row->curve->bytes[point];
        double gbps = perf_curve_gbps(row->curve, point);
        printf("# %12zu", bytes);
        perf_print_us(row->curve->us[point], 12);
        printf(" %9.2f  %s\n", gbps, row->curve->way[point]);
        if (session->json != NULL)
            fprintf(session->json,
                    "{\"collective\": \"limits\", \"limit\": \"%s\", \"cpus\": %d, \"bytes_per_cpu\": %zu, "
                    "\"time_us\": %.4f, \"gbps_per_cpu\": %.4f, \"way\": \"%s\"}\n",
                    row->name, session->limits.cpus, bytes, row->curve->us[point], gbps, row->curve->way[point]);
    }
    fflush(stdout);
}

static int measure(session *session, unsigned pieces) {
    perf_limits_request request = {.pieces = pieces,
                                   .exchange_bytes_max = SIZE_MAX,
                                   .stream_bytes_max = SIZE_MAX,
                                   .in_place = session->job.in_place,
                                   .cold = session->job.cold,
                                   .point_us = PERF_POINT_THOROUGH_US};
    char reason[256];
    if (perf_limits_measure(&session->limits, &request, reason, sizeof(reason)) == 0)
        return 0;
    fprintf(stderr, "kolo-perf: limits cannot be measured: %s\n", reason);
    return -1;
}

static int measure_and_show(session *session) {
    const perf_limits *limits = &session->limits;
    const curve_row rows[] = {
        {PERF_PIECE_EXCHANGES, "exchanges", "Blocks between cores, all at once: write one, read another's",
         &limits->exchanges},
        {PERF_PIECE_SENDRECV, "sendrecv",
         "Private blocks to another core's private memory, all cores at once, in pairs", &limits->sendrecv},
        {PERF_PIECE_FETCH, "fetch", "Reading what another core has just written, all at once", &limits->fetch},
        {PERF_PIECE_COPY, "copy", "Private memory to private memory, all cores at once (memory out of place)",
         &limits->copy},
        {PERF_PIECE_UPDATE, "update", "Private memory read and written back, all cores at once (memory in place)",
         &limits->update},
        {PERF_PIECE_READ, "read", "Private memory read only, all cores at once", &limits->read},
    };
    if (measure(session, PERF_PIECE_LATENCY | PERF_PIECE_HANDOVER) != 0)
        return -1;
    show_latencies(session);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (measure(session, rows[i].piece) != 0)
            return -1;
        show_curve(session, &rows[i]);
    }
    return 0;
}

static void show_bound(const session *session, size_t bytes) {
    perf_bound bound = perf_bound_of(&session->limits, &session->job, bytes);
    const char *term = bound.term != NULL ? bound.term : "none";
    double gbps = bound.bound_us > 0 ? (double)bytes / bound.bound_us * 1e-3 : 0;
    printf(" %12zu", bytes);
    perf_print_us(bound.exchange_us, 11);
    perf_print_us(bound.handover_us, 11);
    perf_print_us(bound.transfer_us, 11);
    perf_print_us(bound.memory_us, 11);
    perf_print_us(bound.bound_us, 11);
    printf(" %9.3f  %s\n", gbps, term);
    if (session->json != NULL)
        fprintf(session->json,
                "{\"collective\": \"limits\", \"limit\": \"bound\", \"ranks\": %d, \"cpus\": %d, \"bytes\": %zu, "
                "\"in_place\": %s, \"alloc\": %s, \"buffers\": \"%s\", \"exchange_us\": %.4f, \"handover_us\": %.4f, "
                "\"transfer_us\": %.4f, \"memory_us\": %.4f, \"bound_us\": %.4f, \"term\": \"%s\"}\n",
                session->job.ranks, session->limits.cpus, bytes, session->job.in_place ? "true" : "false",
                session->job.alloc ? "true" : "false", perf_buffers_name(session->options->buffers), bound.exchange_us,
                bound.handover_us, bound.transfer_us, bound.memory_us, bound.bound_us, term);
}

static void show_bounds(const session *session) {
    const perf_options *options = session->options;
    printf("#\n# No all-reduce of %d rank%s (%s, %s buffers%s) can be faster than\n", session->job.ranks,
           session->job.ranks == 1 ? "" : "s", session->job.in_place ? "in place" : "out of place",
           perf_buffers_name(options->buffers), options->alloc ? " of kolo_alloc" : "");
    printf("#%12s %11s %11s %11s %11s %11s %9s  %s\n", "bytes", "exchange", "handover", "transfer", "memory", "bound",
           "algbw", "bound by");
    printf("#%12s %11s %11s %11s %11s %11s %9s\n", "", "us", "us", "us", "us", "us", "GB/s");
    perf_sizes sizes = {0};
    while (perf_sizes_next(&sizes, options))
        show_bound(session, sizes.bytes);
}

static int choose_ranks(const perf_options *options, int launched_ranks) {
    cpu_set_t own;
    if (options->ranks > 0)
        return options->ranks;
    if (launched_ranks > 1)
        return launched_ranks;
    return perf_place_affinity(&own) == 0 ? CPU_COUNT(&own) : 1;
}

int perf_limits_report(const perf_options *options, int launched_ranks) {
    session session = {.options = options};
    session.job = perf_job_of(options, choose_ranks(options, launched_ranks));
    char reason[256];
    if (perf_limits_begin(&session.limits, session.job.ranks, launched_ranks > 1, reason, sizeof(reason)) != 0) {
        fprintf(stderr, "kolo-perf: limits cannot be measured: %s\n", reason);
        return 1;
    }
    perf_report report;
    const perf_run run = {.ranks = session.job.ranks, .nodes = 1};
    if (perf_report_open(&report, options, &run, NULL) != 0)
        return 1;
    session.json = report.json;
    printf("# kolo-perf %s: limits of %d rank%s on CPU%s", kolo_version(), session.job.ranks,
           session.job.ranks == 1 ? "" : "s", session.limits.cpus == 1 ? "" : "s");
    for (int i = 0; i < session.limits.cpus; i++)
        printf(" %d", session.limits.cpu[i]);
    printf("\n");
    perf_print_machine();
    fflush(stdout);
    int result = measure_and_show(&session);
    if (result == 0)
        show_bounds(&session);
    return perf_report_close(&report) != 0 || result != 0 ? 1 : 0;
}
