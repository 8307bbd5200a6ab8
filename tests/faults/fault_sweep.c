/* The sweep: every point of the protocol (sync/point.h) x every rank that passes it x every kind of end, for every
 * algorithm. See fault_verdict.c for what must then be true, fault_cases.c for the cases.
 *
 * First each case runs undisturbed, which tells the points that each rank passes, and how often; together they must
 * pass every point that the library has, but those of tables, for which table_faults is there. Then come the trials: at
 * the first, the middle and the last passage of a point the rank kills, stops or ends itself. By default it is a
 * sample, drawn with the seed: each point once with SIGKILL, of those that only several nodes have a fifth, since their
 * trials take long; then any. How often a rank passes a point of a wait is for the scheduler to say: where a trial
 * finds fewer passages than the listing it is made again with half as many, and the first passage must come in the
 * cases that see to it. */
#include <getopt.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fault_board.h"
#include "fault_cases.h"
#include "fault_run.h"
#include "fault_nodes.h"
#include "fault_team.h"
#include "fault_verdict.h"
#include "number_option.h"
#include "splitmix64.h"

enum {
    RUNS_DEFAULT = 200,
    NETWORK_SHARE = 5, /* a sample tries one of so many points of the network */
    FIRST_PASSAGE_TRIES = 5,
    REPORTS_MAX = 20,
    REPEATS_MAX = 3,
    HELD_NS = 50000000,
    PASSAGES = 3
};

/* Of 100 trials of a sample that follow those which cover the points. Who is stopped is waited for to the deadline. */
static const int shares[ACTIONS] = {[ACTION_KILL] = 70, [ACTION_STOP] = 8, [ACTION_EXIT_0] = 12, [ACTION_EXIT_3] = 10};

static struct {
    const char *case_name; /* NULL: all, as the next three */
    const char *point_name;
    int rank; /* -1: all */
    int action;
    uint64_t passage; /* 0: first, middle and last */
    uint64_t seed;
    size_t runs;
    bool all;
    bool list;
} options = {.rank = -1, .action = -1, .runs = RUNS_DEFAULT};

static struct {
    uint64_t passages;
    size_t trials, runs, failures;
    size_t fewer;    /* runs in which the victim came to its point less often than listed */
    size_t repeated; /* trials, since ranks had been held up or late */
    size_t missed;   /* trials that came to nothing for that, by chance */
    struct times noticed[ACTIONS];
    struct times own; /* of those killed, without what the machine took */
    struct times recovered;
    struct times past;
    struct times noticed_by_nodes[ACTIONS];
    struct times recovered_by_nodes;
    struct times waited_by_nodes;
} report;

static struct listing *listings; /* [fault_cases_count] */
static struct trial *trials;
static size_t trials_capacity;

/* What there is to try. */

static void add_trial(int index, struct fault fault) {
    if (report.trials == trials_capacity) {
        trials_capacity = trials_capacity ? 2 * trials_capacity : 4096;
        trials = realloc(trials, trials_capacity * sizeof *trials);
        if (!trials)
            abort();
    }
    trials[report.trials++] = (struct trial){.what = &fault_cases[index], .fault = fault, .listing = &listings[index]};
}

static void add_passages(int index, int rank, int point) {
    const uint64_t count = listings[index].passages[rank][point];
    const uint64_t passages[PASSAGES] = {1, (count + 1) / 2, count};
    for (int i = 0; i < PASSAGES; i++) {
        const uint64_t passage = options.passage ? options.passage : passages[i];
        if (i > 0 && (options.passage || passage == passages[i - 1]))
            continue;
        for (int action = 0; action < ACTIONS; action++)
            if (options.action < 0 || options.action == action)
                add_trial(index, (struct fault){true, rank, point, passage, (enum action)action});
    }
}

/* By name, or by the beginning of some, with a *. */
static bool is_wanted(const char *wanted, const char *name) {
    const size_t length = wanted ? strlen(wanted) : 0;
    if (length && wanted[length - 1] == '*')
        return strncmp(wanted, name, length - 1) == 0;
    return !wanted || strcmp(wanted, name) == 0;
}

/* False for the points of what this machine refuses, and of tables. */
static bool is_possible(int point) {
    return !board_is_of_tables(point) && (strncmp(board_point_name(point), "uring.", 6) != 0 || nodes_have_uring());
}

static void list_case(int index) {
    const struct fault_case *what = &fault_cases[index];
    run_listing(what, &listings[index]);
    for (int rank = 0; rank < what->ranks; rank++) {
        for (int point = 0; point < board_points(); point++) {
            const uint64_t passages = listings[index].passages[rank][point];
            if (passages == 0)
                continue;
            report.passages += passages;
            if (options.list)
                printf("%-26s rank %d  %-24s %6" PRIu64 "\n", what->name, rank, board_point_name(point), passages);
            if ((options.rank < 0 || options.rank == rank) && is_wanted(options.point_name, board_point_name(point)))
                add_passages(index, rank, point);
        }
    }
}

/* Every point of the library must be passed in some case. */
static void expect_all_points(void) {
    for (int point = 0; point < board_points(); point++) {
        bool is_passed = false;
        for (int index = 0; index < fault_cases_count; index++)
            for (int rank = 0; rank < fault_cases[index].ranks; rank++)
                is_passed |= listings[index].passages[rank][point] > 0;
        if (is_passed || !is_possible(point))
            continue;
        printf("FAILED: no case passes %s\n", board_point_name(point));
        report.failures++;
    }
}

/* One trial. */

static void tell_failure(const struct trial *trial, const char *what) {
    const struct fault *fault = &trial->fault;
    if (report.failures++ >= REPORTS_MAX)
        return;
    printf("FAILED: case %s, rank %d, %s at passage %" PRIu64 " of %s: %s\n"
           "    repeat: fault_sweep --case %s --rank %d --action %s --point %s --passage %" PRIu64 "\n",
           trial->what->name, fault->rank, board_action_name(fault->action), fault->passage,
           board_point_name(fault->point), what, trial->what->name, fault->rank, board_action_name(fault->action),
           board_point_name(fault->point), fault->passage);
    fflush(stdout);
}

static bool begins_with(const char *name, const char *const *beginnings) {
    while (*beginnings && strncmp(name, *beginnings, strlen(*beginnings)) != 0)
        beginnings++;
    return *beginnings != NULL;
}

/* Points that a rank comes to by chance in other cases than this one. */
static const struct {
    const char *point, *case_name;
} chances[] = {{"job.sleeping", "create-given-up"},
               {"job.woken", "create-given-up"},
               {"watchdog.taking", "create-given-up"},
               {"watchdog.taken", "create-given-up"},
               {"watchdog.looked", "watchdog-11"},
               {"liveness.opening", "create-*"},
               {"liveness.opened", "create-*"},
               {"request.awaiting", "progress-late-2"},
               {"request.awaited", "progress-late-2"},
               {"progress.sleeping", "progress-late-2"},
               {"shrink.waiting", "shrink-late-3"},
               {"shrink.aborting", "shrink-second-3"},
               {"shrink.aborted", "shrink-second-3"},
               {"shrink.looking", "shrink-second-3"},
               {"derive.looking", "split-late-3"},
               {"segment.marking_dead", "shrink-death-3"},
               {"segment.discounting", "shrink-death-3"},
               {"segment.marked_dead", "shrink-death-3"},
               {"assembly.failing", "nodes-create-second"},
               {"assembly.failed", "nodes-create-second"},
               {"connect.pausing", "nodes-create-awaited"},
               {"proxy.giving_up", "nodes-second-3x1"},
               {"proxy.hearing", "nodes-second-2x2"},
               {"proxy.heard", "nodes-second-2x2"},
               {"failure.relaying", "nodes-second-2x2"},
               {"failure.relayed", "nodes-second-2x2"},
               {"proxy.ended", "nodes-second-3x1"},
               {"proxy.telling", "nodes-abort-2x2"},
               {"proxy.told", "nodes-abort-2x2"},
               {"proxy.stopping_data", "nodes-second-2x2"},
               {"engine.stopping_data", "nodes-shrink-2x2"}, /* who aborts is the first to stop its data */
               {"engine.data_stopped", "nodes-second-2x2"},
               {"proxy.ticked", "nodes-beats-3x1"},
               {"engine.waiting", "nodes-beats-3x1"},
               {"engine.waited", "nodes-beats-3x1"},
               {"engine.beating", "nodes-beats-3x1"},
               {"uring.waiting", "nodes-beats-3x1"},
               {"exchange.announcing", "nodes-beats-3x1"},
               {"engine.header_read", "nodes-mesh-*"}, /* a root only sends, but for heartbeats, or only receives */
               {"engine.received", "nodes-mesh-*"},
               {"engine.sending", "nodes-mesh-*"},
               {"engine.sent", "nodes-mesh-*"},
               {"poll.sending", "nodes-mesh-2x2"},
               {"poll.sent", "nodes-mesh-2x2"},
               {"engine.ended", "nodes-destroy-2x2"},
               {"engine.closed", "nodes-destroy-3x1"},
               {"engine.input_ended", "nodes-destroy-3x1"},
               {"engine.waking", "nodes-channels-3x1-many"},
               {"relay.ending", "nodes-second-3x1"}};

/* Whether the case makes sure that its victims come to that point: waits get long, so that they look who lives, and
 * sleepers are there to be woken, by design in few cases, but by chance in any. */
static bool is_assured(const struct trial *trial) {
    static const char *const meeting[] = {"assembly.", "listener.", "connect.", "proxy.start", "engine.added", NULL};
    static const char *const rejoin[] = {
        "agreement.", "shrink.agreed", "listener.reopened", "connect.hello", "guard.drop", "engine.stopping_data",
        NULL};
    static const char *const network[] = {
        "proxy.",      "engine.",         "poll.",        "uring.", "exchange.",     "hierarchy.",    "failure.rela",
        "rendezvous.", "split.listening", "split.placed", "relay.", "transfer.tell", "transfer.told", NULL};
    const char *name = board_point_name(trial->fault.point);
    const enum twist twist = trial->what->twist;
    const enum phase phase = trial->what->phase;
    if (trial->what->nodes && !begins_with(name, phase == PHASE_CREATE   ? meeting
                                                 : phase == PHASE_SHRINK ? rejoin
                                                                         : network))
        return false;
    if (phase == PHASE_GROW && strncmp(name, "failure.", 8) == 0) /* one of the members aborts, any of them */
        return false;
    if (trial->what->has_thread && twist == TWIST_ABORTS && /* the abort may come before the thread */
        strncmp(name, "request.carr", 12) == 0)
        return false;
    if (strcmp(name, "job.nameless") == 0 || strcmp(name, "job.pausing") == 0)
        return twist == TWIST_AWAITED;
    if (strncmp(name, "transfer.awaiting", 17) == 0 || strcmp(name, "transfer.listening") == 0 ||
        strcmp(name, "transfer.counting") == 0) /* elsewhere others are late by chance */
        return twist == TWIST_LATE;
    if (strcmp(name, "wait.spinning") == 0)
        return twist == TWIST_LATE;
    if (strcmp(name, "wait.yielding") == 0)
        return twist == TWIST_LATE && !trial->what->sleeps;
    if (strncmp(name, "wait.", 5) == 0 || strcmp(name, "liveness.polling") == 0)
        return twist == TWIST_LATE && trial->what->sleeps;
    for (size_t i = 0; i < sizeof chances / sizeof *chances; i++)
        if (strcmp(name, chances[i].point) == 0)
            return is_wanted(chances[i].case_name, trial->what->name);
    if (strncmp(name, "relay.", 6) == 0) /* with fewer messages some nodes only answer */
        return is_wanted("nodes-channels-3x1-many", trial->what->name);
    return strncmp(name, "bell.", 5) != 0 || twist == TWIST_RINGS;
}

/* Makes the trial, until the victim comes to its point. */
static void try_until_reached(struct trial *trial, struct run *run) {
    int tries_left = is_assured(trial) ? FIRST_PASSAGE_TRIES : 1;
    bool is_reached;
    do {
        tries_left -= trial->fault.passage == 1;
        report.runs++;
        is_reached = run_trial(trial, run);
        report.fewer += !is_reached;
        if (!is_reached && trial->fault.passage > 1)
            trial->fault.passage /= 2;
        else if (!is_reached && tries_left == 0 && is_assured(trial))
            verdict_complain(run, "it never came there");
        else if (!is_reached && tries_left == 0)
            report.missed++;
    } while (!is_reached && tries_left > 0);
}

static void note_times(const struct run *run) {
    const bool has_nodes = run->trial->what->nodes > 0;
    if (run->waited_ns >= 0)
        times_add(&report.waited_by_nodes, run->waited_ns);
    if (has_nodes && run->noticed_ns >= 0)
        times_add(&report.noticed_by_nodes[run->trial->fault.action], run->noticed_ns);
    if (has_nodes && run->recovered_ns >= 0)
        times_add(&report.recovered_by_nodes, run->recovered_ns);
    if (has_nodes)
        return;
    if (run->noticed_ns >= 0)
        times_add(&report.noticed[run->trial->fault.action], run->noticed_ns);
    if (run->noticed_ns >= 0 && run->trial->fault.action == ACTION_KILL)
        times_add(&report.own, run->noticed_ns > run->machine_ns ? run->noticed_ns - run->machine_ns : 0);
    if (run->recovered_ns >= 0)
        times_add(&report.recovered, run->recovered_ns);
    if (run->past_ns >= 0)
        times_add(&report.past, run->past_ns);
}

static void try_one(struct trial trial) {
    static struct run run;
    try_until_reached(&trial, &run);
    note_times(&run);
    /* A machine that lets ranks wait makes them late, and deadlines pass for others than the victim; so does a kernel
     * that takes its time over the system calls of a creation, whose deadline is short here. What fails each time fails
     * by itself; what is late once counts in the percentiles. No delay explains a crash, a wrong result, something that
     * is left, or ranks that disagree: such a trial fails at once. */
    for (int again = 0; run.complaint[0] && !run.is_condemned && again < REPEATS_MAX; again++) {
        if (!run.is_late && run.held_ns <= HELD_NS && trial.what->phase != PHASE_CREATE)
            break;
        report.repeated++;
        printf("made again: case %s, rank %d, %s at passage %" PRIu64 " of %s: %s\n", trial.what->name,
               trial.fault.rank, board_action_name(trial.fault.action), trial.fault.passage,
               board_point_name(trial.fault.point), run.complaint);
        try_until_reached(&trial, &run);
        note_times(&run);
    }
    if (run.complaint[0])
        tell_failure(&trial, run.complaint);
}

/* The sample. */

/* One of the trials of that kind, the first from a random one on; point -1: any. NULL if there is none. */
static const struct trial *draw(uint64_t *random, int point, int action) {
    const size_t first = random_next(random) % report.trials;
    for (size_t i = 0; i < report.trials; i++) {
        const struct trial *trial = &trials[(first + i) % report.trials];
        const bool is_fit = point < 0 || (trial->fault.point == point && is_assured(trial));
        if (is_fit && (int)trial->fault.action == action)
            return trial;
    }
    return NULL;
}

static int draw_action(uint64_t *random) {
    int left = (int)(random_next(random) % 100), action = 0;
    while (left >= shares[action])
        left -= shares[action++];
    return action;
}

/* Whether only cases of several nodes make sure that somebody comes to that point. */
static bool is_of_network(int point) {
    for (size_t i = 0; i < report.trials; i++)
        if (trials[i].fault.point == point && !trials[i].what->nodes && is_assured(&trials[i]))
            return false;
    return true;
}

static void try_sample(void) {
    uint64_t random = options.seed;
    size_t done = 0;
    size_t network = random_next(&random) % NETWORK_SHARE;
    for (int point = 0; point < board_points(); point++) {
        if (!is_possible(point) || (is_of_network(point) && network++ % NETWORK_SHARE))
            continue;
        done++;
        const struct trial *trial = draw(&random, point, ACTION_KILL);
        if (trial) {
            try_one(*trial);
        } else {
            printf("FAILED: no case makes sure that a rank comes to %s\n", board_point_name(point));
            report.failures++;
        }
    }
    for (; done < options.runs; done++)
        try_one(*draw(&random, -1, draw_action(&random))); /* there are trials of all actions */
}

static void try_all(void) {
    const bool shows = isatty(STDOUT_FILENO) != 0;
    for (size_t i = 0; i < report.trials; i++) {
        try_one(trials[i]);
        if (shows || (i + 1) % 1000 == 0) {
            printf("%s%zu of %zu, %zu failed%s", shows ? "\r" : "", i + 1, report.trials, report.failures,
                   shows ? "" : "\n");
            fflush(stdout);
        }
    }
    if (shows)
        printf("\n");
}

/* The report. */

static void print_report(double seconds) {
    static const char *const kinds[ACTIONS] = {"killed", "stopped after leaving", "exited with 0", "exited with 3"};
    printf("%d points, %" PRIu64 " passages, %zu trials to choose from, %zu runs\n", board_points(), report.passages,
           report.trials, report.runs);
    printf("%zu runs with fewer passages than listed, for which %zu trials of waits came to nothing\n", report.fewer,
           report.missed);
    if (report.repeated)
        printf("%zu trials made again, since ranks were held up or late\n", report.repeated);
    printf("from the fault to the last survivor's error:\n");
    for (int action = 0; action < ACTIONS; action++)
        times_print(&report.noticed[action], kinds[action]);
    times_print(&report.own, "killed, machine apart");
    printf("from the fault, or the last survivor's coming, until a shrink or a sum after it was over:\n");
    times_print(&report.recovered, "all but the stopped");
    printf("from the deadline to the last survivor's error:\n");
    times_print(&report.past, "stopped, or unknown");
    printf("from the fault to the last survivor's error, of several nodes:\n");
    for (int action = 0; action < ACTIONS; action++)
        times_print(&report.noticed_by_nodes[action], kinds[action]);
    times_print(&report.waited_by_nodes, "stopped, or unknown");
    printf("a shrink, of several nodes, of ranks that go on:\n");
    times_print(&report.recovered_by_nodes, "all but the stopped");
    if (report.own.count >= 100 && times_percentile(&report.own, 99) > INT64_C(100000000)) {
        printf("FAILED: the 99th percentile of deaths by SIGKILL is over 100 ms\n");
        report.failures++;
    }
    printf("%s, %zu failures, seed %" PRIu64 ", %.1f s\n", report.failures ? "FAILED" : "passed", report.failures,
           options.seed, seconds);
}

/* Arguments. */

static void print_usage(FILE *to) {
    fprintf(to, "usage: fault_sweep [--all] [--seed N] [--runs N] [--case NAME] [--point NAME] [--rank N]\n"
                "                   [--action NAME] [--passage N] [--list] [--control]\n\n"
                "Makes ranks die, or stop, at the points of the protocol, and looks what becomes of the others.\n\n"
                "  --all          every trial, some hours; also if any of the five below is given\n"
                "  --case NAME    only this case, or with a * all that begin so\n"
                "  --point NAME   only at this point, or with a *\n"
                "  --rank N       only this rank\n"
                "  --action NAME  only this end: kill, stop, exit, exit3\n"
                "  --passage N    only when the rank comes there for the Nth time\n"
                "  --seed N       of the sample; without it, TEST_SEED, or 1\n"
                "  --runs N       trials of the sample, 240 without it, and one a point at least\n"
                "  --list         print the points that each rank passes in each case, and how often\n"
                "  --control      instead, show that each of some defects is noticed\n"
                "  --help         print this\n\n"
                "Exit status: 0 passed, 1 failed, 2 wrong arguments.\n\n"
                "example: fault_sweep --case mesh-3-many --point phase.given_back --action kill\n");
}

static int parse_action(void) {
    for (int action = 0; action < ACTIONS; action++)
        if (strcmp(optarg, board_action_name((enum action)action)) == 0)
            return action;
    refuse_option("action", optarg);
}

static void parse_narrowing(int option) {
    options.all = true;
    if (option == 'c')
        options.case_name = optarg;
    else if (option == 'p')
        options.point_name = optarg;
    else if (option == 'r')
        options.rank = (int)number_option("rank", INT_MAX);
    else if (option == 'x')
        options.action = parse_action();
    else
        options.passage = number_option("passage", UINT64_MAX);
}

/* True if the control was asked for. */
static bool parse(int argc, char **argv) {
    static const struct option longs[] = {
        {"all", no_argument, NULL, 'a'},          {"seed", required_argument, NULL, 's'},
        {"runs", required_argument, NULL, 'n'},   {"case", required_argument, NULL, 'c'},
        {"point", required_argument, NULL, 'p'},  {"rank", required_argument, NULL, 'r'},
        {"action", required_argument, NULL, 'x'}, {"passage", required_argument, NULL, 'k'},
        {"list", no_argument, NULL, 'l'},         {"control", no_argument, NULL, 'o'},
        {"help", no_argument, NULL, 'h'},         {NULL, 0, NULL, 0}};
    bool control = false;
    options.seed = default_seed();
    for (int option; (option = getopt_long(argc, argv, "h", longs, NULL)) != -1;) {
        if (option == 'h' || option == '?') {
            print_usage(option == 'h' ? stdout : stderr);
            exit(option == 'h' ? 0 : 2);
        }
        if (option == 'a')
            options.all = true;
        else if (option == 's')
            options.seed = number_option("seed", UINT64_MAX);
        else if (option == 'n')
            options.runs = number_option("runs", UINT64_MAX);
        else if (option == 'l')
            options.list = true;
        else if (option == 'o')
            control = true;
        else
            parse_narrowing(option);
    }
    if (optind < argc)
        refuse_option("", argv[optind]);
    return control;
}

int main(int argc, char **argv) {
    board_create();
    fault_cases_make();
    setenv("KOLO_TUNE_FILE", "none", 1);
    unsetenv("KOLO_LOG");
    if (parse(argc, argv))
        return control_run();
    const int64_t begin_ns = now_ns();
    printf("seed %" PRIu64 "\n", options.seed);
    listings = calloc((size_t)fault_cases_count, sizeof *listings);
    if (!listings) {
        fprintf(stderr, "out of memory for the points of %d cases\n", fault_cases_count);
        return 1;
    }
    for (int index = 0; index < fault_cases_count; index++)
        if (is_wanted(options.case_name, fault_cases[index].name))
            list_case(index);
    if (options.list)
        return 0;
    if (report.trials == 0) {
        fprintf(stderr, "fault_sweep: no such trial: see --list\n");
        return 2;
    }
    if (!options.case_name)
        expect_all_points();
    if (options.all)
        try_all();
    else if (report.failures == 0)
        try_sample();
    print_report((double)(now_ns() - begin_ns) * 1e-9);
    return report.failures ? 1 : 0;
}
