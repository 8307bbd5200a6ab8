#include "perf_calls.h"

#include <math.h>
#include <stdlib.h>

int perf_background_call(const perf_sampler *sampler, const perf_call *first) {
    kolo_request *requests[PERF_IN_FLIGHT_MAX];
    int issued = 0, status = KOLO_OK;
    (void)first;
    for (; issued < sampler->at_once && status == KOLO_OK; issued += status == KOLO_OK)
        status = perf_collective_start(sampler->collective, &sampler->messages[issued].call, &requests[issued]);
    for (int i = 0; i < issued; i++) {
        const int waited = kolo_request_wait(requests[i]);
        status = status == KOLO_OK ? waited : status;
    }
    return status;
}

/* The computing. */

/* Four chains of multiplications and additions. Returns what is no use to anybody, but keeps the compiler from leaving
 * the work out. */
static uint64_t compute(uint64_t steps) {
    uint64_t a = steps, b = steps + 1, c = steps + 2, d = steps + 3;
    for (uint64_t i = 0; i < steps; i++) {
        a = a * UINT64_C(6364136223846793005) + 1;
        b = b * UINT64_C(2862933555777941757) + 3;
        c = c * UINT64_C(3202034522624059733) + 5;
        d = d * UINT64_C(3935559000370003845) + 7;
    }
    return a ^ b ^ c ^ d;
}

static uint64_t computed;

/* How many steps this rank takes in a microsecond while nothing interrupts it. */
static double steps_per_us(void) {
    enum { STEPS = 100000, TRIES = 9 };
    double best_us = HUGE_VAL;
    for (int i = 0; i < TRIES; i++) {
        const double begin_us = perf_now_us();
        computed ^= compute(STEPS);
        best_us = fmin(best_us, perf_now_us() - begin_us);
    }
    return STEPS / fmax(best_us, 1e-3);
}

/* Samples. */

enum {
    OVERLAP_CALL,
    OVERLAP_COMPUTE,
    OVERLAP_TURNS,
    OVERLAP_BOTH,
    OVERLAP_COMPUTING, /* comes with the one before */
    OVERLAP_TIMES
};

enum { SAMPLES_LEAST = 10, SAMPLES_MOST = 200, REPETITIONS_MAX = 50, FIRST_CALLS = 5 };
#define SAMPLE_US 50.0 /* shorter ones are repeated, since reading the clock takes part of them */
#define ROW_US    6e5  /* about what all samples of a row take */
#define ROUND     6    /* a round of samples takes as long as so many calls */

typedef struct overlap_round {
    perf_sampler *sampler;
    uint64_t steps;
    int repetitions;
} overlap_round;

static int issue_and_compute(const overlap_round *round, double *computing_us) {
    const perf_sampler *sampler = round->sampler;
    kolo_request *request;
    const double begin_us = perf_now_us();
    const int status = perf_collective_start(sampler->collective, &sampler->messages[0].call, &request);
    if (status != KOLO_OK)
        return status;
    computed ^= compute(round->steps);
    *computing_us += perf_now_us() - begin_us;
    return kolo_request_wait(request);
}

static int call_once(const overlap_round *round) {
    return round->sampler->collective->call(&round->sampler->messages[0].call);
}

/* One sample of each kind, in turn, so that what the machine does meanwhile meets all of them. */
static int take_round(const overlap_round *round, double *times_us[OVERLAP_TIMES], int index) {
    int status = KOLO_OK;
    times_us[OVERLAP_COMPUTING][index] = 0;
    for (int kind = 0; kind < OVERLAP_COMPUTING && status == KOLO_OK; kind++) {
        perf_message_prepare_sample(&round->sampler->messages[0]);
        status = kolo_barrier(round->sampler->comm);
        const double begin_us = perf_now_us();
        for (int i = 0; i < round->repetitions && status == KOLO_OK; i++) {
            if (kind == OVERLAP_CALL || kind == OVERLAP_TURNS)
                status = call_once(round);
            if (kind == OVERLAP_COMPUTE || kind == OVERLAP_TURNS)
                computed ^= compute(round->steps);
            if (kind == OVERLAP_BOTH)
                status = issue_and_compute(round, &times_us[OVERLAP_COMPUTING][index]);
        }
        times_us[kind][index] = (perf_now_us() - begin_us) / round->repetitions;
    }
    times_us[OVERLAP_COMPUTING][index] /= round->repetitions;
    return status;
}

/* How long a call takes, by the slowest rank's clock: the shortest of a few, the first of which warm up. */
static int time_call(const overlap_round *round, double *call_us) {
    double taken_us[FIRST_CALLS];
    const int warmup = round->sampler->options->warmup;
    int status = KOLO_OK;
    for (int i = warmup < 0 ? -2 : -warmup; i < FIRST_CALLS && status == KOLO_OK; i++) {
        status = kolo_barrier(round->sampler->comm);
        const double begin_us = perf_now_us();
        for (int call = 0; call < round->repetitions && status == KOLO_OK; call++)
            status = call_once(round);
        if (i >= 0)
            taken_us[i] = (perf_now_us() - begin_us) / round->repetitions;
    }
    if (status == KOLO_OK)
        status = perf_sampler_join(round->sampler, taken_us, FIRST_CALLS);
    *call_us = status == KOLO_OK ? fmax(perf_statistics_of(taken_us, FIRST_CALLS).min, 1e-2) : 0;
    return status;
}

/* Right results, too, while the rank computes. */
static int verify(const overlap_round *round, perf_row *row) {
    perf_sampler *sampler = round->sampler;
    double ignored_us = 0;
    if (!sampler->options->check)
        return KOLO_OK;
    perf_message_begin_check(&sampler->messages[0]);
    int status = kolo_barrier(sampler->comm);
    if (status == KOLO_OK)
        status = issue_and_compute(round, &ignored_us);
    if (status != KOLO_OK)
        return status;
    int64_t wrong = (int64_t)perf_message_check(&sampler->messages[0], PERF_SEED_VERIFIED);
    status = perf_wrong_join(sampler->comm, &wrong);
    row->wrong = (row->wrong < 0 ? 0 : row->wrong) + wrong;
    return status;
}

static void summarize(double *times_us[OVERLAP_TIMES], perf_overlap *taken) {
    double medians_us[OVERLAP_TIMES];
    for (int kind = 0; kind < OVERLAP_TIMES; kind++)
        medians_us[kind] = perf_statistics_of(times_us[kind], (size_t)taken->row.samples).median;
    taken->call_us = medians_us[OVERLAP_CALL];
    taken->compute_us = medians_us[OVERLAP_COMPUTE];
    taken->turns_us = medians_us[OVERLAP_TURNS];
    taken->both_us = medians_us[OVERLAP_BOTH];
    taken->computing_us = medians_us[OVERLAP_COMPUTING];
    taken->hidden_percent = 100 * (taken->call_us + taken->compute_us - taken->both_us) / taken->call_us;
    taken->slowdown_percent = 100 * (taken->computing_us / taken->compute_us - 1);
}

static int take_rounds(overlap_round *round, perf_overlap *taken) {
    perf_sampler *sampler = round->sampler;
    perf_row *row = &taken->row;
    double *times_us[OVERLAP_TIMES];
    double *memory = malloc((size_t)row->samples * OVERLAP_TIMES * sizeof(double));
    int status = memory != NULL ? sampler->watch(sampler, row, false) : KOLO_ERR_SYSTEM;
    for (int kind = 0; kind < OVERLAP_TIMES; kind++)
        times_us[kind] = memory + (size_t)(kind * row->samples);
    for (int i = 0; i < row->samples && status == KOLO_OK; i++)
        status = take_round(round, times_us, i);
    if (status == KOLO_OK)
        status = sampler->watch(sampler, row, true);
    for (int kind = 0; kind < OVERLAP_TIMES && status == KOLO_OK; kind++)
        status = perf_sampler_join(sampler, times_us[kind], (size_t)row->samples);
    if (status == KOLO_OK)
        summarize(times_us, taken);
    free(memory);
    return status;
}

int perf_overlap_take(perf_sampler *sampler, size_t bytes, bool in_place, perf_overlap *taken) {
    const perf_options *options = sampler->options;
    overlap_round round = {.sampler = sampler, .repetitions = 1};
    double call_us;
    perf_sampler_begin(sampler, bytes, in_place);
    *taken = (perf_overlap){
        .row = {.bytes = bytes, .count = sampler->messages[0].call.count, .in_place = in_place, .wrong = -1}};
    perf_sampler_fill(sampler);
    int status = time_call(&round, &call_us);
    if (status == KOLO_OK && options->buffers == PERF_WARM && call_us < SAMPLE_US / 2) {
        round.repetitions = (int)fmin(REPETITIONS_MAX, SAMPLE_US / call_us);
        status = time_call(&round, &call_us);
    }
    if (status != KOLO_OK)
        return status;
    round.steps = (uint64_t)(call_us * steps_per_us()) + 1;
    taken->row.samples =
        perf_options_samples(options, ROW_US, ROUND * call_us * round.repetitions, SAMPLES_LEAST, SAMPLES_MOST);
    taken->row.calls_per_sample = round.repetitions;
    status = verify(&round, &taken->row);
    perf_sampler_fill(sampler);
    if (status == KOLO_OK)
        status = take_rounds(&round, taken);
    return status == KOLO_OK ? verify(&round, &taken->row) : status;
}

/* The report. */

void perf_overlap_head(const perf_report *report) {
    FILE *table = report->table;
    fprintf(table, "# compute: arithmetic in registers, as long as the call takes alone\n"
                   "# in turn: the call, then the computing; both: the call in its background\n"
                   "# hidden: of the call, by both; slower: the computing, by the call\n"
                   "#\n");
    fprintf(table, "#%10s %7s %8s %8s %8s %8s %7s %7s %6s\n", "bytes", "algo", "call", "compute", "in turn", "both",
            "hidden", "slower", "#wrong");
    fprintf(table, "#%10s %7s %8s %8s %8s %8s %7s %7s\n", "", "", "us", "us", "us", "us", "%", "%");
}

static void record(perf_report *report, const perf_overlap *taken) {
    const perf_field measured[] = {
        {.name = "measure", .text = "overlap"},
        {"call_us", PERF_NUMBER, NULL, taken->call_us, 4},
        {"compute_us", PERF_NUMBER, NULL, taken->compute_us, 4},
        {"turns_us", PERF_NUMBER, NULL, taken->turns_us, 4},
        {"both_us", PERF_NUMBER, NULL, taken->both_us, 4},
        {"computing_us", PERF_NUMBER, NULL, taken->computing_us, 4},
        {"hidden_percent", PERF_NUMBER, NULL, taken->hidden_percent, 2},
        {"slowdown_percent", PERF_NUMBER, NULL, taken->slowdown_percent, 2},
        {.name = NULL},
    };
    perf_report_record_call(report, &taken->row, measured);
}

void perf_overlap_row(perf_report *report, const perf_overlap *taken) {
    FILE *table = report->table;
    const double times_us[] = {taken->call_us, taken->compute_us, taken->turns_us, taken->both_us};
    perf_print_bytes(table, taken->row.bytes, 10);
    fprintf(table, " %7s", taken->row.algorithm);
    for (size_t i = 0; i < sizeof(times_us) / sizeof(times_us[0]); i++)
        perf_print_digits(table, times_us[i], 8);
    perf_print_number(table, taken->hidden_percent, 1, 7);
    perf_print_number(table, taken->slowdown_percent, 1, 7);
    perf_print_wrong(table, taken->row.wrong);
    fprintf(table, "\n");
    record(report, taken);
    perf_report_flush(report);
}
