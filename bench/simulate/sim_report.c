#include "sim_options.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "printed_text.h"
#include "messages.h"
#include "sim_run.h"

enum { COLUMN_WIDTH = 7 }; /* all algorithms, and what auto chooses, fit 80 columns */

static struct {
    const sim_options *options;
    const sim_machine *machine;
    FILE *json; /* NULL: none */
    bool failed;
    bool extrapolated;
} report;

static int columns(void) {
    return report.options->algorithms_count > 0 ? report.options->algorithms_count : KOLO_ALGORITHMS;
}

static kolo_algorithm algorithm_of(int column) {
    return report.options->algorithms_count > 0 ? report.options->algorithms[column] : (kolo_algorithm)column;
}

static void print_head(uint32_t ranks) {
    const sim_options *options = report.options;
    printf("#\n# %s\n# %u ranks, %s, %s, buffers warm: us a call, predicted, not measured\n", report.machine->name,
           ranks, kolo_dtype_name(options->dtype), options->in_place ? "in place" : "out of place");
    printf("#%10s", "bytes");
    for (int column = 0; column < columns(); column++) {
        printf(" %*s", COLUMN_WIDTH, kolo_algorithm_name(algorithm_of(column)));
        if (algorithm_of(column) == KOLO_ALGORITHM_AUTO)
            printf(" %-8s", "chooses");
    }
    printf("\n");
}

static void print_cell(const sim_outcome *outcome, bool show_choice) {
    if (outcome->problem[0] != '\0')
        printf(" %*s", COLUMN_WIDTH, "failed");
    else
        printf(" %*.*f%c", COLUMN_WIDTH - 1, shown_decimals(outcome->time_us), outcome->time_us,
               outcome->extrapolated ? '*' : ' ');
    if (show_choice)
        printf(" %-8s", kolo_algorithm_name(outcome->algorithm));
    fflush(stdout);
}

static void write_row(FILE *json, const sim_case *asked, const sim_outcome *outcome) {
    const size_t bytes = asked->count * kolo_dtype_bytes(asked->dtype);
    fprintf(json, "{\"predicted\": true, \"machine\": ");
    json_text_print(json, report.machine->name);
    fprintf(json,
            ", \"collective\": \"allreduce\", \"ranks\": %u, \"bytes\": %zu, \"dtype\": \"%s\", "
            "\"in_place\": %s, \"asked\": \"%s\", \"algo\": \"%s\", \"chunks\": %zu, \"extrapolated\": %s, "
            "\"events\": %" PRIu64 ", ",
            asked->ranks, bytes, kolo_dtype_name(asked->dtype), asked->in_place ? "true" : "false",
            kolo_algorithm_name(asked->algorithm), kolo_algorithm_name(outcome->algorithm), outcome->chunks,
            outcome->extrapolated ? "true" : "false", outcome->events);
    if (outcome->problem[0] == '\0') {
        fprintf(json, "\"time_us\": %.4f, \"busbw_gbps\": %.4f}\n", outcome->time_us,
                (double)bytes * 2 * (asked->ranks - 1) / asked->ranks / outcome->time_us * 1e-3);
    } else {
        fprintf(json, "\"time_us\": null, \"problem\": ");
        json_text_print(json, outcome->problem);
        fprintf(json, "}\n");
    }
}

static void predict_cell(uint32_t ranks, size_t count, kolo_algorithm algorithm) {
    const sim_options *options = report.options;
    const sim_case asked = {.machine = report.machine,
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
        report.failed = true;
        fflush(stdout);
        message_print("%s, %u ranks, %zu bytes: %s", kolo_algorithm_name(algorithm), ranks,
                      count * kolo_dtype_bytes(options->dtype), outcome.problem);
    }
    report.extrapolated |= outcome.extrapolated;
    print_cell(&outcome, algorithm == KOLO_ALGORITHM_AUTO);
    if (report.json != NULL)
        write_row(report.json, &asked, &outcome);
}

static void predict_ranks(uint32_t ranks) {
    const sim_options *options = report.options;
    const size_t element_bytes = kolo_dtype_bytes(options->dtype);
    print_head(ranks);
    size_t count_before = 0;
    for (size_t bytes = options->min_bytes;;) {
        const size_t count = bytes < element_bytes ? 1 : bytes / element_bytes;
        if (count != count_before) { /* or sizes round to the same number of elements */
            printf(" %10zu", count * element_bytes);
            for (int column = 0; column < columns(); column++)
                predict_cell(ranks, count, algorithm_of(column));
            printf("\n");
        }
        count_before = count;
        if (bytes == options->max_bytes)
            return;
        bytes = bytes > options->max_bytes / options->factor ? options->max_bytes : bytes * options->factor;
    }
}

static void close_json(const char *path) {
    const bool failed = ferror(report.json);
    if (fclose(report.json) != 0 || failed)
        sim_refuse("rows were lost: cannot write --json '%s': %s", path, strerror(errno));
}

int sim_report(const sim_options *options, const sim_machine *machine) {
    const uint32_t cores = sim_machine_cores(machine);
    report.options = options;
    report.machine = machine;
    for (int i = 0; i < options->ranks_count; i++)
        if ((uint32_t)options->ranks[i] > cores)
            sim_refuse("--ranks %d: %s has %u cores, and cores that ranks share are not modelled", options->ranks[i],
                       machine->name, cores);
    if (options->json_path != NULL && (report.json = fopen(options->json_path, "we")) == NULL)
        sim_refuse("cannot write --json '%s': %s", options->json_path, strerror(errno));
    for (int i = 0; i < options->ranks_count; i++)
        predict_ranks((uint32_t)options->ranks[i]);
    if (options->ranks_count == 0)
        predict_ranks(cores);
    if (report.extrapolated)
        printf("# * the first chunks were simulated; the others take as long each as the last\n");
    if (report.json != NULL)
        close_json(options->json_path);
    return report.failed;
}
