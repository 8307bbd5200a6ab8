/* Training with a parameter server, seen from one rank. A worker goes through clocks at its own pace, as far as the
 * mode allows: it pulls the rows that its share of a batch needs, computes their gradients, and pushes them. One
 * worker, the first that is not slowed down, also evaluates the loss now and then, of the rows as they are then.
 *
 * The rows are in a table or, to compare, in a replica of each rank, which are kept the same by an all-reduce of the
 * gradients. Beside the table is a board: another table, in which each worker notes how many steps it has done, and
 * one of them that it is time to stop. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "complain.h"
#include "kolo_optimizer.h"
#include "kolo_table.h"
#include "now.h"
#include "printed_text.h"
#include "problem.h"
#include "random.h"
#include "train_report.h"

enum { EVALUATIONS = 20 };   /* where --every does not say otherwise */
enum { FOR_SLOW = 1 << 30 }; /* random numbers */

enum { BOARD_COLUMNS = 2, STEPS_DONE = 0, STOPS_AFTER = 1 /* so many clocks; 0: not */, PAUSE_NS = 200000 };
enum { BOARD_STALENESS = 1 }; /* on one node: nobody ends a clock of it but who waits for all others to leave */
static const double momentum = 0.9;

typedef struct evaluation {
    double clocks;     /* of the worker that evaluates */
    double iterations; /* of all workers */
    double seconds;
    double loss;
} evaluation;

/* What one worker did. Seconds of all its clocks: COMPUTE with what it slept for --slow and --step-ms; CLOCK, ending
 * clocks, with replicas all that all-reduce took, and of that WAITED for other workers; EVALUATE is in none but
 * SECONDS. STEPS are those that it has computed; with --backup-workers CLOCKS are more by those that it was left out
 * of, and LEFT_OUT are the rows that came too late. */
enum { RANK, STEPS, CLOCKS, SECONDS, COMPUTE, PULL, PUSH, CLOCK, WAITED, EVALUATE, LEFT_OUT, FIGURES };
static const char *const figure_names[FIGURES] = {
    "rank",         "steps",         "clocks",         "seconds",          "compute_seconds", "pull_seconds",
    "push_seconds", "clock_seconds", "waited_seconds", "evaluate_seconds", "left_out"};

typedef struct worker {
    kolo_comm *comm;
    const train_options *options;
    const server_settings *of; /* them */
    problem problem;
    int rank;
    int workers;   /* ranks below are */
    int evaluator; /* the rank that evaluates */
    train_rule rule;
    double rate;
    size_t clocks_of_epoch, clocks_planned, every;
    uint64_t steps;  /* that this worker has done */
    uint64_t clocks; /* that it has ended; with backup workers also those that it was left out of */
    bool stops;      /* it is time to stop */

    kolo_table *table, *board; /* NULL: replicas */
    double *board_rows;        /* what was last pulled of it */
    bool is_spread;            /* over several nodes */
    bool ends_board;           /* each worker ends its clock of the board just before that of the table */
    kolo_optimizer *optimizer;
    float *replica, *replica_gradients; /* of one clock */

    size_t *order; /* of the examples, in this epoch */
    float *values, *gradients;
    float *all_values; /* of all rows, where it evaluates */
    float *losses; /* [2][clocks_planned]: this worker's part of the mean loss of each clock's batch; its examples */
    evaluation *evaluations;
    size_t evaluations_count;
    size_t shown; /* clocks: from which on the next evaluation is printed */
    double begin_s;
    double figures[FIGURES];
    double (*figures_of_all)[FIGURES]; /* [ranks]; after the training; all 0 for servers */
    size_t test_correct;               /* of the digits */
    int ranks_lost;
} worker;

static void open_table(worker *w) {
    static const kolo_table_rule rules[] = {[TRAIN_RULE_SGD] = KOLO_TABLE_SGD,
                                            [TRAIN_RULE_MOMENTUM] = KOLO_TABLE_SGD,
                                            [TRAIN_RULE_ADAGRAD] = KOLO_TABLE_ADAGRAD,
                                            [TRAIN_RULE_ADAM] = KOLO_TABLE_ADAM};
    const problem *p = &w->problem;
    kolo_table_options options = KOLO_TABLE_OPTIONS_INIT, board = KOLO_TABLE_OPTIONS_INIT;
    options.name = train_problem_name(w->of->problem);
    options.rows = p->rows;
    options.columns = p->columns;
    options.row_columns = p->row_columns;
    options.rule = rules[w->rule];
    options.learning_rate = w->rate;
    options.momentum = w->rule == TRAIN_RULE_MOMENTUM ? momentum : 0;
    options.staleness = w->of->server == TRAIN_BSP   ? 0
                        : w->of->server == TRAIN_ASP ? KOLO_STALENESS_UNBOUNDED
                                                     : (int64_t)w->of->staleness;
    options.backup_workers = w->of->backup_workers;
    options.hogwild = w->of->hogwild;
    options.servers = w->of->servers;
    check(w->comm, kolo_table_create(w->comm, &options, &w->table), "cannot make the table");
    board.name = "board";
    board.rows = (uint64_t)kolo_comm_size(w->comm);
    board.columns = BOARD_COLUMNS;
    board.dtype = KOLO_F64;
    board.rule = KOLO_TABLE_ASSIGN;
    /* Between nodes what is pushed travels at the end of a clock; unbounded, every few milliseconds. */
    w->is_spread = kolo_comm_nodes(w->comm) > 1;
    w->ends_board = w->is_spread && w->of->server == TRAIN_BSP && w->of->backup_workers == 0;
    board.staleness = w->ends_board ? 0 : w->is_spread ? KOLO_STALENESS_UNBOUNDED : BOARD_STALENESS;
    w->board_rows = allocate(board.rows, BOARD_COLUMNS * sizeof *w->board_rows);
    check(w->comm, kolo_table_create(w->comm, &board, &w->board), "cannot make the board");
}

static void open_replicas(worker *w) {
    const size_t count = w->problem.elements;
    kolo_optimizer_options options = KOLO_OPTIMIZER_OPTIONS_INIT;
    kolo_parameter_group group = KOLO_PARAMETER_GROUP_INIT;
    options.kind = w->rule == TRAIN_RULE_ADAM ? KOLO_OPTIMIZER_ADAM : KOLO_OPTIMIZER_SGD;
    options.count = group.end = count;
    options.op = KOLO_SUM;
    group.learning_rate = w->rate;
    group.momentum = w->rule == TRAIN_RULE_MOMENTUM ? momentum : 0;
    w->replica = allocate(count, sizeof *w->replica);
    w->replica_gradients = allocate(count, sizeof *w->replica_gradients);
    check(w->comm, kolo_optimizer_create(w->comm, &options, &group, 1, &w->optimizer), "cannot make the optimizer");
}

/* Collective. Rank 0's first values become everybody's. */
static void open_rows(worker *w) {
    problem *p = &w->problem;
    if (w->of->server == TRAIN_ALLREDUCE)
        open_replicas(w);
    else
        open_table(w);
    float *values = w->table == NULL ? w->replica : w->all_values;
    if (w->rank == 0 && p->kind->initialize != NULL)
        p->kind->initialize(p, values);
    check(w->comm,
          w->table == NULL ? kolo_broadcast(w->comm, values, p->elements, KOLO_F32, 0)
                           : kolo_table_initialize(w->table, values, 0),
          "cannot share the first values");
}

static void close_rows(worker *w) {
    kolo_table_destroy(w->board);
    kolo_table_destroy(w->table);
    kolo_optimizer_destroy(w->optimizer);
}

/* The rows that were chosen, or all of a problem without choice, from a replica to where they lie one behind the other,
 * or back. */
static void copy_rows(const problem *p, float *replica, float *chosen, bool back) {
    const bool all = !p->chooses;
    const size_t columns = all ? p->elements : p->columns;
    for (size_t i = 0; i < (all ? 1 : p->ids_count); i++) {
        float *row = replica + (all ? 0 : p->ids[i] * columns), *other = chosen + i * columns;
        memcpy(back ? row : other, back ? other : row, columns * sizeof *row);
    }
}

static void pull(worker *w) {
    const problem *p = &w->problem;
    int rc = 0;
    if (w->table == NULL)
        copy_rows(p, w->replica, w->values, false);
    else if (!p->chooses)
        rc = kolo_table_pull(w->table, 0, p->rows, w->values);
    else if (p->ids_count > 0)
        rc = kolo_table_pull_rows(w->table, p->ids, p->ids_count, w->values);
    check(w->comm, rc, "cannot pull rows");
}

static void push(worker *w) {
    const problem *p = &w->problem;
    int rc = 0;
    w->steps++;
    if (w->table == NULL)
        copy_rows(p, w->replica_gradients, w->gradients, true);
    else if (!p->chooses)
        rc = kolo_table_push(w->table, 0, p->rows, w->gradients);
    else if (p->ids_count > 0)
        rc = kolo_table_push_rows(w->table, p->ids, p->ids_count, w->gradients);
    check(w->comm, rc, "cannot push rows");
}

static void end_own_clock(worker *w) {
    const problem *p = &w->problem;
    kolo_table_stats stats = {.stats_bytes = sizeof stats};
    w->clocks++;
    if (w->table == NULL) {
        check(w->comm, kolo_optimizer_step(w->optimizer, w->replica_gradients, w->replica, NULL),
              "cannot sum the gradients");
        for (size_t i = 0; i < p->ids_count; i++)
            memset(w->replica_gradients + p->ids[i] * p->columns, 0, p->columns * sizeof *w->replica_gradients);
        return;
    }
    check(w->comm, kolo_table_clock(w->table), "cannot end the clock");
    if (w->of->backup_workers > 0 && kolo_table_get_stats(w->table, &stats) == 0)
        w->clocks = stats.clock; /* it may have been left out of some */
}

/* Notes on the board how far this worker is, and whether all are to stop. With replicas that is known at once. */
static void note_progress(worker *w, bool stops) {
    if (w->table != NULL) {
        const uint64_t own = (uint64_t)w->rank;
        const double row[BOARD_COLUMNS] = {
            [STEPS_DONE] = (double)w->steps, [STOPS_AFTER] = stops ? (double)w->clocks + 1 : 0};
        check(w->comm, kolo_table_push_rows(w->board, &own, 1, row), "cannot write on the board");
        check(w->comm, w->ends_board ? kolo_table_clock(w->board) : 0, "cannot end the clock of the board");
    } else if (w->of->until > 0) {
        int32_t stop = stops;
        check(w->comm, kolo_allreduce(w->comm, &stop, &stop, 1, KOLO_I32, KOLO_MAX), "cannot agree on when to stop");
        w->stops = stop;
    }
}

/* The steps that all workers together have done; and, in w->stops, whether to stop. */
static uint64_t look_at_board(worker *w) {
    uint64_t steps = 0;
    if (w->table == NULL)
        return (uint64_t)w->workers * w->steps;
    check(w->comm, kolo_table_pull(w->board, 0, (uint64_t)w->workers, w->board_rows), "cannot read the board");
    for (int worker = 0; worker < w->workers; worker++) {
        steps += (uint64_t)w->board_rows[worker * BOARD_COLUMNS + STEPS_DONE];
        const double after = w->board_rows[worker * BOARD_COLUMNS + STOPS_AFTER];
        /* Under BSP all end the same clocks: one that is seldom scheduled can read here what was noted in its next. */
        w->stops |= after > 0 && (w->of->server != TRAIN_BSP || (double)w->clocks >= after);
    }
    return steps;
}

/* Ends a clock, however long that takes. */
static void end_clock(worker *w, kolo_table *table) {
    int rc = kolo_table_clock(table);
    while (rc == KOLO_ERR_TIMEOUT)
        rc = kolo_table_wait(table);
    check(w->comm, rc, "cannot wait for the other workers");
}

/* Waits until no other worker is left in an unbounded table of several nodes. */
static void await_leaving(worker *w, kolo_table *table) {
    kolo_table_stats stats = {.stats_bytes = sizeof stats, .workers = 2};
    while (stats.workers > 1) {
        const struct timespec pause = {.tv_nsec = PAUSE_NS};
        nanosleep(&pause, NULL);
        const int rc = kolo_table_wait(table);
        check(w->comm, rc == KOLO_ERR_TIMEOUT ? 0 : rc, "cannot wait for the other workers");
        kolo_table_get_stats(table, &stats);
    }
}

/* Waits, where workers may be at different clocks, until the others have left or ended: then all that they pushed is
 * there. They need not wait for this worker meanwhile. */
static void outlast_others(worker *w) {
    kolo_table_stats stats = {.stats_bytes = sizeof stats};
    bool others_wait = w->of->server == TRAIN_SSP; /* perhaps, for this worker, until they leave */
    while (others_wait) {
        const struct timespec pause = {.tv_nsec = PAUSE_NS};
        nanosleep(&pause, NULL);
        end_clock(w, w->table);
        kolo_table_get_stats(w->table, &stats);
        others_wait = stats.workers > 1 || (w->is_spread && stats.rounds == 0); /* not known before the first round */
    }
    for (int clock = 0; w->of->server == TRAIN_ASP && !w->is_spread && clock <= BOARD_STALENESS; clock++)
        end_clock(w, w->board);
    if (w->is_spread && w->of->server == TRAIN_ASP)
        await_leaving(w, w->table);
    if (w->is_spread && (w->of->server == TRAIN_SSP || w->of->server == TRAIN_ASP))
        await_leaving(w, w->board);
}

/* All ranks see a wrong number. */
static void check_ranks(const worker *w) {
    const size_t batch_rows = w->options->settings.batch_rows;
    const int ranks = kolo_comm_size(w->comm), workers = w->workers;
    if (workers < 1)
        give_up_together("--servers %d: %d rank%s, so no worker is left", w->of->servers, ranks,
                         ranks == 1 ? " is there" : "s are there");
    if (w->of->backup_workers >= workers)
        give_up_together("--backup-workers %d: must be less than the %d workers", w->of->backup_workers, workers);
    if (w->of->slow_rank >= workers)
        give_up_together("--slow: there is no worker %d of %d", w->of->slow_rank, workers);
    if (batch_rows < (size_t)workers)
        give_up_together("--batch %zu has not a row for each of %d workers", batch_rows, workers);
}

static void create(worker *w, const dataset *train, const dataset *test) {
    const train_settings *settings = &w->options->settings;
    const server_settings *of = w->of;
    const size_t batch_rows = settings->batch_rows;
    problem *p = &w->problem;
    w->rank = kolo_comm_rank(w->comm);
    w->workers = kolo_comm_size(w->comm) - of->servers;
    check_ranks(w);
    problem_create(p, settings, train, test, batch_rows / (size_t)w->workers + 1);
    if (batch_rows > p->examples)
        give_up_together("--batch %zu is more than the %zu rows to train with", batch_rows, p->examples);
    const size_t epochs = settings->epochs > 0 ? settings->epochs : p->kind->epochs;
    w->clocks_of_epoch = (p->examples + batch_rows - 1) / batch_rows;
    w->clocks_planned = smaller(settings->steps_max, w->clocks_of_epoch * epochs);
    w->every = of->every > 0 ? of->every : w->clocks_planned / EVALUATIONS + (w->clocks_planned < EVALUATIONS);
    const bool only_sgd = of->hogwild || (of->server == TRAIN_ALLREDUCE && p->kind->rule == TRAIN_RULE_ADAGRAD);
    w->rule = of->rule != TRAIN_RULES ? of->rule : only_sgd ? TRAIN_RULE_SGD : p->kind->rule;
    w->rate = settings->rate > 0 ? settings->rate : p->kind->rate;
    w->evaluator = of->slow_rank == 0 && w->workers > 1 ? 1 : 0;
    w->order = allocate(p->examples, sizeof *w->order);
    w->values = allocate(p->elements, sizeof *w->values);
    w->gradients = allocate(p->elements, sizeof *w->gradients);
    w->all_values = allocate(p->elements, sizeof *w->all_values);
    w->losses = allocate(2 * w->clocks_planned, sizeof *w->losses);
    w->evaluations = allocate(w->clocks_planned + 2, sizeof *w->evaluations);
    w->figures_of_all = allocate((size_t)kolo_comm_size(w->comm), sizeof *w->figures_of_all);
    open_rows(w);
}

/* Seconds since *at_s, which becomes now. */
static double lap(double *at_s) {
    const double before_s = *at_s;
    *at_s = now_s();
    return *at_s - before_s;
}

/* The loss of the rows as they are now. Returns whether to stop. */
static bool evaluate(worker *w) {
    evaluation *now = &w->evaluations[w->evaluations_count++];
    problem *p = &w->problem;
    now->seconds = now_s() - w->begin_s;
    if (w->table == NULL)
        memcpy(w->all_values, w->replica, p->elements * sizeof *w->all_values);
    else
        check(w->comm, kolo_table_pull(w->table, 0, p->rows, w->all_values), "cannot pull rows");
    now->iterations = (double)look_at_board(w);
    now->clocks = (double)w->clocks;
    now->loss = problem_loss(p, w->all_values);
    const bool stops = !isfinite(now->loss) || now->loss <= w->of->until;
    if (!w->options->quiet && (w->clocks >= w->shown || stops)) {
        printf("%9.0f  %11.0f  %9.3f  %10.6f\n", now->clocks, now->iterations, now->seconds, now->loss);
        w->shown = w->clocks + w->clocks_planned / EVALUATIONS;
    }
    return stops;
}

/* Whether this worker's step of a clock is slow. All draw the same. */
static bool is_slow(const worker *w, size_t clock) {
    if (w->of->slow_rank != SLOW_ANY)
        return w->of->slow_rank == w->rank;
    random_stream stream = random_begin(w->options->settings.seed, FOR_SLOW + clock);
    return random_u64(&stream) % (uint64_t)w->workers == (uint64_t)w->rank;
}

/* Sleeps for what is left of a step that takes so long on this rank. */
static void make_slower(const worker *w, double compute_s, double so_far_s) {
    const double factor = is_slow(w, w->clocks) ? w->of->slow_factor : 1;
    const double left_s = fmax(compute_s, w->of->step_ms * 1e-3) * factor - so_far_s;
    if (left_s <= 0)
        return;
    struct timespec left = {.tv_sec = (time_t)left_s, .tv_nsec = (long)(fmod(left_s, 1) * 1e9)};
    while (clock_nanosleep(CLOCK_MONOTONIC, 0, &left, &left) == EINTR)
        ;
}

/* One clock, on `count` examples, of which each worker takes its share. Returns whether to stop. */
static bool run_clock(worker *w, const size_t *examples, size_t count) {
    problem *p = &w->problem;
    const size_t clock = w->clocks;
    const share own = share_of(count, w->rank, w->workers);
    examples += own.first;
    double at_s = now_s();
    problem_choose(p, examples, own.count);
    const double choose_s = lap(&at_s);
    pull(w);
    w->figures[PULL] += lap(&at_s);
    const bool stops = w->rank == w->evaluator && clock % w->every == 0 && evaluate(w);
    const double evaluate_s = lap(&at_s);
    w->figures[EVALUATE] += evaluate_s;
    const double loss = problem_gradient(p, examples, own.count, 1.0F / (float)count, w->values, w->gradients);
    w->losses[clock] = (float)(loss / (double)count);
    w->losses[w->clocks_planned + clock] = (float)own.count;
    const double compute_s = choose_s + lap(&at_s);
    make_slower(w, compute_s, compute_s + (w->of->step_ms > 0 ? evaluate_s : 0)); /* asleep it has time to evaluate */
    w->figures[COMPUTE] += compute_s + lap(&at_s);
    push(w);
    w->figures[PUSH] += lap(&at_s);
    note_progress(w, stops);
    end_own_clock(w);
    w->figures[CLOCK] += lap(&at_s);
    return stops;
}

/* The examples of a clock's batch; *at: how many of the epoch's are before them. */
static size_t batch_of(const worker *w, size_t clock, size_t *at) {
    const size_t batch = w->options->settings.batch_rows;
    *at = clock % w->clocks_of_epoch * batch;
    return smaller(batch, w->problem.examples - *at);
}

/* All clocks, until it is time to stop. */
static void run_clocks(worker *w) {
    size_t ordered = 0; /* epochs */
    bool stops = false;
    w->begin_s = now_s();
    while (w->clocks < w->clocks_planned && !stops && !w->stops) {
        const size_t epoch = w->clocks / w->clocks_of_epoch;
        size_t at;
        const size_t count = batch_of(w, w->clocks, &at);
        if (ordered != epoch + 1) {
            random_stream stream = random_begin(w->options->settings.seed, 1 + epoch);
            random_permutation(&stream, w->order, w->problem.examples); /* the same on every rank */
            ordered = epoch + 1;
        }
        stops = run_clock(w, w->order + at, count);
        look_at_board(w);
    }
    w->figures[RANK] = w->rank;
    w->figures[STEPS] = (double)w->steps;
    w->figures[CLOCKS] = (double)w->clocks;
    w->figures[SECONDS] = now_s() - w->begin_s;
}

static void train(worker *w) {
    kolo_table_stats stats = {.stats_bytes = sizeof stats};
    check(w->comm, kolo_barrier(w->comm), "cannot begin together");
    if (w->rank >= w->workers) {
        kolo_table_destroy(w->board); /* nobody is to wait for this rank */
        w->board = NULL;
        check(w->comm, kolo_table_serve(w->table), "cannot serve");
        return;
    }
    run_clocks(w);
    if (w->rank == w->evaluator) {
        outlast_others(w);
        evaluate(w);
    }
    if (w->table != NULL && kolo_table_get_stats(w->table, &stats) == 0) {
        w->figures[WAITED] = (double)stats.waited_ns * 1e-9;
        w->figures[LEFT_OUT] = (double)stats.left_out;
        if (w->ends_board && kolo_table_get_stats(w->board, &stats) == 0)
            w->figures[WAITED] += (double)stats.waited_ns * 1e-9;
    }
}

static const char cannot_gather[] = "cannot gather the results";

/* Where ranks have ended and the table went on without them, those that are left report. Workers at clocks of their own
 * may be done long before the slowest. */
static void regroup(worker *w, kolo_comm **comm, FILE **json) {
    const bool tolerant = w->of->server == TRAIN_SSP || w->of->server == TRAIN_ASP || w->of->backup_workers > 0;
    kolo_comm_info info = {.info_bytes = sizeof info};
    kolo_comm *left;
    kolo_comm_query(w->comm, &info);
    if (tolerant)
        kolo_comm_set_timeout(w->comm, 0);
    const int rc = kolo_barrier(w->comm);
    kolo_comm_set_timeout(w->comm, info.timeout_ms);
    if (rc == 0)
        return;
    if (!tolerant)
        check(w->comm, rc, cannot_gather);
    check(w->comm, kolo_comm_shrink(w->comm, &left), cannot_gather);
    w->ranks_lost = kolo_comm_size(w->comm) - kolo_comm_size(left);
    kolo_comm_destroy(w->comm);
    *comm = w->comm = left;
    w->rank = kolo_comm_rank(left);
    if (w->rank == 0)
        train_json_open(json, w->options);
}

/* All ranks get the mean losses of the clocks: of the examples whose workers were not left out of a clock, or lost. */
static void gather_losses(worker *w) {
    const size_t clocks = w->clocks_planned;
    check(w->comm, kolo_allreduce(w->comm, w->losses, w->losses, 2 * clocks, KOLO_F32, KOLO_SUM), cannot_gather);
    for (size_t clock = 0, at; clock < clocks; clock++) {
        const float all = (float)batch_of(w, clock, &at), known = w->losses[clocks + clock];
        if (known != all)
            w->losses[clock] *= all / known; /* NaN if nobody knows it */
    }
}

/* All ranks get the losses of the clocks, all workers' figures, and what was evaluated. */
static void gather(worker *w) {
    kolo_comm *comm = w->comm;
    const double count = (double)w->evaluations_count;
    double most;
    check(comm, kolo_allreduce(comm, &count, &most, 1, KOLO_F64, KOLO_MAX), cannot_gather);
    gather_losses(w);
    check(comm, kolo_allgather(comm, w->figures, w->figures_of_all, FIGURES, KOLO_F64), cannot_gather);
    int32_t root = count == most ? w->rank : INT32_MAX;
    check(comm, kolo_allreduce(comm, &root, &root, 1, KOLO_I32, KOLO_MIN), cannot_gather);
    w->evaluations_count = (size_t)most;
    const size_t doubles = w->evaluations_count * sizeof *w->evaluations / sizeof(double);
    check(comm, kolo_broadcast(comm, w->evaluations, doubles, KOLO_F64, root), cannot_gather);
    check(comm, kolo_broadcast(comm, w->all_values, w->problem.elements, KOLO_F32, root), cannot_gather);
}

static void print_heading(const worker *w) {
    const problem *p = &w->problem;
    const server_settings *of = w->of;
    printf("problem %s: %" PRIu64 " rows, %zu parameters, %zu examples, batch of %zu\nserver  ",
           train_problem_name(of->problem), p->rows, p->elements, p->examples, w->options->settings.batch_rows);
    printf("%s", of->server == TRAIN_ALLREDUCE ? "an all-reduce in each clock" : train_server_name(of->server));
    if (of->server == TRAIN_SSP)
        printf(", staleness %zu", of->staleness);
    if (of->hogwild)
        printf(", hogwild");
    if (of->backup_workers > 0)
        printf(", %d backup", of->backup_workers);
    if (of->servers > 0)
        printf(", %d server%s", of->servers, plural((size_t)of->servers));
    printf("; %d worker%s, rule %s, rate %g\n", w->workers, plural((size_t)w->workers), train_rule_name(w->rule),
           w->rate);
    if (of->slow_rank >= 0)
        printf("slow    worker %d takes %g times as long for a step\n", of->slow_rank, of->slow_factor);
    if (of->slow_rank == SLOW_ANY)
        printf("slow    a worker in each clock, drawn by chance, takes %g times as long\n", of->slow_factor);
    if (of->step_ms > 0)
        printf("step    computes for %g ms at least\n", of->step_ms);
    printf("\n%9s  %11s  %9s  %10s\n", "clock", "iterations", "seconds", p->kind->measure);
}

/* The first evaluation with a loss that --until asks for; NULL: none. */
static const evaluation *find_reached(const worker *w) {
    for (size_t i = 0; i < w->evaluations_count && w->of->until > 0; i++)
        if (w->evaluations[i].loss <= w->of->until)
            return &w->evaluations[i];
    return NULL;
}

/* NaN where there are no such rows, or nobody has the parameters. */
static double test_accuracy(const worker *w) {
    const bool is_known = w->problem.test->rows > 0 && w->evaluations_count > 0;
    return is_known ? (double)w->test_correct / (double)w->problem.test->rows : NAN;
}

static void print_summary(const worker *w) {
    const problem *p = &w->problem;
    const size_t count = w->evaluations_count;
    const evaluation *reached = find_reached(w), *last = &w->evaluations[count > 0 ? count - 1 : 0];
    printf("\ntraining summary\n");
    if (count > 0)
        printf("  %-13s  %.6f after %.0f clocks, %.0f iterations, %.3f s\n", p->kind->measure, last->loss, last->clocks,
               last->iterations, last->seconds);
    if (p->kind->known != NULL)
        printf("  known          %.6f %s\n", p->known_loss, p->kind->known);
    if (w->of->problem == TRAIN_DIGITS && count > 0)
        printf("  test accuracy  %.2f %% (%zu of %zu rows that training never saw)\n", 100 * test_accuracy(w),
               w->test_correct, p->test->rows);
    if (reached != NULL)
        printf("  until %-7g  reached after %.0f iterations, in %.3f s\n", w->of->until, reached->iterations,
               reached->seconds);
    else if (w->of->until > 0)
        printf("  until %-7g  not reached\n", w->of->until);
    if (w->ranks_lost > 0)
        printf("  lost           %d rank%s; the others went on\n", w->ranks_lost, plural((size_t)w->ranks_lost));
    printf("\n%-12s %8s %8s %9s %9s %9s %9s %9s\n", "ms of a step", "steps", "all", "compute", "pull", "push", "clock",
           "waited");
    for (int i = 0; i < kolo_comm_size(w->comm); i++) {
        const double *its = w->figures_of_all[i], ms = 1e3 / its[STEPS];
        if (its[STEPS] == 0)
            continue;
        printf("worker %-5.0f %8.0f %8.3f", its[RANK], its[STEPS], ms * (its[SECONDS] - its[EVALUATE]));
        for (int figure = COMPUTE; figure <= WAITED; figure++)
            printf(" %9.3f", ms * its[figure]);
        printf("\n");
    }
}

static void write_evaluation(FILE *file, const evaluation *one) {
    json_pairs_print(file, "{clocks=%.0f iterations=%.0f seconds=%.9g loss=%.9g}", one->clocks, one->iterations,
                     one->seconds, one->loss);
}

static void write_settings(FILE *file, const worker *w) {
    const train_settings *settings = &w->options->settings;
    const server_settings *of = w->of;
    const problem *p = &w->problem;
    char staleness[24] = "null", slow_rank[16] = "null";
    if (of->server == TRAIN_BSP || of->server == TRAIN_SSP)
        snprintf(staleness, sizeof staleness, "%zu", of->server == TRAIN_BSP ? 0 : of->staleness);
    if (of->slow_rank != SLOW_NONE)
        snprintf(slow_rank, sizeof slow_rank, of->slow_rank == SLOW_ANY ? "\"any\"" : "%d", of->slow_rank);
    json_pairs_print(file,
                     "problem=\"%s\" measure=\"%s\" rows=%" PRIu64 " parameters=%zu examples=%zu batch=%zu "
                     "seed=%" PRIu64 " rule=\"%s\" rate=%.9g\n"
                     "server=\"%s\" staleness=%s workers=%d servers=%d backup_workers=%d hogwild=%s slow_rank=%s "
                     "slow_factor=%.9g step_ms=%.9g ranks_lost=%d",
                     train_problem_name(of->problem), p->kind->measure, p->rows, p->elements, p->examples,
                     settings->batch_rows, settings->seed, train_rule_name(w->rule), w->rate,
                     train_server_name(of->server), staleness, w->workers, of->servers, of->backup_workers,
                     of->hogwild ? "true" : "false", slow_rank, of->slow_factor, of->step_ms, w->ranks_lost);
}

static void write_json(FILE *file, const worker *w, double loss) {
    const evaluation *reached = find_reached(w);
    double clocks = 0; /* that any worker has begun */
    fprintf(file, "{\n  ");
    write_settings(file, w);
    fprintf(file, ",\n  ");
    json_pairs_print(file, "loss=%.9g known_loss=%.9g until=%.9g test_accuracy=%.9g", loss,
                     w->problem.kind->known != NULL ? w->problem.known_loss : NAN,
                     w->of->until > 0 ? w->of->until : NAN, test_accuracy(w));
    fprintf(file, ",\n  \"reached\": %s", reached != NULL ? "" : "null");
    if (reached != NULL)
        write_evaluation(file, reached);
    fprintf(file, ",\n  \"evaluations\": [");
    for (size_t i = 0; i < w->evaluations_count; i++) {
        fprintf(file, i > 0 ? ",\n    " : "\n    ");
        write_evaluation(file, &w->evaluations[i]);
    }
    fprintf(file, "\n  ],\n  \"times\": [");
    const char *before = "\n    {";
    for (int i = 0; i < kolo_comm_size(w->comm); i++) {
        const double *its = w->figures_of_all[i];
        for (int figure = 0; figure < FIGURES && its[STEPS] > 0; figure++)
            fprintf(file, "%s\"%s\": %.9g", figure > 0 ? ", " : before, figure_names[figure], its[figure]);
        if (its[STEPS] > 0) {
            fprintf(file, "}");
            before = ",\n    {";
        }
        clocks = fmax(clocks, its[CLOCKS]);
    }
    fprintf(file, "\n  ],\n  \"losses\": ");
    json_floats_print(file, w->losses, smaller((size_t)clocks, w->clocks_planned));
    fprintf(file, "\n}\n");
}

int worker_run(kolo_comm **comm, const train_options *options, const dataset *train_rows, const dataset *test,
               FILE **json) {
    static worker only; /* the process ends with it, so that nobody frees its memory */
    worker *w = &only;
    *w = (worker){.comm = *comm, .options = options, .of = &options->settings.server};
    create(w, train_rows, test);
    if (w->rank == 0 && !options->quiet)
        print_heading(w);
    train(w);
    close_rows(w); /* the others do not wait for a worker that has left */
    regroup(w, comm, json);
    gather(w);
    const double loss = w->evaluations_count > 0 ? w->evaluations[w->evaluations_count - 1].loss : NAN;
    if (w->of->problem == TRAIN_DIGITS)
        w->test_correct = problem_digits_correct(&w->problem, w->all_values);
    if (w->rank == 0) {
        print_summary(w);
        if (*json != NULL)
            write_json(*json, w, loss);
        train_report_close(json, options);
        if (w->evaluations_count == 0)
            complain("the worker that evaluated the %s has ended", w->problem.kind->measure);
        else if (!isfinite(loss))
            complain("the %s is not finite: training diverged; try a smaller --rate than %g", w->problem.kind->measure,
                     w->rate);
    }
    return isfinite(loss) ? EXIT_SUCCESS : EXIT_FAILURE;
}
