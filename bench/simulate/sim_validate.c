#include "kolo.h"
#include "sim_options.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "messages.h"
#include "sim_run.h"

static struct {
    const sim_machine *machine;
    int rows;
    int skipped;
    int failed;
    double log_sum; /* of predicted / measured, in absolute value */
    double worst;   /* largest factor between the two */
} tally = {.worst = 1};

/* Fills *asked from a row of kolo-perf; false if the row is no all-reduce with warm buffers that can be modelled. */
static bool read_case(const char *row, sim_case *asked, double *measured_us) {
    char collective[32], algorithm[32], dtype[16], buffers[16];
    double ranks, threads = 1, nodes = 1, in_flight = 0, bytes;
    if (!sim_row_text(row, "collective", collective, sizeof collective) || strcmp(collective, "allreduce") != 0 ||
        !sim_row_text(row, "algo", algorithm, sizeof algorithm) || !sim_row_text(row, "dtype", dtype, sizeof dtype) ||
        !sim_row_text(row, "buffers", buffers, sizeof buffers) || strcmp(buffers, "warm") != 0 ||
        !sim_row_number(row, "ranks", &ranks) || !sim_row_number(row, "bytes", &bytes) ||
        !sim_row_number(row, "median", measured_us))
        return false;
    const bool has_lanes = sim_row_true(row, "lanes");
    sim_row_number(row, "threads", &threads);
    sim_row_number(row, "nodes", &nodes);
    sim_row_number(row, "in_flight", &in_flight);
    if (ranks < 2 || threads < 1 || threads > KOLO_THREADS_MAX || ranks * threads > sim_machine_cores(tally.machine) ||
        (threads > 1 && !has_lanes) || nodes > 1 || in_flight > 0 || bytes < 1 || bytes > 0x1p32 || *measured_us <= 0 ||
        (sim_row_true(row, "alloc") && strcmp(algorithm, "direct") != 0))
        return false;
    *asked = (sim_case){.machine = tally.machine,
                        .ranks = (uint32_t)ranks,
                        .lanes = threads > 1 ? (uint32_t)threads : 0,
                        .in_place = sim_row_true(row, "in_place")};
    int found = 0;
    for (int i = 1; i < KOLO_ALGORITHMS && !found; i++) {
        asked->algorithm = (kolo_algorithm)i;
        found = strcmp(algorithm, kolo_name(KOLO_NAME_ALGORITHM, asked->algorithm)) == 0;
    }
    for (int i = 0; i < KOLO_DTYPES && found == 1; i++) {
        asked->dtype = (kolo_dtype)i;
        found += strcmp(dtype, kolo_name(KOLO_NAME_DTYPE, asked->dtype)) == 0;
    }
    if (found != 2)
        return false;
    asked->count = (size_t)bytes / kolo_dtype_bytes(asked->dtype);
    return asked->count > 0;
}

static void show_row(const char *row) {
    sim_case asked;
    sim_outcome outcome;
    double measured_us;
    char ranks[24];
    if (!read_case(row, &asked, &measured_us)) {
        tally.skipped++;
        return;
    }
    const size_t bytes = asked.count * kolo_dtype_bytes(asked.dtype);
    if (sim_run(&asked, &outcome) != 0) {
        message_print("%u ranks, %zu bytes: %s", asked.ranks, bytes, outcome.problem);
        tally.failed++;
        return;
    }
    const double ratio = outcome.time_us / measured_us, factor = ratio < 1 ? 1 / ratio : ratio;
    snprintf(ranks, sizeof ranks, asked.lanes ? "%" PRIu32 "x%" PRIu32 : "%" PRIu32, asked.ranks, asked.lanes);
    printf(" %12zu %6s %6s %-6s %-8s %12.3f %12.3f %+8.0f%%\n", bytes, ranks, kolo_name(KOLO_NAME_DTYPE, asked.dtype),
           asked.in_place ? "in" : "out of", kolo_name(KOLO_NAME_ALGORITHM, outcome.algorithm), outcome.time_us,
           measured_us, (ratio - 1) * 100);
    tally.rows++;
    tally.log_sum += log(factor);
    tally.worst = factor > tally.worst ? factor : tally.worst;
}

int sim_validate(const sim_options *options, const sim_machine *machine) {
    tally.machine = machine;
    printf(
        "# %s: predicted beside measured\n#%12s %6s %6s %-6s %-8s %12s %12s %9s\n#%12s %6s %6s %-6s %-8s %12s %12s\n",
        machine->name, "bytes", "ranks", "dtype", "place", "algo", "predicted", "measured", "error", "", "", "", "", "",
        "us", "us");
    sim_rows_read("validate", options->validate_path, show_row);
    if (tally.rows == 0 && tally.failed == 0)
        sim_refuse("--validate '%s': no row can be compared: it takes all-reduces with warm buffers of 2 to %u ranks",
                   options->validate_path, sim_machine_cores(machine));
    if (tally.rows > 0)
        printf("# %d rows: off by a factor of %.2f in the geometric mean, %.2f at worst\n", tally.rows,
               exp(tally.log_sum / tally.rows), tally.worst);
    if (tally.skipped > 0)
        printf("# %d rows left out: no blocking all-reduce of one machine, one rank, buffers not\n"
               "#   warm or of kolo_alloc, threads of kolo's own, or more threads than cores\n",
               tally.skipped);
    return tally.failed > 0;
}
