/* Times pulls and pushes of a table, one size of rows after the other. The kinds of calls take turns, round after
 * round, so that all see the same machine; of each the rate is the median of the rounds, and latencies are of all
 * rounds. In every round a kind makes calls back to back, for the rate, and then some of which each is timed.
 *
 * With a bounded staleness all workers make as many calls, and end a clock after every few, also those that have
 * nothing else to do. Otherwise those that push while another is measured go on until that one says so, in a table of
 * one number. */
#include "perf_modes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "perf_buffers.h"
#include "perf_options.h"

enum { ROUNDS = 5, IDS = 1 << 18, SAMPLES_MAX = 100000, WARMUP = 200, WARMUP_WHOLE = 2, F32_FULL = 1 << 24 };
#define CALLS_US 2e4 /* about what the calls of a kind take in a round, where --iters does not say */

/* Of the calls of a round, as many are timed one by one. */
static int64_t timed_of(int64_t calls) {
    return calls < SAMPLES_MAX / ROUNDS ? calls : SAMPLES_MAX / ROUNDS;
}

/* Kinds of calls: of the whole table, or of rows by their keys. Copies are of a rank's own memory. */
enum kind { PULL_ALL, PUSH_ALL, COPY_ALL, PULL, PUSH, MIXED, COPY, PULL_ALONE, PULL_LOADED, KINDS };

static const struct {
    const char *name;
    bool is_whole;
    bool is_copy;
    bool is_of_one; /* rank 0's alone, while the others do nothing, or push */
    enum kind copy;
} kinds[KINDS] = {
    [PULL_ALL] = {.name = "pull table", .is_whole = true, .copy = COPY_ALL},
    [PUSH_ALL] = {.name = "push table", .is_whole = true, .copy = COPY_ALL},
    [COPY_ALL] = {.name = "memcpy table", .is_whole = true, .is_copy = true, .copy = COPY_ALL},
    [PULL] = {.name = "pull", .copy = COPY},
    [PUSH] = {.name = "push", .copy = COPY},
    [MIXED] = {.name = "both", .copy = COPY},
    [COPY] = {.name = "memcpy", .is_copy = true, .copy = COPY},
    [PULL_ALONE] = {.name = "pull, idle", .is_of_one = true, .copy = COPY},
    [PULL_LOADED] = {.name = "pull, pushed", .is_of_one = true, .copy = COPY},
};

/* What was measured of a kind. */
struct result {
    int64_t calls;             /* of a round, back to back */
    double rows_per_s[ROUNDS]; /* of all measured ranks */
    double *samples_ns;        /* of this rank; of all rounds */
    size_t samples;
    double p50_ns, p99_ns;
};

/* One size of rows, as one worker has it. */
struct bench {
    kolo_comm *comm, *workers; /* of all ranks, and of those that are no servers */
    const perf_options *options;
    const perf_table_options *of;
    kolo_table *table, *control; /* control: one number, of kinds that are over; every staleness but a bound */
    size_t row_bytes;
    uint64_t rows;
    perf_buffer ones, pulled; /* as large as the table */
    uint64_t *ids;
    size_t next_id;
    double reads_due;
    int64_t calls_of_clock, pushed_rows;
    uint64_t kinds_over;
    double clock_ns; /* of looking at the clock twice */
    perf_walk walk;
    bool is_full; /* a row has reached F32_FULL, where an f32 counts in ones no further */
    struct result results[KINDS];
};

static bool is_bounded(const struct bench *bench) {
    return bench->of->staleness != KOLO_STALENESS_UNBOUNDED;
}

static const uint64_t *next_ids(struct bench *bench) {
    const size_t batch = (size_t)bench->of->batch;
    if (bench->next_id + batch > IDS)
        bench->next_id = 0;
    const uint64_t *ids = bench->ids + bench->next_id;
    bench->next_id += batch;
    return ids;
}

static void copy_rows(struct bench *bench) {
    const uint64_t *ids = next_ids(bench);
    const size_t bytes = bench->row_bytes;
    char *to = bench->pulled.data;
    for (int i = 0; i < bench->of->batch; i++, to += bytes)
        memcpy(to, (const char *)bench->ones.data + ids[i] * bytes, bytes);
    __asm__ volatile("" : : "r"(bench->pulled.data) : "memory");
}

static int call_rows(struct bench *bench, bool is_push) {
    const size_t batch = (size_t)bench->of->batch;
    if (!is_push)
        return kolo_table_pull_rows(bench->table, next_ids(bench), batch, bench->pulled.data);
    bench->pushed_rows += bench->of->batch;
    return kolo_table_push_rows(bench->table, next_ids(bench), batch, bench->ones.data);
}

static int call_whole(struct bench *bench, enum kind kind) {
    if (kind == PULL_ALL)
        return kolo_table_pull(bench->table, 0, bench->rows, bench->pulled.data);
    bench->pushed_rows += (int64_t)bench->rows;
    return kolo_table_push(bench->table, 0, bench->rows, bench->ones.data);
}

static bool is_read(struct bench *bench) {
    bench->reads_due += bench->of->reads;
    if (bench->reads_due < 1)
        return false;
    bench->reads_due -= 1;
    return true;
}

/* The end of a clock, where it is time for one. */
static int end_clock(struct bench *bench, bool is_whole) {
    if (!is_bounded(bench) || (++bench->calls_of_clock < bench->of->clock && !is_whole))
        return KOLO_OK;
    bench->calls_of_clock = 0;
    return kolo_table_clock(bench->table);
}

static int make_call(struct bench *bench, enum kind kind) {
    if (kind == COPY)
        copy_rows(bench);
    else if (kind == COPY_ALL)
        memcpy(bench->pulled.data, bench->ones.data, bench->rows * bench->row_bytes);
    if (kinds[kind].is_copy)
        return KOLO_OK;
    const int status = kinds[kind].is_whole ? call_whole(bench, kind)
                                            : call_rows(bench, kind == PUSH || (kind == MIXED && !is_read(bench)));
    return status == KOLO_OK ? end_clock(bench, kinds[kind].is_whole) : status;
}

/* A worker that is not measured: calls that do nothing but end clocks, or pushes. */
static int stand_by(struct bench *bench, enum kind kind, int64_t calls) {
    uint64_t kinds_over = 0;
    int status = KOLO_OK;
    if (is_bounded(bench))
        for (int64_t i = 0; i < calls + timed_of(calls) && status == KOLO_OK; i++)
            status = kind == PULL_LOADED ? make_call(bench, PUSH) : end_clock(bench, false);
    while (!is_bounded(bench) && kind == PULL_LOADED && kinds_over <= bench->kinds_over && status == KOLO_OK) {
        status = make_call(bench, PUSH);
        if (status == KOLO_OK)
            status = kolo_table_pull(bench->control, 0, 1, &kinds_over);
    }
    return status;
}

/* Lets the others know that the kind is over. */
static int end_kind(struct bench *bench) {
    const uint64_t one = 1;
    return bench->control ? kolo_table_push(bench->control, 0, 1, &one) : KOLO_OK;
}

/* Calls back to back, and calls timed one by one. *us: of the former. */
static int make_calls(struct bench *bench, enum kind kind, int64_t calls, double *us) {
    struct result *result = &bench->results[kind];
    int status = KOLO_OK;
    const double begin_us = perf_now_us();
    for (int64_t i = 0; i < calls && status == KOLO_OK; i++)
        status = make_call(bench, kind);
    *us = perf_now_us() - begin_us;
    for (int64_t i = 0; i < timed_of(calls) && status == KOLO_OK; i++) {
        const double call_us = perf_now_us();
        status = make_call(bench, kind);
        result->samples_ns[result->samples++] = fmax((perf_now_us() - call_us) * 1e3 - bench->clock_ns, 0);
    }
    return status;
}

/* One round of a kind; collective among the workers. *us: what its calls back to back took on the slowest rank. */
static int run_kind(struct bench *bench, enum kind kind, int64_t calls, double *us, double *rows_per_s) {
    const bool is_measured = !kinds[kind].is_of_one || kolo_comm_rank(bench->workers) == 0;
    double rows = (double)calls * (kinds[kind].is_whole ? (double)bench->rows : bench->of->batch);
    int status = kolo_barrier(bench->workers);
    *us = 0;
    if (status == KOLO_OK)
        status = is_measured ? make_calls(bench, kind, calls, us) : stand_by(bench, kind, calls);
    if (status == KOLO_OK && kind == PULL_LOADED && is_measured)
        status = end_kind(bench);
    bench->kinds_over += kind == PULL_LOADED;
    rows = is_measured ? rows / fmax(*us * 1e-6, 1e-9) : 0;
    if (status == KOLO_OK)
        status = kolo_allreduce(bench->workers, us, us, 1, KOLO_F64, KOLO_MAX);
    if (status == KOLO_OK)
        status = kolo_allreduce(bench->workers, &rows, rows_per_s, 1, KOLO_F64, KOLO_SUM);
    return status;
}

static bool is_shown(const struct bench *bench, enum kind kind) {
    return !kinds[kind].is_of_one || kolo_comm_size(bench->workers) > 1;
}

/* Warms up, and decides how many calls a round has. */
static int prepare_kinds(struct bench *bench) {
    int status = KOLO_OK;
    for (enum kind kind = 0; kind < KINDS && status == KOLO_OK; kind++) {
        const int warmup = perf_options_warmup(bench->options, kinds[kind].is_whole ? WARMUP_WHOLE : WARMUP);
        double us = 0, rows;
        bench->results[kind].samples = 0;
        if (is_shown(bench, kind))
            status = run_kind(bench, kind, warmup, &us, &rows);
        bench->results[kind].calls = perf_options_samples(bench->options, CALLS_US, us / fmax(warmup, 1), 1, INT32_MAX);
    }
    return status;
}

static int run_rounds(struct bench *bench) {
    int status = prepare_kinds(bench);
    for (enum kind kind = 0; kind < KINDS; kind++)
        bench->results[kind].samples = 0;
    for (int round = 0; round < ROUNDS; round++)
        for (enum kind kind = 0; kind < KINDS && status == KOLO_OK; kind++) {
            double us;
            struct result *result = &bench->results[kind];
            if (is_shown(bench, kind))
                status = run_kind(bench, kind, result->calls, &us, &result->rows_per_s[round]);
        }
    return status;
}

/* The slowest rank's latencies; the rates' median becomes the first. */
static int summarize(struct bench *bench) {
    int status = KOLO_OK;
    for (enum kind kind = 0; kind < KINDS && status == KOLO_OK; kind++) {
        struct result *result = &bench->results[kind];
        double latencies_ns[2] = {0};
        if (!is_shown(bench, kind))
            continue;
        if (result->samples > 0) {
            const perf_statistics statistics = perf_statistics_of(result->samples_ns, result->samples);
            latencies_ns[0] = statistics.median;
            latencies_ns[1] = statistics.p99;
        }
        status = kolo_allreduce(bench->workers, latencies_ns, latencies_ns, 2, KOLO_F64, KOLO_MAX);
        result->p50_ns = latencies_ns[0];
        result->p99_ns = latencies_ns[1];
        result->rows_per_s[0] = perf_statistics_of(result->rows_per_s, ROUNDS).median;
    }
    return status;
}

/* The bytes of a one of any dtype, again and again. */
static void fill_ones(const struct bench *bench, size_t bytes) {
    const kolo_dtype dtype = bench->options->dtype;
    const size_t element_bytes = kolo_dtype_bytes(dtype);
    const double wide = 1;
    const float narrow = 1;
    const uint64_t whole = dtype == KOLO_F16 ? 0x3c00 : dtype == KOLO_BF16 ? 0x3f80 : 1;
    const void *one = dtype == KOLO_F64   ? (const void *)&wide
                      : dtype == KOLO_F32 ? (const void *)&narrow
                                          : (const void *)&whole; /* of little-endian machines */
    for (size_t at = 0; at + element_bytes <= bytes; at += element_bytes)
        memcpy((char *)bench->ones.data + at, one, element_bytes);
}

/* Whether the table's sum tells what was pushed: its rows count that in ones. Those of f16 and bf16 are soon full. */
static bool has_sum(const struct bench *bench) {
    const kolo_dtype dtype = bench->options->dtype;
    return bench->of->rule == KOLO_TABLE_ADD && dtype != KOLO_F16 && dtype != KOLO_BF16;
}

/* Whether the table's sum is what all have pushed: of integers modulo their width. Floats add up exactly, until an f32
 * that counts in ones is full. */
static bool is_sum_wrong(struct bench *bench, int64_t pushed) {
    const kolo_dtype dtype = bench->options->dtype;
    const size_t bytes = kolo_dtype_bytes(dtype);
    const char *row = bench->pulled.data;
    double sum = 0;
    uint64_t whole_sum = 0;
    bench->is_full = false;
    for (uint64_t i = 0; i < bench->rows; i++, row += bench->row_bytes) {
        uint64_t whole = 0; /* of little-endian machines */
        double wide;
        float narrow;
        memcpy(&whole, row, bytes);
        memcpy(&wide, &whole, sizeof(wide));
        memcpy(&narrow, &whole, sizeof(narrow));
        const double number = dtype == KOLO_F32 ? narrow : wide;
        bench->is_full |= dtype == KOLO_F32 && number >= F32_FULL && pushed >= F32_FULL;
        sum += number;
        whole_sum += whole;
    }
    if (dtype != KOLO_F32 && dtype != KOLO_F64)
        return (whole_sum - (uint64_t)pushed) << (64 - 8 * bytes) != 0;
    return !bench->is_full && sum != (double)pushed;
}

/* All rows by their keys, in the place of the ones. */
static int pull_by_keys(struct bench *bench) {
    char *to = bench->ones.data;
    int status = KOLO_OK;
    for (uint64_t first = 0, count; first < bench->rows && status == KOLO_OK; first += count) {
        count = bench->rows - first < IDS ? bench->rows - first : IDS;
        for (uint64_t i = 0; i < count; i++)
            bench->ids[i] = first + i;
        status = kolo_table_pull_rows(bench->table, bench->ids, count, to + first * bench->row_bytes);
    }
    return status;
}

/* Rows of which elements differ, which all pushes have left alike, or that differ when pulled by their keys; and
 * whether the sum over the rows is wrong, where there is one. Collective among the workers, each of which looks. */
static int check(struct bench *bench, int64_t *wrong) {
    const size_t element_bytes = kolo_dtype_bytes(bench->options->dtype), row_bytes = bench->row_bytes;
    int64_t pushed = bench->pushed_rows;
    int status = KOLO_OK;
    for (int64_t i = 0; is_bounded(bench) && i <= bench->of->staleness && status == KOLO_OK; i++)
        status = kolo_table_clock(bench->table); /* so many that another machine's rows are fresh, too */
    if (status == KOLO_OK)
        status = kolo_table_wait(bench->table);
    if (status == KOLO_OK)
        status = kolo_allreduce(bench->workers, &pushed, &pushed, 1, KOLO_I64, KOLO_SUM);
    if (status == KOLO_OK)
        status = kolo_table_pull(bench->table, 0, bench->rows, bench->pulled.data);
    if (status == KOLO_OK)
        status = pull_by_keys(bench);
    if (status != KOLO_OK)
        return status;
    const char *row = bench->pulled.data, *by_key = bench->ones.data;
    *wrong = has_sum(bench) && is_sum_wrong(bench, pushed);
    for (uint64_t i = 0; i < bench->rows; i++, row += row_bytes, by_key += row_bytes)
        *wrong += memcmp(row, row + element_bytes, row_bytes - element_bytes) || memcmp(row, by_key, row_bytes);
    fill_ones(bench, bench->rows * row_bytes);
    return perf_wrong_join(bench->workers, wrong);
}

static void print_head(const perf_report *report) {
    const perf_table_options *of = report->options->table;
    FILE *table = report->table;
    fprintf(table, "# kolo-perf %s: ps, %s, rule %s, %d rank%s", kolo_version(),
            kolo_name(KOLO_NAME_DTYPE, report->options->dtype), kolo_name(KOLO_NAME_TABLE_RULE, of->rule),
            report->ranks, report->ranks == 1 ? "" : "s");
    if (of->servers > 0)
        fprintf(table, " of which %d serve%s", of->servers, of->servers == 1 ? "s" : "");
    fprintf(table, "\n");
    perf_report_machine(report);
    fprintf(table, "# a table of %zu bytes, shards by %s; staleness ", of->bytes,
            kolo_name(KOLO_NAME_PLACEMENT, of->placement));
    if (of->staleness == KOLO_STALENESS_UNBOUNDED)
        fprintf(table, "inf\n");
    else
        fprintf(table, "%lld, a clock is %d call%s\n", (long long)of->staleness, of->clock, of->clock == 1 ? "" : "s");
    fprintf(table, "# calls of %d row%s, %s keys", of->batch, of->batch == 1 ? "" : "s", perf_keys_name(of->keys));
    if (of->keys == PERF_KEYS_ZIPF)
        fprintf(table, " of exponent %g", of->zipf);
    fprintf(table,
            "; both: %g%% of them are pulls\n"
            "# rate: of all workers together; idle, pushed: worker 0's alone, while the\n"
            "#   others do nothing, or push; p50, p99: of a call, the slowest worker's\n"
            "# x memcpy: how many times longer than memcpy of as much, in memory of its own\n"
            "#\n#%9s %-13s %9s %8s %9s %9s %9s %6s\n#%9s %-13s %9s %8s %9s %9s\n",
            100 * of->reads, "row", "call", "rate", "rate", "p50", "p99", "x memcpy", "#wrong", "bytes", "", "Mrows/s",
            "GB/s", "us", "us");
}

static void report_kind(perf_report *report, const struct bench *bench, enum kind kind, int64_t wrong) {
    const struct result *result = &bench->results[kind], *copy = &bench->results[kinds[kind].copy];
    const perf_table_options *of = bench->of;
    const double rows_per_s = result->rows_per_s[0], gbps = rows_per_s * (double)bench->row_bytes * 1e-9;
    const double workers = kinds[kind].is_of_one ? kolo_comm_size(bench->workers) : 1;
    const double ratio = copy->rows_per_s[0] / workers / rows_per_s;
    perf_print_bytes(report->table, bench->row_bytes, 9);
    fprintf(report->table, " %-13s", kinds[kind].name);
    perf_print_digits(report->table, rows_per_s * 1e-6, 9);
    perf_print_digits(report->table, gbps, 8);
    perf_print_digits(report->table, result->p50_ns * 1e-3, 9);
    perf_print_digits(report->table, result->p99_ns * 1e-3, 9);
    perf_print_digits(report->table, ratio, 9);
    perf_print_wrong(report->table, wrong);
    fprintf(report->table, "\n");
    perf_field fields[PERF_FIELDS_MAX] = {
        {.name = "collective", .text = "ps"},
        {"ranks", PERF_NUMBER, NULL, report->ranks, 0},
        {"servers", PERF_NUMBER, NULL, of->servers, 0},
        {.name = "call", .text = kinds[kind].name},
        {"bytes", PERF_NUMBER, NULL, (double)bench->row_bytes, 0},
        {"rows", PERF_NUMBER, NULL, (double)bench->rows, 0},
        {"batch", PERF_NUMBER, NULL, kinds[kind].is_whole ? (double)bench->rows : of->batch, 0},
        {.name = "dtype", .text = kolo_name(KOLO_NAME_DTYPE, bench->options->dtype)},
        {.name = "keys", .text = perf_keys_name(of->keys)},
        {"zipf", PERF_NUMBER, NULL, of->keys == PERF_KEYS_ZIPF ? of->zipf : NAN, 4},
        {"reads", PERF_NUMBER, NULL, of->reads, 4},
        {"staleness", PERF_NUMBER, NULL, is_bounded(bench) ? (double)of->staleness : NAN, 0},
        {"clock", PERF_NUMBER, NULL, is_bounded(bench) ? of->clock : NAN, 0},
        {.name = "placement", .text = kolo_name(KOLO_NAME_PLACEMENT, of->placement)},
        {.name = "rule", .text = kolo_name(KOLO_NAME_TABLE_RULE, of->rule)},
        {"rows_per_s", PERF_NUMBER, NULL, rows_per_s, 0},
        {"gbps", PERF_NUMBER, NULL, gbps, 5},
        {"latency_us.p50", PERF_NUMBER, NULL, result->p50_ns * 1e-3, 4},
        {"latency_us.p99", PERF_NUMBER, NULL, result->p99_ns * 1e-3, 4},
        {"memcpy_ratio", PERF_NUMBER, NULL, ratio, 4},
        {"wrong", PERF_NUMBER, NULL, (double)wrong, 0},
        {"iters", PERF_NUMBER, NULL, (double)result->samples, 0},
    };
    perf_report_record(report, fields);
}

static int create(struct bench *bench) {
    kolo_table_options options = KOLO_TABLE_OPTIONS_INIT;
    options.rows = bench->rows;
    options.columns = bench->row_bytes / kolo_dtype_bytes(bench->options->dtype);
    options.dtype = bench->options->dtype;
    options.rule = bench->of->rule;
    options.staleness = bench->of->staleness;
    options.placement = bench->of->placement;
    options.servers = bench->of->servers;
    return kolo_table_create(bench->comm, &options, &bench->table);
}

/* A worker's part of a row, all of it collective among them. */
static int run_worker(struct bench *bench, int64_t *wrong) {
    kolo_table_options options = KOLO_TABLE_OPTIONS_INIT;
    int status = KOLO_OK;
    options.rows = options.columns = 1;
    options.dtype = KOLO_U64;
    options.staleness = KOLO_STALENESS_UNBOUNDED;
    bench->kinds_over = 0;
    bench->pushed_rows = bench->calls_of_clock = 0;
    bench->next_id = 0;
    perf_keys_fill(bench->ids, IDS, bench->rows, bench->of->keys, bench->of->zipf,
                   (uint64_t)kolo_comm_rank(bench->workers) + 1);
    if (!is_bounded(bench))
        status = kolo_table_create(bench->workers, &options, &bench->control);
    if (status == KOLO_OK)
        status = run_rounds(bench);
    if (status == KOLO_OK)
        status = summarize(bench);
    if (status == KOLO_OK && bench->options->check)
        status = check(bench, wrong);
    kolo_table_destroy(bench->control);
    bench->control = NULL;
    return status;
}

static int run_row(void *of, size_t bytes, int64_t *wrong) {
    struct bench *bench = of;
    bench->row_bytes = bytes;
    bench->rows = bench->of->bytes / bytes;
    int status = create(bench);
    if (status == KOLO_OK)
        status = bench->workers ? run_worker(bench, wrong) : kolo_table_serve(bench->table);
    kolo_table_destroy(bench->table);
    bench->table = NULL;
    int64_t found = *wrong;
    if (status == KOLO_OK) /* servers have none of their own */
        status = kolo_broadcast(bench->comm, &found, 1, KOLO_I64, 0);
    *wrong = found > *wrong ? found : *wrong;
    return status;
}

static const char torn[] = "no row is torn";

static void report_row(void *of, perf_report *report, int64_t wrong) {
    struct bench *bench = of;
    for (enum kind kind = 0; kind < KINDS; kind++)
        if (is_shown(bench, kind))
            report_kind(report, bench, kind, wrong);
    if (!bench->is_full)
        return;
    fprintf(report->table, "# no sum is compared: an f32 that counts in ones stops at 2^24, as a row did\n");
    bench->walk.right = torn;
}

static int allocate(struct bench *bench) {
    const size_t row_bytes = perf_sizes_max_bytes(bench->options, kolo_dtype_bytes(bench->options->dtype));
    const size_t batch_bytes = (size_t)bench->of->batch * row_bytes;
    const size_t bytes = batch_bytes > bench->of->bytes ? batch_bytes : bench->of->bytes;
    bench->ids = malloc(IDS * sizeof(*bench->ids));
    bool good = bench->ids && perf_buffer_allocate(&bench->ones, bytes, 0, NULL) == 0 &&
                perf_buffer_allocate(&bench->pulled, bytes, 0, NULL) == 0;
    for (enum kind kind = 0; kind < KINDS; kind++) {
        bench->results[kind].samples_ns = malloc((size_t)SAMPLES_MAX * sizeof(double));
        good = good && bench->results[kind].samples_ns;
    }
    if (good)
        fill_ones(bench, bytes);
    return good ? 0 : -1;
}

static void release(struct bench *bench) {
    for (enum kind kind = 0; kind < KINDS; kind++)
        free(bench->results[kind].samples_ns);
    free(bench->ids);
    perf_buffer_free(&bench->ones);
    perf_buffer_free(&bench->pulled);
    kolo_comm_destroy(bench->workers);
}

static double clock_ns(void) {
    enum { LOOKS = 1001 };
    double looks_ns[LOOKS];
    for (int i = 0; i < LOOKS; i++) {
        const double begin_us = perf_now_us();
        looks_ns[i] = (perf_now_us() - begin_us) * 1e3;
    }
    return perf_statistics_of(looks_ns, LOOKS).median;
}

/* Whether the job has the ranks that the options ask for; rank 0 says so if not. */
static bool fits(const perf_options *options, kolo_comm *comm) {
    const int ranks = kolo_comm_size(comm);
    if (options->table->servers < ranks)
        return true;
    if (kolo_comm_rank(comm) == 0)
        fprintf(stderr, "kolo-perf: --servers %d: the job has %d rank%s, and at least one is a worker\n",
                options->table->servers, ranks, ranks == 1 ? "" : "s");
    return false;
}

int perf_table_run(const perf_options *options, kolo_comm *comm, perf_report *report, int64_t *wrong) {
    const int rank = kolo_comm_rank(comm);
    struct bench bench = {.comm = comm, .options = options, .of = options->table, .clock_ns = clock_ns()};
    const char *right = has_sum(&bench) ? "all results right" : torn;
    bench.walk = (perf_walk){"ps", options, comm, false, right, &bench, run_row, report_row};
    if (!fits(options, comm))
        return 1;
    const bool is_worker = rank < kolo_comm_size(comm) - options->table->servers;
    int status = kolo_comm_split(comm, is_worker ? 0 : -1, rank, &bench.workers);
    if (status == KOLO_OK && is_worker && allocate(&bench) != 0) {
        fprintf(stderr,
                "kolo-perf: rank %d: no memory for a table of %zu bytes and calls of %d rows of %zu; use a smaller "
                "--table, --batch or --max\n",
                rank, options->table->bytes, options->table->batch, options->max_bytes);
        status = 1;
    }
    if (status == KOLO_OK && rank == 0)
        print_head(report);
    if (status == KOLO_OK)
        status = perf_walk_sizes(&bench.walk, report, wrong);
    release(&bench);
    return status;
}

/* Keys of Zipf's distribution are drawn by rejection from the area under a curve around it, which has an inverse
 * (rejection-inversion: Hoermann, Derflinger, 1996). That takes no memory, and about one draw a key. */

struct zipf {
    double rows, exponent;
    double begin, end; /* of the area, at the first and the last row */
    double near;       /* a draw so near below a whole number needs no closer look */
};

static double next_number(uint64_t *state) { /* from 0 to less than 1 */
    uint64_t mixed = *state += UINT64_C(0x9e3779b97f4a7c15);
    mixed = (mixed ^ mixed >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    mixed = (mixed ^ mixed >> 27) * UINT64_C(0x94d049bb133111eb);
    return (double)((mixed ^ mixed >> 31) >> 11) * 0x1p-53;
}

/* The integral of x to the power of -exponent from 1 on, and its inverse. */
static double area(const struct zipf *zipf, double x) {
    const double power = 1 - zipf->exponent, logarithm = log(x);
    return fabs(power) < 1e-9 ? logarithm : expm1(power * logarithm) / power;
}

static double place(const struct zipf *zipf, double area) {
    const double power = 1 - zipf->exponent;
    return fabs(power) < 1e-9 ? exp(area) : exp(log1p(fmax(power * area, -1)) / power);
}

static struct zipf zipf_of(uint64_t rows, double exponent) {
    struct zipf zipf = {.rows = (double)rows, .exponent = exponent};
    zipf.begin = area(&zipf, 1.5) - 1;
    zipf.end = area(&zipf, zipf.rows + 0.5);
    zipf.near = 2 - place(&zipf, area(&zipf, 2.5) - pow(2, -exponent));
    return zipf;
}

static uint64_t draw(const struct zipf *zipf, uint64_t *state) { /* from 1 to rows */
    for (;;) {
        const double at = zipf->end + next_number(state) * (zipf->begin - zipf->end), x = place(zipf, at);
        const double whole = fmin(fmax(floor(x + 0.5), 1), zipf->rows);
        if (whole - x <= zipf->near || at >= area(zipf, whole + 0.5) - pow(whole, -zipf->exponent))
            return (uint64_t)whole;
    }
}

static uint64_t common_divisor(uint64_t a, uint64_t b) {
    while (b != 0) {
        const uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* A number of about 0.618 rows that has no divisor in common with it: its multiples reach every row, and spread. */
static uint64_t spreading(uint64_t rows) {
    uint64_t factor = (uint64_t)((double)rows * 0.618033988749895) | 1;
    while (common_divisor(factor, rows) != 1)
        factor += 2;
    return factor;
}

void perf_keys_fill(uint64_t *ids, size_t count, uint64_t rows, perf_keys keys, double exponent, uint64_t seed) {
    const struct zipf zipf = zipf_of(rows, keys == PERF_KEYS_ZIPF ? exponent : 1);
    const uint64_t factor = spreading(rows);
    uint64_t state = seed;
    for (size_t i = 0; i < count; i++)
        ids[i] = keys == PERF_KEYS_ZIPF ? (draw(&zipf, &state) - 1) * factor % rows
                                        : (uint64_t)(next_number(&state) * (double)rows);
}
