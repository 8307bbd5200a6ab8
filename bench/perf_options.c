/* The command line: one table of options, each with what it is of use for. */
#include "perf_options.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kolo_tools.h"
#include "command_line.h"
#include "perf_collectives.h"
#include "perf_modes.h"

enum { COUNT_MAX = 1000000, OFFSET_MAX = 4088, PLACE_OUT = 0, PLACE_IN, PLACE_BOTH };
/* What an option is of use for. */
enum {
    TIMED = 1,
    DATA = 2,
    OP = 4,
    ROOT = 8,
    PLACES = 16,
    ALGORITHMS = 32,
    BOUND = 64,
    LIMITS = 128,
    BLOCKING = 256,
    OVERLAP = 512,
    MESSAGES = 1024,
    EXACT_SUMS = 2048,
    TENSORS = 4096,
    TABLES = 8192,
    WAITS = 16384,
    PAIRED = 32768,
    STARTS = 65536
};

#define MAX_BYTES_LIMITS ((size_t)256 << 20)
#define BYTES_MAX        (UINT64_C(1) << 40) /* the arithmetic on sizes has room */
#define TABLE_BYTES_MAX  (UINT64_C(1) << 34) /* and that on numbers of rows */
#define ROW_BYTES_MIN    4
#define ROW_BYTES_MAX    (16 << 10)

static perf_options options = {.min_bytes = 8,
                               .max_bytes = 64 << 20,
                               .factor = 4,
                               .dtype = KOLO_F32,
                               .op = KOLO_SUM,
                               .warmup = -1,
                               .wait_us_max = 1000000};
static perf_table_options table_options = {.bytes = 64 << 20,
                                           .batch = 1,
                                           .zipf = 0.99,
                                           .reads = 0.9,
                                           .staleness = KOLO_STALENESS_UNBOUNDED,
                                           .clock = 100,
                                           .rule = KOLO_TABLE_ADD};
static unsigned place;
static bool no_limits;

static const char *place_name(unsigned where) {
    static const char *const names[] = {[PLACE_OUT] = "out", [PLACE_IN] = "in", [PLACE_BOTH] = "both", NULL};
    return names[where];
}

static const char *progress_name(unsigned which) {
    static const char *const names[] = {[PERF_PROGRESS_ENVIRONMENT] = "environment",
                                        [PERF_PROGRESS_NO] = "no",
                                        [PERF_PROGRESS_YES] = "yes",
                                        [PERF_PROGRESS_BOTH] = "both",
                                        NULL};
    return names[which];
}

static const char *read_in_place(const char *none) {
    (void)none;
    place = PLACE_IN;
    return NULL;
}

static const char *algorithm_name(unsigned algorithm) {
    return kolo_name(KOLO_NAME_ALGORITHM, (int)algorithm);
}

static const char *dtype_name(unsigned dtype) {
    return kolo_name(KOLO_NAME_DTYPE, (int)dtype);
}

static const char *op_name(unsigned op) {
    return kolo_name(KOLO_NAME_OP, (int)op);
}

static const char *table_rule_name(unsigned rule) { /* a function is a program's own */
    return rule < KOLO_TABLE_FUNCTION ? kolo_name(KOLO_NAME_TABLE_RULE, (int)rule) : NULL;
}

static const char *placement_name(unsigned placement) {
    return kolo_name(KOLO_NAME_PLACEMENT, (int)placement);
}

static const char *read_staleness(const char *typed) {
    char *end;
    const bool is_number = typed[0] >= '0' && typed[0] <= '9';
    const long long clocks = is_number ? strtoll(typed, &end, 10) : 0;
    if (strcmp(typed, "inf") != 0 && (!is_number || *end != '\0' || clocks > COUNT_MAX))
        return "a whole number from 0 to 1000000, or inf";
    table_options.staleness = is_number ? clocks : KOLO_STALENESS_UNBOUNDED;
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
     USED_FOR(DATA | LIMITS | MESSAGES | EXACT_SUMS | TABLES)},
    {"-e, --max SIZE", "last size, always measured (default 64M; limits: 256M)",
     TO_BYTES(options.max_bytes, 0, BYTES_MAX), USED_FOR(DATA | LIMITS | MESSAGES | EXACT_SUMS | TABLES)},
    {"-f, --factor N", "from one size to the next, at least 2 (default 4)", TO_COUNT(options.factor, 2, 1 << 30),
     USED_FOR(DATA | LIMITS | MESSAGES | EXACT_SUMS | TABLES)},
    {.help = "What is called"},
    {"-d, --dtype NAME", "(default f32), or NCCL's name for one: half, bfloat16, float, ...",
     TO_CHOICE(options.dtype, dtype_name), TO_FUNCTION(read_other_dtype), USED_FOR(DATA | MESSAGES | TABLES)},
    {"-o, --op NAME", "(default sum); band, bor and bxor are for integers, sum_exact for floats",
     TO_CHOICE(options.op, op_name), USED_FOR(OP)},
    {"-r, --root R", "the root's rank (default 0)", TO_INTEGER(options.root, 0, KOLO_RANKS_MAX - 1), USED_FOR(ROOT)},
    {"--tensors N", "into how many tensors allreduce_many divides a message (default 1000)",
     TO_INTEGER(perf_tensors_count, 1, PERF_TENSORS_MAX), USED_FOR(TENSORS)},
    {"--place WHERE",
     "out: send and recv are two buffers (default); in: they are one; both: one after the other, side by side "
     "in the table",
     TO_CHOICE(place, place_name), USED_FOR(PLACES)},
    {"--in-place", "the same as --place in", TO_FUNCTION(read_in_place), USED_FOR(PLACES | LIMITS)},
    {"--algo NAME", "(default: KOLO_ALGO, else auto)", TO_CHOICE(options.algorithm, algorithm_name),
     USED_FOR(ALGORITHMS)},
    {"--buffers STATE",
     "warm: the same buffers in every call (default)\n"
     "dirty: send is rewritten before every call\n"
     "cold: send and recv are flushed from all caches before every call",
     TO_CHOICE(options.buffers, perf_buffers_name), USED_FOR(DATA | LIMITS)},
    {"--alloc", "buffers of kolo_alloc, where most collectives copy nothing", TO_FLAG(options.alloc),
     USED_FOR(DATA | LIMITS)},
    {"--offset BYTES",
     "buffers begin so many bytes behind a page, a multiple of 8 up to 4088 (default 0). Large blocks of malloc begin "
     "16 behind",
     TO_INTEGER(options.offset, 0, OFFSET_MAX), USED_FOR(DATA)},
    {"--threads N",
     "threads with which each rank moves its data, 1 to 64 (default: KOLO_THREADS, else 1); bind ranks to as many CPUs",
     TO_INTEGER(options.threads, 1, KOLO_THREADS_MAX), USED_FOR(DATA | BLOCKING)},
    {"--lanes",
     "these threads are kolo-perf's own: each makes the call in its lane (kolo_comm_lane), as a program's threads do, "
     "and kolo starts none",
     TO_FLAG(options.lanes), USED_FOR(BLOCKING)},
    {"--pairs", "sendrecv between ranks r and r + n/2 of n, all pairs at once; bandwidths and rates are sums",
     TO_FLAG(options.pairs), USED_FOR(PAIRED)},
    {.help = "In the background"},
    {"--async N",
     "call the kolo_i functions, N times before the first kolo_request_wait, 1 to 64, each with buffers of its own. "
     "Times are still those of one call",
     TO_INTEGER(options.in_flight, 1, PERF_IN_FLIGHT_MAX), USED_FOR(BLOCKING)},
    {"--progress WHICH",
     "whether a progress thread carries them out: environment (KOLO_PROGRESS; default of --async), no, yes, or both, a "
     "table each (default of overlap)",
     TO_CHOICE(options.progress, progress_name), USED_FOR(BLOCKING | OVERLAP)},
    {.help = "Of a parameter server's table (ps)"},
    {"--table SIZE", "of all rows together (default 64M)", TO_BYTES(table_options.bytes, 1 << 10, TABLE_BYTES_MAX),
     USED_FOR(TABLES)},
    {"--batch N", "rows of a call, 1 to 65536 (default 1)", TO_INTEGER(table_options.batch, 1, 1 << 16),
     USED_FOR(TABLES)},
    {"--keys NAME", "(default uniform): how often rows are named", TO_CHOICE(table_options.keys, perf_keys_name),
     USED_FOR(TABLES)},
    {"--zipf EXPONENT", "of --keys zipf, from 0.001 to 10 (default 0.99)", TO_NUMBER(table_options.zipf, 1e-3, 10),
     USED_FOR(TABLES)},
    {"--reads RATIO", "pulls among pulls and pushes, 0 to 1 (default 0.9)", TO_NUMBER(table_options.reads, 0, 1),
     USED_FOR(TABLES)},
    {"--staleness S", "clocks, or inf (default)", TO_FUNCTION(read_staleness), USED_FOR(TABLES)},
    {"--clock N", "calls of a clock, unless staleness is inf (default 100; the whole table: 1)",
     TO_INTEGER(table_options.clock, 1, COUNT_MAX), USED_FOR(TABLES)},
    {"--placement NAME", "(default range): of rows in shards", TO_CHOICE(table_options.placement, placement_name),
     USED_FOR(TABLES)},
    {"--rule NAME", "(default add): what a push does", TO_CHOICE(table_options.rule, table_rule_name),
     USED_FOR(TABLES)},
    {"--servers N", "ranks that serve (default 0: all are workers)",
     TO_INTEGER(table_options.servers, 0, KOLO_RANKS_MAX - 1), USED_FOR(TABLES)},
    {.help = "How it is measured"},
    {"-n, --iters N",
     "timed samples for each row, 1 to 1000000 (default: about 0.3 s, at least 10). A sample is one call; with "
     "warm buffers, up to 4K, it is the mean of 50 calls in a row",
     TO_INTEGER(options.iters, 1, COUNT_MAX), USED_FOR(TIMED | STARTS)},
    {"-w, --warmup N", "untimed samples first, 0 to 1000000 (default: 2 to 10, by size)",
     TO_INTEGER(options.warmup, 0, COUNT_MAX), USED_FOR(TIMED | STARTS)},
    {"-c, --check",
     "verify every element on every rank, and the bytes around the buffers; of ps that no row is torn and, where a "
     "push adds integers, f32 or f64, the table's sum; exit 1 if any is wrong. nccl-tests' -c 1 and -c 0 are "
     "understood, too",
     TO_INTEGER(options.check, 0, COUNT_MAX), USED_FOR(DATA | MESSAGES | TABLES)},
    {"--no-limits", "do not measure the hardware first; %bound stays empty", TO_FLAG(no_limits), USED_FOR(BOUND)},
    {"--trace",
     "what a trace costs: each row has the median without one and with one, whose samples take turns, and the "
     "difference",
     TO_FLAG(options.trace), USED_FOR(BLOCKING)},
    {"--longest US", "of waits: their last length in us, 1 to 10000000, after 1, 10, 100 and so on (default 1000000)",
     TO_INTEGER(options.wait_us_max, 1, 10000000), USED_FOR(WAITS)},
    {"--ranks N", "ranks that limits computes the bound for (default: the launcher's, else the CPUs allowed)",
     TO_INTEGER(options.ranks, 1, KOLO_RANKS_MAX), USED_FOR(LIMITS)},
    {"--quick", "of limits: in a second or two, less exact", TO_FLAG(options.quick), USED_FOR(LIMITS)},
    {.help = "Output"},
    {"--json FILE", "also write a JSON object for each row to FILE", TO_TEXT(options.json_path),
     USED_FOR(TIMED | LIMITS | STARTS)},
    {"--csv FILE",
     "also write the rows to FILE, with a line of column names\n"
     "FILE is replaced; with - the rows go to standard output, and the table to standard error",
     TO_TEXT(options.csv_path), USED_FOR(TIMED | STARTS)},
};

static command_line line = {
    .program = "kolo-perf",
    .options = table,
    .options_count = sizeof(table) / sizeof(table[0]),
    .arguments_max = INT_MAX,
    .after = "The size of a message is what nccl-tests take it for: where ranks have blocks, of all blocks together. "
             "It is rounded down to whole elements, in blocks of the same number each; at least one.\n"
             "\n"
             "The short options mean what they mean in nccl-tests.\n"
             "\n"
             "Exit status: 0 done; 1 a call failed or results were wrong; 2 bad command line.\n"
             "\n"
             "Examples\n"
             "  kolorun -n 2 kolo-perf allreduce -b 8 -e 256M -f 2 -c 1 --place both\n"
             "  mpirun -n 4 kolo-perf reduce --root 3 --dtype bf16 --op avg --csv rows.csv\n"
             "  kolorun -n 4 kolo-perf all --max 1M --check --json rows.json\n"
             "  kolorun -n 2 kolo-perf sendrecv --max 4M\n"
             "  kolorun -n 2 kolo-perf waits --longest 10000000 --json waits.json\n"
             "  kolorun -n 2 kolo-perf allreduce --threads 4 --lanes -b 64K\n"
             "  kolorun -n 2 kolo-perf allreduce --async 8 --progress both\n"
             "  kolorun -n 2 kolo-perf allreduce --trace\n"
             "  kolorun -n 2 kolo-perf overlap reduce_scatter -b 64K\n"
             "  kolorun -n 2 kolo-perf ps --keys zipf --reads 0.5 --batch 64\n"
             "  kolo-perf limits --ranks 8",
};

static const char before[] =
    "Usage: kolo-perf COLLECTIVE [OPTION...]\n"
    "       kolo-perf overlap|limits [COLLECTIVE] [OPTION...]\n"
    "\n"
    "Measures kolo's collectives, or what the hardware allows. Start it with a launcher (kolorun, mpirun, srun, "
    "torchrun) for several ranks; alone it is one rank. Rank 0 prints a row for each message size.\n"
    "\n"
    "COLLECTIVE\n";

enum { ALL, SENDRECV, WAITED, OPTIMIZER, PARAMETER_SERVER, STARTING, ONLY_LIMITS, ONLY_EXACT, OVERLAPPED, WORDS };

/* Words that stand for no collective. */
static const struct {
    const char *name, *meaning;
    unsigned uses; /* what options are of use for */
    perf_mode *mode;
    perf_mode_alone *alone;
    const char *part; /* of kolo that it needs; without that it has neither of the two */
} words[WORDS] = {
    [ALL] = {.name = "all", .meaning = "each of these in turn, a table each"},
    [SENDRECV] = {.name = "sendrecv",
                  .meaning = "messages between ranks 0 and 1: latency, bandwidth one way and both ways",
                  .uses = TIMED | MESSAGES | PAIRED,
                  .mode = perf_messages_run},
    [WAITED] = {.name = "waits",
                .meaning = "waits of 1 us and more for a late rank: their CPU time, and their delay, by each KOLO_WAIT",
                .uses = TIMED | WAITS,
                .mode = perf_waits_run},
    [OPTIMIZER] = {.name = "optimizer",
                   .meaning = "steps of AdamW in the all-reduce, beside an all-reduce and the whole update on every "
                              "rank; --max is that of the parameters",
                   .uses = TIMED | MESSAGES,
                   .mode = KOLO_HAVE_TRAINING ? perf_optimizer_run : NULL,
                   .part = "TRAINING"},
    [PARAMETER_SERVER] = {.name = "ps",
                          .meaning = "pulls and pushes of a parameter server's table, whole and by keys, beside memcpy "
                                     "of as much; sizes are those of a row (default 4 to 16K)",
                          .uses = TIMED | TABLES,
                          .mode = KOLO_HAVE_TABLE ? perf_table_run : NULL,
                          .part = "TABLE"},
    [STARTING] = {.name = "init",
                  .meaning = "from exec to the first result: starts as many processes as there are ranks, again and "
                             "again",
                  .uses = STARTS,
                  .mode = perf_init_run},
    [ONLY_LIMITS] = {.name = "limits",
                     .meaning = "no communication: measures the caches and the memory, and prints the time below which "
                                "no call of each size can fall: of COLLECTIVE, of all, or of allreduce where there is "
                                "none",
                     .alone = perf_limits_report},
    [ONLY_EXACT] = {.name = "exact",
                    .meaning = "no communication: how fast kolo_exact_add is, beside a plain sum",
                    .uses = EXACT_SUMS,
                    .alone = KOLO_HAVE_TRAINING ? perf_exact_report : NULL,
                    .part = "TRAINING"},
    [OVERLAPPED] = {.name = "overlap",
                    .meaning = "how much of a call in the background hides behind computing of the same length, and "
                               "how much longer that takes: of COLLECTIVE, of all, or of allreduce where there is "
                               "none"},
};

/* What may be measured: the collectives, and behind them those words. NULL past the last. */
static const char *measured_name(unsigned index) {
    const unsigned collectives = perf_collectives_count();
    if (index < collectives)
        return perf_collective_name(perf_collective_at(index));
    return index < collectives + WORDS ? words[index - collectives].name : NULL;
}

/* --help begins with the collectives, as the table has them, and completion knows them. */
static void explain_collectives(void) {
    static char text[4096];
    const char *name;
    size_t used = (size_t)snprintf(text, sizeof(text), "%s", before);
    for (unsigned i = 0, collectives = perf_collectives_count(); (name = measured_name(i)) != NULL; i++)
        used += (size_t)snprintf(text + used, sizeof(text) - used, "%s  %-15s  %s", i > 0 ? "\n" : "", name,
                                 i < collectives ? perf_collective_at(i)->meaning : words[i - collectives].meaning);
    line.before = text;
    line.words_of = measured_name;
}

static unsigned uses_of(const perf_collective *collective) {
    return TIMED | BLOCKING | BOUND | (perf_collective_has_data(collective) ? DATA : 0) |
           (kolo_collective_has(collective->kolo) & KOLO_HAS_OP ? OP : 0) |
           (kolo_collective_has(collective->kolo) & KOLO_HAS_ROOT ? ROOT : 0) |
           (collective->kolo == KOLO_ALLREDUCE_MANY ? TENSORS : 0) |
           (collective->places == (PERF_OUT | PERF_IN) ? PLACES : 0) |
           (perf_collective_has_algorithms(collective) ? ALGORITHMS : 0);
}

static const char *collective_name(unsigned index) {
    return index <= perf_collectives_count() ? measured_name(index) : NULL; /* or all */
}

/* The collectives that a word chooses are to be measured. Returns what options are of use for. */
static unsigned choose_these(unsigned chosen) {
    const unsigned collectives = perf_collectives_count();
    unsigned uses = 0;
    for (unsigned i = 0; i < collectives; i++) {
        if (chosen != i && chosen != collectives + ALL)
            continue;
        options.collectives[options.collectives_count++] = perf_collective_at(i);
        uses |= uses_of(perf_collective_at(i));
    }
    return uses;
}

/* behind: the word behind that; NULL: there is none. */
static unsigned choose_collectives(const char *word, const char *behind) {
    const unsigned chosen = command_line_choose(&line, word, measured_name), collectives = perf_collectives_count();
    const unsigned which = chosen - collectives; /* of the words */
    options.what = word;
    if (chosen <= collectives + ALL)
        return choose_these(chosen);
    options.mode = words[which].mode;
    options.alone = words[which].alone;
    options.overlap = which == OVERLAPPED;
    options.table = which == PARAMETER_SERVER ? &table_options : NULL;
    if (words[which].part != NULL && options.mode == NULL && options.alone == NULL)
        command_line_refuse(&line, "%s: kolo was built with KOLO_%s=OFF", word, words[which].part);
    if (which != OVERLAPPED && which != ONLY_LIMITS)
        return words[which].uses;
    const unsigned uses = choose_these(command_line_choose(&line, behind ? behind : "allreduce", collective_name));
    return which == ONLY_LIMITS ? LIMITS : (uses & ~(unsigned)(BOUND | BLOCKING)) | OVERLAP;
}

static void settle_table(void) {
    if (options.max_bytes > table_options.bytes)
        command_line_refuse(&line, "--max %zu is above --table %zu; a row must not exceed the table", options.max_bytes,
                            table_options.bytes);
    if (command_line_has(&line, "--zipf") && table_options.keys != PERF_KEYS_ZIPF)
        command_line_refuse(&line, "--zipf goes with --keys zipf");
    if (command_line_has(&line, "--clock") && table_options.staleness == KOLO_STALENESS_UNBOUNDED)
        command_line_refuse(&line, "--clock goes with --staleness, unless that is inf");
}

/* Options that depend on one another. */
static void settle(unsigned uses) {
    const bool min_given = command_line_has(&line, "--min"), max_given = command_line_has(&line, "--max");
    for (int i = 0; i < line.options_count; i++)
        if ((line.given >> i & 1) && !(table[i].use & uses))
            command_line_refuse(&line, "option '%s' has no meaning for %s; leave it out", table[i].names, options.what);

    if (!max_given && uses == LIMITS)
        options.max_bytes = MAX_BYTES_LIMITS;
    if (options.table) {
        options.min_bytes = min_given ? options.min_bytes : ROW_BYTES_MIN;
        options.max_bytes = max_given ? options.max_bytes : ROW_BYTES_MAX;
    }
    if (!max_given && options.min_bytes > options.max_bytes)
        options.max_bytes = options.min_bytes;
    if (!min_given && options.min_bytes > options.max_bytes)
        options.min_bytes = options.max_bytes;
    if (options.min_bytes > options.max_bytes)
        command_line_refuse(&line, "--min %zu is above --max %zu; the first size must not exceed the last",
                            options.min_bytes, options.max_bytes);
    if ((uses & OP) && !kolo_op_supports(options.op, options.dtype))
        command_line_refuse(&line, "--op %s is not defined for --dtype %s; use an integer dtype, or another --op",
                            kolo_name(KOLO_NAME_OP, options.op), kolo_name(KOLO_NAME_DTYPE, options.dtype));
    if (options.json_path != NULL && options.csv_path != NULL && strcmp(options.json_path, options.csv_path) == 0)
        command_line_refuse(&line, "--json and --csv cannot both go to '%s'; give one another file", options.csv_path);
    if (strcmp(options.what, words[OPTIMIZER].name) == 0 && options.dtype != KOLO_F32 && options.dtype != KOLO_F64 &&
        options.dtype != KOLO_F16 && options.dtype != KOLO_BF16)
        command_line_refuse(&line, "--dtype %s has no meaning for optimizer; give a float",
                            kolo_name(KOLO_NAME_DTYPE, options.dtype));
    if (options.offset % 8 != 0)
        command_line_refuse(&line, "--offset '%d': give a multiple of 8 from 0 to 4088", options.offset);
    if (options.table)
        settle_table();
    options.in_place = place == PLACE_IN;
    options.both_places = place == PLACE_BOTH;
    options.limits = !no_limits && (uses & BOUND) && !options.both_places && options.in_flight == 0 && !options.trace;
    if (options.trace && options.both_places)
        command_line_refuse(&line, "--place both has no meaning with --trace; give out or in");
    if (options.overlap && options.both_places)
        command_line_refuse(&line, "--place both has no meaning for overlap; give out or in");
    if (options.lanes && options.in_flight > 0)
        command_line_refuse(&line, "--lanes and --async: calls in the background are made by one thread; give one");
    if (options.progress != PERF_PROGRESS_ENVIRONMENT && options.in_flight == 0 && !options.overlap)
        command_line_refuse(&line, "--progress goes with --async or overlap");
    if (options.overlap && !command_line_has(&line, "--progress"))
        options.progress = PERF_PROGRESS_BOTH;
}

const perf_options *perf_options_read(int argc, char **argv, bool speaks) {
    line.silent = !speaks;
    explain_collectives();
    char *const *typed = command_line_read(&line, argc, argv);
    if (typed[0] == NULL)
        command_line_refuse(&line, "what to measure is missing; give a collective, all, sendrecv, waits, optimizer, "
                                   "ps, init, limits, exact or overlap");
    const unsigned uses = choose_collectives(typed[0], typed[1]);
    const int behind = options.overlap || options.alone == perf_limits_report;
    if (typed[1] != NULL && (!behind || typed[2] != NULL))
        command_line_refuse(&line, "'%s': one collective at a time, and '%s' came first", typed[1 + behind],
                            typed[behind]);
    settle(uses);
    return &options;
}

static size_t whole_units_bytes(size_t bytes, size_t unit_bytes) {
    if (bytes == 0 || unit_bytes == 0)
        return 0;
    return bytes < unit_bytes ? unit_bytes : bytes - bytes % unit_bytes;
}

bool perf_sizes_next(perf_sizes *sizes, const perf_options *of) {
    const size_t unit_bytes = sizes->unit_bytes;
    if (!sizes->begun) {
        sizes->begun = true;
        sizes->exact_bytes = of->min_bytes;
        sizes->bytes = whole_units_bytes(sizes->exact_bytes, unit_bytes);
        return true;
    }
    if (unit_bytes == 0)
        return false;
    /* Sizes that round to the same number of units are one size; the loop ends as exact_bytes grows. */
    size_t before = sizes->bytes;
    do {
        size_t exact = sizes->exact_bytes;
        if (exact >= of->max_bytes)
            return false;
        if (exact == 0)
            exact = unit_bytes;
        else
            exact = exact > of->max_bytes / of->factor ? of->max_bytes : exact * of->factor;
        sizes->exact_bytes = exact < of->max_bytes ? exact : of->max_bytes;
        sizes->bytes = whole_units_bytes(sizes->exact_bytes, unit_bytes);
    } while (sizes->bytes == before);
    return true;
}

size_t perf_sizes_max_bytes(const perf_options *of, size_t unit_bytes) {
    return whole_units_bytes(of->max_bytes, unit_bytes);
}

int perf_options_warmup(const perf_options *of, int usual) {
    const int wanted = of->warmup < 0 ? usual : of->warmup;
    return wanted == 0 && of->iters == 0 ? 1 : wanted;
}

int perf_options_samples(const perf_options *of, double row_us, double sample_us, int least, int most) {
    return of->iters > 0 ? of->iters : (int)fmin(fmax(row_us / fmax(sample_us, 1e-3), least), most);
}
