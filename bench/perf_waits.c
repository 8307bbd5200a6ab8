/* kolo-perf waits: what a wait of each length costs by each KOLO_WAIT. The last rank comes late to a barrier by a known
 * time. Of the others, CPU time is what the thread used from its call to the return, and delay the time from the last
 * rank's call to the return; of several ranks, the most. The ways take turns. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "perf_modes.h"
#include "perf_progress.h"
#include "perf_statistics.h"

enum { WAYS = 4, SAMPLES_LEAST = 1, SAMPLES_MOST = 200, LENGTHENS = 10 };
#define ROW_US   1e6 /* about what the waits of a row take, by one of the ways */
#define SLEPT_US 500 /* who comes late sleeps until so long before, and leaves the processor to others */

static const char *const ways[WAYS] = {"auto", "spin", "yield", "sleep"};

typedef struct waits {
    const perf_options *options;
    kolo_comm *comm;       /* by which the ranks agree */
    kolo_comm *used[WAYS]; /* in which they wait */
    perf_statistics cpu_us[WAYS], delay_us[WAYS];
} waits;

static double thread_us(void) {
    struct timespec used;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    return (double)used.tv_sec * 1e6 + (double)used.tv_nsec * 1e-3;
}

static void come_late(double us) {
    const double until_us = perf_now_us() + us;
    if (us > 2 * SLEPT_US) {
        const double slept_us = us - SLEPT_US;
        struct timespec slept = {.tv_sec = (time_t)(slept_us * 1e-6), .tv_nsec = (long)(fmod(slept_us, 1e6) * 1e3)};
        nanosleep(&slept, NULL);
    }
    while (perf_now_us() < until_us)
        ;
}

/* One wait. Every rank learns what it cost. */
static int take_sample(const waits *all, int way, double wait_us, double *cpu_us, double *delay_us) {
    const int late = kolo_comm_size(all->comm) - 1;
    const bool is_late = kolo_comm_rank(all->comm) == late;
    int status = kolo_barrier(all->comm);
    if (status == KOLO_OK && is_late)
        come_late(wait_us);
    double began_us = perf_now_us();
    const double used_us = thread_us();
    if (status == KOLO_OK)
        status = kolo_barrier(all->used[way]);
    double costs_us[2] = {is_late ? 0 : perf_now_us(), is_late ? 0 : thread_us() - used_us};
    if (status == KOLO_OK)
        status = kolo_broadcast(all->comm, &began_us, 1, KOLO_F64, late);
    costs_us[0] = is_late ? 0 : costs_us[0] - began_us;
    if (status == KOLO_OK)
        status = kolo_allreduce(all->comm, costs_us, costs_us, 2, KOLO_F64, KOLO_MAX);
    *delay_us = costs_us[0];
    *cpu_us = costs_us[1];
    return status;
}

static int take_row(waits *all, double wait_us, int samples) {
    const size_t count = (size_t)samples;
    double *cpu_us = malloc(2 * WAYS * count * sizeof *cpu_us), *delay_us = cpu_us + WAYS * count;
    const int warmup = all->options->warmup < 0 ? samples > 1 : all->options->warmup;
    int status = cpu_us != NULL ? KOLO_OK : KOLO_ERR_SYSTEM;
    for (int i = -warmup; i < samples && status == KOLO_OK; i++)
        for (size_t way = 0, at = i < 0 ? 0 : (size_t)i; way < WAYS && status == KOLO_OK; way++, at += count)
            status = take_sample(all, way, wait_us, &cpu_us[at], &delay_us[at]); /* the first are replaced */
    for (int way = 0; way < WAYS && status == KOLO_OK; way++) {
        all->cpu_us[way] = perf_statistics_of(cpu_us + (size_t)way * count, count);
        all->delay_us[way] = perf_statistics_of(delay_us + (size_t)way * count, count);
    }
    free(cpu_us);
    return status;
}

static void print_head(const perf_report *report) {
    FILE *table = report->table;
    fprintf(table, "# kolo-perf %s: waits, %d ranks\n", kolo_version(), report->ranks);
    perf_report_machine(report);
    fprintf(table,
            "# the last rank comes late to a barrier; medians in us of what the others pay:\n"
            "# cpu: CPU time in the call; delay: from the late rank's call to their return\n#\n#%10s",
            "");
    for (int way = 0; way < WAYS; way++)
        fprintf(table, " ----- %5s ----", ways[way]);
    fprintf(table, "\n#%10s", "wait");
    for (int way = 0; way < WAYS; way++)
        fprintf(table, " %8s %7s", "cpu", "delay");
    fprintf(table, "\n");
}

static void report_row(perf_report *report, const waits *all, double wait_us, int samples) {
    fprintf(report->table, " %10.0f", wait_us);
    for (int way = 0; way < WAYS; way++) {
        perf_print_digits(report->table, all->cpu_us[way].median, 8);
        perf_print_digits(report->table, all->delay_us[way].median, 7);
        perf_field fields[PERF_FIELDS_MAX] = {
            {.name = "measure", .text = "waits"},
            {"ranks", PERF_NUMBER, NULL, report->ranks, 0},
            {.name = "way", .text = ways[way]},
            {"wait_us", PERF_NUMBER, NULL, wait_us, 0},
            {"iters", PERF_NUMBER, NULL, samples, 0},
            {"cpu_us.median", PERF_NUMBER, NULL, all->cpu_us[way].median, 3},
            {"cpu_us.max", PERF_NUMBER, NULL, all->cpu_us[way].max, 3},
            {"delay_us.median", PERF_NUMBER, NULL, all->delay_us[way].median, 3},
            {"delay_us.max", PERF_NUMBER, NULL, all->delay_us[way].max, 3},
        };
        perf_report_record(report, fields);
    }
    fprintf(report->table, "\n");
    perf_report_flush(report);
}

static int run_rows(waits *all, perf_report *report) {
    const perf_options *options = all->options;
    const bool speaks = kolo_comm_rank(all->comm) == 0;
    bool ends = false;
    int status = KOLO_OK;
    const double last_us = options->wait_us_max;
    for (double us = 1; us <= last_us && status == KOLO_OK && !ends;
         us = us < last_us ? fmin(us * LENGTHENS, last_us) : HUGE_VAL) {
        const int samples = perf_options_samples(options, ROW_US, us, SAMPLES_LEAST, SAMPLES_MOST);
        perf_progress_say("waiting ...");
        status = take_row(all, us, samples);
        perf_progress_erase();
        if (status == KOLO_OK && speaks)
            report_row(report, all, us, samples);
        if (status == KOLO_OK)
            status = perf_report_agree_on_end(report, all->comm, &ends);
    }
    return status;
}

int perf_waits_run(const perf_options *options, kolo_comm *comm, perf_report *report, int64_t *wrong) {
    const bool speaks = kolo_comm_rank(comm) == 0;
    waits all = {.options = options, .comm = comm};
    int status = KOLO_OK;
    (void)wrong;
    if (kolo_comm_size(comm) < 2 || kolo_comm_nodes(comm) > 1) {
        if (speaks)
            fprintf(stderr, "kolo-perf: waits needs two ranks or more, all on one machine\n");
        return 1;
    }
    for (int way = 0; way < WAYS && status == KOLO_OK; way++) {
        setenv("KOLO_WAIT", ways[way], 1);
        status = kolo_comm_create(&all.used[way], NULL);
    }
    if (status == KOLO_OK && speaks)
        print_head(report);
    if (status == KOLO_OK)
        status = run_rows(&all, report);
    for (int way = 0; way < WAYS; way++)
        kolo_comm_destroy(all.used[way]);
    return status;
}
