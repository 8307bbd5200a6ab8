#include "sim_options.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "command_line.h"
#include "sim_catalogue.h"

#define MESSAGE_BYTES_MAX (UINT64_C(4) << 30)
#define SLOT_BYTES_MAX    (UINT64_C(1) << 30) /* the library's limit */
#define COUNT_MAX         (UINT64_C(1) << 32)

static sim_options options = {.min_bytes = 8, .max_bytes = 64 << 20, .factor = 8, .dtype = KOLO_F32};

static const char *algorithm_name(unsigned algorithm) {
    return kolo_algorithm_name((kolo_algorithm)algorithm);
}

static const char *dtype_name(unsigned dtype) {
    return kolo_dtype_name((kolo_dtype)dtype);
}

static const command_option table[] = {
    {.name = "machine",
     .value = "NAME",
     .text = &options.machine_name,
     .help = "a machine that comes with kolo, or a file; for a name that is not known, lists those that are"},
    {.name = "ranks",
     .value = "N[,N...]",
     .integer = options.ranks,
     .low = 2,
     .high = KOLO_RANKS_MAX,
     .list_count = &options.ranks_count,
     .list_max = SIM_LIST_MAX,
     .help = "numbers of ranks, 2 to the machine's cores, one rank a core (default: all cores)"},
    {.name = "algorithm",
     .value = "A[,A...]",
     .choice = options.algorithms,
     .name_of = algorithm_name,
     .list_count = &options.algorithms_count,
     .list_max = SIM_LIST_MAX,
     .help = "auto (what the plan chooses), or algorithms by name (default: auto and each of them)"},
    {.name = "min",
     .value = "BYTES",
     .bytes = &options.min_bytes,
     .low = 1,
     .high = MESSAGE_BYTES_MAX,
     .help = "smallest message (default: 8); K, M, G are powers of 1024, as in 64K"},
    {.name = "max",
     .value = "BYTES",
     .bytes = &options.max_bytes,
     .low = 1,
     .high = MESSAGE_BYTES_MAX,
     .help = "largest message, always shown, up to 4G (default: 64M)"},
    {.name = "factor",
     .value = "N",
     .count = &options.factor,
     .low = 2,
     .high = COUNT_MAX,
     .help = "from one size to the next, 2 or more (default: 8)"},
    {.name = "dtype",
     .value = "TYPE",
     .choice = &options.dtype,
     .name_of = dtype_name,
     .help = "elements: f32, bf16, ... (default: f32)"},
    {.name = "in-place", .flag = &options.in_place, .help = "send is recv"},
    {.name = "slot-bytes",
     .value = "BYTES",
     .bytes = &options.slot_bytes,
     .low = 4096,
     .high = SLOT_BYTES_MAX,
     .help = "of a chunk slot (default: the library's)"},
    {.name = "check",
     .flag = &options.check,
     .help = "verify the protocol as well: nobody reads a slot before it is known to be written, nor overwrites one "
             "that may still be read; times are those of a few calls in a row"},
    {.name = "jitter",
     .value = "SEED",
     .count = &options.noise_seed,
     .low = 1,
     .high = COUNT_MAX,
     .help = "ranks of different speeds, and pauses; a whole number from 1; use it with --check"},
    {.name = "skip-wait",
     .value = "N",
     .count = &options.skipped_wait,
     .low = 1,
     .high = COUNT_MAX,
     .help = "break the protocol: the Nth wait of each run returns at once; shows that --check notices"},
    {.name = "json", .value = "FILE", .text = &options.json_path, .help = "write the rows there, one object a line"},
    {.name = "validate",
     .value = "FILE",
     .text = &options.validate_path,
     .help = "rows of kolo-perf allreduce --json: shows what this model predicts beside them"},
    {.name = "calibrate",
     .value = "FILE",
     .text = &options.calibrate_path,
     .help = "rows of kolo-perf limits --json: prints a machine file for the machine it runs on"},
};

static command_line line = {
    .program = "kolo-simulate",
    .before = "Usage: kolo-simulate --machine NAME [options]\n"
              "       kolo-simulate --machine NAME --validate MEASURED.json\n"
              "       kolo-simulate --calibrate LIMITS.json > FILE\n"
              "\n"
              "Predicts how long kolo's all-reduce takes on a machine that is described in a small text file: the "
              "library's own algorithms and plan run on a model of caches, links and memory. Every time shown is "
              "predicted, not measured.",
    .options = table,
    .options_count = sizeof table / sizeof *table,
    .after =
        "Exit status: 0; 1 if a prediction failed or the protocol was broken; 2 for a wrong command line or file.\n"
        "\n"
        "Example: an all-reduce among 64 and 128 ranks of a two-socket EPYC, as the plan would do it\n"
        "  kolo-simulate --machine epyc-milan-2x64 --ranks 64,128 --algorithm auto",
};

void sim_refuse(const char *format, ...) {
    va_list arguments;
    fputs("kolo-simulate: ", stderr);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    exit(COMMAND_LINE_MISTAKE);
}

const sim_options *sim_options_read(int argc, char **argv) {
    command_line_read(&line, argc, argv);
    if (!options.calibrate_path && !options.machine_name) {
        fprintf(stderr, "kolo-simulate: --machine NAME is missing; --calibrate makes a file for this machine\n");
        sim_catalogue_print(stderr);
        exit(COMMAND_LINE_MISTAKE);
    }
    if (options.calibrate_path && options.validate_path)
        command_line_refuse(&line, "--calibrate and --validate: give one of them");
    if (options.slot_bytes % 4096 != 0)
        command_line_refuse(&line, "--slot-bytes %zu: give whole pages of 4096 bytes", options.slot_bytes);
    if (options.min_bytes > options.max_bytes)
        command_line_refuse(&line, "--min %zu is above --max %zu", options.min_bytes, options.max_bytes);
    return &options;
}
