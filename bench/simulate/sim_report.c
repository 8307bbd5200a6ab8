#include "sim_report.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "sim_run.h"

enum { COLUMN_WIDTH = 7 }; /* all algorithms, and what auto chooses, fit 80 columns */

typedef struct report {
    const sim_options *options;
    const sim_machine *machine;
    FILE *json;
    kolo_algorithm algorithms[SIM_LIST_MAX];
    int columns;
    bool failed;
    bool extrapolated;
} report;

static void choose_columns(report *report) {
    const sim_options *options = report->options;
    if (options->algorithms_count > 0) {
        memcpy(report->algorithms, options->algorithms, sizeof report->algorithms);
        report->columns = options->algorithms_count;
        return;
    }
    for (int algorithm = 0; algorithm < KOLO_ALGORITHMS && report->columns < SIM_LIST_MAX; algorithm++)
        report->algorithms[report->columns++] = (kolo_algorithm)algorithm;
}

/* Before it, all sizes that round to the same number of elements are one. */
static size_t whole_elements(size_t bytes, kolo_dtype dtype) {
    const size_t element_bytes = kolo_dtype_bytes(dtype), count = bytes / element_bytes;
    return count > 0 ? count : 1;
}

static void print_head(const report *report, uint32_t ranks) {
    const sim_options *options = report->options;
    printf("#\n# %s\n# %" PRIu32 " ranks, %s, %s, buffers warm: us a call, predicted, not measured\n",
           report->machine->name, ranks, kolo_dtype_name(options->dtype),
           options->in_place ? "in place" : "out of place");
    printf("#%10s", "bytes");
    for (int column = 0; column < report->columns; column++) {
        const kolo_algorithm algorithm = report->algorithms[column];
        printf(" %*s", COLUMN_WIDTH, kolo_algorithm_name(algorithm));
        if (algorithm == KOLO_ALGORITHM_AUTO)
            printf(" %-8s", "chooses");
    }
    printf("\n");
}

/* Four digits, or all before the point. */
static int decimals_of(double us) {
    return us < 9.9995 ? 3 : us < 99.995 ? 2 : us < 999.95 ? 1 : 0;
}

static void print_cell(const sim_outcome *outcome, bool show_choice) {
    if (outcome->problem[0] != '\0')
        printf(" %*s", COLUMN_WIDTH, "failed");
    else
        printf(" %*.*f%c", COLUMN_WIDTH - 1, decimals_of(outcome->time_us), outcome->time_us,
               outcome->extrapolated ? '*' : ' ');
    if (show_choice)
        printf(" %-8s", kolo_algorithm_name(outcome->algorithm));
    fflush(stdout);
}

/* A JSON string. What JSON does not allow in one becomes a blank. */
static void write_text(FILE *json, const char *key, const char *text) {
    fprintf(json, "\"%s\": \"", key);
    for (; *text != '\0'; text++) {
        if (*text == '"' || *text == '\\')
            fputc('\\', json);
        fputc((unsigned char)*text < ' ' ? ' ' : *text, json);
    }
    fputc('"', json);
}

static void write_row(const report *report, const sim_case *asked, const sim_outcome *outcome) {
    const size_t bytes = asked->count * kolo_dtype_bytes(asked->dtype);
    FILE *json = report->json;
    fprintf(json, "{\"predicted\": true, ");
    write_text(json, "machine", report->machine->name);
    fprintf(json,
            ", \"collective\": \"allreduce\", \"ranks\": %" PRIu32 ", \"bytes\": %zu, \"dtype\": \"%s\", "
            "\"in_place\": %s, \"asked\": \"%s\", \"algo\": \"%s\", \"chunks\": %zu, \"extrapolated\": %s, "
            "\"events\": %" PRIu64 ", ",
            asked->ranks, bytes, kolo_dtype_name(asked->dtype), asked->in_place ? "true" : "false",
            kolo_algorithm_name(asked->algorithm), kolo_algorithm_name(outcome->algorithm), outcome->chunks,
            outcome->extrapolated ? "true" : "false", outcome->events);
    if (outcome->problem[0] == '\0') {
        fprintf(json, "\"time_us\": %.4f, \"busbw_gbps\": %.4f}\n", outcome->time_us,
                (double)bytes * 2 * (asked->ranks - 1) / asked->ranks / outcome->time_us * 1e-3);
    } else {
        fprintf(json, "\"time_us\": null, ");
        write_text(json, "problem", outcome->problem);
        fprintf(json, "}\n");
    }
}

static void predict_cell(report *report, uint32_t ranks, size_t count, kolo_algorithm algorithm) {
    const sim_options *options = report->options;
    const sim_case asked = {.machine = report->machine,
                            .ranks = ranks,
                            .algorithm = algorithm,
                            .dtype = options->dtype,
                            .count = count,
                            .in_place = options->in_place,
                            .slot_bytes = options->slot_bytes,
                            .check = options->check,
                            .noise_seed = options->noise_seed,
                            .skipped_wait = options->skipped_wait};
    sim_outcome outcome;
    if (sim_run(&asked, &outcome) != 0) {
        report->failed = true;
        fflush(stdout);
        fprintf(stderr, "kolo-simulate: %s, %" PRIu32 " ranks, %zu bytes: %s\n", kolo_algorithm_name(algorithm), ranks,
                count * kolo_dtype_bytes(options->dtype), outcome.problem);
    }
    report->extrapolated |= outcome.extrapolated;
    print_cell(&outcome, algorithm == KOLO_ALGORITHM_AUTO);
    if (report->json != NULL)
        write_row(report, &asked, &outcome);
}

static void predict_ranks(report *report, uint32_t ranks) {
    const sim_options *options = report->options;
    print_head(report, ranks);
    size_t count_before = 0;
    for (size_t bytes = options->min_bytes;;) {
        const size_t count = whole_elements(bytes, options->dtype);
        if (count != count_before) {
            printf(" %10zu", count * kolo_dtype_bytes(options->dtype));
            for (int column = 0; column < report->columns; column++)
                predict_cell(report, ranks, count, report->algorithms[column]);
            printf("\n");
        }
        count_before = count;
        if (bytes == options->max_bytes)
            return;
        bytes = bytes > options->max_bytes / options->factor ? options->max_bytes : bytes * options->factor;
    }
}

static int close_json(FILE *json, const char *path) {
    if (json == NULL)
        return 0;
    const bool failed = ferror(json);
    if (fclose(json) == 0 && !failed)
        return 0;
    fprintf(stderr, "kolo-simulate: rows were lost: cannot write --json '%s': %s\n", path, strerror(errno));
    return 2;
}

int sim_report_predictions(const sim_options *options, const sim_machine *machine) {
    report report = {.options = options, .machine = machine};
    const uint32_t cores = sim_machine_cores(machine);
    for (int i = 0; i < options->ranks_count; i++) {
        if ((uint32_t)options->ranks[i] <= cores)
            continue;
        fprintf(stderr,
                "kolo-simulate: --ranks %d: %s has %" PRIu32 " cores, and cores that ranks share are"
                " not modelled\n",
                options->ranks[i], machine->name, cores);
        return 2;
    }
    if (options->json_path != NULL && (report.json = fopen(options->json_path, "we")) == NULL) {
        fprintf(stderr, "kolo-simulate: cannot write --json '%s': %s\n", options->json_path, strerror(errno));
        return 2;
    }
    choose_columns(&report);
    for (int i = 0; i < options->ranks_count; i++)
        predict_ranks(&report, (uint32_t)options->ranks[i]);
    if (options->ranks_count == 0)
        predict_ranks(&report, cores);
    if (report.extrapolated)
        printf("# * the first chunks were simulated; the others take as long each as the last\n");
    const int rc = close_json(report.json, options->json_path);
    return rc != 0 ? rc : report.failed;
}
