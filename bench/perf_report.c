/* SPDX-License-Identifier: Apache-2.0
 */
#include "perf_report.h"

#include <errno.h>
#include <string.h>

int perf_report_open(perf_report *report, const perf_options *options, const perf_run *run, const perf_limits *limits) {
    *report = (perf_report){.options = options, .ranks = run->ranks, .nodes = run->nodes, .limits = limits};
    if (options->json_path == NULL)
        return 0;
    report->json = fopen(options->json_path, "we");
    if (report->json != NULL)
        return 0;
    fprintf(stderr, "kolo-perf: cannot write --json '%s': %s\n", options->json_path, strerror(errno));
    return -1;
}

int perf_report_close(perf_report *report) {
    int result = 0;
    if (fflush(stdout) != 0 || ferror(stdout)) {
        fprintf(stderr, "kolo-perf: output was lost: cannot write to standard output: %s\n", strerror(errno));
        result = -1;
    }
    if (report->json == NULL)
        return result;
    bool failed = ferror(report->json);
    if (fclose(report->json) != 0 || failed) {
        fprintf(stderr, "kolo-perf: rows were lost: cannot write --json '%s': %s\n", report->options->json_path,
                strerror(errno));
        result = -1;
    }
    report->json = NULL;
    return result;
}

void perf_print_machine(void) {
    kolo_machine machine = {.machine_bytes = sizeof(machine)};
    if (kolo_machine_query(&machine) != KOLO_OK) {
        printf("# machine unknown: %s\n", kolo_error_message());
        return;
    }
    printf("# %s; kernels %s; %u of %u CPUs allowed", machine.cpu_model[0] != '\0' ? machine.cpu_model : "unknown CPU",
           machine.kernels, machine.cpus_allowed, machine.cpus_online);
    if (machine.quota_millicpus > 0)
        printf(", quota of %.2f CPUs", machine.quota_millicpus * 1e-3);
    printf("\n");
}

void perf_print_us(double us, int width) {
    printf(" %*.*f", width, us < 10 ? 3 : us < 1000 ? 2 : 1, us);
}

static bool has_op(const perf_options *options) {
    return options->collective == PERF_ALLREDUCE;
}

static bool has_data(const perf_options *options) {
    return options->collective != PERF_BARRIER;
}

static const char *dtype_text(const perf_options *options) {
    return has_data(options) ? kolo_dtype_name(options->dtype) : "none";
}

static const char *op_text(const perf_options *options) {
    return has_op(options) ? kolo_op_name(options->op) : "none";
}

static const char *algorithm_text(const perf_row *row) {
    return row->algorithm != NULL ? row->algorithm : "none";
}

static void print_limits(const perf_limits *limits) {
    printf("# %%bound: share of the hardware's bound (kolo-perf limits), measured on %d CPU%s", limits->cpus,
           limits->cpus == 1 ? "" : "s");
    if (limits->exchange.ns > 0)
        printf("; one exchange of a cache line takes %.0f ns", limits->exchange.ns);
    printf("\n");
}

void perf_report_head(const perf_report *report, const char *note) {
    const perf_options *options = report->options;
    printf("# kolo-perf %s: %s, %d rank%s", kolo_version(), perf_collective_name(options->collective), report->ranks,
           report->ranks == 1 ? "" : "s");
    printf(report->nodes > 1 ? " on %d nodes\n" : "\n", report->nodes);
    perf_print_machine();
    if (has_data(options))
        printf("# buffers %s, %s, %s; %s\n", options->alloc ? "of kolo_alloc" : "private",
               perf_buffers_name(options->buffers), options->in_place ? "in place" : "out of place",
               options->check ? "checked" : "not checked");
    printf("# time: of one call, the slowest rank's; GB = 10^9 bytes");
    if (options->buffers == PERF_WARM)
        printf("; up to %d bytes: the mean of %d calls", PERF_BATCH_BYTES_MAX, PERF_BATCH_CALLS);
    printf("\n");
    if (report->nodes > 1)
        printf("# link: bytes of one call, headers included, that the busiest node sent or received, and their rate\n");
    if (report->limits != NULL)
        print_limits(report->limits);
    else if (note != NULL)
        printf("# no %%bound: %s\n", note);
    const bool net = report->nodes > 1;
    printf("#\n#%12s %11s %6s %5s %8s %10s %10s %10s %9s %9s %s %7s\n", "bytes", "count", "dtype", "op", "algo",
           "median", "p99", "max", "algbw", "busbw", net ? "        link   link" : " %bound", "#wrong");
    printf("#%12s %11s %6s %5s %8s %10s %10s %10s %9s %9s %s\n", "", "", "", "", "", "us", "us", "us", "GB/s", "GB/s",
           net ? "       bytes   GB/s" : "");
    fflush(stdout);
}

static void write_json(const perf_report *report, const perf_row *row, double bound_us) {
    const perf_options *options = report->options;
    FILE *json = report->json;
    fprintf(json,
            "{\"collective\": \"%s\", \"ranks\": %d, \"bytes\": %zu, \"dtype\": \"%s\", \"op\": \"%s\", "
            "\"in_place\": %s, \"alloc\": %s, \"algo\": \"%s\", \"buffers\": \"%s\", ",
            perf_collective_name(options->collective), report->ranks, row->bytes, dtype_text(options), op_text(options),
            options->in_place ? "true" : "false", options->alloc ? "true" : "false", algorithm_text(row),
            perf_buffers_name(options->buffers));
    fprintf(json,
            "\"time_us\": {\"min\": %.4f, \"median\": %.4f, \"p99\": %.4f, \"max\": %.4f}, \"algbw_gbps\": %.5f, "
            "\"busbw_gbps\": %.5f, \"wrong\": %lld, \"iters\": %d, \"calls_per_iter\": %d, ",
            row->time_us.min, row->time_us.median, row->time_us.p99, row->time_us.max, row->algbw_gbps, row->busbw_gbps,
            (long long)row->wrong, row->samples, row->calls_per_sample);
    fprintf(json, "\"nodes\": %d, \"link_bytes\": %.1f, \"link_gbps\": %.6f, ", report->nodes, row->link_bytes,
            row->link_gbps);
    if (bound_us > 0 && row->time_us.median > 0)
        fprintf(json, "\"bound_us\": %.4f, \"bound_percent\": %.2f}\n", bound_us, 100 * bound_us / row->time_us.median);
    else
        fprintf(json, "\"bound_us\": null, \"bound_percent\": null}\n");
    fflush(json);
}

void perf_report_row(const perf_report *report, const perf_row *row) {
    const perf_options *options = report->options;
    double bound_us = 0;
    if (report->limits != NULL) {
        perf_job job = perf_job_of(options, report->ranks);
        bound_us = perf_bound_of(report->limits, &job, row->bytes).bound_us;
    }
    printf(" %12zu %11zu %6s %5s %8s", row->bytes, row->count, dtype_text(options), op_text(options),
           algorithm_text(row));
    perf_print_us(row->time_us.median, 10);
    perf_print_us(row->time_us.p99, 10);
    perf_print_us(row->time_us.max, 10);
    printf(" %9.3f %9.3f", row->algbw_gbps, row->busbw_gbps);
    if (report->nodes > 1)
        printf(" %12.0f %6.3f", row->link_bytes, row->link_gbps);
    else if (bound_us > 0 && row->time_us.median > 0)
        printf(" %7.1f", 100 * bound_us / row->time_us.median);
    else
        printf(" %7s", "-");
    if (row->wrong >= 0)
        printf(" %7lld\n", (long long)row->wrong);
    else
        printf(" %7s\n", "-");
    fflush(stdout);
    if (report->json != NULL)
        write_json(report, row, bound_us);
}
