/* Times messages between two ranks, one size after the other. A sample of latency is round trips in a row, by kolo_send
 * and kolo_recv; of bandwidth one way, WINDOW messages in a row for each answer; both ways, as many by kolo_sendrecv.
 */
#include "perf_modes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "perf_buffers.h"
#include "perf_progress.h"

enum { WINDOW = 16, SAMPLES_MIN = 10, WARMUP = 10, SENDER = 0, RECEIVER = 1 };
#define KIND_US 1e5 /* about what the timed samples of a row take of each kind, where --iters does not say */

enum kind { LATENCY, ONE_WAY, BOTH_WAYS, KINDS };

/* One size, as one rank has it. */
struct pair {
    kolo_comm *comm;
    const perf_options *options;
    int rank, peer;
    perf_buffer sent, taken;
    size_t bytes, count;
    double *samples_us;
};

static int pass(const struct pair *pair, int from, size_t count) {
    if (pair->rank == from)
        return kolo_send(pair->comm, pair->sent.data, count, pair->options->dtype, pair->peer, 0);
    return kolo_recv(pair->comm, pair->taken.data, count, pair->options->dtype, from, 0, NULL);
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

/* The two ranks' part. The sender decides how many samples there are. */
static int take_samples(const struct pair *pair, enum kind kind, int *samples) {
    const int calls = pair->bytes <= PERF_BATCH_BYTES_MAX ? PERF_BATCH_CALLS : 1;
    const int warmup = pair->options->warmup >= 0 ? pair->options->warmup : WARMUP;
    double us = 0, spent_us = 0;
    int status = KOLO_OK;
    for (int i = 0; status == KOLO_OK && i < warmup; i++) {
        status = take_sample(pair, kind, calls, &us);
        spent_us += us * calls * (kind == LATENCY ? 2 : WINDOW);
    }
    *samples = pair->options->iters
                   ? pair->options->iters
                   : (int)fmin(fmax(KIND_US / fmax(spent_us / fmax(warmup, 1), 1e-3), SAMPLES_MIN), PERF_SAMPLES_MAX);
    if (status == KOLO_OK && pair->rank == SENDER)
        status = kolo_send(pair->comm, samples, 1, KOLO_I32, RECEIVER, 1);
    else if (status == KOLO_OK)
        status = kolo_recv(pair->comm, samples, 1, KOLO_I32, SENDER, 1, NULL);
    for (int i = 0; status == KOLO_OK && i < *samples; i++)
        status = take_sample(pair, kind, calls, &pair->samples_us[i]);
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

/* One size, collective. wrong stays -1 unless it is checked. */
static int run_row(struct pair *pair, perf_statistics times[KINDS], int samples[KINDS], int64_t *wrong) {
    const bool takes_part = pair->rank <= RECEIVER;
    int64_t found = 0;
    int status = KOLO_OK;
    for (int kind = 0; status == KOLO_OK && kind < KINDS; kind++) {
        if (takes_part && pair->options->check)
            fill(pair);
        status = kolo_barrier(pair->comm);
        if (status == KOLO_OK && takes_part)
            status = take_samples(pair, (enum kind)kind, &samples[kind]);
        if (status == KOLO_OK && takes_part)
            times[kind] = perf_statistics_of(pair->samples_us, (size_t)samples[kind]);
        if (takes_part && pair->options->check && (kind != ONE_WAY || pair->rank == RECEIVER))
            found += count_wrong(pair);
    }
    if (status == KOLO_OK && pair->options->check) {
        status = kolo_allreduce(pair->comm, &found, &found, 1, KOLO_I64, KOLO_SUM);
        *wrong = found;
    }
    return status;
}

static void print_head(const perf_report *report) {
    FILE *table = report->table;
    fprintf(table, "# kolo-perf %s: sendrecv, %s, ranks 0 and 1 of %d\n", kolo_version(),
            kolo_name(KOLO_NAME_DTYPE, report->options->dtype), report->ranks);
    perf_report_machine(report);
    fprintf(table,
            "# latency: half a round trip; one way: %d messages for an answer; both ways:\n"
            "#   %d kolo_sendrecv in a row, and the bytes of both; GB = 10^9 bytes\n"
            "#\n#%10s %8s %8s %8s %8s %8s %9s %6s\n#%10s %8s %8s %8s %8s %8s %9s\n",
            WINDOW, WINDOW, "bytes", "min", "median", "p99", "max", "one way", "both ways", "#wrong", "", "us", "us",
            "us", "us", "GB/s", "GB/s");
}

static double gbps(size_t bytes, double us) {
    return us > 0 ? (double)bytes / us * 1e-3 : 0;
}

static void report_row(perf_report *report, const struct pair *pair, const perf_statistics times[KINDS],
                       const int samples[KINDS], int64_t wrong) {
    const perf_statistics *us = &times[LATENCY];
    const double shown_us[] = {us->min, us->median, us->p99, us->max};
    const double one_way = gbps(pair->bytes, times[ONE_WAY].median);
    const double both_ways = gbps(2 * pair->bytes, times[BOTH_WAYS].median);
    perf_print_bytes(report->table, pair->bytes, 10);
    for (size_t i = 0; i < sizeof(shown_us) / sizeof(shown_us[0]); i++)
        perf_print_digits(report->table, shown_us[i], 8);
    perf_print_digits(report->table, one_way, 8);
    perf_print_digits(report->table, both_ways, 9);
    perf_print_wrong(report->table, wrong);
    fprintf(report->table, "\n");
    perf_field fields[PERF_FIELDS_MAX] = {
        {.name = "collective", .text = "sendrecv"},
        {"ranks", PERF_NUMBER, NULL, report->ranks, 0},
        {"bytes", PERF_NUMBER, NULL, (double)pair->bytes, 0},
        {"count", PERF_NUMBER, NULL, (double)pair->count, 0},
        {.name = "dtype", .text = kolo_name(KOLO_NAME_DTYPE, report->options->dtype)},
        {"latency_us.min", PERF_NUMBER, NULL, us->min, 4},
        {"latency_us.avg", PERF_NUMBER, NULL, us->avg, 4},
        {"latency_us.median", PERF_NUMBER, NULL, us->median, 4},
        {"latency_us.p99", PERF_NUMBER, NULL, us->p99, 4},
        {"latency_us.max", PERF_NUMBER, NULL, us->max, 4},
        {"one_way_gbps", PERF_NUMBER, NULL, one_way, 5},
        {"both_ways_gbps", PERF_NUMBER, NULL, both_ways, 5},
        {"wrong", PERF_NUMBER, NULL, (double)wrong, 0},
        {"iters", PERF_NUMBER, NULL, samples[LATENCY], 0},
        {"window", PERF_NUMBER, NULL, WINDOW, 0},
    };
    perf_report_record(report, fields);
    perf_report_flush(report);
}

static int run_rows(struct pair *pair, perf_report *report, int64_t *wrong) {
    perf_sizes sizes = {.unit_bytes = kolo_dtype_bytes(pair->options->dtype)};
    int32_t wanted = 1;
    int status = KOLO_OK;
    perf_progress_expect(pair->options, sizes.unit_bytes);
    while (status == KOLO_OK && wanted && perf_sizes_next(&sizes, pair->options)) {
        perf_statistics times[KINDS] = {{0}};
        int samples[KINDS] = {0};
        int64_t wrong_here = -1;
        pair->bytes = sizes.bytes;
        pair->count = sizes.bytes / sizes.unit_bytes;
        perf_progress_row("sendrecv", sizes.bytes);
        status = run_row(pair, times, samples, &wrong_here);
        perf_progress_erase();
        *wrong += wrong_here > 0 ? wrong_here : 0;
        if (status == KOLO_OK && pair->rank == SENDER) {
            report_row(report, pair, times, samples, wrong_here);
            wanted = perf_report_is_wanted(report);
        }
        if (status == KOLO_OK)
            status = kolo_broadcast(pair->comm, &wanted, 1, KOLO_I32, SENDER);
    }
    return status;
}

int perf_messages_run(const perf_options *options, kolo_comm *comm, perf_report *report, int64_t *wrong) {
    const int rank = kolo_comm_rank(comm);
    const size_t bytes = perf_sizes_max_bytes(options, kolo_dtype_bytes(options->dtype));
    const size_t samples = options->iters ? (size_t)options->iters : PERF_SAMPLES_MAX;
    struct pair pair = {.comm = comm, .options = options, .rank = rank, .peer = 1 - rank};
    int status = KOLO_OK;
    if (kolo_comm_size(comm) < 2) {
        if (rank == 0)
            fprintf(stderr, "kolo-perf: sendrecv is between two ranks, and the job has one\n");
        return 1;
    }
    pair.samples_us = malloc(samples * sizeof(*pair.samples_us));
    if (pair.samples_us == NULL || (rank <= RECEIVER && (perf_buffer_allocate(&pair.sent, bytes, 0, NULL) != 0 ||
                                                         perf_buffer_allocate(&pair.taken, bytes, 0, NULL) != 0))) {
        fprintf(stderr, "kolo-perf: rank %d: no memory for messages of %zu bytes; use a smaller --max\n", rank, bytes);
        kolo_comm_abort(comm, 1);
        status = 1;
    }
    if (status == KOLO_OK && rank == SENDER)
        print_head(report);
    if (status == KOLO_OK)
        status = run_rows(&pair, report, wrong);
    if (status == KOLO_OK && rank == SENDER && options->check)
        fprintf(report->table, *wrong > 0 ? "# FAILED: %lld wrong\n" : "# all results right\n", (long long)*wrong);
    perf_buffer_free(&pair.sent);
    perf_buffer_free(&pair.taken);
    free(pair.samples_us);
    return status;
}
