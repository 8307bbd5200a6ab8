#include "train_options.h"

#include <assert.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command_line.h"
#include "complain.h"
#include "installed_path.h"
#include "launched_rank.h"

static train_options options = {.settings = {.epochs = 30,
                                             .steps_max = SIZE_MAX,
                                             .batch_rows = 256,
                                             .accumulate = 1,
                                             .hidden = 1024,
                                             .rate = 0.1,
                                             .seed = 1,
                                             .server = {.staleness = 3, .features = 1024, .slow_rank = SLOW_NONE}}};
static bool no_compare;
static const double adamw_rate = 0.001;

enum { SETTINGS_COMPARED = 7, OPTIONS_BEFORE = 1 }; /* the first ones, with those of a process that joins */
static_assert(offsetof(train_settings, compare) == SETTINGS_COMPARED * sizeof(uint64_t), "of 8 bytes each");

static const char *on_failure_name(unsigned on_failure) {
    static const char *const names[] = {[TRAIN_STOP] = "stop", [TRAIN_SHRINK] = "shrink", NULL};
    return names[on_failure];
}

const char *train_optimizer_name(unsigned optimizer) {
    static const char *const names[] = {[TRAIN_SGD] = "sgd", [TRAIN_ADAMW] = "adamw", NULL};
    return names[optimizer];
}

static const char *compression_name(unsigned compression) {
    static const char *const names[] = {
        [KOLO_COMPRESSION_NONE] = "none", [KOLO_COMPRESSION_BF16] = "bf16",     [KOLO_COMPRESSION_F16] = "f16",
        [KOLO_COMPRESSION_TOPK] = "topk", [KOLO_COMPRESSION_ONEBIT] = "onebit", NULL};
    return names[compression];
}

/* The steps of a way: what its settings have in place of those of the plain one. */
static const struct {
    const char *name;
    bool overlap, exact, fused, shared_parameters, no_feedback;
    kolo_compression compress;
} ways[TRAIN_WAYS] = {
    [TRAIN_WAY_PLAIN] = {.name = "plain"},
    {"overlap", .overlap = true},
    {"exact", .exact = true},
    {"fused", .fused = true},
    {"fused+overlap", .fused = true, .overlap = true},
    {"fused+shared", .fused = true, .shared_parameters = true},
    {"fused+shared+overlap", .fused = true, .shared_parameters = true, .overlap = true},
    {"bf16", .compress = KOLO_COMPRESSION_BF16},
    {"f16", .compress = KOLO_COMPRESSION_F16},
    {"topk", .compress = KOLO_COMPRESSION_TOPK},
    {"topk-no-feedback", .compress = KOLO_COMPRESSION_TOPK, .no_feedback = true},
    {"onebit", .compress = KOLO_COMPRESSION_ONEBIT},
    {"onebit-no-feedback", .compress = KOLO_COMPRESSION_ONEBIT, .no_feedback = true},
};

const char *train_way_name(unsigned way) {
    return way < TRAIN_WAYS ? ways[way].name : NULL;
}

train_settings train_settings_of_way(const train_settings *settings, unsigned way) {
    train_settings its = *settings;
    its.overlap = ways[way].overlap;
    its.no_probes = ways[way].overlap;
    its.exact = ways[way].exact;
    its.fused = ways[way].fused;
    its.shared_parameters = ways[way].shared_parameters;
    its.compress = ways[way].compress;
    its.no_feedback = ways[way].no_feedback;
    its.ways_count = 0;
    return its;
}

bool train_settings_overlap(const train_settings *settings) {
    bool overlaps = settings->overlap;
    for (int i = 0; i < settings->ways_count; i++)
        overlaps |= ways[settings->ways[i]].overlap;
    return overlaps;
}

bool train_way_keeps_bits(unsigned way) {
    return !ways[way].exact && ways[way].compress == KOLO_COMPRESSION_NONE;
}

unsigned train_way_without_overlap(unsigned way) {
    for (unsigned other = 0; other < TRAIN_WAYS && ways[way].overlap; other++)
        if (!ways[other].overlap && ways[other].exact == ways[way].exact && ways[other].fused == ways[way].fused &&
            ways[other].shared_parameters == ways[way].shared_parameters && ways[other].compress == ways[way].compress)
            return other;
    return way;
}

static const char *read_slow(const char *typed) {
    return server_options_read_slow(&options.settings.server, typed);
}

/* Behind the first heading are the settings that are compared, in their order. */
static const command_option table[] = {
    {.help = "Data and model"},
    {"--data FILE",
     "CSV without a header line: numbers, and last the label, an integer from 0. One row in five, always the same, is "
     "for testing (default: the installed digits, ../share/kolo/digits.csv)",
     TO_TEXT(options.data_path)},
    {"--epochs N", "passes over the training rows (default 30)", TO_COUNT(options.settings.epochs, 1, 100000)},
    {"--steps N", "stop after that many batches, if the epochs have more",
     TO_COUNT(options.settings.steps_max, 1, 1000000000)},
    {"--batch N", "rows of a batch, all processes together; at least one for each (default 256)",
     TO_COUNT(options.settings.batch_rows, 1, 1000000)},
    {"--hidden N", "width of the two hidden layers (default 1024)", TO_COUNT(options.settings.hidden, 1, 16384)},
    {"--rate X", "learning rate (default 0.1; of adamw 0.001)", TO_NUMBER(options.settings.rate, 1e-9, 100)},
    {"--seed N", "draws the first weights and the rows' order (default 1)",
     TO_COUNT(options.settings.seed, 0, UINT64_MAX)},
    {.help = "How a step is taken"},
    {"--accumulate N",
     "add the gradients of N batches before the all-reduce: a batch N times as large, in the memory of one (default 1)",
     TO_COUNT(options.settings.accumulate, 1, 100000)},
    {"--optimizer KIND", "sgd (default), with a momentum of 0.9; or adamw, with a weight decay of 0.01",
     TO_CHOICE(options.settings.optimizer, train_optimizer_name)},
    {"--fused",
     "update the parameters within the all-reduce: each process updates a part, and keeps the optimizer's state of "
     "that alone. The bits are the same",
     TO_FLAG(options.settings.fused)},
    {"--shared-parameters", "with --fused: one copy for all processes of a machine",
     TO_FLAG(options.settings.shared_parameters)},
    {"--overlap",
     "send each layer's gradients while the backward pass goes on: where a processor is free, that hides "
     "communication. One step in 16 goes without, to show how much",
     TO_FLAG(options.settings.overlap)},
    {"--compress KIND",
     "send gradients shorter: none (default), bf16, f16, topk (a layer's largest hundredth) or onebit. What is left "
     "out goes into the next step. For slow networks; it changes the curve. Implies --no-compare",
     TO_CHOICE(options.settings.compress, compression_name)},
    {"--no-feedback", "with --compress: what is left out is lost, to compare", TO_FLAG(options.settings.no_feedback)},
    {"--exact", "sum gradients exactly, in whatever order, and round once (KOLO_SUM_EXACT)",
     TO_FLAG(options.settings.exact)},
    {"--ways LIST",
     "(with commas between: train the plain way and, in turn with it, each of these; then compare time, bytes, gain "
     "and losses)",
     TO_CHOICES(options.settings.ways, options.settings.ways_count, train_way_name)},
    {.help = "Saved, lost and new processes"},
    {"--save FILE",
     "save parameters, optimizer's state and progress in FILE, after each epoch and at the end. FILE is replaced at "
     "once, and so always whole",
     TO_TEXT(options.save_path)},
    {"--resume FILE",
     "go on from FILE, with any number of processes, fused or not. Give the same --data, --batch, --accumulate, "
     "--hidden, --seed and --optimizer. Implies --no-compare",
     TO_TEXT(options.resume_path)},
    {"--on-failure MODE",
     "when a process is lost: stop (default), or shrink: the others go on, and share the batches. kolorun must let "
     "them: --on-failure continue",
     TO_CHOICE(options.settings.on_failure, on_failure_name)},
    {"--elastic",
     "shrink when a process is lost, and take in new ones at the end of an epoch. One that kolorun has started again "
     "(--on-failure restart) joins by itself",
     TO_FLAG(options.settings.elastic)},
    {"--join JOB",
     "join the training JOB (its KOLO_JOB), running on this machine as the same user. Options need not be repeated; "
     "those that are must be the training's",
     TO_TEXT(options.join_job)},
    {.help = "With a parameter server"},
    {"--server MODE",
     "keep the parameters in a table (kolo_table), to pull from and push to. bsp: all end a step together; ssp: nobody "
     "is more than --staleness steps ahead; asp: each at its own pace; none: an all-reduce instead, to compare",
     TO_CHOICE(options.settings.server.server, train_server_name)},
    {"--staleness N", "of ssp (default 3)", TO_COUNT(options.settings.server.staleness, 1, 1000000)},
    {"--servers N", "the last N processes only apply pushes (default 0)",
     TO_INTEGER(options.settings.server.servers, 0, KOLO_RANKS_MAX - 1)},
    {"--backup-workers N", "bsp: do not wait for the last N workers of a step, whose push is left out (default 0)",
     TO_INTEGER(options.settings.server.backup_workers, 0, KOLO_RANKS_MAX - 1)},
    {"--hogwild", "ssp, asp: add to rows in place, in no order; --rule sgd", TO_FLAG(options.settings.server.hogwild)},
    {"--problem NAME",
     "digits (default); logistic: a sparse regression; factorization: of a noisy matrix. The last two are generated, "
     "so that one knows what can be reached",
     TO_CHOICE(options.settings.server.problem, train_problem_name)},
    {"--features N", "of logistic (default 1024)", TO_COUNT(options.settings.server.features, 16, 100000000)},
    {"--rule RULE",
     "what a push does: sgd, momentum (default for digits), adagrad (default for others; tables only) or adam",
     TO_CHOICE(options.settings.server.rule, train_rule_name)},
    {"--slow RANK:FACTOR",
     "a worker's steps take FACTOR times as long; any:FACTOR: those of one worker in each step, drawn at random",
     TO_FUNCTION(read_slow)},
    {"--step-ms X", "a step takes at least X ms, asleep: for more workers than processors (default 0)",
     TO_NUMBER(options.settings.server.step_ms, 0, 100000)},
    {"--until LOSS", "stop at this loss, and tell the steps and seconds to it",
     TO_NUMBER(options.settings.server.until, 1e-9, 1e9)},
    {"--every N", "steps of a worker between losses (default: 20 losses)",
     TO_COUNT(options.settings.server.every, 1, 1000000000)},
    {.help = "Output"},
    {"--no-compare", "leave out the run in one process, as with one rank", TO_FLAG(no_compare)},
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
        "  kolorun -n 2 kolo-train --data letters.csv --hidden 512 --json result.json\n"
        "  kolorun -n 2 kolo-train --optimizer adamw --ways fused,overlap,topk\n"
        "  kolorun -n 2 kolo-train --fused --save digits.state --epochs 10\n"
        "  kolorun -n 3 kolo-train --fused --resume digits.state\n"
        "  kolorun -n 4 --on-failure continue kolo-train --on-failure shrink\n"
        "  kolorun -n 4 --on-failure restart kolo-train --elastic\n"
        "  KOLO_JOB=digits kolorun -n 2 kolo-train --elastic --epochs 300\n"
        "  kolo-train --join digits\n"
        "  kolorun -n 2 kolo-train --server ssp --hidden 64 --slow 1:5 --until 0.1\n"
        "  kolorun -n 4 kolo-train --problem logistic --server asp --step-ms 2\n"
        "  mpirun -n 2 kolo-train --no-compare",
};

/* What kolorun says of a process that takes the place of one that has ended. */
static bool is_restarted(void) {
    const char *restarts = getenv("KOLO_RESTARTS");
    return restarts != NULL && strcmp(restarts, "") != 0 && strcmp(restarts, "0") != 0;
}

/* What it would take more for. */
static void check_compression(void) {
    if (options.settings.compress == KOLO_COMPRESSION_NONE) {
        if (options.settings.no_feedback)
            command_line_refuse(&line, "--no-feedback: nothing is left out; give --compress, too");
        return;
    }
    if (options.settings.exact)
        command_line_refuse(&line, "--compress: what is left out makes a sum inexact; leave out --exact");
    if (options.settings.fused)
        command_line_refuse(&line, "--compress: --fused sends gradients as they are; leave out one of them");
    if (options.save_path != NULL || options.resume_path != NULL)
        command_line_refuse(&line,
                            "--compress: what it has left out would not be saved; leave out --save and --resume");
}

/* The ways say all that other options would of a step, and end where they have begun. */
static void check_ways(void) {
    static const char *const others[] = {
        "--fused",  "--shared-parameters", "--overlap", "--compress",  "--exact", "--no-feedback", "--save",
        "--resume", "--elastic",           "--join",    "--on-failure"};
    for (size_t i = 0; i < sizeof others / sizeof *others && options.settings.ways_count > 0; i++)
        if (command_line_has(&line, others[i]))
            command_line_refuse(&line,
                                "--ways: each has steps of its own, and trains from the first to the last; leave "
                                "out %s",
                                others[i]);
}

train_options train_options_read(int argc, char **argv) {
    static char digits_path[PATH_MAX];
    const char *job = getenv("KOLO_JOB");
    options.job = job != NULL && job[0] != '\0' ? job : NULL;
    options.join_job = is_restarted() ? options.job : NULL;
    line.silent = launched_rank_guess().rank != 0 && !is_restarted(); /* all ranks are given the same */
    command_line_read(&line, argc, argv);
    if (is_restarted() && !options.settings.elastic)
        command_line_refuse(&line, "kolorun has started this process again; to join the others it needs --elastic");
    options.is_own_data = options.data_path != NULL;
    if (!options.is_own_data) {
        installed_path(digits_path, sizeof digits_path, "digits.csv");
        options.data_path = digits_path;
    }
    if (options.settings.elastic)
        options.settings.on_failure = TRAIN_SHRINK;
    if (options.settings.fused && options.settings.on_failure == TRAIN_SHRINK)
        command_line_refuse(&line, "--fused: what a lost process knew of the optimizer's state is lost with it; leave "
                                   "out --elastic and --on-failure shrink");
    server_options_check(&line, &options.settings.server);
    if (options.settings.shared_parameters && !options.settings.fused)
        command_line_refuse(&line, "--shared-parameters: one copy needs one update; give --fused, too");
    check_ways();
    check_compression();
    if (options.settings.exact && options.settings.fused)
        command_line_refuse(&line, "--exact: --fused sums in its own order; leave out one of them");
    options.settings.tell_step = command_line_has(&line, "--optimizer") || options.settings.fused ||
                                 options.settings.overlap || options.settings.exact ||
                                 command_line_has(&line, "--compress");
    if (options.settings.optimizer == TRAIN_ADAMW && !command_line_has(&line, "--rate"))
        options.settings.rate = adamw_rate;
    options.settings.save = options.save_path != NULL;
    options.settings.resume = options.resume_path != NULL;
    options.settings.compare =
        !no_compare && !options.settings.resume && options.settings.compress == KOLO_COMPRESSION_NONE;
    options.given = line.given >> OPTIONS_BEFORE & ((UINT64_C(1) << SETTINGS_COMPARED) - 1);
    return options;
}

size_t train_settings_step_rows(const train_settings *settings) {
    return settings->batch_rows * settings->accumulate;
}

int train_settings_share(kolo_comm *comm, train_settings *settings) {
    if (kolo_broadcast(comm, settings, sizeof *settings, KOLO_U8, 0) < 0)
        return complain_kolo(comm, "cannot share the options");
    return 0;
}

int train_settings_agree(const train_settings *asked, uint64_t given, const train_settings *training, char *text,
                         size_t text_bytes) {
    uint64_t wanted[SETTINGS_COMPARED], found[SETTINGS_COMPARED];
    int i = 0;
    memcpy(wanted, asked, sizeof wanted);
    memcpy(found, training, sizeof found);
    while (i < SETTINGS_COMPARED && ((given >> i & 1) == 0 || wanted[i] == found[i]))
        i++;
    if (i == SETTINGS_COMPARED)
        return 1;
    const command_option *option = &table[OPTIONS_BEFORE + i];
    const int length = (int)strcspn(option->names, " ");
    if (option->text != NULL)
        snprintf(text, text_bytes, "%.*s: the rows are not those of the training", length, option->names);
    else if (option->number != NULL)
        snprintf(text, text_bytes, "%.*s %g: the training has %g", length, option->names, asked->rate, training->rate);
    else if (found[i] == SIZE_MAX)
        snprintf(text, text_bytes, "%.*s %" PRIu64 ": the training has no such limit", length, option->names,
                 wanted[i]);
    else
        snprintf(text, text_bytes, "%.*s %" PRIu64 ": the training has %" PRIu64, length, option->names, wanted[i],
                 found[i]);
    return 0;
}
