#include "kolo.h"
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

static bool is_by_lanes(void) {
    return report.options->lanes_count > 0;
}

/* Algorithms that are asked for. */
static int algorithms(void) {
    if (report.options->algorithms_count == 0 && is_by_lanes())
        return 1;
    return report.options->algorithms_count > 0 ? report.options->algorithms_count : KOLO_ALGORITHMS;
}

static kolo_algorithm algorithm_of(int index) {
    return report.options->algorithms_count > 0 ? report.options->algorithms[index] : (kolo_algorithm)index;
}

static void print_head_by_lanes(uint32_t ranks, kolo_algorithm algorithm) {
    const sim_options *options = report.options;
    printf("#\n# %s\n# %u ranks of %u cores, %s, %s, %s, buffers warm: us a call\n"
           "# by lanes, a thread in each; predicted, not measured\n#%10s",
           report.machine->name, ranks, sim_machine_cores(report.machine) / ranks,
           kolo_name(KOLO_NAME_ALGORITHM, algorithm), kolo_name(KOLO_NAME_DTYPE, options->dtype),
           options->in_place ? "in place" : "out of place", "bytes");
    for (int column = 0; column < options->lanes_count; column++)
        printf(" %*d", COLUMN_WIDTH - 1, options->lanes[column]);
    printf("  lanes\n");
}

static void print_head(uint32_t ranks) {
    const sim_options *options = report.options;
    printf("#\n# %s\n# %u ranks, %s, %s, buffers warm: us a call, predicted, not measured\n", report.machine->name,
           ranks, kolo_name(KOLO_NAME_DTYPE, options->dtype), options->in_place ? "in place" : "out of place");
    printf("#%10s", "bytes");
    for (int column = 0; column < algorithms(); column++) {
        printf(" %*s", COLUMN_WIDTH, kolo_name(KOLO_NAME_ALGORITHM, algorithm_of(column)));
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
        printf(" %-8s", kolo_name(KOLO_NAME_ALGORITHM, outcome->algorithm));
    fflush(stdout);
}

static void write_row(FILE *json, const sim_case *asked, const sim_outcome *outcome) {
    const size_t bytes = asked->count * kolo_dtype_bytes(asked->dtype);
    fprintf(json, "{\"predicted\": true, \"machine\": ");
    json_text_print(json, report.machine->name);
    fprintf(json,
            ", \"collective\": \"allreduce\", \"ranks\": %u, \"threads\": %u, \"lanes\": %s, \"bytes\": %zu, "
            "\"dtype\": \"%s\", "
            "\"in_place\": %s, \"asked\": \"%s\", \"algo\": \"%s\", \"chunks\": %zu, \"extrapolated\": %s, "
            "\"events\": %" PRIu64 ", ",
            asked->ranks, asked->lanes ? asked->lanes : 1, asked->lanes ? "true" : "false", bytes,
            kolo_name(KOLO_NAME_DTYPE, asked->dtype), asked->in_place ? "true" : "false",
            kolo_name(KOLO_NAME_ALGORITHM, asked->algorithm), kolo_name(KOLO_NAME_ALGORITHM, outcome->algorithm),
            outcome->chunks, outcome->extrapolated ? "true" : "false", outcome->events);
    if (outcome->problem[0] == '\0') {
        fprintf(json, "\"time_us\": %.4f, \"busbw_gbps\": %.4f}\n", outcome->time_us,
                (double)bytes * 2 * (asked->ranks - 1) / asked->ranks / outcome->time_us * 1e-3);
    } else {
        fprintf(json, "\"time_us\": null, \"problem\": ");
        json_text_print(json, outcome->problem);
        fprintf(json, "}\n");
    }
}

static void predict_cell(uint32_t ranks, uint32_t lanes, size_t count, kolo_algorithm algorithm) {
    const sim_options *options = report.options;
    const sim_case asked = {.machine = report.machine,
                            .ranks = ranks,
                            .lanes = lanes,
                            .algorithm = algorithm,
                            .dtype = options->dtype,
                            .count = count,
                            .in_place = options->in_place,
                            .slot_bytes = options->slot_bytes,
                            .check = options->check,
                            .noise_seed = options->noise_seed,
                            .skipped_wait = options->skipped_wait};
    sim_outcome outcome;
    char of_lanes[32] = "";
    if (lanes > 0)
        snprintf(of_lanes, sizeof of_lanes, " of %u lanes", lanes);
    if (sim_run(&asked, &outcome) != 0) {
        report.failed = true;
        fflush(stdout);
        message_print("%s, %u ranks%s, %zu bytes: %s", kolo_name(KOLO_NAME_ALGORITHM, algorithm), ranks, of_lanes,
                      count * kolo_dtype_bytes(options->dtype), outcome.problem);
    }
    report.extrapolated |= outcome.extrapolated;
    print_cell(&outcome, algorithm == KOLO_ALGORITHM_AUTO && !is_by_lanes());
    if (report.json != NULL)
        write_row(report.json, &asked, &outcome);
}

/* A row: by lanes, or by algorithms. */
static void predict_row(uint32_t ranks, size_t count, kolo_algorithm algorithm) {
    const sim_options *options = report.options;
    printf(" %10zu", count * kolo_dtype_bytes(options->dtype));
    for (int column = 0; column < options->lanes_count; column++)
        predict_cell(ranks, (uint32_t)options->lanes[column], count, algorithm);
    for (int column = 0; !is_by_lanes() && column < algorithms(); column++)
        predict_cell(ranks, 0, count, algorithm_of(column));
    printf("\n");
}

/* One table; by lanes it is of one algorithm. */
static void predict_table(uint32_t ranks, kolo_algorithm algorithm) {
    const sim_options *options = report.options;
    const size_t element_bytes = kolo_dtype_bytes(options->dtype);
    size_t count_before = 0;
    for (size_t bytes = options->min_bytes;;) {
        const size_t count = bytes < element_bytes ? 1 : bytes / element_bytes;
        if (count != count_before) /* or sizes round to the same number of elements */
            predict_row(ranks, count, algorithm);
        count_before = count;
        if (bytes == options->max_bytes)
            return;
        bytes = bytes > options->max_bytes / options->factor ? options->max_bytes : bytes * options->factor;
    }
}

static void predict_ranks(uint32_t ranks) {
    if (!is_by_lanes()) {
        print_head(ranks);
        predict_table(ranks, KOLO_ALGORITHM_AUTO);
        return;
    }
    for (int i = 0; i < algorithms(); i++) {
        print_head_by_lanes(ranks, algorithm_of(i));
        predict_table(ranks, algorithm_of(i));
    }
}

/* Refuses what does not fit the machine's cores. */
static void check_ranks(uint32_t ranks) {
    const sim_options *options = report.options;
    const uint32_t cores = sim_machine_cores(report.machine);
    if (ranks > cores)
        sim_refuse("--ranks %u: %s has %u cores, and cores that ranks share are not modelled", ranks,
                   report.machine->name, cores);
    for (int i = 0; i < options->lanes_count; i++)
        if ((uint32_t)options->lanes[i] > cores / ranks)
            sim_refuse("--lanes %d: with %u ranks each has %u of the %u cores of %s, and cores that threads share are "
                       "not modelled: give fewer --lanes or --ranks",
                       options->lanes[i], ranks, cores / ranks, cores, report.machine->name);
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
        check_ranks((uint32_t)options->ranks[i]);
    if (options->ranks_count == 0)
        check_ranks(cores);
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
