#include "perf_report.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "printed_text.h"
#include "kolo_tools.h"

static void write_json_value(FILE *to, const perf_field *field) {
    if (field->kind == PERF_TEXT)
        json_text_print(to, field->text);
    else if (isnan(field->number))
        fputs("null", to);
    else if (field->kind == PERF_TRUTH)
        fputs(field->number != 0 ? "true" : "false", to);
    else
        fprintf(to, "%.*f", field->decimals, field->number);
}

/* How many characters of a name are its object's, with the dot. */
static size_t object_length(const perf_field *field) {
    const char *dot = strchr(field->name, '.');
    return dot != NULL ? (size_t)(dot - field->name) + 1 : 0;
}

static void write_json(FILE *to, const perf_field *fields, size_t count) {
    putc('{', to);
    for (size_t i = 0; i < count; i++) {
        const char *name = fields[i].name;
        const size_t object = object_length(&fields[i]);
        const bool begins = object > 0 && (i == 0 || strncmp(fields[i - 1].name, name, object) != 0);
        const bool ends = object > 0 && (i + 1 == count || strncmp(fields[i + 1].name, name, object) != 0);
        if (i > 0)
            fputs(", ", to);
        if (begins)
            fprintf(to, "\"%.*s\": {", (int)object - 1, name);
        fprintf(to, "\"%s\": ", name + object);
        write_json_value(to, &fields[i]);
        if (ends)
            putc('}', to);
    }
    fputs("}\n", to);
}

/* In quotes where the text has what would end the value or the line. */
static void write_csv_text(FILE *to, const char *text) {
    const bool quoted = text[strcspn(text, ",\"\r\n")] != '\0';
    if (quoted)
        putc('"', to);
    for (; *text != '\0'; text++) {
        if (*text == '"')
            putc('"', to);
        putc(*text, to);
    }
    if (quoted)
        putc('"', to);
}

static void write_csv_names(FILE *to, const perf_field *fields, size_t count) {
    for (size_t i = 0; i < count; i++)
        fprintf(to, "%s%s", i > 0 ? "," : "", fields[i].name);
    putc('\n', to);
}

static void write_csv(FILE *to, const perf_field *fields, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (i > 0)
            putc(',', to);
        if (fields[i].kind == PERF_TEXT)
            write_csv_text(to, fields[i].text);
        else if (!isnan(fields[i].number))
            fprintf(to, "%.*f", fields[i].decimals, fields[i].number);
    }
    putc('\n', to);
}

/* JSON or CSV; false: none, or standard output. */
static bool has_file(const FILE *file) {
    return file != NULL && file != stdout;
}

static FILE *open_records(const char *option, const char *path) {
    if (perf_is_standard_output(path))
        return stdout;
    FILE *file = fopen(path, "we");
    if (file == NULL)
        fprintf(stderr, "kolo-perf: cannot write %s '%s': %s\n", option, path, strerror(errno));
    return file;
}

int perf_report_open(perf_report *report, const perf_options *options, int ranks, int nodes,
                     const perf_limits *limits) {
    const time_t now = time(NULL);
    struct tm utc;
    *report = (perf_report){.options = options,
                            .ranks = ranks,
                            .nodes = nodes,
                            .machine = {.machine_bytes = sizeof(report->machine)},
                            .table = stdout,
                            .limits = limits};
    uname(&report->system);
    if (kolo_machine_query(&report->machine) != KOLO_OK)
        fprintf(stderr, "kolo-perf: machine unknown: %s\n", kolo_error_message());
    if (report->machine.cpu_model[0] == '\0')
        snprintf(report->machine.cpu_model, sizeof(report->machine.cpu_model), "unknown");
    strftime(report->date, sizeof(report->date), "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &utc));
    if (perf_is_standard_output(options->json_path) || perf_is_standard_output(options->csv_path))
        report->table = stderr;
    if (options->json_path != NULL && (report->json = open_records("--json", options->json_path)) == NULL)
        return -1;
    if (options->csv_path != NULL && (report->csv = open_records("--csv", options->csv_path)) == NULL)
        return -1;
    return 0;
}

/* A flush that fails drops what it could not write: the next one succeeds, and has no reason to tell. */
static void flush(FILE *file, int *error) {
    if ((fflush(file) != 0 || ferror(file)) && *error == 0)
        *error = errno;
}

void perf_report_flush(perf_report *report) {
    if (has_file(report->json))
        flush(report->json, &report->json_error);
    if (has_file(report->csv))
        flush(report->csv, &report->csv_error);
    flush(stdout, &report->output_error);
    report->reader_gone = report->output_error == EPIPE;
}

bool perf_report_is_wanted(const perf_report *report) {
    return !report->reader_gone || has_file(report->json) || has_file(report->csv);
}

int perf_report_agree_on_end(const perf_report *report, kolo_comm *comm, bool *ends) {
    int32_t over = !perf_report_is_wanted(report); /* rank 0's counts */
    const int status = kolo_broadcast(comm, &over, 1, KOLO_I32, 0);
    *ends = over;
    return status;
}

static int close_records(const char *option, const char *path, FILE **file, int error) {
    FILE *closed = *file;
    *file = NULL;
    if (!has_file(closed))
        return 0;
    if (fclose(closed) != 0 && error == 0)
        error = errno;
    if (error == 0)
        return 0;
    fprintf(stderr, "kolo-perf: rows were lost: cannot write %s '%s': %s\n", option, path, strerror(error));
    return -1;
}

int perf_report_close(perf_report *report) {
    int result = 0;
    perf_report_flush(report);
    if (report->output_error != 0 && !report->reader_gone) {
        fprintf(stderr, "kolo-perf: output was lost: cannot write to standard output: %s\n",
                strerror(report->output_error));
        result = -1;
    }
    result |= close_records("--json", report->options->json_path, &report->json, report->json_error);
    result |= close_records("--csv", report->options->csv_path, &report->csv, report->csv_error);
    return result;
}

void perf_report_machine(const perf_report *report) {
    const kolo_machine *machine = &report->machine;
    fprintf(report->table, "# host %.48s, %s\n# CPU %s\n# kernels %s; %u of %u CPUs allowed", report->system.nodename,
            report->date, machine->cpu_model, machine->kernels, machine->cpus_allowed, machine->cpus_online);
    if (machine->quota_millicpus > 0)
        fprintf(report->table, ", quota of %.2f CPUs", machine->quota_millicpus * 1e-3);
    fprintf(report->table, "\n");
}

void perf_print_number(FILE *to, double value, int decimals, int width) {
    char digits[32];
    int length = snprintf(digits, sizeof digits, "%.*f", decimals, value);
    for (const char *prefix = "kMGT"; length > width && *prefix; prefix++)
        length = snprintf(digits, sizeof digits, "%.0f%c", value /= 1000, *prefix);
    fprintf(to, " %*s", width, digits);
}

void perf_print_digits(FILE *to, double value, int width) {
    perf_print_number(to, value, shown_decimals(value), width);
}

void perf_print_bytes(FILE *to, size_t bytes, int width) {
    char digits[32];
    if (snprintf(digits, sizeof digits, "%zu", bytes) > width)
        snprintf(digits, sizeof digits, "%.4gG", (double)bytes / (1 << 30));
    fprintf(to, " %*s", width, digits);
}

static void print_call(const perf_report *report) {
    const perf_options *options = report->options;
    const perf_collective *collective = report->collective;
    const bool in_place = perf_collective_in_place(collective, options->in_place);
    const char *place = report->both_places ? "both places" : in_place ? "in place" : "out of place";
    fprintf(report->table, "# kolo-perf %s: %s, ", kolo_version(), perf_collective_name(collective));
    if (perf_collective_has_data(collective))
        fprintf(report->table, "%s, ", kolo_name(KOLO_NAME_DTYPE, options->dtype));
    if (kolo_collective_has(collective->kolo) & KOLO_HAS_OP)
        fprintf(report->table, "%s, ", kolo_name(KOLO_NAME_OP, options->op));
    if (kolo_collective_has(collective->kolo) & KOLO_HAS_ROOT)
        fprintf(report->table, "root %d, ", options->root);
    fprintf(report->table, "%d rank%s", report->ranks, report->ranks == 1 ? "" : "s");
    if (report->threads > 1)
        fprintf(report->table, " of %d threads%s", report->threads, options->lanes ? " in lanes" : "");
    fprintf(report->table, report->nodes > 1 ? " on %d nodes\n" : "\n", report->nodes);
    perf_report_machine(report);
    if (perf_collective_has_data(collective)) {
        fprintf(report->table, "# buffers %s, %s, %s; %s\n", options->alloc ? "of kolo_alloc" : "private",
                perf_buffers_name(options->buffers), place, options->check ? "checked" : "not checked");
        if (options->offset > 0)
            fprintf(report->table, "# buffers begin %d bytes behind a page\n", options->offset);
    }
    if (perf_collective_has_blocks(collective))
        fprintf(report->table, "# bytes are those of %d block%s together%s\n", report->ranks,
                report->ranks == 1 ? "" : "s", collective->unequal ? ", whose lengths differ by an element" : "");
}

static void print_background(const perf_report *report) {
    const int in_flight = report->options->overlap ? 1 : report->options->in_flight;
    if (in_flight > 0)
        fprintf(report->table, "# in the background, %d in flight; %s progress thread\n", in_flight,
                report->progress ? "with a" : "no");
}

static void print_units(const perf_report *report, const char *note) {
    FILE *table = report->table;
    fprintf(table, "# times are of one call, the slowest rank's; GB = 10^9 bytes\n");
    if (report->options->buffers == PERF_WARM && !report->options->overlap)
        fprintf(table, "# up to %d bytes: samples are means of %d calls\n", PERF_BATCH_BYTES_MAX, PERF_BATCH_CALLS);
    if (report->nodes > 1)
        fprintf(table, "# link: what the busiest node sent or received, headers included\n");
    if (report->bounded) {
        fprintf(table, "# %%bound: share of the hardware's bound (kolo-perf limits), on %d CPU%s", report->limits->cpus,
                report->limits->cpus == 1 ? "" : "s");
        if (report->limits->exchange.ns > 0)
            fprintf(table, ";\n#   one exchange of a cache line takes %.0f ns", report->limits->exchange.ns);
        fprintf(table, "\n");
    } else if (note != NULL) {
        fprintf(table, "# no %%bound: %s\n", note);
    }
}

/* The tables are 80 columns wide at most. */
static void print_columns(const perf_report *report) {
    FILE *table = report->table;
    if (report->both_places) {
        fprintf(table, "#\n#%18s %29s %29s\n", "", "------- out of place --------", "---------- in place ---------");
        fprintf(table, "#%10s %7s", "bytes", "algo");
        for (int place = 0; place < 2; place++)
            fprintf(table, " %8s %6s %6s %6s", "median", "algbw", "busbw", "#wrong");
        fprintf(table, "\n#%10s %7s", "", "");
        for (int place = 0; place < 2; place++)
            fprintf(table, " %8s %6s %6s %6s", "us", "GB/s", "GB/s", "");
        fprintf(table, "\n");
        return;
    }
    if (report->options->trace) {
        fprintf(table, "#\n#%10s %7s %10s %10s %10s %6s\n", "bytes", "algo", "untraced", "traced", "difference",
                "#wrong");
        fprintf(table, "#%10s %7s %10s %10s %10s\n", "", "", "us", "us", "ns");
        return;
    }
    const bool net = report->nodes > 1;
    fprintf(table, "#\n#%10s %7s %6s %6s %6s %6s %6s %5s %5s %6s %6s\n", "bytes", "algo", "min", "avg", "median", "p99",
            "max", "algbw", "busbw", net ? "link" : "%bound", "#wrong");
    fprintf(table, "#%10s %7s %6s %6s %6s %6s %6s %5s %5s %6s\n", "", "", "us", "us", "us", "us", "us", "GB/s", "GB/s",
            net ? "GB/s" : "");
}

void perf_report_head(perf_report *report, const perf_collective *collective, bool both_places, const char *note) {
    report->collective = collective;
    report->both_places = both_places;
    report->bounded = report->limits != NULL;
    report->above_bound = false;
    report->busbw_sum_gbps = 0;
    report->results = 0;
    print_call(report);
    print_background(report);
    print_units(report, note);
    if (!report->options->overlap)
        print_columns(report);
    perf_report_flush(report);
}

void perf_report_record(perf_report *report, perf_field fields[PERF_FIELDS_MAX]) {
    size_t count = 0;
    while (fields[count].name != NULL)
        count++;
    fields[count++] = (perf_field){.name = "host", .text = report->system.nodename};
    fields[count++] = (perf_field){.name = "cpu", .text = report->machine.cpu_model};
    fields[count++] = (perf_field){.name = "kolo_version", .text = kolo_version()};
    fields[count++] = (perf_field){.name = "date", .text = report->date};
    if (report->json != NULL)
        write_json(report->json, fields, count);
    if (report->csv != NULL && !report->csv_has_head)
        write_csv_names(report->csv, fields, count);
    report->csv_has_head = true;
    if (report->csv != NULL)
        write_csv(report->csv, fields, count);
}

void perf_report_record_call(perf_report *report, const perf_row *row, const perf_field *measured) {
    const perf_options *options = report->options;
    const perf_collective *collective = report->collective;
    const bool has_data = perf_collective_has_data(collective);
    perf_field fields[PERF_FIELDS_MAX] = {
        {.name = "collective", .text = perf_collective_name(collective)},
        {"ranks", PERF_NUMBER, NULL, report->ranks, 0},
        {"nodes", PERF_NUMBER, NULL, report->nodes, 0},
        {"threads", PERF_NUMBER, NULL, report->threads, 0},
        {"lanes", PERF_TRUTH, NULL, options->lanes, 0},
        {"progress", PERF_TRUTH, NULL, report->progress, 0},
        {"bytes", PERF_NUMBER, NULL, (double)row->bytes, 0},
        {"count", PERF_NUMBER, NULL, (double)row->count, 0},
        {.name = "dtype", .text = has_data ? kolo_name(KOLO_NAME_DTYPE, options->dtype) : "none"},
        {.name = "op",
         .text = kolo_collective_has(collective->kolo) & KOLO_HAS_OP ? kolo_name(KOLO_NAME_OP, options->op) : "none"},
        {"root", PERF_NUMBER, NULL, kolo_collective_has(collective->kolo) & KOLO_HAS_ROOT ? options->root : -1, 0},
        {"in_place", PERF_TRUTH, NULL, row->in_place, 0},
        {"alloc", PERF_TRUTH, NULL, options->alloc, 0},
        {"offset", PERF_NUMBER, NULL, options->offset, 0},
        {.name = "buffers", .text = perf_buffers_name(options->buffers)},
        {.name = "algo", .text = row->algorithm},
        {"iters", PERF_NUMBER, NULL, row->samples, 0},
        {"calls_per_iter", PERF_NUMBER, NULL, row->calls_per_sample, 0},
        {"wrong", PERF_NUMBER, NULL, (double)row->wrong, 0},
    };
    size_t count = 0;
    while (fields[count].name != NULL)
        count++;
    while (measured->name != NULL)
        fields[count++] = *measured++;
    perf_report_record(report, fields);
}

/* What a trace costs a call. */
static double trace_ns(const perf_row *row) {
    return (row->turned_us - row->time_us.median) * 1e3;
}

static void record_row(perf_report *report, const perf_row *row) {
    const perf_statistics *us = &row->time_us;
    const bool bound = row->bound_us > 0;
    const perf_field measured[] = {
        {"in_flight", PERF_NUMBER, NULL, report->options->in_flight, 0},
        PERF_SPREAD("time_us", us, 4),
        {"algbw_gbps", PERF_NUMBER, NULL, row->algbw_gbps, 5},
        {"busbw_gbps", PERF_NUMBER, NULL, row->busbw_gbps, 5},
        {"link_bytes", PERF_NUMBER, NULL, row->link_bytes, 1},
        {"link_gbps", PERF_NUMBER, NULL, row->link_gbps, 6},
        {"bound_us", PERF_NUMBER, NULL, bound ? row->bound_us : NAN, 4},
        {"bound_percent", PERF_NUMBER, NULL, bound ? 100 * row->bound_us / us->median : NAN, 2},
        {"bound_sum_us", PERF_NUMBER, NULL, bound ? row->bound_sum_us : NAN, 4},
        {report->options->trace ? "traced_us" : NULL, PERF_NUMBER, NULL, row->turned_us, 4},
        {"trace_ns", PERF_NUMBER, NULL, trace_ns(row), 1},
        {.name = NULL},
    };
    perf_report_record_call(report, row, measured);
}

void perf_print_wrong(FILE *table, int64_t wrong) {
    if (wrong >= 0)
        perf_print_number(table, (double)wrong, 0, 6);
    else
        fprintf(table, " %6s", "-");
}

static void print_place(FILE *table, const perf_row *row) {
    perf_print_digits(table, row->time_us.median, 8);
    perf_print_digits(table, row->algbw_gbps, 6);
    perf_print_digits(table, row->busbw_gbps, 6);
    perf_print_wrong(table, row->wrong);
}

static void print_traced(FILE *table, const perf_row *row) {
    perf_print_digits(table, row->time_us.median, 10);
    perf_print_digits(table, row->turned_us, 10);
    perf_print_number(table, trace_ns(row), 1, 10);
    perf_print_wrong(table, row->wrong);
}

static void print_row(perf_report *report, const perf_row *row) {
    FILE *table = report->table;
    const perf_statistics *us = &row->time_us;
    const double times[] = {us->min, us->avg, us->median, us->p99, us->max};
    for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++)
        perf_print_digits(table, times[i], 6);
    perf_print_digits(table, row->algbw_gbps, 5);
    perf_print_digits(table, row->busbw_gbps, 5);
    if (report->nodes > 1)
        perf_print_digits(table, row->link_gbps, 6);
    else if (row->bound_us > 0)
        perf_print_number(table, 100 * row->bound_us / us->median, 1, 6);
    else
        fprintf(table, " %6s", "-");
    report->above_bound |= row->bound_us > us->median;
    perf_print_wrong(table, row->wrong);
}

void perf_report_rows(perf_report *report, perf_row *rows, int count) {
    const perf_job job = perf_job_of(report->options, report->collective, report->ranks);
    perf_print_bytes(report->table, rows[0].bytes, 10);
    fprintf(report->table, " %7s", rows[0].algorithm);
    for (int i = 0; i < count; i++) {
        if (report->bounded && rows[i].time_us.median > 0) {
            const perf_bound bound = perf_bound_of(report->limits, &job, rows[i].bytes);
            rows[i].bound_us = bound.bound_us;
            rows[i].bound_sum_us = bound.sum_us;
        }
        if (report->both_places)
            print_place(report->table, &rows[i]);
        else if (report->options->trace)
            print_traced(report->table, &rows[i]);
        else
            print_row(report, &rows[i]);
        record_row(report, &rows[i]);
        report->busbw_sum_gbps += rows[i].busbw_gbps;
        report->results++;
    }
    fprintf(report->table, "\n");
    perf_report_flush(report);
}

void perf_report_end(perf_report *report, int64_t wrong) {
    FILE *table = report->table;
    if (report->above_bound)
        fprintf(table, "# %%bound above 100: separate loops measured the bound, at another moment than\n"
                       "#   the calls, and both times vary; bench/README.md tells more\n");
    if (wrong > 0)
        fprintf(table, "# FAILED: %lld wrong\n", (long long)wrong);
    else if (report->options->check)
        fprintf(table, "# all results right\n");
    if (perf_collective_has_data(report->collective) && report->results > 0)
        fprintf(table, "# average busbw: %.3f GB/s\n", report->busbw_sum_gbps / report->results);
    perf_report_flush(report);
}
