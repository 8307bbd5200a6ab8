/* Times messages between two ranks, or between all in pairs at once, one size after the other. A sample of latency is
 * round trips in a row, by kolo_send and kolo_recv; of bandwidth one way, WINDOW messages in a row for each answer;
 * both ways, as many by kolo_sendrecv.
 */
#include "perf_modes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "perf_buffers.h"

enum { WINDOW = 16, SAMPLES_MIN = 10, WARMUP = 10, SENDER = 0, RECEIVER, STANDS_BY };
#define KIND_US 1e5 /* about what the timed samples of a row take of each kind, where --iters does not say */

enum kind { LATENCY, ONE_WAY, BOTH_WAYS, KINDS };

/* One size, as one rank has it. */
struct pair {
    kolo_comm *comm;
    const perf_options *options;
    int rank, peer, pairs;
    int role; /* SENDER, RECEIVER, or STANDS_BY */
    perf_buffer sent, taken;
    size_t bytes, count;
    double *samples_us;
    perf_statistics times[KINDS];
    double per_us[KINDS]; /* messages of a microsecond, between all pairs */
    int32_t samples[KINDS];
};

static int pass(const struct pair *pair, int from, size_t count) {
    if (pair->role == from)
        return kolo_send(pair->comm, pair->sent.data, count, pair->options->dtype, pair->peer, 0);
    return kolo_recv(pair->comm, pair->taken.data, count, pair->options->dtype, pair->peer, 0, NULL);
}

/* What a sample is `calls` of. */
static int make_calls(const struct pair *pair, enum kind kind, int calls) {
    int status = KOLO_OK;
    for (int i = 0; status == KOLO_OK && i < calls; i++) {
        for (int m = 0; status == KOLO_OK && m < (kind == LATENCY ? 1 : WINDOW); m++)
            status = kind == BOTH_WAYS
                         ? kolo_sendrecv(pair->comm, pair->sent.data, pair->count, pair->peer, 0, pair->taken.data,
                                         pair->count, pair->peer, 0, pair->options->dtype, NULL)
                         : pass(pair, SENDER, pair->count);
        if (status == KOLO_OK && kind != BOTH_WAYS)
            status = pass(pair, RECEIVER, kind == LATENCY ? pair->count : 0);
    }
    return status;
}

/* *us becomes the mean time of a message on its way; of those both ways at once, of two of them. */
static int take_sample(const struct pair *pair, enum kind kind, int calls, double *us) {
    const double begin_us = perf_now_us();
    const int status = make_calls(pair, kind, calls);
    *us = (perf_now_us() - begin_us) / calls / (kind == LATENCY ? 2 : WINDOW);
    return status;
}

static int calls_of(const struct pair *pair) {
    return pair->bytes <= PERF_BATCH_BYTES_MAX ? PERF_BATCH_CALLS : 1;
}

/* Samples that are not timed. *samples becomes how many there may be. */
static int warm_up(const struct pair *pair, enum kind kind, int32_t *samples) {
    const int calls = calls_of(pair), warmup = perf_options_warmup(pair->options, WARMUP);
    double us = 0, spent_us = 0;
    int status = KOLO_OK;
    for (int i = 0; status == KOLO_OK && i < warmup; i++) {
        status = take_sample(pair, kind, calls, &us);
        spent_us += us * calls * (kind == LATENCY ? 2 : WINDOW);
    }
    *samples = perf_options_samples(pair->options, KIND_US, spent_us / fmax(warmup, 1), SAMPLES_MIN, PERF_SAMPLES_MAX);
    return status;
}

/* Collective: all take the same number of samples, at once. */
static int take_samples(const struct pair *pair, enum kind kind, int32_t *samples) {
    const bool takes_part = pair->role != STANDS_BY;
    int status = takes_part ? warm_up(pair, kind, samples) : KOLO_OK;
    if (pair->options->iters || !takes_part)
        *samples = pair->options->iters ? pair->options->iters : PERF_SAMPLES_MAX;
    if (status == KOLO_OK)
        status = kolo_allreduce(pair->comm, samples, samples, 1, KOLO_I32, KOLO_MIN);
    for (int i = 0; status == KOLO_OK && takes_part && i < *samples; i++)
        status = take_sample(pair, kind, calls_of(pair), &pair->samples_us[i]);
    return status;
}

static unsigned char pattern(size_t i, int rank) {
    return (unsigned char)(i * 7 + (i >> 9) + (size_t)rank * 85 + 1);
}

static void fill(const struct pair *pair) {
    unsigned char *sent = pair->sent.data;
    for (size_t i = 0; i < pair->bytes; i++)
        sent[i] = pattern(i, pair->rank);
    memset(pair->taken.data, 0, pair->bytes);
    perf_buffer_guard(&pair->taken, pair->bytes);
}

static int64_t count_wrong(const struct pair *pair) {
    const unsigned char *taken = pair->taken.data;
    int64_t wrong = (int64_t)perf_buffer_guards_changed(&pair->taken, pair->bytes);
    for (size_t i = 0; i < pair->bytes; i++)
        wrong += taken[i] != pattern(i, pair->peer);
    return wrong;
}

static int run_row(void *of, size_t bytes, int64_t *wrong) {
    struct pair *pair = of;
    const bool takes_part = pair->role != STANDS_BY;
    double *per_us = pair->per_us;
    int64_t found = 0;
    int status = KOLO_OK;
    pair->bytes = bytes;
    pair->count = bytes / kolo_dtype_bytes(pair->options->dtype);
    for (int kind = 0; status == KOLO_OK && kind < KINDS; kind++) {
        if (takes_part && pair->options->check)
            fill(pair);
        status = kolo_barrier(pair->comm);
        if (status == KOLO_OK)
            status = take_samples(pair, (enum kind)kind, &pair->samples[kind]);
        if (status == KOLO_OK && takes_part)
            pair->times[kind] = perf_statistics_of(pair->samples_us, (size_t)pair->samples[kind]);
        if (takes_part && pair->options->check && (kind != ONE_WAY || pair->role == RECEIVER))
            found += count_wrong(pair);
        per_us[kind] = pair->role == SENDER && pair->times[kind].median > 0 ? 1 / pair->times[kind].median : 0;
    }
    if (status == KOLO_OK)
        status = kolo_allreduce(pair->comm, per_us, per_us, KINDS, KOLO_F64, KOLO_SUM);
    if (status == KOLO_OK && pair->options->check) {
        status = perf_wrong_join(pair->comm, &found);
        *wrong = found;
    }
    return status;
}

static void print_head(const perf_report *report, int pairs) {
    FILE *table = report->table;
    fprintf(table, "# kolo-perf %s: sendrecv, %s, ", kolo_version(),
            kolo_name(KOLO_NAME_DTYPE, report->options->dtype));
    if (report->options->pairs)
        fprintf(table, "%d pairs of %d ranks; latencies are those of ranks 0 and %d\n", pairs, report->ranks, pairs);
    else
        fprintf(table, "ranks 0 and 1 of %d\n", report->ranks);
    perf_report_machine(report);
    fprintf(table,
            "# latency: half a round trip; one way: %d messages for an answer; both ways:\n"
            "#   %d kolo_sendrecv in a row, and the bytes of both; GB = 10^9 bytes\n"
            "#\n#%10s %8s %8s %8s %8s %8s %6s %9s %6s\n#%10s %8s %8s %8s %8s %8s %6s %9s\n",
            WINDOW, WINDOW, "bytes", "min", "median", "p99", "max", "one way", "", "both ways", "#wrong", "", "us",
            "us", "us", "us", "GB/s", "M/s", "GB/s");
}

static void report_row(void *of, perf_report *report, int64_t wrong) {
    const struct pair *pair = of;
    const perf_statistics *us = &pair->times[LATENCY];
    const double *per_us = pair->per_us, shown_us[] = {us->min, us->median, us->p99, us->max};
    const double one_way = (double)pair->bytes * per_us[ONE_WAY] * 1e-3;
    const double both_ways = 2 * (double)pair->bytes * per_us[BOTH_WAYS] * 1e-3;
    perf_print_bytes(report->table, pair->bytes, 10);
    for (size_t i = 0; i < sizeof(shown_us) / sizeof(shown_us[0]); i++)
        perf_print_digits(report->table, shown_us[i], 8);
    perf_print_digits(report->table, one_way, 8);
    perf_print_digits(report->table, per_us[ONE_WAY], 6);
    perf_print_digits(report->table, both_ways, 9);
    perf_print_wrong(report->table, wrong);
    fprintf(report->table, "\n");
    perf_field fields[PERF_FIELDS_MAX] = {
        {.name = "collective", .text = "sendrecv"},
        {"ranks", PERF_NUMBER, NULL, report->ranks, 0},
        {"bytes", PERF_NUMBER, NULL, (double)pair->bytes, 0},
        {"count", PERF_NUMBER, NULL, (double)pair->count, 0},
        {.name = "dtype", .text = kolo_name(KOLO_NAME_DTYPE, report->options->dtype)},
        PERF_SPREAD("latency_us", us, 4),
        {"one_way_gbps", PERF_NUMBER, NULL, one_way, 5},
        {"one_way_per_s", PERF_NUMBER, NULL, per_us[ONE_WAY] * 1e6, 0},
        {"both_ways_gbps", PERF_NUMBER, NULL, both_ways, 5},
        {"wrong", PERF_NUMBER, NULL, (double)wrong, 0},
        {"iters", PERF_NUMBER, NULL, pair->samples[LATENCY], 0},
        {"window", PERF_NUMBER, NULL, WINDOW, 0},
        {"pairs", PERF_NUMBER, NULL, pair->pairs, 0},
    };
    perf_report_record(report, fields);
}

int perf_messages_run(const perf_options *options, kolo_comm *comm, perf_report *report, int64_t *wrong) {
    const int rank = kolo_comm_rank(comm);
    const size_t bytes = perf_sizes_max_bytes(options, kolo_dtype_bytes(options->dtype));
    const size_t samples = options->iters ? (size_t)options->iters : PERF_SAMPLES_MAX;
    const int pairs = options->pairs ? kolo_comm_size(comm) / 2 : 1;
    const int role = rank < pairs ? SENDER : rank < 2 * pairs ? RECEIVER : STANDS_BY;
    struct pair pair = {.comm = comm,
                        .options = options,
                        .rank = rank,
                        .peer = rank < pairs ? rank + pairs : rank - pairs,
                        .pairs = pairs,
                        .role = role};
    const perf_walk walk = {"sendrecv", options, comm, true, "all results right", &pair, run_row, report_row};
    int status = KOLO_OK;
    if (kolo_comm_size(comm) < 2) {
        if (rank == 0)
            fprintf(stderr, "kolo-perf: sendrecv is between two ranks, and the job has one\n");
        return 1;
    }
    pair.samples_us = malloc(samples * sizeof(*pair.samples_us));
    if (pair.samples_us == NULL || (role != STANDS_BY && (perf_buffer_allocate(&pair.sent, bytes, 0, NULL) != 0 ||
                                                          perf_buffer_allocate(&pair.taken, bytes, 0, NULL) != 0))) {
        fprintf(stderr, "kolo-perf: rank %d: no memory for messages of %zu bytes; use a smaller --max\n", rank, bytes);
        status = 1;
    }
    if (status == KOLO_OK && rank == 0)
        print_head(report, pairs);
    if (status == KOLO_OK)
        status = perf_walk_sizes(&walk, report, wrong);
    perf_buffer_free(&pair.sent);
    perf_buffer_free(&pair.taken);
    free(pair.samples_us);
    return status;
}
