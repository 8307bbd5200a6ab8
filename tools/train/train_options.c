/* SPDX-License-Identifier: Apache-2.0 */
#include "train_options.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "option_mistake.h"

static const char help[] = "usage: kolo-train [options]\n"
                           "       kolorun -n RANKS kolo-train [options]\n"
                           "\n"
                           "Trains a neural network to read handwritten digits, on as many processes as it\n"
                           "is started with. Each takes its share of every batch; kolo_allreduce sums their\n"
                           "gradients. Then it checks that all processes ended with the same parameters to\n"
                           "the last bit, and trains once more in one process to compare the losses and the\n"
                           "time.\n"
                           "\n"
                           "  --data FILE    CSV: a row a line, numbers separated by commas, the last one\n"
                           "                 the label (an integer from 0); no header line. One row in five\n"
                           "                 is kept for testing, always the same ones. Default: the digits\n"
                           "                 that are installed with kolo-train, ../share/kolo/digits.csv\n"
                           "  --epochs N     passes over the training rows (default 30)\n"
                           "  --steps N      stop after that many batches, if the epochs have more\n"
                           "  --batch N      rows of a batch, all processes together; at least one for each\n"
                           "                 (default 256)\n"
                           "  --hidden N     width of the two hidden layers (default 1024)\n"
                           "  --rate X       learning rate (default 0.1)\n"
                           "  --seed N       draws the first weights and the order of the rows (default 1)\n"
                           "  --no-compare   leave out the run in one process, as is always done with one\n"
                           "                 rank\n"
                           "  --on-failure MODE\n"
                           "                 when a process is lost while training: stop (default), or\n"
                           "                 shrink: the others go on from where they were and share the\n"
                           "                 batches between them. kolorun must let them:\n"
                           "                 --on-failure continue\n"
                           "  --elastic      shrink when a process is lost, and take in new ones: a process\n"
                           "                 that joins does so at the end of an epoch, gets all that the\n"
                           "                 others know, and takes its share of the batches. One that\n"
                           "                 kolorun has started again (--on-failure restart) joins by\n"
                           "                 itself.\n"
                           "  --join JOB     join the running training JOB (its KOLO_JOB) from anywhere on\n"
                           "                 this machine, as the same user. Options need not be repeated;\n"
                           "                 those that are must be the training's.\n"
                           "  --json FILE    also write all figures, with each step's loss, to FILE\n"
                           "  --quiet        print the summary only\n"
                           "  -h, --help     print this\n"
                           "  --version      print kolo's version\n"
                           "\n"
                           "Rank 0 reads the file, and its options count for all. While it trains alone the\n"
                           "others wait, for an epoch at a time; should one take more than five minutes, set\n"
                           "KOLO_TIMEOUT_MS.\n"
                           "\n"
                           "Exit code: 0 on success; 1 when training failed, the processes' parameters\n"
                           "differ or the losses are not those of one process; 2 when the command line is\n"
                           "wrong.\n"
                           "\n"
                           "examples:\n"
                           "  kolorun -n 4 kolo-train\n"
                           "  kolorun -n 2 kolo-train --data letters.csv --hidden 512 --json result.json\n"
                           "  kolorun -n 4 --on-failure continue kolo-train --on-failure shrink\n"
                           "  kolorun -n 4 --on-failure restart kolo-train --elastic\n"
                           "  KOLO_JOB=digits kolorun -n 2 kolo-train --elastic --epochs 300\n"
                           "  kolo-train --join digits\n"
                           "  mpirun -n 2 kolo-train --no-compare\n";

void train_options_help(FILE *to) {
    fputs(help, to);
}

enum option_code {
    OPTION_DATA = 256, /* from here on as in enum train_setting */
    OPTION_EPOCHS,
    OPTION_STEPS,
    OPTION_BATCH,
    OPTION_HIDDEN,
    OPTION_RATE,
    OPTION_SEED,
    OPTION_NO_COMPARE,
    OPTION_ON_FAILURE,
    OPTION_ELASTIC,
    OPTION_JOIN,
    OPTION_JSON,
    OPTION_QUIET,
    OPTION_HELP,
    OPTION_VERSION
};

_Static_assert(OPTION_SEED - OPTION_DATA == (int)TRAIN_SETTING_SEED, "both have the same order");

static const struct option long_options[] = {
    {"data", required_argument, NULL, OPTION_DATA},
    {"epochs", required_argument, NULL, OPTION_EPOCHS},
    {"steps", required_argument, NULL, OPTION_STEPS},
    {"batch", required_argument, NULL, OPTION_BATCH},
    {"hidden", required_argument, NULL, OPTION_HIDDEN},
    {"rate", required_argument, NULL, OPTION_RATE},
    {"seed", required_argument, NULL, OPTION_SEED},
    {"no-compare", no_argument, NULL, OPTION_NO_COMPARE},
    {"on-failure", required_argument, NULL, OPTION_ON_FAILURE},
    {"elastic", no_argument, NULL, OPTION_ELASTIC},
    {"join", required_argument, NULL, OPTION_JOIN},
    {"json", required_argument, NULL, OPTION_JSON},
    {"quiet", no_argument, NULL, OPTION_QUIET},
    {"help", no_argument, NULL, OPTION_HELP},
    {"version", no_argument, NULL, OPTION_VERSION},
    {NULL, 0, NULL, 0},
};

/* Where a mistake's description goes. */
typedef struct mistake {
    char *reason;
    size_t reason_bytes;
} mistake;

__attribute__((format(printf, 2, 3))) static int wrong(const mistake *to, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(to->reason, to->reason_bytes, format, arguments);
    va_end(arguments);
    return -1;
}

static int read_integer(const char *name, uint64_t min, uint64_t max, uint64_t *value, const mistake *to) {
    char *end;
    errno = 0;
    unsigned long long number = strtoull(optarg, &end, 10);
    if (optarg[0] < '0' || optarg[0] > '9' || *end != '\0' || errno != 0 || number < min || number > max)
        return wrong(to, "--%s '%s' is not an integer from %llu to %llu", name, optarg, (unsigned long long)min,
                     (unsigned long long)max);
    *value = number;
    return 0;
}

static int read_count(const char *name, size_t max, size_t *count, const mistake *to) {
    uint64_t value = 0;
    if (read_integer(name, 1, max, &value, to) < 0)
        return -1;
    *count = (size_t)value;
    return 0;
}

static int read_rate(double *rate, const mistake *to) {
    char *end;
    *rate = strtod(optarg, &end);
    if (end == optarg || *end != '\0' || !isfinite(*rate) || *rate <= 0 || *rate > 100)
        return wrong(to, "--rate '%s' is not a number above 0 and up to 100", optarg);
    return 0;
}

static int read_on_failure(train_on_failure *on_failure, const mistake *to) {
    *on_failure = strcmp(optarg, "shrink") == 0 ? TRAIN_SHRINK : TRAIN_STOP;
    if (*on_failure == TRAIN_SHRINK || strcmp(optarg, "stop") == 0)
        return 0;
    return wrong(to, "--on-failure '%s' is neither stop nor shrink", optarg);
}

static int take_option(train_options *options, int code, const mistake *to) {
    switch (code) {
    case OPTION_DATA:
        options->data_path = optarg;
        return 0;
    case OPTION_EPOCHS:
        return read_count("epochs", 100000, &options->epochs, to);
    case OPTION_STEPS:
        return read_count("steps", 1000000000, &options->steps_max, to);
    case OPTION_BATCH:
        return read_count("batch", 1000000, &options->batch_rows, to);
    case OPTION_HIDDEN:
        return read_count("hidden", 16384, &options->hidden, to);
    case OPTION_RATE:
        return read_rate(&options->rate, to);
    case OPTION_SEED:
        return read_integer("seed", 0, UINT64_MAX, &options->seed, to);
    case OPTION_NO_COMPARE:
        options->compare = 0;
        return 0;
    case OPTION_ON_FAILURE:
        return read_on_failure(&options->on_failure, to);
    case OPTION_ELASTIC:
        options->elastic = 1;
        return 0;
    case OPTION_JOIN:
        options->join_job = optarg;
        return 0;
    case OPTION_JSON:
        options->json_path = optarg;
        return 0;
    default:
        options->quiet = 1;
        return 0;
    }
}

/* What kolorun says of the job, and of a process that takes the place of one that has ended. */
static void read_environment(train_options *options, int *restarted) {
    const char *job = getenv("KOLO_JOB");
    const char *restarts = getenv("KOLO_RESTARTS");
    *restarted = restarts != NULL && strcmp(restarts, "") != 0 && strcmp(restarts, "0") != 0;
    options->job = job != NULL && job[0] != '\0' ? job : NULL;
    options->join_job = *restarted ? options->job : NULL;
}

static int complete(train_options *options, int restarted, const mistake *to) {
    if (options->join_job != NULL && options->join_job[0] == '\0')
        return wrong(to, "--join '' is no name of a training");
    if (restarted && !options->elastic)
        return wrong(to, "kolorun has started this process again; to join the others it needs --elastic");
    if (options->elastic)
        options->on_failure = TRAIN_SHRINK;
    return 0;
}

train_request train_options_parse(train_options *options, int argc, char **argv, char *reason, size_t reason_bytes) {
    const mistake to = {reason, reason_bytes};
    *options = (train_options){
        .epochs = 30, .steps_max = SIZE_MAX, .batch_rows = 256, .hidden = 1024, .rate = 0.1, .seed = 1, .compare = 1};
    int restarted;
    read_environment(options, &restarted);
    opterr = 0; /* the messages are ours, so that one rank can tell them for all */
    int code;
    while ((code = getopt_long(argc, argv, "+:h", long_options, NULL)) != -1) {
        if (code == OPTION_HELP || code == 'h')
            return TRAIN_HELP;
        if (code == OPTION_VERSION)
            return TRAIN_VERSION;
        if (code == ':' || code == '?') {
            option_mistake_describe(reason, reason_bytes, long_options, code, argv);
            return TRAIN_MISTAKE;
        }
        if (take_option(options, code, &to) < 0)
            return TRAIN_MISTAKE;
        if (code - OPTION_DATA < TRAIN_SETTINGS_COMPARED)
            options->given |= UINT64_C(1) << (code - OPTION_DATA);
    }
    if (optind < argc) {
        wrong(&to, "'%s' is not an option", argv[optind]);
        return TRAIN_MISTAKE;
    }
    return complete(options, restarted, &to) < 0 ? TRAIN_MISTAKE : TRAIN_RUN;
}
