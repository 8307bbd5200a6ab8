/* Tables whose ranks die: every point of what tables do (sync/point.h) x every rank that passes it, in every mode. See
 * table_cases.c for the cases, table_verdict.c for what must be true.
 *
 * First each case runs without a death by this program, which tells the points that each rank passes, and how often;
 * together they must pass all points of tables that the library has. Then come the trials: at the first, the middle and
 * the last passage of a point the rank kills itself. By default it is a sample, drawn with the seed: each point of
 * tables once, then any point. With --random ranks of random cases are killed at random times instead. */
#include <getopt.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fault_team.h"
#include "kolo_table.h"
#include "number_option.h"
#include "splitmix64.h"
#include "table_verdict.h"

enum {
    RUNS_DEFAULT = 200,
    LISTINGS = 2,
    DRAWS_MAX = 20,
    REPORTS_MAX = 20,
    REPEATS_MAX = 3,
    HELD_NS = 50000000,
    PASSAGES = 3
};

static struct {
    const char *case_name, *point_name; /* NULL: all */
    int rank;                           /* -1: all */
    uint64_t passage;                   /* 0: first, middle and last */
    uint64_t seed, runs, random;
    bool all, list, control;
} options = {.rank = -1, .runs = RUNS_DEFAULT};

static struct {
    size_t trials, runs, failures, missed, repeated;
    struct times longest;
} report;

static uint64_t (*passages)[TABLE_RANKS_MAX][BOARD_POINTS_MAX]; /* [table_cases_count] */
static struct table_trial *trials;
static size_t trials_capacity;
static char folder[] = "/tmp/table-faults-XXXXXX";

static bool is_wanted(const char *wanted, const char *name) {
    const size_t length = wanted ? strlen(wanted) : 0;
    if (length && wanted[length - 1] == '*')
        return strncmp(wanted, name, length - 1) == 0;
    return !wanted || strcmp(wanted, name) == 0;
}

static void tell_failure(const struct table_trial *trial, uint64_t number, const struct table_run *run) {
    const struct fault *fault = &trial->fault;
    if (report.failures++ >= REPORTS_MAX)
        return;
    if (number)
        printf("FAILED: job %" PRIu64 ", %d ranks, %d servers, staleness %" PRId64 ", %d backup workers%s: %s\n"
               "    repeat: table_faults --seed %" PRIu64 " --random %" PRIu64 "\n",
               number, trial->what->ranks, trial->what->servers, trial->what->staleness, trial->what->backup_workers,
               trial->what->saves ? ", saving" : "", run->complaint, options.seed, number);
    else if (!fault->armed)
        printf("FAILED: case %s: %s\n", trial->what->name, run->complaint);
    else
        printf("FAILED: case %s, rank %d at passage %" PRIu64 " of %s: %s\n"
               "    repeat: table_faults --case %s --rank %d --point %s --passage %" PRIu64 "\n",
               trial->what->name, fault->rank, fault->passage, board_point_name(fault->point), run->complaint,
               trial->what->name, fault->rank, board_point_name(fault->point), fault->passage);
    fflush(stdout);
}

/* What is late since the machine let ranks wait is tried again. */
static bool try_one(const struct table_trial *trial, uint64_t number) {
    static struct table_run run;
    bool is_reached = false;
    for (int again = 0; again <= REPEATS_MAX; again++) {
        report.runs++;
        is_reached = table_run_trial(trial, folder, &run);
        if (!run.is_late || run.held_ns <= HELD_NS)
            break;
        report.repeated++;
    }
    if (run.deaths > 0)
        times_add(&report.longest, run.longest_ns);
    if (run.complaint[0])
        tell_failure(trial, number, &run);
    return is_reached;
}

/* What there is to try. */

static void add_trial(const struct table_case *what, struct fault fault) {
    if (report.trials == trials_capacity) {
        trials_capacity = trials_capacity ? 2 * trials_capacity : 4096;
        trials = realloc(trials, trials_capacity * sizeof *trials);
        if (!trials)
            abort();
    }
    trials[report.trials++] = (struct table_trial){.what = what, .fault = fault};
}

static void add_passages(int index, int rank, int point) {
    const uint64_t count = passages[index][rank][point];
    const uint64_t at[PASSAGES] = {1, (count + 1) / 2, count};
    for (int i = 0; i < PASSAGES; i++)
        if (i == 0 || (!options.passage && at[i] != at[i - 1]))
            add_trial(&table_cases[index],
                      (struct fault){true, rank, point, options.passage ? options.passage : at[i], ACTION_KILL});
}

/* Who takes over from the one that dies first is for the scheduler to say: some runs, to see each do it. */
static void list_case(int index) {
    const struct table_case *what = &table_cases[index];
    const struct table_trial trial = {.what = what};
    for (int i = 0; i < (what->first.point ? 2 * LISTINGS : 1); i++) {
        try_one(&trial, 0);
        for (int rank = 0; rank < what->ranks; rank++)
            for (int point = 0; point < board_points(); point++)
                if (passages[index][rank][point] < board->ranks[rank].passages[point])
                    passages[index][rank][point] = board->ranks[rank].passages[point];
    }
    for (int rank = 0; rank < what->ranks; rank++)
        for (int point = 0; point < board_points(); point++) {
            if (!passages[index][rank][point] || (what->first.point && what->first.rank == rank))
                continue;
            if (options.list)
                printf("%-22s rank %d  %-24s %6" PRIu64 "\n", what->name, rank, board_point_name(point),
                       passages[index][rank][point]);
            if ((options.rank < 0 || options.rank == rank) && is_wanted(options.point_name, board_point_name(point)))
                add_passages(index, rank, point);
        }
}

static void expect_all_points(void) {
    for (int point = 0; point < board_points(); point++) {
        bool is_passed = !board_is_of_tables(point);
        for (size_t i = 0; i < report.trials && !is_passed; i++)
            is_passed = trials[i].fault.point == point;
        if (is_passed)
            continue;
        printf("FAILED: no case passes %s\n", board_point_name(point));
        report.failures++;
    }
}

/* Trials. */

static bool is_of(const struct table_trial *trial, int point) {
    return point < 0 || trial->fault.point == point;
}

/* A random trial of that point, each as likely as another; -1: of any. */
static const struct table_trial *draw(uint64_t *random, int point) {
    size_t count = 0, i = 0;
    for (size_t of = 0; of < report.trials; of++)
        count += is_of(&trials[of], point);
    for (uint64_t left = random_below(random, count); left > 0 || !is_of(&trials[i], point); i++)
        left -= is_of(&trials[i], point);
    return &trials[i];
}

static void try_sample(void) {
    uint64_t random = options.seed;
    size_t done = 0;
    for (int point = 0; point < board_points(); point++) {
        if (!board_is_of_tables(point))
            continue;
        bool is_reached = false;
        for (int draws = 0; draws < DRAWS_MAX && !is_reached; draws++, done++)
            is_reached = try_one(draw(&random, point), 0);
        if (is_reached)
            continue;
        printf("FAILED: in %d trials nobody came to %s\n", DRAWS_MAX, board_point_name(point));
        report.failures++;
    }
    for (; done < options.runs; done++)
        report.missed += !try_one(draw(&random, -1), 0);
}

static void try_all(void) {
    for (size_t i = 0; i < report.trials; i++) {
        report.missed += !try_one(&trials[i], 0);
        if ((i + 1) % 500 == 0) {
            printf("%zu of %zu, %zu failures\n", i + 1, report.trials, report.failures);
            fflush(stdout);
        }
    }
}

static void try_random(void) {
    static const int64_t bounds[] = {0, 0, 1, 3, KOLO_STALENESS_UNBOUNDED, KOLO_STALENESS_UNBOUNDED};
    for (uint64_t number = 1; number <= options.random; number++) {
        uint64_t random = options.seed ^ number * UINT64_C(0xd1342543de82ef95);
        struct table_case what = {.name = "random", .ranks = 2 + (int)random_below(&random, TABLE_RANKS_MAX - 1)};
        what.staleness = bounds[random_below(&random, sizeof bounds / sizeof *bounds)];
        what.servers = random_below(&random, 3) ? 0 : (int)random_below(&random, (uint64_t)what.ranks);
        if (what.staleness == 0 && random_below(&random, 2))
            what.backup_workers = (int)random_below(&random, (uint64_t)table_workers(&what));
        what.saves = random_below(&random, 3) == 0;
        what.is_narrow = random_below(&random, 2) == 0;
        const struct table_trial trial = {.what = &what, .random = random_next(&random) | 1};
        try_one(&trial, number);
        if (number % 500 == 0) {
            printf("%" PRIu64 " of %" PRIu64 " jobs, %zu failures\n", number, options.random, report.failures);
            fflush(stdout);
        }
    }
}

/* Arguments. */

static void print_usage(FILE *to) {
    fprintf(to, "usage: table_faults [--all] [--seed N] [--runs N] [--random N] [--case NAME]\n"
                "                    [--point NAME] [--rank N] [--passage N] [--list] [--control]\n\n"
                "Kills ranks of tables, and counts what became of their pushes.\n\n"
                "  --all          every trial, not a sample; also if any of the next four is given\n"
                "  --case NAME    only this case, or with a * all that begin so\n"
                "  --point NAME   only at this point, or with a *\n"
                "  --rank N       only this rank\n"
                "  --passage N    only when the rank comes there for the Nth time\n"
                "  --seed N       of the sample; without it, TEST_SEED, or 1\n"
                "  --runs N       trials of the sample, 200 without it, and one a point at least\n"
                "  --random N     instead, N jobs whose ranks are killed at random times\n"
                "  --list         print the points that each rank passes in each case, and how often\n"
                "  --control      instead, show that each of some defects is noticed\n"
                "  --help         print this\n\n"
                "Exit status: 0 passed, 1 failed, 2 wrong arguments.\n\n"
                "example: table_faults --case ssp-second-noted --point 'shard.*'\n");
}

static void parse(int argc, char **argv) {
    static const struct option longs[] = {
        {"all", no_argument, NULL, 'a'},          {"seed", required_argument, NULL, 's'},
        {"runs", required_argument, NULL, 'n'},   {"case", required_argument, NULL, 'c'},
        {"point", required_argument, NULL, 'p'},  {"rank", required_argument, NULL, 'r'},
        {"random", required_argument, NULL, 'm'}, {"passage", required_argument, NULL, 'k'},
        {"list", no_argument, NULL, 'l'},         {"control", no_argument, NULL, 'o'},
        {"help", no_argument, NULL, 'h'},         {NULL, 0, NULL, 0}};
    options.seed = default_seed();
    for (int option; (option = getopt_long(argc, argv, "h", longs, NULL)) != -1;) {
        if (option == 'h' || option == '?') {
            print_usage(option == 'h' ? stdout : stderr);
            exit(option == 'h' ? 0 : 2);
        }
        options.all |= option == 'a' || option == 'c' || option == 'p' || option == 'r' || option == 'k';
        options.list |= option == 'l';
        options.control |= option == 'o';
        if (option == 's')
            options.seed = number_option("seed", UINT64_MAX);
        else if (option == 'n')
            options.runs = number_option("runs", UINT64_MAX);
        else if (option == 'm')
            options.random = number_option("random", UINT64_MAX);
        else if (option == 'r')
            options.rank = (int)number_option("rank", INT_MAX);
        else if (option == 'k')
            options.passage = number_option("passage", UINT64_MAX);
        else if (option == 'c')
            options.case_name = optarg;
        else if (option == 'p')
            options.point_name = optarg;
    }
}

static void sweep(void) {
    for (int index = 0; index < table_cases_count; index++)
        if (is_wanted(options.case_name, table_cases[index].name))
            list_case(index);
    if (options.list)
        return;
    if (report.trials == 0) {
        fprintf(stderr, "table_faults: no such trial: see --list\n");
        rmdir(folder);
        exit(2);
    }
    if (!options.case_name && !options.point_name && options.rank < 0)
        expect_all_points();
    if (options.all)
        try_all();
    else if (report.failures == 0)
        try_sample();
}

int main(int argc, char **argv) {
    board_create();
    table_cases_begin();
    setenv("KOLO_TUNE_FILE", "none", 1);
    setenv("KOLO_SECRET", "none", 1);
    setenv("KOLO_NET", "quorum:any", 1); /* most of the nodes may die */
    unsetenv("KOLO_LOG");
    parse(argc, argv);
    passages = calloc((size_t)table_cases_count, sizeof *passages);
    if (!passages || !mkdtemp(folder)) {
        perror("table_faults");
        return 1;
    }
    const int64_t begin_ns = now_ns();
    printf("seed %" PRIu64 "\n", options.seed);
    if (options.control)
        report.failures += (size_t)table_control_run(folder);
    else if (options.random)
        try_random();
    else
        sweep();
    rmdir(folder);
    printf("%zu trials to choose from, %zu runs, of which %zu came to nothing and %zu were made again\n", report.trials,
           report.runs, report.missed, report.repeated);
    printf("the longest call of a survivor:\n");
    times_print(&report.longest, "killed");
    printf("%s, %zu failures, seed %" PRIu64 ", %.1f s\n", report.failures ? "FAILED" : "passed", report.failures,
           options.seed, (double)(now_ns() - begin_ns) * 1e-9);
    return report.failures ? 1 : 0;
}
