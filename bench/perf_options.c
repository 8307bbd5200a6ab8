/* The command line: one table of options, each with the collectives that it makes sense for.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "perf_options.h"

#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "option_mistake.h"

enum { DEFAULT_MIN_BYTES = 8, DEFAULT_MAX_BYTES = 64 << 20, DEFAULT_FACTOR = 4, ITERS_MAX = 1000000 };
enum { LIMITS_MAX_BYTES = 256 << 20 };

static const char *const collective_names[] = {[PERF_ALLREDUCE] = "allreduce",
                                               [PERF_BROADCAST] = "broadcast",
                                               [PERF_BARRIER] = "barrier",
                                               [PERF_LIMITS] = "limits"};
static const char *const buffers_names[] = {[PERF_WARM] = "warm", [PERF_DIRTY] = "dirty", [PERF_COLD] = "cold"};

enum {
    COLLECTIVES = sizeof(collective_names) / sizeof(collective_names[0]),
    BUFFERS = sizeof(buffers_names) / sizeof(buffers_names[0])
};

const char *perf_collective_name(perf_collective collective) {
    return collective_names[collective];
}

const char *perf_buffers_name(perf_buffers buffers) {
    return buffers_names[buffers];
}

typedef enum option_id {
    OPTION_MIN = 256, /* above every character that getopt_long returns by itself */
    OPTION_MAX,
    OPTION_FACTOR,
    OPTION_DTYPE,
    OPTION_OP,
    OPTION_ITERS,
    OPTION_WARMUP,
    OPTION_IN_PLACE,
    OPTION_PLACE,
    OPTION_ALGO,
    OPTION_CHECK,
    OPTION_BUFFERS,
    OPTION_ALLOC,
    OPTION_JSON,
    OPTION_CSV,
    OPTION_NO_LIMITS,
    OPTION_RANKS,
    OPTION_HELP,
    OPTION_VERSION
} option_id;

enum { A = 1 << PERF_ALLREDUCE, B = 1 << PERF_BROADCAST, R = 1 << PERF_BARRIER, L = 1 << PERF_LIMITS };

typedef struct option_row {
    const char *name;
    char letter;  /* the short form, with its meaning in nccl-tests; 0: none */
    int argument; /* no_argument, required_argument or optional_argument */
    option_id id;
    unsigned collectives; /* those it is for */
} option_row;

/* In the order of option_id, so that an id finds its row. */
static const option_row option_rows[] = {
    {"min", 'b', required_argument, OPTION_MIN, A | B | L},
    {"max", 'e', required_argument, OPTION_MAX, A | B | L},
    {"factor", 'f', required_argument, OPTION_FACTOR, A | B | L},
    {"dtype", 'd', required_argument, OPTION_DTYPE, A | B},
    {"op", 'o', required_argument, OPTION_OP, A},
    {"iters", 'n', required_argument, OPTION_ITERS, A | B | R},
    {"warmup", 'w', required_argument, OPTION_WARMUP, A | B | R},
    {"in-place", 0, no_argument, OPTION_IN_PLACE, A | L},
    {"place", 0, required_argument, OPTION_PLACE, A},
    {"algo", 0, required_argument, OPTION_ALGO, A},
    {"check", 'c', optional_argument, OPTION_CHECK, A | B},
    {"buffers", 0, required_argument, OPTION_BUFFERS, A | B | L},
    {"alloc", 0, no_argument, OPTION_ALLOC, A | L},
    {"json", 0, required_argument, OPTION_JSON, A | B | R | L},
    {"csv", 0, required_argument, OPTION_CSV, A | B | R},
    {"no-limits", 0, no_argument, OPTION_NO_LIMITS, A},
    {"ranks", 0, required_argument, OPTION_RANKS, L},
    {"help", 'h', no_argument, OPTION_HELP, A | B | R | L},
    {"version", 0, no_argument, OPTION_VERSION, A | B | R | L},
};

enum { OPTION_ROWS = sizeof(option_rows) / sizeof(option_rows[0]) };

static const char help_text[] = "Usage: kolo-perf COLLECTIVE [OPTION...]\n"
                                "\n"
                                "Measures one of kolo's collectives, or what the hardware allows. Start it with\n"
                                "a launcher (kolorun, mpirun, srun, torchrun) for several ranks; alone it is one\n"
                                "rank. Rank 0 prints a row for each message size.\n"
                                "\n"
                                "COLLECTIVE\n"
                                "  allreduce   every rank gets the reduction of all ranks' inputs\n"
                                "  broadcast   every rank gets rank 0's buffer\n"
                                "  barrier     no data\n"
                                "  limits      no communication: measures the caches and the memory, and prints\n"
                                "              the time below which no all-reduce of each size can fall\n"
                                "\n"
                                "Message sizes (bytes; K, M and G are 2^10, 2^20 and 2^30)\n"
                                "  -b, --min SIZE      first size (default 8); 0 is allowed\n"
                                "  -e, --max SIZE      last size, always measured (default 64M; limits: 256M)\n"
                                "  -f, --factor N      from one size to the next, at least 2 (default 4)\n"
                                "\n"
                                "What is called (sizes are rounded down to whole elements, at least one)\n"
                                "  -d, --dtype NAME    i8 u8 i16 u16 i32 u32 i64 u64 f16 bf16 f32 f64 (default\n"
                                "                      f32), or NCCL's name for one: half, bfloat16, float, ...\n"
                                "  -o, --op NAME       sum prod min max avg band bor bxor (default sum); band,\n"
                                "                      bor and bxor are for integers\n"
                                "      --place WHERE   out: send and recv are two buffers (default); in: they are\n"
                                "                      one; both: one after the other, side by side in the table\n"
                                "      --in-place      the same as --place in\n"
                                "      --algo NAME     auto oneshot mesh ring central tree direct (default:\n"
                                "                      KOLO_ALGO, else auto)\n"
                                "      --buffers STATE warm: the same buffers in every call (default)\n"
                                "                      dirty: send is rewritten before every call\n"
                                "                      cold: send and recv are flushed from all caches before\n"
                                "                      every call\n"
                                "      --alloc         buffers of kolo_alloc, where an all-reduce copies nothing\n"
                                "\n"
                                "How it is measured\n"
                                "  -n, --iters N       timed samples for each row, 1 to 1000000 (default: about\n"
                                "                      0.3 s, at least 10). A sample is one call; with warm\n"
                                "                      buffers, up to 4K, it is the mean of 50 calls in a row\n"
                                "  -w, --warmup N      untimed samples first, 0 to 1000000 (default: 2 to 10, by\n"
                                "                      size)\n"
                                "  -c, --check         verify every element on every rank, and the bytes around\n"
                                "                      the buffers; exit 1 if any is wrong. nccl-tests' -c 1 and\n"
                                "                      -c 0 are understood, too\n"
                                "      --no-limits     do not measure the hardware first; %bound stays empty\n"
                                "      --ranks N       ranks that limits computes the bound for (default: the\n"
                                "                      launcher's, else the CPUs allowed)\n"
                                "\n"
                                "Output\n"
                                "      --json FILE     also write a JSON object for each row to FILE\n"
                                "      --csv FILE      also write the rows to FILE, with a line of column names\n"
                                "                      FILE is replaced; with - the rows go to standard output,\n"
                                "                      and the table to standard error\n"
                                "  -h, --help          print this\n"
                                "      --version       print the version\n"
                                "\n"
                                "The short options mean what they mean in nccl-tests.\n"
                                "\n"
                                "Exit status: 0 done; 1 a call failed or results were wrong; 2 bad command line.\n"
                                "\n"
                                "Examples\n"
                                "  kolorun -n 2 kolo-perf allreduce -b 8 -e 256M -f 2 -c 1 --place both\n"
                                "  mpirun -n 4 kolo-perf allreduce --dtype bf16 --op avg --csv rows.csv\n"
                                "  kolo-perf limits --ranks 8\n";

/* One message about one option, on the rank that speaks, in one write, as other processes may share stderr. Always
 * PERF_PARSE_USAGE. */
__attribute__((format(printf, 2, 3))) static perf_parse complain(bool speaks, const char *format, ...) {
    if (!speaks)
        return PERF_PARSE_USAGE;
    char what[512]; /* a longer one is cut: it quotes what was typed */
    va_list values;
    va_start(values, format);
    vsnprintf(what, sizeof(what), format, values);
    va_end(values);
    fprintf(stderr, "kolo-perf: %s; see kolo-perf --help\n", what);
    return PERF_PARSE_USAGE;
}

static bool parse_size(const char *text, size_t *bytes) {
    if (*text < '0' || *text > '9')
        return false;
    char *end;
    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    unsigned shift = 0;
    switch (*end) {
    case 'G':
    case 'g':
        shift += 10; /* fall through */
    case 'M':
    case 'm':
        shift += 10; /* fall through */
    case 'K':
    case 'k':
        shift += 10;
        end++;
    }
    /* PTRDIFF_MAX: no object is larger, and the arithmetic on sizes has room. */
    if (*end != '\0' || errno != 0 || number > ((unsigned long long)PTRDIFF_MAX >> shift))
        return false;
    *bytes = (size_t)number << shift;
    return true;
}

static bool parse_int(const char *text, int min, int max, int *value) {
    if (*text < '0' || *text > '9')
        return false;
    char *end;
    errno = 0;
    long number = strtol(text, &end, 10);
    if (*end != '\0' || errno != 0 || number < min || number > max)
        return false;
    *value = (int)number;
    return true;
}

static int find_name(const char *text, const char *const *names, int count) {
    for (int i = 0; i < count; i++)
        if (strcmp(text, names[i]) == 0)
            return i;
    return -1;
}

/* NCCL's names, and those of the same kind that it has no dtype for. */
static const struct {
    const char *name;
    kolo_dtype dtype;
} dtype_aliases[] = {
    {"int8", KOLO_I8},       {"uint8", KOLO_U8},  {"int16", KOLO_I16},   {"uint16", KOLO_U16}, {"int32", KOLO_I32},
    {"uint32", KOLO_U32},    {"int64", KOLO_I64}, {"uint64", KOLO_U64},  {"half", KOLO_F16},   {"float16", KOLO_F16},
    {"bfloat16", KOLO_BF16}, {"float", KOLO_F32}, {"float32", KOLO_F32}, {"double", KOLO_F64}, {"float64", KOLO_F64},
};

static bool parse_dtype(const char *text, kolo_dtype *dtype) {
    for (int i = 0; i < KOLO_DTYPES; i++) {
        if (strcmp(text, kolo_dtype_name((kolo_dtype)i)) == 0) {
            *dtype = (kolo_dtype)i;
            return true;
        }
    }
    for (size_t i = 0; i < sizeof(dtype_aliases) / sizeof(dtype_aliases[0]); i++) {
        if (strcmp(text, dtype_aliases[i].name) == 0) {
            *dtype = dtype_aliases[i].dtype;
            return true;
        }
    }
    return false;
}

static bool parse_op(const char *text, kolo_op *op) {
    for (int i = 0; i < KOLO_OPS; i++) {
        if (strcmp(text, kolo_op_name((kolo_op)i)) == 0) {
            *op = (kolo_op)i;
            return true;
        }
    }
    return false;
}

static bool parse_algorithm(const char *text, kolo_algorithm *algorithm) {
    for (int i = 0; i < KOLO_ALGORITHMS; i++) {
        if (strcmp(text, kolo_algorithm_name((kolo_algorithm)i)) == 0) {
            *algorithm = (kolo_algorithm)i;
            return true;
        }
    }
    return false;
}

static bool parse_place(const char *text, perf_options *options) {
    options->both_places = strcmp(text, "both") == 0;
    options->in_place = strcmp(text, "in") == 0;
    return options->both_places || options->in_place || strcmp(text, "out") == 0;
}

static bool parse_buffers(const char *text, perf_buffers *buffers) {
    int found = find_name(text, buffers_names, BUFFERS);
    if (found >= 0)
        *buffers = (perf_buffers)found;
    return found >= 0;
}

/* The value of one option into *options. Returns NULL, or what is allowed. */
static const char *set_option(perf_options *options, option_id id, const char *text) {
    int number;
    switch (id) {
    case OPTION_MIN:
        return parse_size(text, &options->min_bytes) ? NULL : "a size like 8, 4K, 256M or 1G";
    case OPTION_MAX:
        return parse_size(text, &options->max_bytes) ? NULL : "a size like 8, 4K, 256M or 1G";
    case OPTION_FACTOR:
        if (!parse_int(text, 2, 1 << 30, &number))
            return "a whole number from 2 to 1073741824";
        options->factor = (size_t)number;
        return NULL;
    case OPTION_DTYPE:
        return parse_dtype(text, &options->dtype) ? NULL : "i8 u8 i16 u16 i32 u32 i64 u64 f16 bf16 f32 or f64";
    case OPTION_PLACE:
        return parse_place(text, options) ? NULL : "out in or both";
    case OPTION_OP:
        return parse_op(text, &options->op) ? NULL : "sum prod min max avg band bor or bxor";
    case OPTION_ITERS:
        return parse_int(text, 1, ITERS_MAX, &options->iters) ? NULL : "a whole number from 1 to 1000000";
    case OPTION_WARMUP:
        return parse_int(text, 0, ITERS_MAX, &options->warmup) ? NULL : "a whole number from 0 to 1000000";
    case OPTION_ALGO:
        return parse_algorithm(text, &options->algorithm) ? NULL : "auto oneshot mesh ring central tree or direct";
    case OPTION_BUFFERS:
        return parse_buffers(text, &options->buffers) ? NULL : "warm dirty or cold";
    case OPTION_RANKS:
        return parse_int(text, 1, KOLO_RANKS_MAX, &options->ranks) ? NULL : "a whole number from 1 to 1024";
    case OPTION_JSON:
        options->json_path = text;
        return *text != '\0' ? NULL : "the name of a file to write, or -";
    case OPTION_CSV:
        options->csv_path = text;
        return *text != '\0' ? NULL : "the name of a file to write, or -";
    case OPTION_IN_PLACE:
        options->in_place = true;
        options->both_places = false;
        return NULL;
    case OPTION_ALLOC:
        options->alloc = true;
        return NULL;
    case OPTION_CHECK:
        if (text != NULL && !parse_int(text, 0, ITERS_MAX, &number))
            return "1, or 0 not to check";
        options->check = text == NULL || number > 0;
        return NULL;
    case OPTION_NO_LIMITS:
        options->limits = false;
        return NULL;
    default:
        return "an option of kolo-perf";
    }
}

static unsigned row_bit(option_id id) {
    return 1u << (id - OPTION_MIN);
}

/* Options that depend on one another, once all have been read. `given` has a bit for each option's row. */
static perf_parse settle(perf_options *options, unsigned given, bool speaks) {
    const char *collective = collective_names[options->collective];
    for (int row = 0; row < OPTION_ROWS; row++)
        if ((given & row_bit(option_rows[row].id)) && !(option_rows[row].collectives >> options->collective & 1))
            return complain(speaks, "--%s has no meaning for %s; leave it out", option_rows[row].name, collective);

    bool min_given = given & row_bit(OPTION_MIN);
    bool max_given = given & row_bit(OPTION_MAX);
    if (!max_given && options->collective == PERF_LIMITS)
        options->max_bytes = LIMITS_MAX_BYTES;
    if (!max_given && options->min_bytes > options->max_bytes)
        options->max_bytes = options->min_bytes;
    if (!min_given && options->min_bytes > options->max_bytes)
        options->min_bytes = options->max_bytes;
    if (options->min_bytes > options->max_bytes)
        return complain(speaks, "--min %zu is above --max %zu; the first size must not exceed the last",
                        options->min_bytes, options->max_bytes);
    if (options->collective == PERF_ALLREDUCE && !kolo_op_supports(options->op, options->dtype))
        return complain(speaks, "--op %s is not defined for --dtype %s; use an integer type, or sum prod min max avg",
                        kolo_op_name(options->op), kolo_dtype_name(options->dtype));
    if (options->json_path != NULL && options->csv_path != NULL && strcmp(options->json_path, "-") == 0 &&
        strcmp(options->csv_path, "-") == 0)
        return complain(speaks, "--json and --csv cannot both go to standard output; give one a file");
    if (options->collective != PERF_ALLREDUCE || options->both_places)
        options->limits = false;
    if (options->collective == PERF_BROADCAST)
        options->in_place = true; /* the call has one buffer */
    if (options->collective == PERF_BARRIER)
        options->min_bytes = options->max_bytes = 0;
    return PERF_PARSE_RUN;
}

static perf_parse parse_collective(perf_options *options, int count, char **words, bool speaks) {
    if (count == 0)
        return complain(speaks, "what to measure is missing; give allreduce, broadcast, barrier or limits");
    if (count > 1)
        return complain(speaks, "'%s': one collective at a time, and '%s' came first", words[1], words[0]);
    int found = find_name(words[0], collective_names, COLLECTIVES);
    if (found < 0)
        return complain(speaks, "'%s' cannot be measured; give allreduce, broadcast, barrier or limits", words[0]);
    options->collective = (perf_collective)found;
    return PERF_PARSE_RUN;
}

static perf_parse print_and_end(const char *text, bool speaks) {
    if (speaks && (fputs(text, stdout) == EOF || fflush(stdout) == EOF)) {
        fprintf(stderr, "kolo-perf: cannot write to standard output: %s\n", strerror(errno));
        exit(1);
    }
    return PERF_PARSE_DONE;
}

_Static_assert(no_argument == 0 && required_argument == 1 && optional_argument == 2, "each is its number of colons");

/* What getopt_long wants to know of the rows. */
typedef struct getopt_view {
    struct option long_options[OPTION_ROWS + 1];
    char letters[3 * OPTION_ROWS + 2];
} getopt_view;

static getopt_view view_rows(void) {
    getopt_view view = {.letters = ":"}; /* a missing value is told apart */
    char *letters = view.letters + 1;
    for (int i = 0; i < OPTION_ROWS; i++) {
        const option_row *row = &option_rows[i];
        view.long_options[i] = (struct option){row->name, row->argument, NULL, (int)row->id};
        if (row->letter != 0)
            *letters++ = row->letter;
        for (int colons = 0; row->letter != 0 && colons < row->argument; colons++)
            *letters++ = ':'; /* one: it takes a value; two: it may take one */
    }
    return view;
}

static const option_row *row_of(int id) {
    for (int i = 0; i < OPTION_ROWS; i++)
        if ((int)option_rows[i].id == id || (id < OPTION_MIN && option_rows[i].letter == id))
            return &option_rows[i];
    return NULL;
}

/* nccl-tests' -c has a number behind it, which no collective begins with; NULL: there is none. */
static const char *take_check_number(int argc, char **argv) {
    return optind < argc && argv[optind][0] >= '0' && argv[optind][0] <= '9' ? argv[optind++] : NULL;
}

static perf_parse print_version(bool speaks) {
    char line[64];
    snprintf(line, sizeof(line), "kolo-perf %s\n", kolo_version());
    return print_and_end(line, speaks);
}

/* All options into *options; `given` gets a bit for each one's row. */
static perf_parse parse_words(perf_options *options, int argc, char **argv, bool speaks, unsigned *given) {
    const getopt_view view = view_rows();
    opterr = 0; /* getopt's own messages would come from every rank */
    int id;
    while ((id = getopt_long(argc, argv, view.letters, view.long_options, NULL)) != -1) {
        if (id == '?' || id == ':') {
            char mistake[256];
            option_mistake_describe(mistake, sizeof(mistake), view.long_options, id, argv);
            return complain(speaks, "%s", mistake);
        }
        const option_row *row = row_of(id);
        if (row->id == OPTION_HELP)
            return print_and_end(help_text, speaks);
        if (row->id == OPTION_VERSION)
            return print_version(speaks);
        const char *value = id == 'c' && optarg == NULL ? take_check_number(argc, argv) : optarg;
        const char *allowed = set_option(options, row->id, value);
        if (allowed != NULL)
            return complain(speaks, "--%s '%s' is not allowed; give %s", row->name, value, allowed);
        *given |= row_bit(row->id);
    }
    return PERF_PARSE_RUN;
}

perf_parse perf_options_parse(perf_options *options, int argc, char **argv, bool speaks) {
    *options = (perf_options){.min_bytes = DEFAULT_MIN_BYTES,
                              .max_bytes = DEFAULT_MAX_BYTES,
                              .factor = DEFAULT_FACTOR,
                              .dtype = KOLO_F32,
                              .op = KOLO_SUM,
                              .warmup = -1,
                              .algorithm = KOLO_ALGORITHM_AUTO,
                              .limits = true};
    unsigned given = 0;
    perf_parse parsed = parse_words(options, argc, argv, speaks, &given);
    if (parsed == PERF_PARSE_RUN)
        parsed = parse_collective(options, argc - optind, argv + optind, speaks);
    return parsed == PERF_PARSE_RUN ? settle(options, given, speaks) : parsed;
}

static size_t whole_elements_bytes(size_t bytes, size_t element_bytes) {
    if (bytes == 0)
        return 0;
    return bytes < element_bytes ? element_bytes : bytes - bytes % element_bytes;
}

bool perf_sizes_next(perf_sizes *sizes, const perf_options *options) {
    size_t element_bytes = kolo_dtype_bytes(options->dtype);
    if (!sizes->begun) {
        sizes->begun = true;
        sizes->exact_bytes = options->min_bytes;
        sizes->bytes = whole_elements_bytes(sizes->exact_bytes, element_bytes);
        return true;
    }
    /* Sizes that round to the same number of elements are one size; the loop ends as exact_bytes grows. */
    size_t before = sizes->bytes;
    do {
        size_t exact = sizes->exact_bytes;
        if (exact >= options->max_bytes)
            return false;
        if (exact == 0)
            exact = element_bytes;
        else
            exact = exact > options->max_bytes / options->factor ? options->max_bytes : exact * options->factor;
        sizes->exact_bytes = exact < options->max_bytes ? exact : options->max_bytes;
        sizes->bytes = whole_elements_bytes(sizes->exact_bytes, element_bytes);
    } while (sizes->bytes == before);
    return true;
}

size_t perf_sizes_max_bytes(const perf_options *options) {
    perf_sizes sizes = {0};
    size_t max_bytes = 0;
    while (perf_sizes_next(&sizes, options))
        max_bytes = sizes.bytes;
    return max_bytes;
}
