#include "train_options.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command_line.h"
#include "complain.h"
#include "installed_path.h"
#include "launched_rank.h"

static train_settings settings = {
    .steps_max = SIZE_MAX,
    .batch_rows = 256,
    .accumulate = 1,
    .hidden = 1024,
    .seed = 1,
    .server = {.rule = TRAIN_RULES, .staleness = 3, .features = 1024, .slow_rank = SLOW_NONE}};
static train_options options;

enum { EPOCHS = 30 };
static const double sgd_rate = 0.1, adamw_rate = 0.001;

static const char *on_failure_name(unsigned on_failure) {
    return (const char *const[]){"stop", "shrink", NULL}[on_failure];
}

const char *train_optimizer_name(unsigned optimizer) {
    return (const char *const[]){"sgd", "adamw", NULL}[optimizer];
}

const char *train_server_name(unsigned server) {
    return (const char *const[]){"none", "bsp", "ssp", "asp", NULL}[server];
}

const char *train_problem_name(unsigned problem) {
    return (const char *const[]){"digits", "logistic", "factorization", NULL}[problem];
}

const char *train_rule_name(unsigned rule) {
    return (const char *const[]){"sgd", "momentum", "adagrad", "adam", NULL}[rule];
}

const struct train_named_way train_ways[TRAIN_WAYS] = {
    [TRAIN_WAY_PLAIN] = {.name = "plain"},
    {.name = "overlap", .way = {.overlap = true}, .without_overlap = TRAIN_WAY_PLAIN},
    {.name = "exact", .way = {.exact = true}},
    [3] = {.name = "fused", .way = {.fused = true}},
    {.name = "fused+overlap", .way = {.fused = true, .overlap = true}, .without_overlap = 3},
    [5] = {.name = "fused+shared", .way = {.fused = true, .shared_parameters = true}},
    {.name = "fused+shared+overlap",
     .way = {.fused = true, .shared_parameters = true, .overlap = true},
     .without_overlap = 5},
    {.name = "bf16", .way = {.compress = KOLO_COMPRESSION_BF16}},
    {.name = "f16", .way = {.compress = KOLO_COMPRESSION_F16}},
    {.name = "topk", .way = {.compress = KOLO_COMPRESSION_TOPK}},
    {.name = "topk-no-feedback", .way = {.compress = KOLO_COMPRESSION_TOPK, .no_feedback = true}},
    {.name = "onebit", .way = {.compress = KOLO_COMPRESSION_ONEBIT}},
    {.name = "onebit-no-feedback", .way = {.compress = KOLO_COMPRESSION_ONEBIT, .no_feedback = true}},
};

const char *train_way_name(unsigned way) {
    return way < TRAIN_WAYS ? train_ways[way].name : NULL;
}

bool train_settings_overlap(const train_settings *of) {
    bool overlaps = of->way.overlap;
    for (int i = 0; i < of->ways_count; i++)
        overlaps |= train_ways[of->ways[i]].way.overlap;
    return overlaps;
}

static const char *compression_name(unsigned kind) {
    return kolo_name(KOLO_NAME_COMPRESSION, (int)kind);
}

/* RANK:FACTOR or any:FACTOR. */
static const char *read_slow(const char *typed) {
    static const char wanted[] = "RANK:FACTOR or any:FACTOR, with a factor from 1 to 1000, as 1:5";
    server_settings *of = &settings.server;
    int end = 0;
    of->slow_rank = SLOW_ANY;
    if (sscanf(typed, "any:%lf%n", &of->slow_factor, &end) < 1 &&
        sscanf(typed, "%4d:%lf%n", &of->slow_rank, &of->slow_factor, &end) < 2)
        return wanted;
    const bool is_rank = of->slow_rank == SLOW_ANY || (of->slow_rank >= 0 && of->slow_rank < KOLO_RANKS_MAX);
    return is_rank && typed[end] == '\0' && of->slow_factor >= 1 && of->slow_factor <= 1000 ? NULL : wanted;
}

/* What an option is for, where not every training takes it. */
enum { ONE_WAY = 1, ALLREDUCE = 2, WORKERS = 4, TABLES = 8 };

/* A file's row also has the setting that all ranks share. */
static const command_option table[] = {
    {.help = "Data and model"},
    {"--data FILE",
     "CSV without a header line: numbers, and last the label, an integer from 0. One row in five, always the same, is "
     "for testing (default: the installed digits, ../share/kolo/digits.csv)",
     TO_TEXT(options.data_path), .count = &settings.data_fingerprint},
    {"--epochs N", "passes over the training rows (default 30; logistic 1, factorization 6)",
     TO_COUNT(settings.epochs, 1, 100000)},
    {"--steps N", "stop after that many steps, of --accumulate batches each, if the epochs have more",
     TO_COUNT(settings.steps_max, 1, 1000000000)},
    {"--batch N", "rows of a batch, all processes together; at least one for each (default 256)",
     TO_COUNT(settings.batch_rows, 1, 1000000)},
    {"--hidden N", "width of the two hidden layers (default 1024)", TO_COUNT(settings.hidden, 1, 16384)},
    {"--rate X", "learning rate (default 0.1; adamw 0.001, factorization 0.2)", TO_NUMBER(settings.rate, 1e-9, 100)},
    {"--seed N", "draws the first weights and the rows' order (default 1)", TO_COUNT(settings.seed, 0, UINT64_MAX)},
    {.help = "How a step is taken"},
    {"--accumulate N",
     "add the gradients of N batches before the all-reduce: a batch N times as large, in the memory of one (default 1)",
     TO_COUNT(settings.accumulate, 1, 100000), USED_FOR(ALLREDUCE)},
    {"--optimizer KIND", "sgd (default), with a momentum of 0.9; or adamw, with a weight decay of 0.01",
     TO_CHOICE(settings.optimizer, train_optimizer_name), USED_FOR(ALLREDUCE)},
    {"--fused",
     "update the parameters within the all-reduce: each process updates a part, and keeps the optimizer's state of "
     "that alone. The bits are the same",
     TO_FLAG(settings.way.fused), USED_FOR(ONE_WAY | ALLREDUCE)},
    {"--shared-parameters", "with --fused: one copy for all processes of a machine",
     TO_FLAG(settings.way.shared_parameters), USED_FOR(ONE_WAY | ALLREDUCE)},
    {"--overlap",
     "send each layer's gradients while the backward pass goes on: where a processor is free, that hides "
     "communication. --ways overlap shows how much",
     TO_FLAG(settings.way.overlap), USED_FOR(ONE_WAY | ALLREDUCE)},
    {"--compress KIND",
     "send gradients shorter: none (default), bf16, f16, topk (a layer's largest hundredth) or onebit. What is left "
     "out goes into the next step. For slow networks; it changes the curve. Implies --no-compare",
     TO_CHOICE(settings.way.compress, compression_name), USED_FOR(ONE_WAY | ALLREDUCE)},
    {"--no-feedback", "with --compress: what is left out is lost, to compare", TO_FLAG(settings.way.no_feedback),
     USED_FOR(ONE_WAY | ALLREDUCE)},
    {"--exact", "sum gradients exactly, in whatever order, and round once (KOLO_SUM_EXACT)",
     TO_FLAG(settings.way.exact), USED_FOR(ONE_WAY | ALLREDUCE)},
    {"--ways LIST",
     "(with commas between: train the plain way and, in turn with it, each of these; then compare time, bytes, gain "
     "and losses)",
     TO_CHOICES(settings.ways, settings.ways_count, train_way_name), USED_FOR(ALLREDUCE)},
    {.help = "Saved, lost and new processes"},
    {"--save FILE",
     "save parameters, optimizer's state and progress in FILE, after each epoch and at the end. FILE is replaced at "
     "once, and so always whole",
     TO_TEXT(options.save_path), TO_FLAG(settings.save), USED_FOR(ONE_WAY | ALLREDUCE)},
    {"--resume FILE",
     "go on from FILE, with any number of processes, fused or not. Give the same --data, --batch, --accumulate, "
     "--hidden, --seed and --optimizer. Implies --no-compare",
     TO_TEXT(options.resume_path), TO_FLAG(settings.resume), USED_FOR(ONE_WAY | ALLREDUCE)},
    {"--on-failure MODE",
     "when a process is lost: stop (default), or shrink: the others go on, and share the batches. kolorun must let "
     "them: --on-failure continue",
     TO_CHOICE(settings.on_failure, on_failure_name), USED_FOR(ONE_WAY | ALLREDUCE)},
    {"--elastic",
     "shrink when a process is lost, and take in new ones at the end of an epoch. One that kolorun has started again "
     "(--on-failure restart) joins by itself",
     TO_FLAG(settings.elastic), USED_FOR(ONE_WAY | ALLREDUCE)},
    {"--join JOB",
     "join the training JOB (its KOLO_JOB), running on this machine as the same user. Options need not be repeated; "
     "those that are must be the training's",
     TO_TEXT(options.join_job), USED_FOR(ONE_WAY | ALLREDUCE)},
    {.help = "With a parameter server"},
    {"--server MODE",
     "keep the parameters in a table (kolo_table), to pull from and push to. bsp: all end a step together; ssp: nobody "
     "is more than --staleness steps ahead; asp: each at its own pace; none: an all-reduce instead, to compare",
     TO_CHOICE(settings.server.server, train_server_name)},
    {"--staleness N", "of ssp (default 3)", TO_COUNT(settings.server.staleness, 1, 1000000),
     USED_FOR(WORKERS | TABLES)},
    {"--servers N", "the last N processes only apply pushes (default 0)",
     TO_INTEGER(settings.server.servers, 0, KOLO_RANKS_MAX - 1), USED_FOR(WORKERS | TABLES)},
    {"--backup-workers N", "bsp: do not wait for the last N workers of a step, whose push is left out (default 0)",
     TO_INTEGER(settings.server.backup_workers, 0, KOLO_RANKS_MAX - 1), USED_FOR(WORKERS | TABLES)},
    {"--hogwild", "ssp, asp: add to rows in place, in no order; --rule sgd", TO_FLAG(settings.server.hogwild),
     USED_FOR(WORKERS | TABLES)},
    {"--problem NAME",
     "digits (default); logistic: a sparse regression; factorization: of a noisy matrix. The last two are generated, "
     "so that one knows what can be reached",
     TO_CHOICE(settings.server.problem, train_problem_name)},
    {"--features N", "of logistic (default 1024)", TO_COUNT(settings.server.features, 16, 100000000),
     USED_FOR(WORKERS)},
    {"--rule RULE",
     "what a push does: sgd, momentum (default for digits), adagrad (default for others; tables only) or adam",
     TO_CHOICE(settings.server.rule, train_rule_name), USED_FOR(WORKERS)},
    {"--slow RANK:FACTOR",
     "a worker's steps take FACTOR times as long; any:FACTOR: those of one worker in each step, drawn at random",
     TO_FUNCTION(read_slow), USED_FOR(WORKERS)},
    {"--step-ms X", "a step takes at least X ms, asleep: for more workers than processors (default 0)",
     TO_NUMBER(settings.server.step_ms, 0, 100000), USED_FOR(WORKERS)},
    {"--until LOSS", "stop at this loss, and tell the steps and seconds to it",
     TO_NUMBER(settings.server.until, 1e-9, 1e9), USED_FOR(WORKERS)},
    {"--every N", "steps of a worker between losses (default: 20 losses)",
     TO_COUNT(settings.server.every, 1, 1000000000), USED_FOR(WORKERS)},
    {.help = "Output"},
    {"--no-compare", "leave out the run in one process, as with one rank", TO_FLAG(settings.no_compare)},
    {"--json FILE", "also write all figures, with each step's loss, to FILE", TO_TEXT(options.json_path)},
    {"--quiet", "print the summary only", TO_FLAG(options.quiet)},
};

static command_line line = {
    .program = "kolo-train",
    .before = "usage: kolo-train [options]\n"
              "       kolorun -n RANKS kolo-train [options]\n"
              "\n"
              "Trains a neural network to read handwritten digits, on as many processes as it is started with. Each "
              "takes its share of every batch; kolo_allreduce sums their gradients. Then it checks that all processes "
              "ended with the same parameters to the last bit, and trains once more in one process to compare the "
              "losses and the time.",
    .options = table,
    .options_count = sizeof(table) / sizeof(table[0]),
    .after =
        "Rank 0 reads the file, and its options count for all. While it trains alone the others wait, for an epoch "
        "at a time; should one take more than five minutes, set KOLO_TIMEOUT_MS.\n"
        "\n"
        "Exit code: 0 on success; 1 when training failed, the processes' parameters differ or the losses are not "
        "those of one process; 2 when the command line is wrong.\n"
        "\n"
        "examples:\n"
        "  kolorun -n 4 kolo-train\n"
        "  kolorun -n 2 kolo-train --optimizer adamw --ways fused,overlap,topk\n"
        "  kolorun -n 2 kolo-train --fused --save digits.state --epochs 10\n"
        "  kolorun -n 3 kolo-train --fused --resume digits.state\n"
        "  kolorun -n 4 --on-failure restart kolo-train --elastic\n"
        "  KOLO_JOB=digits kolorun -n 2 kolo-train --elastic --epochs 300\n"
        "  kolo-train --join digits\n"
        "  kolorun -n 2 kolo-train --server ssp --hidden 64 --slow 1:5 --until 0.1\n"
        "  mpirun -n 2 kolo-train --no-compare",
};

/* What kolorun says of a process that takes the place of one that has ended. */
static bool is_restarted(void) {
    const char *restarts = getenv("KOLO_RESTARTS");
    return restarts != NULL && strcmp(restarts, "") != 0 && strcmp(restarts, "0") != 0;
}

static bool has(const char *name) {
    return command_line_has(&line, name);
}

/* Refuses all options of that use, beside the option `beside` or, if that is NULL, in any case. */
static void refuse_used(unsigned use, const char *beside, const char *why) {
    for (int i = 0; i < line.options_count; i++) {
        const int length = table[i].names != NULL ? (int)strcspn(table[i].names, " ") : 0;
        if ((table[i].use & use) == 0 || (line.given >> i & 1) == 0)
            continue;
        if (beside != NULL)
            command_line_refuse(&line, "%s: %s; leave out %.*s", beside, why, length, table[i].names);
        command_line_refuse(&line, "%.*s: %s", length, table[i].names, why);
    }
}

/* Refuses what does not go together. */
static void check_together(void) {
    const train_way *way = &settings.way;
    const server_settings *of = &settings.server;
    const bool compresses = way->compress != KOLO_COMPRESSION_NONE, is_allreduce = of->server == TRAIN_ALLREDUCE;
    const struct {
        bool is_there;
        const char *why;
    } mistakes[] = {
        {is_restarted() && !settings.elastic,
         "kolorun has started this process again; to join the others it needs --elastic"},
        {way->fused && settings.on_failure == TRAIN_SHRINK,
         "--fused: what a lost process knew of the optimizer's state is lost with it; leave out --elastic and "
         "--on-failure shrink"},
        {way->shared_parameters && !way->fused, "--shared-parameters: one copy needs one update; give --fused, too"},
        {way->no_feedback && !compresses, "--no-feedback: nothing is left out; give --compress, too"},
        {compresses && way->exact, "--compress: what is left out makes a sum inexact; leave out --exact"},
        {compresses && way->fused, "--compress: --fused sends gradients as they are; leave out one of them"},
        {compresses && (settings.save || settings.resume),
         "--compress: what it has left out would not be saved; leave out --save and --resume"},
        {way->exact && way->fused, "--exact: --fused sums in its own order; leave out one of them"},
        {has("--staleness") && of->server != TRAIN_SSP,
         "--staleness: only ssp has a bound to choose; give --server ssp"},
        {of->backup_workers > 0 && of->server != TRAIN_BSP,
         "--backup-workers: only bsp waits for all others; give --server bsp"},
        {of->hogwild && of->server == TRAIN_BSP, "--hogwild: bsp applies updates in order; give --server ssp or asp"},
        {of->hogwild && of->rule != TRAIN_RULES && of->rule != TRAIN_RULE_SGD,
         "--hogwild: adds in place, so --rule must be sgd"},
        {of->problem != TRAIN_DIGITS && (has("--data") || has("--hidden")),
         "--data, --hidden: are for the digits; leave them out, or --problem"},
        {is_allreduce && of->rule == TRAIN_RULE_ADAGRAD, "--rule adagrad: only tables have it; give --server"},
        {has("--features") && of->problem != TRAIN_LOGISTIC, "--features: is for --problem logistic"},
    };
    if (settings.ways_count > 0)
        refuse_used(ONE_WAY, "--ways", "each has steps of its own, and trains from the first to the last");
    if (of->used)
        refuse_used(ALLREDUCE, has("--server") ? "--server" : "--problem", "workers push rows in steps of their own");
    else
        refuse_used(WORKERS, NULL, "is for training with --server or --problem; give one of them");
    if (of->used && is_allreduce)
        refuse_used(TABLES, NULL, "an all-reduce has none; give --server bsp, ssp or asp");
    for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++)
        if (mistakes[i].is_there)
            command_line_refuse(&line, "%s", mistakes[i].why);
}

train_options train_options_read(int argc, char **argv) {
    static char digits_path[PATH_MAX];
    const char *job = getenv("KOLO_JOB");
    options.job = job != NULL && job[0] != '\0' ? job : NULL;
    options.join_job = is_restarted() ? options.job : NULL;
    line.silent = launched_rank_guess().rank != 0 && !is_restarted(); /* all ranks are given the same */
    command_line_read(&line, argc, argv);
    options.is_own_data = options.data_path != NULL;
    if (!options.is_own_data) {
        installed_path(digits_path, sizeof digits_path, "digits.csv");
        options.data_path = digits_path;
    }
    if (settings.elastic)
        settings.on_failure = TRAIN_SHRINK;
    settings.server.used = has("--server") || settings.server.problem != TRAIN_DIGITS;
    check_together();
    settings.tell_step =
        has("--optimizer") || has("--compress") || settings.way.fused || settings.way.overlap || settings.way.exact;
    settings.no_compare |= settings.resume || settings.way.compress != KOLO_COMPRESSION_NONE;
    if (!settings.server.used && !has("--epochs"))
        settings.epochs = EPOCHS;
    if (!settings.server.used && !has("--rate"))
        settings.rate = settings.optimizer == TRAIN_ADAMW ? adamw_rate : sgd_rate;
    options.given = line.given;
    options.settings = settings;
    return options;
}

size_t train_settings_step_rows(const train_settings *of) {
    return of->batch_rows * of->accumulate;
}

int train_settings_share(kolo_comm *comm, train_settings *shared) {
    return check(comm, kolo_broadcast(comm, shared, sizeof *shared, KOLO_U8, 0), "cannot share the options");
}

/* Writes in words what the training has instead of what was asked for. */
static void tell_difference(const command_option *option, const void *asked, const void *training, char *text,
                            size_t text_bytes) {
    const int length = (int)strcspn(option->names, " ");
    const char *name = option->names;
    if (option->flag != NULL) {
        snprintf(text, text_bytes, "%.*s: the training is without it", length, name);
    } else if (option->text != NULL) {
        snprintf(text, text_bytes, "%.*s: the rows are not those of the training", length, name);
    } else if (option->choice != NULL) {
        const char *found = option->name_of(*(const unsigned *)training);
        snprintf(text, text_bytes, "%.*s: the training has %s", length, name, found);
    } else if (option->number != NULL) {
        snprintf(text, text_bytes, "%.*s %g: the training has %g", length, name, *(const double *)asked,
                 *(const double *)training);
    } else if (*(const size_t *)training == SIZE_MAX) {
        snprintf(text, text_bytes, "%.*s %zu: the training has no such limit", length, name, *(const size_t *)asked);
    } else {
        snprintf(text, text_bytes, "%.*s %zu: the training has %zu", length, name, *(const size_t *)asked,
                 *(const size_t *)training);
    }
}

int train_settings_agree(const train_settings *asked, uint64_t given, const train_settings *training, char *text,
                         size_t text_bytes) {
    for (int i = 0; i < line.options_count; i++) {
        const command_option *option = &table[i];
        const void *at = option->flag     ? (const void *)option->flag
                         : option->choice ? (const void *)option->choice
                         : option->number ? (const void *)option->number
                                          : (const void *)option->count;
        const size_t bytes = option->flag ? sizeof(bool) : option->choice ? sizeof(unsigned) : sizeof(uint64_t);
        const uintptr_t offset = (uintptr_t)at - (uintptr_t)&settings; /* past the end: it is no setting */
        const void *wanted = (const char *)asked + offset, *found = (const char *)training + offset;
        if ((given >> i & 1) == 0 || offset >= sizeof settings || memcmp(wanted, found, bytes) == 0)
            continue;
        tell_difference(option, wanted, found, text, text_bytes);
        return 0;
    }
    return 1;
}
