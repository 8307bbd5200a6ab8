/* The command line of kolorun. */
#include "launch_options.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "command_line.h"
#include "kolo.h"

#define SECONDS_MAX 1e9
#define USAGE       "kolorun -n N [OPTION]... [--] PROGRAM [ARGUMENT]..."

enum { RESTARTS_MAX = 1000000 };

static struct launch_options options = {.restarts_max = 3, .grace_ms = 500, .signal_grace_ms = 10000};

/* What stands on the line and only means something together with the rest. */
static struct {
    int ranks[KOLO_RANKS_MAX]; /* of each machine, or of all alike */
    int rank_counts;
    int nodes; /* 0: not given */
    int node;  /* -1: not given */
    double timeout_s;
    double grace_s; /* -1: not given */
} typed = {.node = -1, .grace_s = -1};

static const char *bind_name(unsigned mode) {
    static const char *const names[] = {[BIND_AUTO] = "auto", [BIND_CORE] = "core", [BIND_NONE] = "none", NULL};
    return names[mode];
}

static const char *on_failure_name(unsigned mode) {
    static const char *const names[] = {
        [FAILURE_END] = "end", [FAILURE_CONTINUE] = "continue", [FAILURE_RESTART] = "restart", NULL};
    return names[mode];
}

static const char *read_on_failure(const char *word) {
    static const char restart[] = "restart:";
    char *end;
    const long restarts = strncmp(word, restart, sizeof restart - 1) == 0 && word[sizeof restart - 1] >= '0'
                              ? strtol(word + sizeof restart - 1, &end, 10)
                              : 0;
    if (restarts >= 1 && restarts <= RESTARTS_MAX && !*end)
        options.restarts_max = (int)restarts;
    else if (strcmp(word, "end") != 0 && strcmp(word, "continue") != 0 && strcmp(word, "restart") != 0)
        return "end, continue, restart or restart:N, with an N from 1 to 1000000";
    options.on_failure = *word == 'e' ? FAILURE_END : *word == 'c' ? FAILURE_CONTINUE : FAILURE_RESTART;
    return NULL;
}

/* What kolorun itself tells ranks, each its own. */
static bool is_place(const char *name, size_t length) {
    static const char *const names[] = {"KOLO_RANK",       "KOLO_SIZE",   "KOLO_LOCAL_RANK",
                                        "KOLO_LOCAL_SIZE", "KOLO_SHM_FD", "KOLO_RESTARTS"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strlen(names[i]) == length && strncmp(names[i], name, length) == 0)
            return true;
    return false;
}

/* Into kolorun's own environment, which the ranks get. */
static const char *read_export(const char *word) {
    const size_t length = strcspn(word, "=");
    if (length == 0 || (word[length] == '\0' && getenv(word) == NULL))
        return "VAR=VALUE, or a variable that is set";
    if (is_place(word, length))
        return "another variable: kolorun sets this one";
    options.exported[options.exported_count++] = word;
    if (word[length] == '\0')
        return NULL;
    char *name = strndup(word, length);
    const bool is_set = name != NULL && setenv(name, word + length + 1, true) == 0;
    free(name);
    return is_set ? NULL : "less: memory is short";
}

static const command_option table[] = {
    {"-n, -np, --ranks N",
     "number of ranks, 1 to 1024; if the machines have different numbers, one number for each, separated by commas",
     TO_INTEGERS(typed.ranks, typed.rank_counts, 1, KOLO_RANKS_MAX)},
    {"--bind MODE",
     "auto (default): divide the allowed CPUs among the ranks, in whole L3 domains where there are few ranks, a "
     "core each where there are as many ranks as cores; do not bind if there are more ranks than CPUs or than a "
     "quota allows\n"
     "core: one CPU each, a rank per physical core as long as they last\n"
     "none: leave placement to the kernel",
     TO_CHOICE(options.bind, bind_name)},
    {"--report-bindings", "say on standard error which CPUs each rank is bound to, a line a rank",
     TO_FLAG(options.report_bindings)},
    {"-x, --export VAR[=VALUE]",
     "set a variable for all ranks; without =VALUE it must be set for kolorun, on several machines for each one's. May "
     "be given more than once",
     TO_FUNCTION(read_export)},
    {"-wdir, --wdir DIR", "ranks start in DIR, from which also a PROGRAM such as ./train is looked for",
     TO_TEXT(options.work_folder)},
    {"--output DIR",
     "write rank R's standard output to DIR/rank-R.out, and its standard error to DIR/rank-R.err, not here; DIR "
     "is created if need be, files of an earlier job are overwritten",
     TO_TEXT(options.output_folder)},
    {"--tag-output",
     "begin each line of output with [rank]; lines are never mixed, and one longer than 1 MiB is broken",
     TO_FLAG(options.tag_output)},
    {"--trace DIR", "write a trace of what each rank does to files in DIR, for kolo-trace; DIR is created if need be",
     TO_TEXT(options.trace_folder)},
    {"--timeout S", "end the job after S seconds, with exit code 124, and say which rank kept it from going on",
     TO_NUMBER(typed.timeout_s, 0.001, SECONDS_MAX)},
    {"--grace S",
     "after a rank has failed, leave the others S seconds to end by themselves (default 0.5); then comes "
     "SIGTERM, and SIGKILL 0.3 seconds later. After a SIGTERM, SIGHUP or SIGQUIT to kolorun, ranks have S "
     "seconds (default 10) until SIGKILL",
     TO_NUMBER(typed.grace_s, 0, SECONDS_MAX)},
    {"--on-failure MODE",
     "end (default): a rank that fails ends the job\n"
     "continue: the others go on, for programs that call kolo_comm_shrink\n"
     "restart, restart:N: the others go on, and the rank is started again, at most N times (default 3), as long as "
     "others run and none has ended with 0",
     TO_FUNCTION(read_on_failure), .name_of = on_failure_name},
    {"--nnodes M", "the job is on M machines; start kolorun once on each, with the same options but for --node-rank",
     TO_INTEGER(typed.nodes, 1, KOLO_RANKS_MAX)},
    {"--node-rank R", "number of this machine, 0 to M-1; its ranks follow those of the machines before it",
     TO_INTEGER(typed.node, 0, KOLO_RANKS_MAX - 1)},
    {"--rendezvous HOST:PORT",
     "an address of machine 0 and a free port there, to which all machines connect (default: KOLO_RENDEZVOUS)",
     TO_TEXT(options.rendezvous)},
};

static command_line line = {
    .program = "kolorun",
    .before = "Usage: " USAGE "\n"
              "Runs N copies of PROGRAM on this machine, as the ranks of one kolo job.",
    .options = table,
    .options_count = sizeof table / sizeof *table,
    .arguments_max = INT_MAX,
    .runs_program = true,
    .mistake_status = EXIT_LAUNCHER,
    .after =
        "Environment of the ranks: KOLO_RANK, KOLO_SIZE, KOLO_LOCAL_RANK and KOLO_LOCAL_SIZE tell each rank its "
        "place. KOLO_SHM_FD is the number of an inherited descriptor, the job's shared memory; nothing gets a name "
        "in /dev/shm. KOLO_LOG becomes warn and, in a job on one machine, KOLO_JOB becomes a name of its own, unless "
        "they are set; the name that a kolorun around this one has made does not count. KOLO_RESTARTS says how often a "
        "rank has been started again; such a rank is not part of the others' "
        "communicator, and the program has to make it join them (see kolo-train --elastic). Rank 0 reads "
        "kolorun's standard input, the others /dev/null.\n"
        "\n"
        "Signals: SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGTSTP and SIGCONT sent to kolorun go on to "
        "all ranks. The ranks stay in kolorun's process group, so the terminal's Ctrl-C, Ctrl-\\ and Ctrl-Z reach "
        "them directly, and once. A signal that asks the job to end also continues ranks that are stopped. The "
        "program of a shell script that such a signal ends gets it, too. A second Ctrl-C within 3 seconds, or a "
        "second SIGTERM after at least a second, ends the ranks at once: SIGTERM, then SIGKILL. A SIGHUP that is "
        "ignored, as nohup does, stays so. If kolorun is killed, the ranks are killed too, but not what they have "
        "started.\n"
        "\n"
        "Several jobs: CPUs to which the ranks of other jobs are bound are left to them, as long as there is room "
        "for the ranks elsewhere. To fix a job's CPUs, start it with taskset, as below.\n"
        "\n"
        "Several machines: the ranks must share a secret, which no command line shows. KOLO_SECRET_FILE names a "
        "file with it, of mode 0600, on each machine:\n"
        "  (umask 077; head -c 32 /dev/urandom | base64 > FILE)\n"
        "A kolorun whose rank fails ends its own ranks; those elsewhere notice within a second.\n"
        "\n"
        "Exit code: 0 if every rank ended with 0 (with --on-failure continue or restart: if any did); else that of "
        "the first rank that failed, 128 + S if signal S killed it.\n"
        "124: timeout. 125: kolorun itself failed. 126: PROGRAM cannot be run.\n"
        "127: PROGRAM was not found. 130: interrupted. 143: terminated.\n"
        "\n"
        "On a terminal messages and tags are coloured, unless NO_COLOR is set.\n"
        "\n"
        "Examples:\n"
        "  kolorun -n 4 kolo-perf allreduce --max 64M\n"
        "  kolorun -n 4 --trace t ./train; kolo-trace t\n"
        "  kolorun -n 8 --output logs --timeout 600 ./train --epochs 10\n"
        "  kolorun -n 2 -x OMP_NUM_THREADS=4 --wdir run1 ../train\n"
        "  kolorun -n 4 --on-failure continue kolo-train --on-failure shrink\n"
        "  kolorun -n 4 --on-failure restart kolo-train --elastic\n"
        "  taskset -c 4-7 kolorun -n 4 ./train\n"
        "  # 4 ranks here and 8 on another machine, where it says --node-rank 1:\n"
        "  export KOLO_SECRET_FILE=~/secret\n"
        "  kolorun --nnodes 2 --node-rank 0 --rendezvous 10.0.0.1:29500 -n 4,8 ./train",
};

/* How many ranks each machine has, and which are this one's. */
static void count_ranks(int nodes, int node) {
    if (typed.rank_counts != 1 && typed.rank_counts != nodes)
        command_line_refuse(&line, "-n has %d numbers for %d machine%s", typed.rank_counts, nodes,
                            nodes == 1 ? "" : "s");
    for (int i = 0; i < nodes; i++) {
        const int ranks = typed.ranks[typed.rank_counts == 1 ? 0 : i];
        options.first_rank += i < node ? ranks : 0;
        options.ranks = i == node ? ranks : options.ranks;
        options.size += ranks;
    }
    if (options.size > KOLO_RANKS_MAX)
        command_line_refuse(&line, "-n on %d machines makes more than %d ranks", nodes, KOLO_RANKS_MAX);
}

/* What belongs together: machines, which of them this is, how many ranks they have, and where they meet. */
static void place_ranks(void) {
    const char *rendezvous = getenv("KOLO_RENDEZVOUS");
    const bool one_node = typed.nodes == 0;
    if (one_node && (typed.node >= 0 || options.rendezvous != NULL))
        command_line_refuse(&line, "%s is for jobs on several machines: add --nnodes M",
                            typed.node >= 0 ? "--node-rank" : "--rendezvous");
    if (!one_node && (typed.node < 0 || typed.node >= typed.nodes))
        command_line_refuse(&line, "--nnodes %d needs a --node-rank from 0 to %d", typed.nodes, typed.nodes - 1);
    if (one_node && rendezvous != NULL && *rendezvous != '\0') /* each machine's ranks would train apart */
        command_line_refuse(&line, "KOLO_RENDEZVOUS is set, so this is one of several machines: give\n"
                                   "         --nnodes M --node-rank R too; or else unset KOLO_RENDEZVOUS");
    if (typed.rank_counts == 0)
        command_line_refuse(&line, "the number of ranks is missing: -n N");
    count_ranks(one_node ? 1 : typed.nodes, one_node ? 0 : typed.node);
    if (options.rendezvous == NULL && rendezvous != NULL)
        options.rendezvous = strdup(rendezvous); /* launch_segment_create takes the variable away */
    if (typed.nodes <= 1)
        options.rendezvous = NULL;
    else if (options.rendezvous == NULL || strchr(options.rendezvous, ':') == NULL)
        command_line_refuse(&line, "--nnodes %d needs --rendezvous HOST:PORT, where machine 0 is reached", typed.nodes);
}

const struct launch_options *launch_options_read(int argc, char **argv) {
    options.exported = calloc((size_t)argc, sizeof *options.exported);
    if (options.exported == NULL)
        command_line_refuse(&line, "memory is short");
    options.command = command_line_read(&line, argc, argv);
    if (*options.command == NULL)
        command_line_refuse(&line, "there is no program to run\nusage: " USAGE);
    if (options.output_folder != NULL && options.tag_output)
        command_line_refuse(&line,
                            "--output and --tag-output: the files tell the ranks apart already; use one of the two");
    options.timeout_ms = (int64_t)(typed.timeout_s * 1000 + 0.5);
    if (typed.grace_s >= 0)
        options.grace_ms = options.signal_grace_ms = (int64_t)(typed.grace_s * 1000 + 0.5);
    place_ranks();
    return &options;
}
