/* kolo-perf: times kolo's collectives and measures what the hardware allows. */
#include <math.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kolo_lanes.h"
#include "kolo_tools.h"
#include "launched_rank.h"
#include "perf_calls.h"
#include "perf_modes.h"
#include "perf_options.h"
#include "perf_progress.h"
#include "perf_report.h"
#include "perf_sampler.h"
#include "perf_team.h"

/* The sampler of kolo-perf: kolo's collectives, and what kolo's counters say of them. */

enum { EXIT_FAILED = 1, EXIT_MISTAKE = 2, SAMPLES_MIN = 10 };
#define ROW_US 3e5 /* about what the timed samples of a row take, where --iters does not say */

static kolo_stats before; /* the timed samples */

static int call(const perf_sampler *sampler, const perf_call *call) {
    return sampler->collective->call(call);
}

/* The algorithm that completed most calls between two looks at the counters. */
static const char *algorithm_between(const kolo_stats *before, const kolo_stats *after) {
    uint64_t calls_max = 0;
    const char *name = "none";
    for (int i = 0; i < KOLO_ALGORITHMS; i++) {
        uint64_t calls = after->calls_by_algorithm[i] - before->calls_by_algorithm[i];
        if (calls > calls_max) {
            calls_max = calls;
            name = kolo_name(KOLO_NAME_ALGORITHM, i);
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
    row->link_bytes = (double)(sent > received ? sent : received) /
                      (row->samples * row->calls_per_sample * sampler->at_once * (sampler->turn != NULL ? 2 : 1));
    return kolo_comm_nodes(sampler->comm) > 1 ? perf_sampler_join(sampler, &row->link_bytes, 1) : KOLO_OK;
}

static kolo_comm_info info_of(const kolo_comm *comm) {
    kolo_comm_info info = {.info_bytes = sizeof(info)};
    kolo_comm_query(comm, &info);
    return info;
}

/* Without this a job that is too large would get its memory, and be killed when it touches it. */
static bool exceeds_memory(const perf_sampler *sampler, size_t bytes, bool always_in_place) {
    kolo_machine machine = {.machine_bytes = sizeof(machine)};
    if (kolo_machine_query(&machine) != KOLO_OK || machine.memory_bytes == 0)
        return false;
    const kolo_comm_info info = info_of(sampler->comm);
    const int ranks = info.local_size;
    const double send_bytes = perf_side_bytes(sampler->collective->send, (double)bytes, ranks);
    const double recv_bytes = perf_side_bytes(sampler->collective->recv, (double)bytes, ranks);
    const double needed_bytes =
        sampler->at_once * (always_in_place ? fmax(send_bytes, recv_bytes) : send_bytes + recv_bytes);
    if (needed_bytes <= (double)machine.memory_bytes)
        return false;
    if (info.local_rank == 0) /* the others find the same */
        fprintf(stderr,
                "kolo-perf: rank %d: messages of %zu bytes need %.1f GB in %d ranks, but the machine has %.1f GB; use "
                "a smaller --max\n",
                info.rank, bytes, needed_bytes * 1e-9, ranks, (double)machine.memory_bytes * 1e-9);
    return true;
}

static size_t unit_bytes(const perf_sampler *sampler) {
    return perf_collective_unit_bytes(sampler->collective, kolo_comm_size(sampler->comm), sampler->options->dtype);
}

/* PERF_OUT, PERF_IN or both: of those that are asked for, what the collective has. */
static unsigned places_of(const perf_options *options, const perf_collective *collective) {
    const unsigned wanted = options->both_places ? PERF_OUT | PERF_IN : options->in_place ? PERF_IN : PERF_OUT;
    return collective->places == (PERF_OUT | PERF_IN) ? wanted : collective->places;
}

/* Sees to what all rows of a table need. Returns 0, or 1 after saying on stderr what this rank lacks. */
static int prepare(perf_sampler *sampler, const perf_options *options, const perf_collective *collective,
                   kolo_comm *comm) {
    const bool always_in_place = places_of(options, collective) == PERF_IN;
    const int in_flight = options->in_flight;
    *sampler = (perf_sampler){.call = options->lanes  ? perf_lanes_call
                                      : in_flight > 0 ? perf_background_call
                                                      : call,
                              .at_once = in_flight > 0 ? in_flight : 1,
                              .watch = watch,
                              .turn = options->trace ? perf_tracing_turn : NULL,
                              .program = "kolo-perf",
                              .collective = collective,
                              .smaller = "--max",
                              .options = options,
                              .comm = comm,
                              .budget_us = ROW_US,
                              .samples_min = SAMPLES_MIN,
                              .slow_call_us = HUGE_VAL};
    const size_t bytes = perf_sizes_max_bytes(options, unit_bytes(sampler));
    if (exceeds_memory(sampler, bytes, always_in_place) || perf_sampler_prepare(sampler, bytes, always_in_place) != 0)
        return 1;
    return options->lanes ? perf_lanes_begin(info_of(comm).lanes) : 0;
}

/* Either way. */
static void finish(perf_sampler *sampler) {
    perf_lanes_end();
    perf_sampler_free(sampler);
}

/* What was taken for a call were `calls` of them. */
static void spread(perf_row *row, int calls) {
    double *const times_us[] = {&row->time_us.min, &row->time_us.avg, &row->time_us.median, &row->time_us.p99,
                                &row->time_us.max};
    for (size_t i = 0; i < sizeof(times_us) / sizeof(times_us[0]); i++)
        *times_us[i] /= calls;
    row->calls_per_sample *= calls;
}

/* Measures messages of `bytes` bytes; collective over all ranks. Returns 0 with *row filled, the same on every rank, or
 * a negative KOLO_ERR_*. */
static int run_row(perf_sampler *sampler, size_t bytes, bool in_place, perf_row *row) {
    int status = perf_sampler_row(sampler, bytes, in_place, row);
    if (status != KOLO_OK || row->time_us.median <= 0)
        return status;
    spread(row, sampler->at_once);
    row->turned_us /= sampler->at_once;
    row->algbw_gbps = (double)bytes / row->time_us.median * 1e-3;
    row->busbw_gbps = row->algbw_gbps * perf_collective_bus_factor(sampler->collective, kolo_comm_size(sampler->comm));
    row->link_gbps = row->link_bytes / row->time_us.median * 1e-3;
    return KOLO_OK;
}

/* Before the communicator exists, so that the other ranks sleep meanwhile and leave their CPUs to the measurement. */
static void measure_limits(perf_limits *limits, const perf_options *options, int ranks) {
    if (perf_limits_begin(limits, ranks, ranks > 1) != 0)
        return;
    const size_t bytes_max = perf_sizes_max_bytes(options, kolo_dtype_bytes(options->dtype));
    perf_limits_request request = {.point_us = PERF_POINT_QUICK_US};
    for (int i = 0; i < options->collectives_count; i++) {
        const perf_job job = perf_job_of(options, options->collectives[i], ranks);
        perf_bound_request(&request, &job, limits->cpus, bytes_max);
    }
    perf_progress_say("measuring what the hardware allows ...");
    perf_limits_measure(limits, &request);
    perf_progress_erase();
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

/* The row of one message size; collective. Returns 0 or a KOLO_ERR_*, as run_row, and adds up the wrong elements. */
static int run_overlap(perf_sampler *sampler, perf_report *report, size_t bytes, int64_t *wrong) {
    perf_overlap taken;
    const int status =
        perf_overlap_take(sampler, bytes, places_of(sampler->options, sampler->collective) == PERF_IN, &taken);
    perf_progress_erase();
    if (status != KOLO_OK)
        return status;
    *wrong += taken.row.wrong > 0 ? taken.row.wrong : 0;
    if (kolo_comm_rank(sampler->comm) == 0)
        perf_overlap_row(report, &taken);
    return KOLO_OK;
}

/* The same: one result, or those out of place and in place. */
static int run_places(perf_sampler *sampler, perf_report *report, size_t bytes, int64_t *wrong) {
    const unsigned places = places_of(sampler->options, sampler->collective);
    perf_row rows[2];
    int count = 0, status = KOLO_OK;
    for (unsigned place = PERF_OUT; place <= PERF_IN && status == KOLO_OK; place++) {
        if (!(places & place))
            continue;
        status = run_row(sampler, bytes, place == PERF_IN, &rows[count]);
        *wrong += status == KOLO_OK && rows[count].wrong > 0 ? rows[count].wrong : 0;
        count++;
    }
    perf_progress_erase();
    if (status == KOLO_OK && kolo_comm_rank(sampler->comm) == 0)
        perf_report_rows(report, rows, count);
    return status;
}

/* All rows of a table. */
static int run_rows(perf_sampler *sampler, perf_report *report, int64_t *wrong, bool *ends) {
    perf_sizes sizes = {.unit_bytes = unit_bytes(sampler)};
    int status = KOLO_OK;
    while (status == KOLO_OK && !*ends && perf_sizes_next(&sizes, sampler->options)) {
        perf_progress_row(perf_collective_name(sampler->collective), sizes.bytes);
        status = sampler->options->overlap ? run_overlap(sampler, report, sizes.bytes, wrong)
                                           : run_places(sampler, report, sizes.bytes, wrong);
        if (status == KOLO_OK)
            status = perf_report_agree_on_end(report, sampler->comm, ends);
    }
    return status;
}

int perf_walk_sizes(const perf_walk *walk, perf_report *report, int64_t *wrong) {
    const bool speaks = kolo_comm_rank(walk->comm) == 0;
    perf_sizes sizes = {.unit_bytes = kolo_dtype_bytes(walk->options->dtype)};
    bool ends = false, checked = false;
    int status = KOLO_OK;
    perf_progress_expect(walk->options, sizes.unit_bytes);
    while (status == KOLO_OK && !ends && perf_sizes_next(&sizes, walk->options)) {
        int64_t wrong_here = -1;
        if (sizes.bytes == 0 && !walk->has_empty)
            continue;
        perf_progress_row(walk->name, sizes.bytes);
        status = walk->measure(walk->of, sizes.bytes, &wrong_here);
        perf_progress_erase();
        checked |= wrong_here >= 0;
        *wrong += wrong_here > 0 ? wrong_here : 0;
        if (status == KOLO_OK && speaks) {
            walk->show(walk->of, report, wrong_here);
            perf_report_flush(report);
        }
        if (status == KOLO_OK)
            status = perf_report_agree_on_end(report, walk->comm, &ends);
    }
    if (status == KOLO_OK && speaks && *wrong > 0)
        fprintf(report->table, "# FAILED: %lld wrong\n", (long long)*wrong);
    else if (status == KOLO_OK && speaks && checked)
        fprintf(report->table, "# %s\n", walk->right);
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
                "# careful: an exchange of a cache line took %.0f ns before the run\n"
                "#   and %.0f ns after it, so %%bound compares different machines; run again\n",
                before_ns, after_ns);
}

static void say_error(int rank) {
    char prefix[32];
    const char *message = kolo_error_message();
    snprintf(prefix, sizeof(prefix), "rank %d: ", rank);
    bool names_itself = strncmp(message, prefix, strlen(prefix)) == 0;
    fprintf(stderr, "kolo-perf: %s%s\n", names_itself ? "" : prefix, message);
}

static void end_measuring(kolo_comm *comm, int status) {
    if (status < 0)
        say_error(kolo_comm_rank(comm));
    if (status > 0) /* this rank's own trouble, already told: the others shall not wait for it */
        kolo_comm_abort(comm, EXIT_FAILED);
}

static void begin_table(perf_report *report, const perf_collective *collective, const perf_limits *limits) {
    const perf_options *options = report->options;
    const bool both = places_of(options, collective) == (PERF_OUT | PERF_IN);
    const char *note = options->overlap         ? NULL
                       : both                   ? "--place both leaves it out"
                       : options->in_flight > 0 ? "it is for one blocking call"
                       : options->limits        ? limits->reason
                                                : NULL;
    perf_report_head(report, collective, both, note);
    if (options->overlap)
        perf_overlap_head(report);
}

static void end_table(perf_report *report, int64_t wrong) {
    if (report->bounded && !report->reader_gone)
        say_if_machine_changed(report->limits, report->table);
    perf_report_end(report, wrong);
}

/* One collective. Returns 0, a KOLO_ERR_*, or 1 after a complaint of this rank's. */
static int run_table(const perf_options *options, const perf_collective *collective, kolo_comm *comm,
                     const perf_limits *limits, perf_report *report, int64_t *wrong, bool *ends) {
    const bool speaks = kolo_comm_rank(comm) == 0;
    perf_sampler sampler = {0};
    int64_t wrong_here = 0;
    int status = prepare(&sampler, options, collective, comm);
    if (status == KOLO_OK && speaks)
        begin_table(report, collective, limits);
    if (status == KOLO_OK)
        status = run_rows(&sampler, report, &wrong_here, ends);
    end_measuring(comm, status);
    finish(&sampler);
    if (status == KOLO_OK && speaks)
        end_table(report, wrong_here);
    *wrong += wrong_here;
    return status;
}

/* Communicators of all ranks: one without a progress thread, one with it, or what is asked for. */
typedef struct perf_comms {
    kolo_comm *comm[2];
    bool progress[2];
    int count;
} perf_comms;

static int create_comms(const perf_options *options, perf_comms *comms) {
    const char *variable = getenv("KOLO_PROGRESS");
    kolo_options creation = KOLO_OPTIONS_INIT;
    int status = KOLO_OK;
    creation.algorithm = options->algorithm;
    creation.threads = options->threads;
    *comms = (perf_comms){.count = options->progress == PERF_PROGRESS_BOTH ? 2 : 1};
    for (int i = 0; i < comms->count && status == KOLO_OK; i++) {
        comms->progress[i] = options->progress == PERF_PROGRESS_ENVIRONMENT
                                 ? variable != NULL && strcmp(variable, "1") == 0
                                 : options->progress == PERF_PROGRESS_YES || i == 1;
        creation.progress = comms->progress[i] ? 1 : -1;
        status = kolo_comm_create(&comms->comm[i], &creation);
    }
    return status;
}

/* All collectives that are asked for, a table each, by each of the communicators, or messages. Returns the exit status.
 */
static int run_tables(const perf_options *options, const perf_comms *comms, perf_limits *limits) {
    kolo_comm *comm = comms->comm[0];
    const bool speaks = kolo_comm_rank(comm) == 0;
    perf_report report = {0};
    int64_t wrong = 0;
    bool ends = false;
    int status = options->limits ? confirm_limits(limits, comm) : KOLO_OK;
    if (status < 0)
        say_error(kolo_comm_rank(comm));
    if (status == KOLO_OK && speaks &&
        perf_report_open(&report, options, kolo_comm_size(comm), kolo_comm_nodes(comm),
                         options->limits && limits->reason[0] == '\0' ? limits : NULL) != 0) {
        kolo_comm_abort(comm, EXIT_FAILED);
        status = EXIT_FAILED;
    }
    if (status == KOLO_OK && options->mode != NULL) {
        status = options->mode(options, comm, &report, &wrong);
        end_measuring(comm, status);
    }
    for (int i = 0; i < options->collectives_count * comms->count; i++)
        perf_progress_expect(options, perf_collective_unit_bytes(options->collectives[i / comms->count],
                                                                 kolo_comm_size(comm), options->dtype));
    for (int i = 0; i < options->collectives_count * comms->count && status == KOLO_OK && !ends; i++) {
        const int which = i % comms->count;
        report.progress = comms->progress[which];
        report.threads = info_of(comms->comm[which]).lanes;
        status = run_table(options, options->collectives[i / comms->count], comms->comm[which], limits, &report, &wrong,
                           &ends);
    }
    if (wrong > 0 && speaks)
        fprintf(stderr, "kolo-perf: %lld elements were wrong; the first of each rank and row are named above\n",
                (long long)wrong);
    if (speaks && report.options != NULL && perf_report_close(&report) != 0)
        return EXIT_FAILED;
    return status == KOLO_OK && wrong == 0 ? EXIT_SUCCESS : EXIT_FAILED;
}

int main(int argc, char **argv) {
    if (perf_init_is_started(argv))
        return perf_init_start(argv);
    signal(SIGPIPE, SIG_IGN); /* head has seen enough: the ranks end together, and none of them says that it was lost */
    launched_rank place = launched_rank_guess();
    const perf_options *options = perf_options_read(argc, argv, place.rank == 0);
    if (place.rank == 0)
        perf_progress_open(options);
    if (options->alone != NULL)
        return place.rank == 0 ? options->alone(options, place.size) : EXIT_SUCCESS;

    static perf_limits limits = {.reason = "rank 0 learnt its rank too late to measure"};
    if (options->limits && place.rank == 0)
        measure_limits(&limits, options, place.size);

    perf_comms comms;
    if (options->trace && perf_tracing_begin() != 0)
        return EXIT_FAILED;
    const int created = create_comms(options, &comms);
    const bool untraced = options->trace && perf_tracing_pause() != 0;
    if (created != KOLO_OK || untraced) {
        if (created != KOLO_OK)
            say_error(place.rank);
        return EXIT_FAILED;
    }
    const int ranks = kolo_comm_size(comms.comm[0]);
    const bool no_root = options->root >= ranks;
    if (no_root && place.rank == 0)
        fprintf(stderr, "kolo-perf: --root %d: the job has ranks 0 to %d\n", options->root, ranks - 1);
    const bool exchanges = options->collectives_count > 0 || strcmp(options->what, "optimizer") == 0;
    if (ranks == 1 && !no_root && exchanges) /* who forgets the launcher gets figures that look splendid */
        fprintf(stderr, "kolo-perf: one rank exchanges nothing; start several: kolorun -n 2 kolo-perf %s\n",
                options->what);
    int exit_status = no_root ? EXIT_MISTAKE : run_tables(options, &comms, &limits);
    for (int i = 0; i < comms.count; i++)
        kolo_comm_destroy(comms.comm[i]);
    return exit_status;
}
