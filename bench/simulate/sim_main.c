/* kolo-simulate: predicts all-reduce times on a machine that is described in a file. */
#include "kolo.h"
#include "sim_options.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "command_line.h"
#include "messages.h"
#include "sim_machine.h"

#define MESSAGE_BYTES_MAX (UINT64_C(4) << 30)
#define SLOT_BYTES_MAX    (UINT64_C(1) << 30) /* the library's limit */
#define COUNT_MAX         (UINT64_C(1) << 32)

enum { WITH_ROWS = 1 }; /* the use of an option that goes with --validate or --calibrate */

static sim_options options = {.min_bytes = 8, .max_bytes = 64 << 20, .factor = 8, .dtype = KOLO_F32};

static const char *algorithm_name(unsigned algorithm) {
    return kolo_name(KOLO_NAME_ALGORITHM, (int)algorithm);
}

static const char *dtype_name(unsigned dtype) {
    return kolo_name(KOLO_NAME_DTYPE, (int)dtype);
}

static const command_option table[] = {
    {"--machine NAME", "a machine that comes with kolo, or a file; an unknown name lists the known ones",
     TO_TEXT(options.machine_name), USED_FOR(WITH_ROWS)},
    {"--ranks N[,N...]", "numbers of ranks, 2 to the machine's cores, one rank a core (default: all cores)",
     TO_INTEGERS(options.ranks, options.ranks_count, 2, KOLO_RANKS_MAX)},
    {"--lanes N[,N...]",
     "ranks of N threads, 1 to 64, which make each call together, each thread in a lane (kolo_lanes.h) and on a core: "
     "the ranks have equal parts of the machine's cores; a table by lanes (default: one thread a rank)",
     TO_INTEGERS(options.lanes, options.lanes_count, 1, KOLO_THREADS_MAX)},
    {"--algorithm A[,A...]", "(default: auto, which is what the plan chooses, and each of them; with --lanes auto)",
     TO_CHOICES(options.algorithms, options.algorithms_count, algorithm_name)},
    {"--min BYTES", "smallest message (default: 8); K, M, G are powers of 1024, as in 64K",
     TO_BYTES(options.min_bytes, 1, MESSAGE_BYTES_MAX)},
    {"--max BYTES", "largest message, always shown, up to 4G (default: 64M)",
     TO_BYTES(options.max_bytes, 1, MESSAGE_BYTES_MAX)},
    {"--factor N", "from one size to the next, 2 or more (default: 8)", TO_COUNT(options.factor, 2, COUNT_MAX)},
    {"--dtype TYPE", "(default f32): elements", TO_CHOICE(options.dtype, dtype_name)},
    {"--in-place", "send and recv are the same buffer", TO_FLAG(options.in_place)},
    {"--slot-bytes BYTES", "of a chunk slot (default: the library's)",
     TO_BYTES(options.slot_bytes, 4096, SLOT_BYTES_MAX)},
    {"--check",
     "verify the protocol as well: nobody reads a slot before it is known to be written, nor overwrites one "
     "that may still be read; times are those of a few calls in a row",
     TO_FLAG(options.check)},
    {"--jitter SEED", "gives ranks different speeds, and pauses; SEED is a whole number from 1; for use with --check",
     TO_COUNT(options.noise_seed, 1, COUNT_MAX)},
    {"--skip-wait N", "break the protocol: the Nth wait of each run returns at once; shows that --check notices",
     TO_COUNT(options.skipped_wait, 1, COUNT_MAX)},
    {"--json FILE", "write the rows there, one object a line", TO_TEXT(options.json_path)},
    {"--validate FILE", "rows of kolo-perf allreduce --json: shows what this model predicts beside them",
     TO_TEXT(options.validate_path), USED_FOR(WITH_ROWS)},
    {"--calibrate FILE", "rows of kolo-perf limits --json: prints a machine file for the machine it runs on",
     TO_TEXT(options.calibrate_path), USED_FOR(WITH_ROWS)},
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
        "  kolo-simulate --machine epyc-milan-2x64 --ranks 64,128 --algorithm auto\n"
        "Example: among 2 ranks of 64 threads, a socket each, and 4 of 32\n"
        "  kolo-simulate --machine epyc-milan-2x64 --ranks 2,4 --lanes 1,4,16,32",
};

void sim_refuse(const char *format, ...) {
    char text[PATH_MAX + 1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    message_print("%s", text);
    exit(COMMAND_LINE_MISTAKE);
}

/* Reads the command line. Ends the program at --help, at --version and at a mistake. */
static const sim_options *sim_options_read(int argc, char **argv) {
    command_line_read(&line, argc, argv);
    const char *rows = options.calibrate_path ? "--calibrate" : options.validate_path ? "--validate" : NULL;
    if (!options.calibrate_path && !options.machine_name) {
        message_print("--machine NAME is missing; --calibrate makes a file for this machine");
        sim_machine_names_print(stderr);
        exit(COMMAND_LINE_MISTAKE);
    }
    if (options.calibrate_path && options.validate_path)
        command_line_refuse(&line, "--calibrate and --validate: give one of them");
    for (int i = 0; i < line.options_count && rows != NULL; i++)
        if ((line.given >> i & 1) && table[i].use != WITH_ROWS)
            command_line_refuse(&line, "option '%s' has no meaning with %s; leave it out", table[i].names, rows);
    if ((options.noise_seed || options.skipped_wait) && !options.check)
        command_line_refuse(&line, "--jitter and --skip-wait go with --check");
    if (options.slot_bytes % 4096 != 0)
        command_line_refuse(&line, "--slot-bytes %zu: give whole pages of 4096 bytes", options.slot_bytes);
    if (options.min_bytes > options.max_bytes)
        command_line_refuse(&line, "--min %zu is above --max %zu", options.min_bytes, options.max_bytes);
    return &options;
}

static int run(const sim_options *options) {
    sim_machine machine;
    if (options->calibrate_path != NULL) {
        sim_calibrate(options->calibrate_path);
        return 0;
    }
    sim_machine_read(&machine, options->machine_name);
    return options->validate_path != NULL ? sim_validate(options, &machine) : sim_report(options, &machine);
}

int main(int argc, char **argv) {
    const int status = run(sim_options_read(argc, argv));
    return message_unless_written() < 0 ? 2 : status;
}
