/* The command line: one table of options, each with the collectives that it makes sense for. */
#include "perf_options.h"

#include <limits.h>
#include <string.h>

#include "command_line.h"

enum { COUNT_MAX = 1000000, PLACE_OUT = 0, PLACE_IN, PLACE_BOTH };
enum { A = 1 << PERF_ALLREDUCE, B = 1 << PERF_BROADCAST, R = 1 << PERF_BARRIER, L = 1 << PERF_LIMITS };

#define MAX_BYTES_LIMITS ((size_t)256 << 20)
#define BYTES_MAX        (UINT64_C(1) << 40) /* the arithmetic on sizes has room */

static perf_options options = {
    .min_bytes = 8, .max_bytes = 64 << 20, .factor = 4, .dtype = KOLO_F32, .op = KOLO_SUM, .warmup = -1};
static unsigned place;
static bool no_limits;

const char *perf_collective_name(perf_collective collective) {
    static const char *const names[] = {[PERF_ALLREDUCE] = "allreduce",
                                        [PERF_BROADCAST] = "broadcast",
                                        [PERF_BARRIER] = "barrier",
                                        [PERF_LIMITS] = "limits"};
    return names[collective];
}

static const char *place_name(unsigned where) {
    static const char *const names[] = {[PLACE_OUT] = "out", [PLACE_IN] = "in", [PLACE_BOTH] = "both", NULL};
    return names[where];
}

static const char *read_in_place(const char *none) {
    (void)none;
    place = PLACE_IN;
    return NULL;
}

/* NCCL's names, and those of the same kind that it has no dtype for. */
static const char *read_other_dtype(const char *typed) {
    static const struct {
        const char *name;
        kolo_dtype dtype;
    } others[] = {
        {"int8", KOLO_I8},     {"uint8", KOLO_U8},    {"int16", KOLO_I16},     {"uint16", KOLO_U16},
        {"int32", KOLO_I32},   {"uint32", KOLO_U32},  {"int64", KOLO_I64},     {"uint64", KOLO_U64},
        {"half", KOLO_F16},    {"float16", KOLO_F16}, {"bfloat16", KOLO_BF16}, {"float", KOLO_F32},
        {"float32", KOLO_F32}, {"double", KOLO_F64},  {"float64", KOLO_F64},
    };
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        if (strcmp(typed, others[i].name) == 0) {
            options.dtype = others[i].dtype;
            return NULL;
        }
    }
    return "a dtype";
}

static const command_option table[] = {
    {.help = "Message sizes (bytes; K, M and G are 2^10, 2^20 and 2^30)"},
    {"-b, --min SIZE", "first size (default 8); 0 is allowed", TO_BYTES(options.min_bytes, 0, BYTES_MAX),
     USED_FOR(A | B | L)},
    {"-e, --max SIZE", "last size, always measured (default 64M; limits: 256M)",
     TO_BYTES(options.max_bytes, 0, BYTES_MAX), USED_FOR(A | B | L)},
    {"-f, --factor N", "from one size to the next, at least 2 (default 4)", TO_COUNT(options.factor, 2, 1 << 30),
     USED_FOR(A | B | L)},
    {.help = "What is called (sizes are rounded down to whole elements, at least one)"},
    {"-d, --dtype NAME", "(default f32), or NCCL's name for one: half, bfloat16, float, ...",
     TO_CHOICE(options.dtype, kolo_dtype_name), TO_FUNCTION(read_other_dtype), USED_FOR(A | B)},
    {"-o, --op NAME", "(default sum); band, bor and bxor are for integers", TO_CHOICE(options.op, kolo_op_name),
     USED_FOR(A)},
    {"--place WHERE",
     "out: send and recv are two buffers (default); in: they are one; both: one after the other, side by side "
     "in the table",
     TO_CHOICE(place, place_name), USED_FOR(A)},
    {"--in-place", "the same as --place in", TO_FUNCTION(read_in_place), USED_FOR(A | L)},
    {"--algo NAME", "(default: KOLO_ALGO, else auto)", TO_CHOICE(options.algorithm, kolo_algorithm_name), USED_FOR(A)},
    {"--buffers STATE",
     "warm: the same buffers in every call (default)\n"
     "dirty: send is rewritten before every call\n"
     "cold: send and recv are flushed from all caches before every call",
     TO_CHOICE(options.buffers, perf_buffers_name), USED_FOR(A | B | L)},
    {"--alloc", "buffers of kolo_alloc, where an all-reduce copies nothing", TO_FLAG(options.alloc), USED_FOR(A | L)},
    {.help = "How it is measured"},
    {"-n, --iters N",
     "timed samples for each row, 1 to 1000000 (default: about 0.3 s, at least 10). A sample is one call; with "
     "warm buffers, up to 4K, it is the mean of 50 calls in a row",
     TO_INTEGER(options.iters, 1, COUNT_MAX), USED_FOR(A | B | R)},
    {"-w, --warmup N", "untimed samples first, 0 to 1000000 (default: 2 to 10, by size)",
     TO_INTEGER(options.warmup, 0, COUNT_MAX), USED_FOR(A | B | R)},
    {"-c, --check",
     "verify every element on every rank, and the bytes around the buffers; exit 1 if any is wrong. nccl-tests' "
     "-c 1 and -c 0 are understood, too",
     TO_INTEGER(options.check, 0, COUNT_MAX), USED_FOR(A | B)},
    {"--no-limits", "do not measure the hardware first; %bound stays empty", TO_FLAG(no_limits), USED_FOR(A)},
    {"--ranks N", "ranks that limits computes the bound for (default: the launcher's, else the CPUs allowed)",
     TO_INTEGER(options.ranks, 1, KOLO_RANKS_MAX), USED_FOR(L)},
    {.help = "Output"},
    {"--json FILE", "also write a JSON object for each row to FILE", TO_TEXT(options.json_path),
     USED_FOR(A | B | R | L)},
    {"--csv FILE",
     "also write the rows to FILE, with a line of column names\n"
     "FILE is replaced; with - the rows go to standard output, and the table to standard error",
     TO_TEXT(options.csv_path), USED_FOR(A | B | R)},
};

static command_line line = {
    .program = "kolo-perf",
    .before = "Usage: kolo-perf COLLECTIVE [OPTION...]\n"
              "\n"
              "Measures one of kolo's collectives, or what the hardware allows. Start it with a launcher (kolorun, "
              "mpirun, srun, torchrun) for several ranks; alone it is one rank. Rank 0 prints a row for each message "
              "size.\n"
              "\n"
              "COLLECTIVE\n"
              "  allreduce   every rank gets the reduction of all ranks' inputs\n"
              "  broadcast   every rank gets rank 0's buffer\n"
              "  barrier     no data\n"
              "  limits      no communication: measures the caches and the memory, and prints the time below which no "
              "all-reduce of each size can fall",
    .options = table,
    .options_count = sizeof(table) / sizeof(table[0]),
    .arguments_max = INT_MAX,
    .after = "The short options mean what they mean in nccl-tests.\n"
             "\n"
             "Exit status: 0 done; 1 a call failed or results were wrong; 2 bad command line.\n"
             "\n"
             "Examples\n"
             "  kolorun -n 2 kolo-perf allreduce -b 8 -e 256M -f 2 -c 1 --place both\n"
             "  mpirun -n 4 kolo-perf allreduce --dtype bf16 --op avg --csv rows.csv\n"
             "  kolo-perf limits --ranks 8",
};

static perf_collective find_collective(char *const *words) {
    static const char known[] = "give allreduce, broadcast, barrier or limits";
    if (words[0] == NULL)
        command_line_refuse(&line, "what to measure is missing; %s", known);
    if (words[1] != NULL)
        command_line_refuse(&line, "'%s': one collective at a time, and '%s' came first", words[1], words[0]);
    for (perf_collective i = PERF_ALLREDUCE; i <= PERF_LIMITS; i++)
        if (strcmp(words[0], perf_collective_name(i)) == 0)
            return i;
    command_line_refuse(&line, "'%s' cannot be measured; %s", words[0], known);
}

/* Options that depend on one another. */
static void settle(void) {
    const bool min_given = command_line_has(&line, "--min"), max_given = command_line_has(&line, "--max");
    for (int i = 0; i < line.options_count; i++)
        if ((line.given >> i & 1) && !(table[i].use >> options.collective & 1))
            command_line_refuse(&line, "option '%s' has no meaning for %s; leave it out", table[i].names,
                                perf_collective_name(options.collective));

    if (!max_given && options.collective == PERF_LIMITS)
        options.max_bytes = MAX_BYTES_LIMITS;
    if (!max_given && options.min_bytes > options.max_bytes)
        options.max_bytes = options.min_bytes;
    if (!min_given && options.min_bytes > options.max_bytes)
        options.min_bytes = options.max_bytes;
    if (options.min_bytes > options.max_bytes)
        command_line_refuse(&line, "--min %zu is above --max %zu; the first size must not exceed the last",
                            options.min_bytes, options.max_bytes);
    if (options.collective == PERF_ALLREDUCE && !kolo_op_supports(options.op, options.dtype))
        command_line_refuse(&line, "--op %s is not defined for --dtype %s; use an integer dtype, or another --op",
                            kolo_op_name(options.op), kolo_dtype_name(options.dtype));
    if (options.json_path != NULL && options.csv_path != NULL && strcmp(options.json_path, "-") == 0 &&
        strcmp(options.csv_path, "-") == 0)
        command_line_refuse(&line, "--json and --csv cannot both go to standard output; give one a file");
    options.in_place = place == PLACE_IN || options.collective == PERF_BROADCAST; /* which has one buffer */
    options.both_places = place == PLACE_BOTH;
    options.limits = !no_limits && options.collective == PERF_ALLREDUCE && !options.both_places;
    if (options.collective == PERF_BARRIER)
        options.min_bytes = options.max_bytes = 0;
}

const perf_options *perf_options_read(int argc, char **argv, bool speaks) {
    line.silent = !speaks;
    options.collective = find_collective(command_line_read(&line, argc, argv));
    settle();
    return &options;
}

static size_t whole_elements_bytes(size_t bytes, size_t element_bytes) {
    if (bytes == 0)
        return 0;
    return bytes < element_bytes ? element_bytes : bytes - bytes % element_bytes;
}

bool perf_sizes_next(perf_sizes *sizes, const perf_options *of) {
    size_t element_bytes = kolo_dtype_bytes(of->dtype);
    if (!sizes->begun) {
        sizes->begun = true;
        sizes->exact_bytes = of->min_bytes;
        sizes->bytes = whole_elements_bytes(sizes->exact_bytes, element_bytes);
        return true;
    }
    /* Sizes that round to the same number of elements are one size; the loop ends as exact_bytes grows. */
    size_t before = sizes->bytes;
    do {
        size_t exact = sizes->exact_bytes;
        if (exact >= of->max_bytes)
            return false;
        if (exact == 0)
            exact = element_bytes;
        else
            exact = exact > of->max_bytes / of->factor ? of->max_bytes : exact * of->factor;
        sizes->exact_bytes = exact < of->max_bytes ? exact : of->max_bytes;
        sizes->bytes = whole_elements_bytes(sizes->exact_bytes, element_bytes);
    } while (sizes->bytes == before);
    return true;
}

size_t perf_sizes_max_bytes(const perf_options *of) {
    return whole_elements_bytes(of->max_bytes, kolo_dtype_bytes(of->dtype));
}
