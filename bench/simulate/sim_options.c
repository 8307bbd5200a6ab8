/* SPDX-License-Identifier: Apache-2.0
 */
#include "sim_options.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command_line.h"
#include "sim_catalogue.h"

#define MESSAGE_BYTES_MAX (UINT64_C(4) << 30)
#define SLOT_BYTES_MAX    (UINT64_C(1) << 30) /* the library's limit */

static const char help[] = "Usage: kolo-simulate --machine NAME [options]\n"
                           "       kolo-simulate --machine NAME --validate MEASURED.json\n"
                           "       kolo-simulate --calibrate LIMITS.json > FILE\n"
                           "\n"
                           "Predicts how long kolo's all-reduce takes on a machine that is described in a\n"
                           "small text file: the library's own algorithms and plan run on a model of\n"
                           "caches, links and memory. Every time shown is predicted, not measured.\n"
                           "\n"
                           "  --machine NAME        a machine that comes with kolo, or a file; for a name\n"
                           "                        that is not known, lists those that are\n"
                           "  --ranks N[,N...]      numbers of ranks, 2 to the machine's cores, one rank a\n"
                           "                        core (default: all cores)\n"
                           "  --algorithm A[,A...]  auto (what the plan chooses), or algorithms by name\n"
                           "                        (default: auto and each of them)\n"
                           "  --min BYTES           smallest message (default: 8); K, M, G are powers of\n"
                           "                        1024, as in 64K\n"
                           "  --max BYTES           largest message, always shown, up to 4G (default: 64M)\n"
                           "  --factor N            from one size to the next, 2 or more (default: 8)\n"
                           "  --dtype TYPE          elements: f32, bf16, ... (default: f32)\n"
                           "  --in-place            send is recv\n"
                           "  --slot-bytes BYTES    of a chunk slot (default: the library's)\n"
                           "  --check               verify the protocol as well: nobody reads a slot before\n"
                           "                        it is known to be written, nor overwrites one that may\n"
                           "                        still be read; times are those of a few calls in a row\n"
                           "  --jitter SEED         ranks of different speeds, and pauses; a whole number\n"
                           "                        from 1; use it with --check\n"
                           "  --skip-wait N         break the protocol: the Nth wait of each run returns at\n"
                           "                        once; shows that --check notices\n"
                           "  --json FILE           write the rows there, one object a line\n"
                           "  --validate FILE       rows of kolo-perf allreduce --json: shows what this\n"
                           "                        model predicts beside them\n"
                           "  --calibrate FILE      rows of kolo-perf limits --json: prints a machine file\n"
                           "                        for the machine it runs on\n"
                           "  --version             print the version\n"
                           "  --help                print this\n"
                           "\n"
                           "Exit status: 0; 1 if a prediction failed or the protocol was broken; 2 for a\n"
                           "wrong command line or file.\n"
                           "\n"
                           "Example: an all-reduce among 64 and 128 ranks of a two-socket EPYC, as the plan\n"
                           "would do it\n"
                           "  kolo-simulate --machine epyc-milan-2x64 --ranks 64,128 --algorithm auto\n";

enum option_id {
    OPTION_MACHINE = 256,
    OPTION_RANKS,
    OPTION_ALGORITHM,
    OPTION_MIN,
    OPTION_MAX,
    OPTION_FACTOR,
    OPTION_DTYPE,
    OPTION_IN_PLACE,
    OPTION_SLOT_BYTES,
    OPTION_CHECK,
    OPTION_JITTER,
    OPTION_SKIP_WAIT,
    OPTION_JSON,
    OPTION_VALIDATE,
    OPTION_CALIBRATE
};

static const struct option long_options[] = {
    {"machine", required_argument, NULL, OPTION_MACHINE},
    {"ranks", required_argument, NULL, OPTION_RANKS},
    {"algorithm", required_argument, NULL, OPTION_ALGORITHM},
    {"min", required_argument, NULL, OPTION_MIN},
    {"max", required_argument, NULL, OPTION_MAX},
    {"factor", required_argument, NULL, OPTION_FACTOR},
    {"dtype", required_argument, NULL, OPTION_DTYPE},
    {"in-place", no_argument, NULL, OPTION_IN_PLACE},
    {"slot-bytes", required_argument, NULL, OPTION_SLOT_BYTES},
    {"check", no_argument, NULL, OPTION_CHECK},
    {"jitter", required_argument, NULL, OPTION_JITTER},
    {"skip-wait", required_argument, NULL, OPTION_SKIP_WAIT},
    {"json", required_argument, NULL, OPTION_JSON},
    {"validate", required_argument, NULL, OPTION_VALIDATE},
    {"calibrate", required_argument, NULL, OPTION_CALIBRATE},
    {"help", no_argument, NULL, 'h'},
    {"version", no_argument, NULL, 'v'},
    {NULL, 0, NULL, 0},
};

static const command_line line = {"kolo-simulate", help, long_options, .arguments_max = 0};

static bool refuse(const char *option, const char *value, const char *remedy) {
    fprintf(stderr, "kolo-simulate: --%s '%s': %s\n", option, value, remedy);
    return false;
}

/* A whole number with an optional K, M or G. */
static bool parse_number(const char *text, bool suffixes, uint64_t min, uint64_t max, uint64_t *value) {
    char *end;
    errno = 0;
    *value = strtoull(text, &end, 10);
    if (!isdigit((unsigned char)text[0]) || errno != 0)
        return false;
    const char *suffix = suffixes && *end != '\0' ? strchr("KMG", *end) : NULL;
    if (suffix != NULL) {
        const int shift = *suffix == 'K' ? 10 : *suffix == 'M' ? 20 : 30;
        if (*value > UINT64_MAX >> shift)
            return false;
        *value <<= shift;
        end++;
    }
    return *end == '\0' && *value >= min && *value <= max;
}

static bool read_bytes(const char *option, const char *text, uint64_t min, uint64_t max, const char *remedy,
                       size_t *bytes) {
    uint64_t value;
    if (!parse_number(text, true, min, max, &value))
        return refuse(option, text, remedy);
    *bytes = (size_t)value;
    return true;
}

static bool read_message_bytes(const char *option, const char *text, size_t *bytes) {
    return read_bytes(option, text, 1, MESSAGE_BYTES_MAX, "must be a size from 1 to 4G, as in 64K", bytes);
}

/* Calls read(options, word) for each word of a list with commas. */
static bool read_list(sim_options *options, const char *option, const char *text,
                      const char *(*read)(sim_options *options, const char *word)) {
    char word[64];
    const char *rest = text;
    for (;;) {
        const size_t length = strcspn(rest, ",");
        if (length >= sizeof word)
            return refuse(option, text, "has a word that is too long");
        snprintf(word, sizeof word, "%.*s", (int)length, rest);
        const char *problem = read(options, word);
        if (problem != NULL)
            return refuse(option, text, problem);
        if (rest[length] == '\0')
            return true;
        rest += length + 1;
    }
}

static const char *read_ranks(sim_options *options, const char *word) {
    uint64_t ranks;
    if (!parse_number(word, false, 2, KOLO_RANKS_MAX, &ranks))
        return "must be numbers from 2 to 1024, as in 2,4,8";
    if (options->ranks_count == SIM_LIST_MAX)
        return "at most 32 numbers of ranks";
    options->ranks[options->ranks_count++] = (uint32_t)ranks;
    return NULL;
}

static const char *read_algorithm(sim_options *options, const char *word) {
    if (options->algorithms_count == SIM_LIST_MAX)
        return "at most 32 algorithms";
    for (int algorithm = 0; algorithm < KOLO_ALGORITHMS; algorithm++) {
        if (strcmp(word, kolo_algorithm_name((kolo_algorithm)algorithm)) == 0) {
            options->algorithms[options->algorithms_count++] = (kolo_algorithm)algorithm;
            return NULL;
        }
    }
    return "must be auto or names of algorithms, as in auto,oneshot,mesh";
}

static bool read_dtype(sim_options *options, const char *text) {
    for (int dtype = 0; dtype < KOLO_DTYPES; dtype++) {
        if (strcmp(text, kolo_dtype_name((kolo_dtype)dtype)) == 0) {
            options->dtype = (kolo_dtype)dtype;
            return true;
        }
    }
    return refuse("dtype", text, "there is none such; try f32, f64, bf16, f16, i8, i32 or i64");
}

static bool read_count(const char *option, const char *text, uint64_t min, const char *remedy, uint64_t *value) {
    return parse_number(text, false, min, UINT64_C(1) << 32, value) || refuse(option, text, remedy);
}

static bool read_option(sim_options *options, int id, const char *text) {
    uint64_t value;
    switch (id) {
    case OPTION_MACHINE:
        options->machine_name = text;
        return true;
    case OPTION_RANKS:
        return read_list(options, "ranks", text, read_ranks);
    case OPTION_ALGORITHM:
        return read_list(options, "algorithm", text, read_algorithm);
    case OPTION_MIN:
        return read_message_bytes("min", text, &options->min_bytes);
    case OPTION_MAX:
        return read_message_bytes("max", text, &options->max_bytes);
    case OPTION_FACTOR:
        if (!read_count("factor", text, 2, "must be a whole number from 2", &value))
            return false;
        options->factor = (size_t)value;
        return true;
    case OPTION_DTYPE:
        return read_dtype(options, text);
    case OPTION_IN_PLACE:
        options->in_place = true;
        return true;
    case OPTION_SLOT_BYTES:
        return read_bytes("slot-bytes", text, 4096, SLOT_BYTES_MAX, "must be a size from 4K to 1G, as in 256K",
                          &options->slot_bytes);
    case OPTION_CHECK:
        options->check = true;
        return true;
    case OPTION_JITTER:
        return read_count("jitter", text, 1, "must be a whole number from 1", &options->noise_seed);
    case OPTION_SKIP_WAIT:
        return read_count("skip-wait", text, 1, "must be a whole number from 1", &options->skipped_wait);
    case OPTION_JSON:
        options->json_path = text;
        return true;
    case OPTION_VALIDATE:
        options->validate_path = text;
        return true;
    default:
        options->calibrate_path = text;
        return true;
    }
}

static bool is_consistent(sim_options *options) {
    if (options->calibrate_path == NULL && options->machine_name == NULL) {
        fprintf(stderr, "kolo-simulate: --machine NAME is missing; --calibrate makes a file for this machine\n");
        sim_catalogue_print(stderr);
        return false;
    }
    if (options->calibrate_path != NULL && options->validate_path != NULL) {
        fprintf(stderr, "kolo-simulate: --calibrate and --validate: give one of them\n");
        return false;
    }
    if (options->slot_bytes % 4096 != 0) {
        fprintf(stderr, "kolo-simulate: --slot-bytes '%zu': must be whole pages of 4096 bytes\n", options->slot_bytes);
        return false;
    }
    if (options->min_bytes > options->max_bytes) {
        fprintf(stderr, "kolo-simulate: --min %zu is above --max %zu\n", options->min_bytes, options->max_bytes);
        return false;
    }
    return true;
}

bool sim_options_read(sim_options *options, int argc, char **argv) {
    *options = (sim_options){.min_bytes = 8, .max_bytes = 64 << 20, .factor = 8, .dtype = KOLO_F32};
    for (int id; (id = command_line_next(&line, argc, argv)) != -1;)
        if (!read_option(options, id, optarg))
            return false;
    return is_consistent(options);
}
