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
#include "launch_help.h"
#include "messages.h"
#include "option_mistake.h"

#define GRACE_MS_DEFAULT        500
#define SIGNAL_GRACE_MS_DEFAULT 10000
#define SECONDS_MAX             1e9
#define RESTARTS_DEFAULT        3
#define RESTARTS_MAX            1000000

static void complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Prints what is wrong; where more is to be read stands on the same line if it fits. */
static void complain(const char *format, ...) {
    static const char prefix[] = "kolorun: ", more[] = "; see 'kolorun --help'";
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    const int length = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    const bool fits = length >= 0 && strlen(prefix) + (size_t)length + strlen(more) <= MESSAGE_COLUMNS;
    message_print("%s%s", text, fits ? more : "");
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

/* Without --nnodes, each machine's ranks would be a job of their own, and train apart. */
static bool meets_elsewhere(void) {
    const char *rendezvous = getenv("KOLO_RENDEZVOUS");
    return rendezvous != NULL && *rendezvous != '\0';
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
    if (nodes == 0 && meets_elsewhere()) {
        complain("KOLO_RENDEZVOUS is set, so this is one of several machines: give");
        fputs("         --nnodes M --node-rank R too; or else unset KOLO_RENDEZVOUS\n", stderr);
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
    OPTION_OUTPUT,
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
    {"np", required_argument, NULL, 'n'},
    {"bind", required_argument, NULL, OPTION_BIND},
    {"output", required_argument, NULL, OPTION_OUTPUT},
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
        printf(launch_help, KOLO_RANKS_MAX, RESTARTS_DEFAULT);
    else
        printf("kolorun %d.%d.%d\n", KOLO_VERSION_MAJOR, KOLO_VERSION_MINOR, KOLO_VERSION_PATCH);
    *exit_code = fflush(stdout) == 0 ? 0 : EXIT_LAUNCHER;
    return false;
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
    case OPTION_OUTPUT:
        options->output_folder = value;
        return true;
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
            char mistake[256];
            option_mistake_describe(mistake, sizeof mistake, long_options, option, argv);
            complain("%s", mistake);
            return false;
        }
        if (option == 'n' && strcmp(argv[optind - 1], "-np") == 0) { /* as mpirun has it */
            if (argv[optind] == NULL) {
                complain("option '-np' needs a value");
                return false;
            }
            optarg = argv[optind++];
        }
        if (!take_option(options, &line, option, optarg))
            return false;
    }
    if (optind >= argc) {
        complain("there is no program to run");
        fputs("usage: " LAUNCH_USAGE "\n", stderr);
        return false;
    }
    options->command = argv + optind;
    if (options->output_folder != NULL && options->tag_output) {
        complain("--output and --tag-output: the files tell the ranks apart, use one of them");
        return false;
    }
    return place_ranks(options, line.ranks, line.nodes, line.node);
}
