#include "perf_modes.h"

#include <stdint.h>
#include <string.h>

#include "cpu/sysfs.h"
#include "perf_bound.h"
#include "perf_pieces.h"
#include "perf_progress.h"

typedef struct session {
    const perf_options *options;
    int ranks;
    perf_job job; /* of the collective whose bounds are shown */
    perf_limits limits;
    perf_report report;
} session;

static void show_latency(session *session, const char *name, const char *meaning, perf_latency latency) {
    if (latency.ns == 0)
        return;
    FILE *table = session->report.table;
    fprintf(table, "# %-10s", name);
    perf_print_digits(table, latency.ns, 8);
    fprintf(table, " ns  (fastest");
    perf_print_digits(table, latency.min_ns, 5); /* more would not fit into 80 columns */
    fprintf(table, ")  %s\n", meaning);
    perf_field fields[PERF_FIELDS_MAX] = {{.name = "collective", .text = "limits"},
                                          {.name = "limit", .text = name},
                                          {"cpus", PERF_NUMBER, NULL, session->limits.cpus, 0},
                                          {"time_ns", PERF_NUMBER, NULL, latency.ns, 2},
                                          {"min_ns", PERF_NUMBER, NULL, latency.min_ns, 2}};
    perf_report_record(&session->report, fields);
}

static void show_latencies(session *session) {
    FILE *table = session->report.table;
    const perf_limits *limits = &session->limits;
    fprintf(table, "#\n# One cache line between two cores; the slowest pair of those tried\n");
    show_latency(session, "hop", "one way: half of a round trip", limits->hop);
    show_latency(session, "exchange", "both write, and read the other's line", limits->exchange);
    show_latency(session, "ahead", "a line of many one way, unanswered", limits->ahead);
    if (limits->cpus > 2)
        show_latency(session, "nearest", "the exchange of the fastest pair", limits->exchange_nearest);
    if (limits->cpus < 2)
        fprintf(table, "# none: the job has one CPU\n");
    perf_latency handover = {limits->handover_us * 1e3, limits->handover_us * 1e3};
    show_latency(session, "handover", "the CPU goes to another process", handover);
    perf_report_flush(&session->report);
}

enum { MATRIX_CPUS_MAX = 11 }; /* in 80 columns */

/* What two CPUs share, nearest first. */
static const char *const shares[] = {"core", "cache", "node", "machine"};
enum { SHARES = sizeof(shares) / sizeof(shares[0]), LISTS = 2, NODES_MAX = 64 };

static bool lists_both(const char *format, int number, int one, int other) {
    char path[96];
    kolo_cpu_set set;
    snprintf(path, sizeof(path), format, number);
    return kolo_sysfs_list("/sys", path, &set, NULL) && kolo_cpu_set_has(&set, (uint32_t)one) &&
           kolo_cpu_set_has(&set, (uint32_t)other);
}

/* An index of shares. */
static int share_of(int one, int other) {
    static const char *const lists[LISTS] = {"devices/system/cpu/cpu%d/topology/thread_siblings_list",
                                             "devices/system/cpu/cpu%d/cache/index3/shared_cpu_list"};
    for (int list = 0; list < LISTS; list++)
        if (lists_both(lists[list], one, one, other))
            return list;
    for (int node = 0; node < NODES_MAX; node++)
        if (lists_both("devices/system/node/node%d/cpulist", node, one, other))
            return LISTS;
    return SHARES - 1;
}

static void show_matrix(const session *session, int cpus) {
    const perf_limits *limits = &session->limits;
    FILE *table = session->report.table;
    fprintf(table, "#\n# Hops between CPUs, in ns\n# %5s", "CPU");
    for (int one = 0; one < cpus; one++)
        fprintf(table, " %5d", limits->cpu[one]);
    for (int one = 0; one < cpus; one++) {
        fprintf(table, "\n# %5d", limits->cpu[one]);
        for (int other = 0; other < cpus; other++)
            if (one == other)
                fprintf(table, " %5s", "-");
            else
                perf_print_digits(table, limits->pair_hop_ns[one][other], 5);
    }
    fprintf(table, "\n");
}

/* Hops between CPUs that share the same. */
typedef struct hops {
    int pairs;
    double least_ns, sum_ns, most_ns;
} hops;

static void add_hop(hops *all, double ns) {
    all->least_ns = all->pairs == 0 || ns < all->least_ns ? ns : all->least_ns;
    all->most_ns = ns > all->most_ns ? ns : all->most_ns;
    all->sum_ns += ns;
    all->pairs++;
}

static void record_pair(session *session, int one, int other, int share) {
    const perf_limits *limits = &session->limits;
    perf_field fields[PERF_FIELDS_MAX] = {{.name = "collective", .text = "limits"},
                                          {.name = "limit", .text = "pair"},
                                          {"one_cpu", PERF_NUMBER, NULL, limits->cpu[one], 0},
                                          {"other_cpu", PERF_NUMBER, NULL, limits->cpu[other], 0},
                                          {.name = "share", .text = shares[share]},
                                          {"time_ns", PERF_NUMBER, NULL, limits->pair_hop_ns[one][other], 2}};
    perf_report_record(&session->report, fields);
}

/* Every pair of CPUs, and in a line each those that share a core, a cache, a node, or nothing less than the machine. */
static void show_pairs(session *session) {
    const perf_limits *limits = &session->limits;
    FILE *table = session->report.table;
    const int cpus = limits->cpus < PERF_PAIRS_CPUS_MAX ? limits->cpus : PERF_PAIRS_CPUS_MAX;
    hops of_share[SHARES] = {{0}};
    if (cpus <= MATRIX_CPUS_MAX)
        show_matrix(session, cpus);
    for (int one = 0; one < cpus; one++) {
        for (int other = one + 1; other < cpus; other++) {
            const int share = share_of(limits->cpu[one], limits->cpu[other]);
            add_hop(&of_share[share], limits->pair_hop_ns[one][other]);
            record_pair(session, one, other, share);
        }
    }
    fprintf(table, "#\n# %-16s %6s %9s %9s %9s\n", "CPUs of the same", "pairs", "least ns", "mean ns", "most ns");
    for (int share = 0; share < SHARES; share++)
        if (of_share[share].pairs > 0)
            fprintf(table, "# %-16s %6d %9.1f %9.1f %9.1f\n", shares[share], of_share[share].pairs,
                    of_share[share].least_ns, of_share[share].sum_ns / of_share[share].pairs, of_share[share].most_ns);
    perf_report_flush(&session->report);
}

static void show_curve(session *session, perf_piece piece) {
    const perf_piece_row *row = &perf_piece_rows[piece];
    const perf_curve *curve = &session->limits.curve[piece];
    FILE *table = session->report.table;
    fprintf(table, "#\n# %s\n# %12s %12s %9s  %s\n", row->meaning, "bytes/core", "us", "GB/s", "fastest way");
    if (curve->points == 0)
        fprintf(table, "# none: the job has one CPU\n");
    for (int point = 0; point < curve->points; point++) {
        const double bytes = (double)curve->bytes[point];
        const double us = curve->us[point];
        const double gbps = perf_curve_gbps(curve, point);
        fprintf(table, "# %12.0f", bytes);
        perf_print_digits(table, us, 12);
        fprintf(table, " %9.2f  %s\n", gbps, curve->way[point]);
        perf_field fields[PERF_FIELDS_MAX] = {{.name = "collective", .text = "limits"},
                                              {.name = "limit", .text = row->name},
                                              {"cpus", PERF_NUMBER, NULL, session->limits.cpus, 0},
                                              {"bytes_per_cpu", PERF_NUMBER, NULL, bytes, 0},
                                              {"time_us", PERF_NUMBER, NULL, us, 4},
                                              {"gbps_per_cpu", PERF_NUMBER, NULL, gbps, 4},
                                              {.name = "way", .text = curve->way[point]}};
        perf_report_record(&session->report, fields);
    }
    perf_report_flush(&session->report);
}

static int measure(session *session, unsigned pieces, const char *what) {
    perf_limits_request request = {.pieces = pieces,
                                   .exchange_bytes_max = SIZE_MAX,
                                   .stream_bytes_max = SIZE_MAX,
                                   .in_place = session->options->in_place,
                                   .cold = session->options->buffers == PERF_COLD,
                                   .point_us = session->options->quick || pieces & 1u << PERF_PAIRS
                                                   ? PERF_POINT_QUICK_US
                                                   : PERF_POINT_THOROUGH_US};
    perf_progress_say(what);
    const int result = perf_limits_measure(&session->limits, &request);
    perf_progress_erase();
    return result;
}

static int measure_and_show(session *session) {
    if (measure(session, 1u << PERF_LATENCY | 1u << PERF_HANDOVER, "measuring latencies ...") != 0)
        return -1;
    show_latencies(session);
    if (session->limits.cpus > 1 && measure(session, 1u << PERF_PAIRS, "measuring pairs of CPUs ...") != 0)
        return -1;
    if (session->limits.cpus > 1)
        show_pairs(session);
    for (perf_piece piece = PERF_EXCHANGES; piece < PERF_PIECES && perf_report_is_wanted(&session->report); piece++) {
        char what[64];
        snprintf(what, sizeof(what), "measuring %s, curve %d of %d ...", perf_piece_rows[piece].name,
                 piece - PERF_EXCHANGES + 1, PERF_PIECES - PERF_EXCHANGES);
        if (measure(session, 1u << piece, what) != 0)
            return -1;
        show_curve(session, piece);
    }
    return 0;
}

static void show_bound(session *session, size_t bytes) {
    FILE *table = session->report.table;
    const perf_bound bound = perf_bound_of(&session->limits, &session->job, bytes);
    const char *term = bound.term != NULL ? bound.term : "none";
    const double gbps = bound.bound_us > 0 ? (double)bytes / bound.bound_us * 1e-3 : 0;
    const double times[] = {bound.exchange_us, bound.handover_us, bound.transfer_us,
                            bound.memory_us,   bound.bound_us,    bound.sum_us};
    perf_print_bytes(table, bytes, 10);
    for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++)
        perf_print_digits(table, times[i], i < 3 ? 8 : 7);
    perf_print_digits(table, gbps, 7);
    fprintf(table, "  %s\n", term);
    perf_field fields[PERF_FIELDS_MAX] = {{.name = "collective", .text = "limits"},
                                          {.name = "limit", .text = "bound"},
                                          {.name = "of", .text = perf_collective_name(session->job.collective)},
                                          {"ranks", PERF_NUMBER, NULL, session->job.ranks, 0},
                                          {"cpus", PERF_NUMBER, NULL, session->limits.cpus, 0},
                                          {"bytes", PERF_NUMBER, NULL, (double)bytes, 0},
                                          {"in_place", PERF_TRUTH, NULL, session->job.in_place, 0},
                                          {"alloc", PERF_TRUTH, NULL, session->job.alloc, 0},
                                          {.name = "buffers", .text = perf_buffers_name(session->options->buffers)},
                                          {"exchange_us", PERF_NUMBER, NULL, bound.exchange_us, 4},
                                          {"handover_us", PERF_NUMBER, NULL, bound.handover_us, 4},
                                          {"transfer_us", PERF_NUMBER, NULL, bound.transfer_us, 4},
                                          {"memory_us", PERF_NUMBER, NULL, bound.memory_us, 4},
                                          {"bound_us", PERF_NUMBER, NULL, bound.bound_us, 4},
                                          {"bound_sum_us", PERF_NUMBER, NULL, bound.sum_us, 4},
                                          {.name = "term", .text = term}};
    perf_report_record(&session->report, fields);
}

static void show_bounds(session *session) {
    const perf_options *options = session->options;
    FILE *table = session->report.table;
    fprintf(table, "#\n# No %s of %d rank%s (%s, %s buffers%s) can be faster than\n",
            perf_collective_name(session->job.collective), session->job.ranks, session->job.ranks == 1 ? "" : "s",
            session->job.in_place ? "in place" : "out of place", perf_buffers_name(options->buffers),
            options->alloc ? " of kolo_alloc" : "");
    fprintf(table, "#%10s %8s %8s %8s %7s %7s %7s %7s  %s\n", "bytes", "exchange", "handover", "transfer", "memory",
            "bound", "sum", "algbw", "bound by");
    fprintf(table, "#%10s %8s %8s %8s %7s %7s %7s %7s\n", "", "us", "us", "us", "us", "us", "us", "GB/s");
    const bool has_data = perf_collective_has_data(session->job.collective);
    perf_sizes sizes = {.unit_bytes = has_data ? kolo_dtype_bytes(options->dtype) : 0};
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

/* "0-3 8-11"; "" where that would be long. */
static void format_cpus(const perf_limits *limits, char *text, size_t text_bytes) {
    size_t used = 0;
    text[0] = '\0';
    for (int i = 0; i < limits->cpus;) {
        const int first = limits->cpu[i], begin = i;
        while (++i < limits->cpus && limits->cpu[i] == limits->cpu[i - 1] + 1)
            continue;
        const char *format = i - begin > 1 ? "%s%d-%d" : "%s%d";
        const int length =
            snprintf(text + used, text_bytes - used, format, used > 0 ? " " : "", first, limits->cpu[i - 1]);
        used += (size_t)length;
        if (used >= text_bytes) {
            text[0] = '\0';
            return;
        }
    }
}

static void show_head(session *session) {
    char cpus[27]; /* in 80 columns */
    format_cpus(&session->limits, cpus, sizeof(cpus));
    fprintf(session->report.table, "# kolo-perf %s: limits of %d rank%s on %d CPU%s%s%s\n", kolo_version(),
            session->ranks, session->ranks == 1 ? "" : "s", session->limits.cpus, session->limits.cpus == 1 ? "" : "s",
            cpus[0] != '\0' ? ": " : "", cpus);
    perf_report_machine(&session->report);
    perf_report_flush(&session->report);
}

int perf_limits_report(const perf_options *options, int launched_ranks) {
    session session = {.options = options, .ranks = choose_ranks(options, launched_ranks)};
    if (perf_report_open(&session.report, options, session.ranks, 1, NULL) != 0)
        return 1;
    int result = perf_limits_begin(&session.limits, session.ranks, launched_ranks > 1);
    if (result == 0) {
        show_head(&session);
        result = measure_and_show(&session);
    }
    for (int i = 0; i < options->collectives_count && result == 0; i++) {
        session.job = perf_job_of(options, options->collectives[i], session.ranks);
        show_bounds(&session);
    }
    if (result != 0)
        fprintf(stderr, "kolo-perf: limits cannot be measured: %s\n", session.limits.reason);
    return perf_report_close(&session.report) != 0 || result != 0 ? 1 : 0;
}
