/* The command line: parsing, checking, --help.
 */
#include "launch_options.h"

#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kolo.h"

#define GRACE_MS_DEFAULT        500
#define SIGNAL_GRACE_MS_DEFAULT 10000
#define SECONDS_MAX             1e9
#define RESTARTS_DEFAULT        3
#define RESTARTS_MAX            1000000

static const char help_text[] =
    "Usage: kolorun -n N [OPTION]... [--] PROGRAM [ARGUMENT]...\n"
    "Runs N copies of PROGRAM on this machine, as the ranks of one kolo job.\n"
    "\n"
    "  -n, --ranks N         number of ranks, 1 to %d; of each machine, with commas between, where they differ\n"
    "      --bind MODE       auto (default): divide the allowed CPUs among the ranks,\n"
    "                        in whole L3 domains where there are few ranks, and a\n"
    "                        core each where there are as many ranks as cores;\n"
    "                        not bound where there are more ranks than CPUs;\n"
    "                        core: one CPU each, a rank per physical core as long\n"
    "                        as they last;\n"
    "                        none: leave placement to the kernel\n"
    "      --tag-output      begin each line of output with [rank]; lines are never mixed, and one longer than\n"
    "                        1 MiB is broken\n"
    "      --on-failure MODE end (default): a rank that fails ends the job; continue: the others go on, as\n"
    "                        programs that call kolo_comm_shrink want it; restart, or restart:N: the others go on,\n"
    "                        and the rank is started again, at most N times (default %d), as long as others run\n"
    "                        and none has ended well\n"
    "      --timeout S       end the job after S seconds, with exit code 124\n"
    "      --grace S         after a rank has failed, leave the others S seconds to end\n"
    "                        by themselves (default 0.5); then comes SIGTERM, and\n"
    "                        SIGKILL 0.3 seconds later. Also: kill the ranks that have\n"
    "                        not ended S seconds (default 10) after a SIGTERM, SIGHUP or\n"
    "                        SIGQUIT to kolorun\n"
    "      --nnodes M        the job is on M machines; kolorun is started once on each, with the same options but\n"
    "                        for --node-rank\n"
    "      --node-rank R     which of them this is, 0 to M-1: its ranks follow those of the machines before it\n"
    "      --rendezvous HOST:PORT\n"
    "                        an address of machine 0, and a free port there, where all meet (default: "
    "KOLO_RENDEZVOUS)\n"
    "  -h, --help            print this and exit\n"
    "      --version         print the version and exit\n"
    "\n"
    "Each rank finds its place in KOLO_RANK, KOLO_SIZE, KOLO_LOCAL_RANK and KOLO_LOCAL_SIZE, and the job's shared\n"
    "memory as an inherited descriptor whose number is in KOLO_SHM_FD; nothing gets a name in /dev/shm. KOLO_JOB, if\n"
    "it is not set, becomes a name of the job's own. Rank 0 reads kolorun's standard input, the others /dev/null.\n"
    "KOLO_RESTARTS says how often a rank has been started again. One that has been is not part of the others'\n"
    "communicator; how it joins them is the program's business: see kolo-train --elastic.\n"
    "\n"
    "SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGTSTP and SIGCONT sent to kolorun go on to all ranks.\n"
    "The ranks stay in kolorun's process group, so the terminal's Ctrl-C, Ctrl-\\ and Ctrl-Z reach them directly\n"
    "and once. If kolorun is killed, the ranks are killed too.\n"
    "A signal that asks the job to end also continues (SIGCONT) ranks that are stopped. A second Ctrl-C within\n"
    "3 seconds, or a second SIGTERM, ends the ranks at once: SIGTERM, then SIGKILL.\n"
    "\n"
    "On several machines the ranks must share a secret, which no command line shows: KOLO_SECRET_FILE names a file\n"
    "with it, of mode 0600, on each machine (head -c 32 /dev/urandom | base64 > FILE). A kolorun whose rank fails\n"
    "ends its own ranks; those elsewhere notice within a second.\n"
    "\n"
    "Jobs side by side: CPUs to which other jobs' ranks are bound are left to them,\n"
    "as long as there is room for the ranks elsewhere. To fix a job's CPUs, start it\n"
    "with taskset, as below.\n"
    "\n"
    "Exit code: 0 if every rank ended with 0; else that of the first rank that failed, 128 + S if signal S killed\n"
    "it. With --on-failure continue or restart 0 if any rank ended with 0. 124: timeout. 125: kolorun itself failed.\n"
    "126: PROGRAM cannot be run. 127: PROGRAM was not found.\n"
    "\n"
    "Examples:\n"
    "  kolorun -n 4 kolo-perf allreduce --max 64M\n"
    "  kolorun -n 8 --tag-output --timeout 600 ./train --epochs 10\n"
    "  kolorun -n 4 --on-failure continue kolo-train --on-failure shrink\n"
    "  kolorun -n 4 --on-failure restart kolo-train --elastic\n"
    "  taskset -c 4-7 kolorun -n 4 ./train\n"
    "  export KOLO_SECRET_FILE=~/secret       # 4 ranks here and 8 on another machine; there: --node-rank 1\n"
    "  kolorun --nnodes 2 --node-rank 0 --rendezvous 10.0.0.1:29500 -n 4,8 ./train\n";

static void complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void complain(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fputs("kolorun: ", stderr);
    vfprintf(stderr, format, arguments);
    fputs("; see 'kolorun --help'\n", stderr);
    va_end(arguments);
}

/* A number from low to high, at whose end *end points; -1 where there is none. */
static int parse_number(const char *text, int low, int high, const char **end) {
    char *rest;
    errno = 0;
    long value = strtol(text, &rest, 10);
    *end = rest;
    return errno == 0 && rest != text && value >= low && value <= high ? (int)value : -1;
}

static bool parse_machine(const char *option, const char *text, int low, int high, int *value) {
    const char *end;
    *value = parse_number(text, low, high, &end);
    if (*value >= 0 && *end == '\0')
        return true;
    complain("%s '%s' is not a number from %d to %d", option, text, low, high);
    return false;
}

/* Ranks of each machine, or one number for all of them. */
static bool parse_ranks(struct launch_options *options, const char *text, int nodes, int node) {
    int count = 0, value = 0;
    for (const char *at = text;; at++) {
        value = parse_number(at, 1, KOLO_RANKS_MAX, &at);
        if (value < 0 || (*at != '\0' && (*at != ',' || nodes == 1))) {
            complain("-n '%s' is not a number from 1 to %d%s", text, KOLO_RANKS_MAX,
                     nodes > 1 ? ", nor a list of them" : "");
            return false;
        }
        if (count < node)
            options->first_rank += value;
        if (count == node)
            options->ranks = value;
        options->size += options->size <= KOLO_RANKS_MAX ? value : 0;
        count++;
        if (*at == '\0')
            break;
    }
    if (count == 1) {
        options->ranks = value;
        options->first_rank = node * value;
        options->size = nodes * value;
    } else if (count != nodes) {
        complain("-n '%s' has %d numbers for %d machines", text, count, nodes);
        return false;
    }
    if (options->size <= KOLO_RANKS_MAX)
        return true;
    complain("-n '%s' on %d machines makes more than %d ranks", text, nodes, KOLO_RANKS_MAX);
    return false;
}

/* What belongs together: machines, which of them this is, how many ranks they have, and where they meet. */
static bool place_ranks(struct launch_options *options, const char *ranks, int nodes, int node) {
    if (nodes == 0 && (node >= 0 || options->rendezvous != NULL)) {
        complain("%s is for jobs on several machines: add --nnodes M", node >= 0 ? "--node-rank" : "--rendezvous");
        return false;
    }
    if (nodes > 0 && (node < 0 || node >= nodes)) {
        complain("--nnodes %d needs a --node-rank from 0 to %d", nodes, nodes - 1);
        return false;
    }
    if (ranks == NULL) {
        complain("the number of ranks is missing: -n N");
        return false;
    }
    if (!parse_ranks(options, ranks, nodes > 0 ? nodes : 1, nodes > 0 ? node : 0))
        return false;
    if (nodes > 1 && options->rendezvous == NULL)
        options->rendezvous = getenv("KOLO_RENDEZVOUS");
    if (nodes > 1 && (options->rendezvous == NULL || strchr(options->rendezvous, ':') == NULL)) {
        complain("--nnodes %d needs --rendezvous HOST:PORT, where machine 0 is reached", nodes);
        return false;
    }
    if (nodes <= 1)
        options->rendezvous = NULL;
    return true;
}

static bool parse_bind(const char *text, enum bind_mode *bind) {
    static const char *const names[] = {[BIND_AUTO] = "auto", [BIND_CORE] = "core", [BIND_NONE] = "none"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(text, names[i]) == 0) {
            *bind = (enum bind_mode)i;
            return true;
        }
    complain("--bind '%s' is none of core, none, auto", text);
    return false;
}

/* What follows "restart": nothing, or a colon and a number. */
static bool parse_restarts(const char *text, int *restarts_max) {
    char *end = NULL;
    *restarts_max = RESTARTS_DEFAULT;
    if (*text == '\0')
        return true;
    long value = *text == ':' && text[1] >= '0' && text[1] <= '9' ? strtol(text + 1, &end, 10) : 0;
    *restarts_max = (int)value;
    return value >= 1 && value <= RESTARTS_MAX && *end == '\0';
}

static bool parse_on_failure(const char *text, struct launch_options *options) {
    static const char restart[] = "restart";
    const size_t restart_length = sizeof restart - 1;
    if (strcmp(text, "end") == 0)
        options->on_failure = FAILURE_END;
    else if (strcmp(text, "continue") == 0)
        options->on_failure = FAILURE_CONTINUE;
    else if (strncmp(text, restart, restart_length) == 0 &&
             parse_restarts(text + restart_length, &options->restarts_max))
        options->on_failure = FAILURE_RESTART;
    else {
        complain("--on-failure '%s' is none of end, continue, restart, restart:N", text);
        return false;
    }
    return true;
}

/* Seconds with an optional fraction, kept in milliseconds. */
static bool parse_seconds(const char *option, const char *text, double seconds_min, int64_t *ms) {
    char *end = NULL;
    double seconds = -1;
    if (*text != '\0' && strspn(text, "0123456789.") == strlen(text))
        seconds = strtod(text, &end);
    if (end == NULL || *end != '\0' || !(seconds >= seconds_min && seconds <= SECONDS_MAX)) {
        complain("%s '%s' is not a number of seconds from %g to %.0f", option, text, seconds_min, SECONDS_MAX);
        return false;
    }
    *ms = (int64_t)(seconds * 1000 + 0.5);
    return true;
}

enum {
    OPTION_BIND = 256,
    OPTION_TAG_OUTPUT,
    OPTION_ON_FAILURE,
    OPTION_TIMEOUT,
    OPTION_GRACE,
    OPTION_NNODES,
    OPTION_NODE_RANK,
    OPTION_RENDEZVOUS,
    OPTION_VERSION
};

static const struct option long_options[] = {
    {"ranks", required_argument, NULL, 'n'},
    {"bind", required_argument, NULL, OPTION_BIND},
    {"tag-output", no_argument, NULL, OPTION_TAG_OUTPUT},
    {"on-failure", required_argument, NULL, OPTION_ON_FAILURE},
    {"timeout", required_argument, NULL, OPTION_TIMEOUT},
    {"grace", required_argument, NULL, OPTION_GRACE},
    {"nnodes", required_argument, NULL, OPTION_NNODES},
    {"node-rank", required_argument, NULL, OPTION_NODE_RANK},
    {"rendezvous", required_argument, NULL, OPTION_RENDEZVOUS},
    {"help", no_argument, NULL, 'h'},
    {"version", no_argument, NULL, OPTION_VERSION},
    {NULL, 0, NULL, 0},
};

static bool print_and_exit(int option, int *exit_code) {
    if (option == 'h')
        printf(help_text, KOLO_RANKS_MAX, RESTARTS_DEFAULT);
    else
        printf("kolorun %d.%d.%d\n", KOLO_VERSION_MAJOR, KOLO_VERSION_MINOR, KOLO_VERSION_PATCH);
    *exit_code = fflush(stdout) == 0 ? 0 : EXIT_LAUNCHER;
    return false;
}

/* getopt names an unknown letter, but no unknown long option: that is the last word it took. */
static void complain_of_option(const char *word) {
    if (strncmp(word, "--", 2) != 0 && optopt > 0 && optopt < OPTION_BIND)
        complain("option '-%c' is unknown", optopt);
    else
        complain("option '%s' is unknown or ambiguous, or takes no value", word);
}

/* What stands on the line and only means something together with the rest. */
struct line {
    const char *ranks;
    int nodes; /* 0: not given */
    int node;  /* -1: not given */
};

static bool take_option(struct launch_options *options, struct line *line, int option, const char *value) {
    switch (option) {
    case 'n':
        line->ranks = value;
        return true;
    case OPTION_BIND:
        return parse_bind(value, &options->bind);
    case OPTION_TAG_OUTPUT:
        options->tag_output = true;
        return true;
    case OPTION_ON_FAILURE:
        return parse_on_failure(value, options);
    case OPTION_TIMEOUT:
        return parse_seconds("--timeout", value, 0.001, &options->timeout_ms);
    case OPTION_GRACE:
        if (!parse_seconds("--grace", value, 0, &options->grace_ms))
            return false;
        options->signal_grace_ms = options->grace_ms;
        return true;
    case OPTION_NNODES:
        return parse_machine("--nnodes", value, 1, KOLO_RANKS_MAX, &line->nodes);
    case OPTION_NODE_RANK:
        return parse_machine("--node-rank", value, 0, KOLO_RANKS_MAX - 1, &line->node);
    default:
        options->rendezvous = value;
        return true;
    }
}

bool launch_options_parse(struct launch_options *options, int argc, char **argv, int *exit_code) {
    *options = (struct launch_options){
        .bind = BIND_AUTO, .grace_ms = GRACE_MS_DEFAULT, .signal_grace_ms = SIGNAL_GRACE_MS_DEFAULT};
    *exit_code = EXIT_LAUNCHER;
    struct line line = {.node = -1};
    int option;
    opterr = 0;
    /* '+': the first word that is no option is the program, and what follows is its own. */
    while ((option = getopt_long(argc, argv, "+:n:h", long_options, NULL)) != -1) {
        if (option == 'h' || option == OPTION_VERSION)
            return print_and_exit(option, exit_code);
        if (option == ':' || option == '?') {
            if (option == ':')
                complain("option '%s' needs a value", argv[optind - 1]);
            else
                complain_of_option(argv[optind - 1]);
            return false;
        }
        if (!take_option(options, &line, option, optarg))
            return false;
    }
    if (!place_ranks(options, line.ranks, line.nodes, line.node))
        return false;
    if (optind >= argc) {
        complain("the program to run is missing");
        return false;
    }
    options->command = argv + optind;
    return true;
}
