#include "worker.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "complain.h"
#include "now.h"
#include "random.h"
#include "train_report.h"

enum { EVALUATIONS = 20 };   /* where --every does not say otherwise */
enum { FOR_SLOW = 1 << 30 }; /* random numbers */

enum { BOARD_COLUMNS = 2, STEPS = 0, STOPS = 1, PAUSE_NS = 200000 };
enum { BOARD_STALENESS = 1 }; /* nobody ends a clock of it but the worker that waits for all others to leave */
static const double momentum = 0.9;

static void open_table(worker *w) {
    static const kolo_table_rule rules[] = {[TRAIN_RULE_SGD] = KOLO_TABLE_SGD,
                                            [TRAIN_RULE_MOMENTUM] = KOLO_TABLE_SGD,
                                            [TRAIN_RULE_ADAGRAD] = KOLO_TABLE_ADAGRAD,
                                            [TRAIN_RULE_ADAM] = KOLO_TABLE_ADAM};
    const problem *p = &w->problem;
    const server_settings *settings = &p->settings->server;
    kolo_table_options options = KOLO_TABLE_OPTIONS_INIT, board = KOLO_TABLE_OPTIONS_INIT;
    options.name = train_problem_name(settings->problem);
    options.rows = p->rows;
    options.columns = p->columns;
    options.row_columns = p->row_columns;
    options.rule = rules[w->rule];
    options.learning_rate = w->rate;
    options.momentum = w->rule == TRAIN_RULE_MOMENTUM ? momentum : 0;
    options.staleness = settings->server == TRAIN_BSP   ? 0
                        : settings->server == TRAIN_ASP ? KOLO_STALENESS_UNBOUNDED
                                                        : (int64_t)settings->staleness;
    options.backup_workers = settings->backup_workers;
    options.hogwild = settings->hogwild;
    options.servers = settings->servers;
    check(w->comm, kolo_table_create(w->comm, &options, &w->table), "cannot make the table");
    board.name = "board";
    board.rows = (uint64_t)kolo_comm_size(w->comm);
    board.columns = BOARD_COLUMNS;
    board.dtype = KOLO_F64;
    board.rule = KOLO_TABLE_ASSIGN;
    board.staleness = BOARD_STALENESS;
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
    const problem *p = &w->problem;
    if (p->settings->server.server == TRAIN_ALLREDUCE)
        open_replicas(w);
    else
        open_table(w);
    float *values = w->table == NULL ? w->replica : w->all_values;
    if (kolo_comm_rank(w->comm) == 0)
        p->kind->initialize(p, values);
    check(w->comm,
          w->table == NULL ? kolo_broadcast(w->comm, values, p->elements, KOLO_F32, 0)
                           : kolo_table_initialize(w->table, values, 0),
          "cannot share the first values");
}

static void close_rows(worker *w) {
    kolo_table_destroy(w->board); /* first, as a server does: all leave the tables in one order */
    kolo_table_destroy(w->table);
    kolo_optimizer_destroy(w->optimizer);
}

static void pull_all(worker *w, float *values) {
    const problem *p = &w->problem;
    if (w->table == NULL)
        memcpy(values, w->replica, p->elements * sizeof *values);
    else
        check(w->comm, kolo_table_pull(w->table, 0, p->rows, values), "cannot pull rows");
}

/* The rows that were chosen, or all of a problem without choice, one behind the other. */
static void pull(worker *w, float *values) {
    const problem *p = &w->problem;
    if (p->kind->choose == NULL)
        pull_all(w, values);
    else if (w->table != NULL && p->ids_count > 0)
        check(w->comm, kolo_table_pull_rows(w->table, p->ids, p->ids_count, values), "cannot pull rows");
    for (size_t i = 0; i < p->ids_count && w->table == NULL; i++)
        memcpy(values + i * p->columns, w->replica + p->ids[i] * p->columns, p->columns * sizeof *values);
}

static void push(worker *w, const float *gradients) {
    const problem *p = &w->problem;
    const bool all = p->kind->choose == NULL;
    w->steps++;
    if (w->table == NULL && all)
        memcpy(w->replica_gradients, gradients, p->elements * sizeof *gradients);
    for (size_t i = 0; i < p->ids_count && w->table == NULL; i++)
        memcpy(w->replica_gradients + p->ids[i] * p->columns, gradients + i * p->columns,
               p->columns * sizeof *gradients);
    if (w->table == NULL || (!all && p->ids_count == 0))
        return;
    check(w->comm,
          all ? kolo_table_push(w->table, 0, p->rows, gradients)
              : kolo_table_push_rows(w->table, p->ids, p->ids_count, gradients),
          "cannot push rows");
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
    if (p->settings->server.backup_workers > 0 && kolo_table_get_stats(w->table, &stats) == 0)
        w->clocks = stats.clock; /* it may have been left out of some */
}

/* Notes on the board how far this worker is, and whether all are to stop. With replicas that is known at once. */
static void note_progress(worker *w, bool stops) {
    const uint64_t own = (uint64_t)kolo_comm_rank(w->comm);
    if (w->table != NULL) {
        const double row[BOARD_COLUMNS] = {[STEPS] = (double)w->steps, [STOPS] = stops};
        check(w->comm, kolo_table_push_rows(w->board, &own, 1, row), "cannot write on the board");
    } else if (w->problem.settings->server.until > 0) {
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
        steps += (uint64_t)w->board_rows[worker * BOARD_COLUMNS + STEPS];
        w->stops |= w->board_rows[worker * BOARD_COLUMNS + STOPS] > 0;
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

/* Waits, where workers may be at different clocks, until the others have left or ended: then all that they pushed is
 * there. They need not wait for this worker meanwhile. */
static void outlast_others(worker *w) {
    kolo_table_stats stats = {.stats_bytes = sizeof stats, .workers = 2};
    const train_server server = w->problem.settings->server.server;
    while (server == TRAIN_SSP && stats.workers > 1) { /* others may wait for this worker, until they leave */
        const struct timespec pause = {.tv_nsec = PAUSE_NS};
        nanosleep(&pause, NULL);
        end_clock(w, w->table);
        kolo_table_get_stats(w->table, &stats);
    }
    for (int clock = 0; server == TRAIN_ASP && clock <= BOARD_STALENESS; clock++)
        end_clock(w, w->board);
}

static void serve(worker *w) {
    kolo_table_destroy(w->board); /* nobody is to wait for this rank */
    w->board = NULL;
    check(w->comm, kolo_table_serve(w->table), "cannot serve");
}

static int rank_of(const worker *w) {
    return kolo_comm_rank(w->comm);
}

/* All ranks see a wrong number. */
static void check_ranks(const worker *w) {
    const train_settings *settings = &w->options->settings;
    const server_settings *of = &settings->server;
    const int ranks = kolo_comm_size(w->comm), workers = w->workers;
    if (workers < 1)
        give_up_together("--servers %d: %d rank%s, so no worker is left", of->servers, ranks,
                         ranks == 1 ? " is there" : "s are there");
    if (of->backup_workers >= workers)
        give_up_together("--backup-workers %d: must be less than the %d workers", of->backup_workers, workers);
    if (of->slow_rank >= workers)
        give_up_together("--slow: there is no worker %d of %d", of->slow_rank, workers);
    if (settings->batch_rows < (size_t)workers)
        give_up_together("--batch %zu has not a row for each of %d workers", settings->batch_rows, workers);
}

static void create(worker *w, kolo_comm *comm, const train_options *options, const dataset *train,
                   const dataset *test) {
    const train_settings *settings = &options->settings;
    const server_settings *of = &settings->server;
    *w = (worker){.comm = comm, .options = options, .workers = kolo_comm_size(comm) - of->servers};
    check_ranks(w);
    problem *p = &w->problem;
    problem_create(p, settings, train, test, settings->batch_rows / (size_t)w->workers + 1);
    const problem_kind *kind = p->kind;
    if (settings->batch_rows > p->examples)
        give_up_together("--batch %zu is more than the %zu rows to train with", settings->batch_rows, p->examples);
    w->clocks_of_epoch = (p->examples + settings->batch_rows - 1) / settings->batch_rows;
    w->clocks_planned =
        smaller(settings->steps_max, w->clocks_of_epoch * (settings->epochs > 0 ? settings->epochs : kind->epochs));
    w->every = of->every > 0 ? of->every : w->clocks_planned / EVALUATIONS + (w->clocks_planned < EVALUATIONS);
    w->rule = of->rule != TRAIN_RULES                                             ? of->rule
              : of->hogwild                                                       ? TRAIN_RULE_SGD
              : of->server == TRAIN_ALLREDUCE && kind->rule == TRAIN_RULE_ADAGRAD ? TRAIN_RULE_SGD
                                                                                  : kind->rule;
    w->rate = settings->rate > 0 ? settings->rate : kind->rate;
    w->evaluator = of->slow_rank == 0 && w->workers > 1 ? 1 : 0;
    w->order = allocate(p->examples, sizeof *w->order);
    w->values = allocate(p->elements, sizeof *w->values);
    w->gradients = allocate(p->elements, sizeof *w->gradients);
    w->all_values = allocate(p->elements, sizeof *w->all_values);
    w->losses = allocate(w->clocks_planned, sizeof *w->losses);
    w->evaluations = allocate(w->clocks_planned + 2, sizeof *w->evaluations);
    w->times_of_all = allocate((size_t)kolo_comm_size(comm), sizeof *w->times_of_all);
    open_rows(w);
}

static void destroy(worker *w) {
    problem_destroy(&w->problem);
    free(w->order);
    free(w->values);
    free(w->gradients);
    free(w->all_values);
    free(w->losses);
    free(w->evaluations);
    free(w->times_of_all);
    free(w->board_rows);
    free(w->replica);
    free(w->replica_gradients);
}

/* Seconds since *at_s, which becomes now. */
static double lap(double *at_s) {
    const double before_s = *at_s;
    *at_s = now_s();
    return *at_s - before_s;
}

/* The loss of the rows as they are now. Returns whether to stop. */
static bool evaluate(worker *w) {
    const double until = w->options->settings.server.until;
    evaluation *now = &w->evaluations[w->evaluations_count++];
    double at_s = now_s();
    now->seconds = at_s - w->begin_s;
    pull_all(w, w->all_values);
    now->iterations = (double)look_at_board(w);
    now->clocks = (double)w->clocks;
    now->loss = w->problem.kind->loss(&w->problem, w->all_values);
    const bool stops = !isfinite(now->loss) || now->loss <= until;
    if (!w->options->quiet && (w->clocks >= w->shown || stops)) {
        worker_report_evaluation(now);
        w->shown = w->clocks + w->clocks_planned / EVALUATIONS;
    }
    w->times.evaluate_seconds += lap(&at_s);
    return stops;
}

/* Whether this worker's step of a clock is slow. All draw the same. */
static bool is_slow(const worker *w, size_t clock) {
    const train_settings *settings = &w->options->settings;
    if (settings->server.slow_rank != SLOW_ANY)
        return settings->server.slow_rank == rank_of(w);
    random_stream stream = random_begin(settings->seed, FOR_SLOW + clock);
    return random_u64(&stream) % (uint64_t)w->workers == (uint64_t)rank_of(w);
}

/* Sleeps for what is left of a step that takes so long on this rank. */
static void make_slower(const worker *w, double compute_s, double so_far_s) {
    const server_settings *of = &w->options->settings.server;
    const double factor = is_slow(w, w->clocks) ? of->slow_factor : 1;
    const double left_s = fmax(compute_s, of->step_ms * 1e-3) * factor - so_far_s;
    if (left_s <= 0)
        return;
    struct timespec left = {.tv_sec = (time_t)left_s, .tv_nsec = (long)(fmod(left_s, 1) * 1e9)};
    while (clock_nanosleep(CLOCK_MONOTONIC, 0, &left, &left) == EINTR)
        ;
}

/* One clock, on `count` examples, of which each worker takes its share. Returns whether to stop. */
static bool run_clock(worker *w, const size_t *examples, size_t count) {
    problem *p = &w->problem;
    worker_times *times = &w->times;
    const size_t clock = w->clocks, first = first_of_share(count, rank_of(w), w->workers);
    const size_t own = first_of_share(count, rank_of(w) + 1, w->workers) - first;
    const bool sleeps = w->options->settings.server.step_ms > 0; /* so that there is time to evaluate */
    double at_s = now_s();
    if (p->kind->choose != NULL)
        p->kind->choose(p, examples + first, own);
    const double choose_s = lap(&at_s);
    pull(w, w->values);
    times->pull_seconds += lap(&at_s);
    const bool stops = rank_of(w) == w->evaluator && clock % w->every == 0 && evaluate(w);
    const double evaluate_s = lap(&at_s);
    const double loss = p->kind->gradient(p, examples + first, own, 1.0F / (float)count, w->values, w->gradients);
    w->losses[clock] = (float)(loss / (double)count);
    const double compute_s = choose_s + lap(&at_s);
    make_slower(w, compute_s, compute_s + (sleeps ? evaluate_s : 0));
    times->compute_seconds += compute_s + lap(&at_s);
    push(w, w->gradients);
    times->push_seconds += lap(&at_s);
    note_progress(w, stops);
    end_own_clock(w);
    times->clock_seconds += lap(&at_s);
    return stops;
}

/* All clocks, until it is time to stop. */
static void run_clocks(worker *w) {
    const train_settings *settings = &w->options->settings;
    const size_t batch = settings->batch_rows, examples = w->problem.examples;
    size_t ordered = 0; /* epochs */
    bool stops = false;
    w->begin_s = now_s();
    while (w->clocks < w->clocks_planned && !stops && !w->stops) {
        const size_t epoch = w->clocks / w->clocks_of_epoch, at = w->clocks % w->clocks_of_epoch * batch;
        if (ordered != epoch + 1) {
            random_stream stream = random_begin(settings->seed, 1 + epoch);
            random_permutation(&stream, w->order, examples); /* the same on every rank */
            ordered = epoch + 1;
        }
        stops = run_clock(w, w->order + at, smaller(batch, examples - at));
        look_at_board(w);
    }
    w->times.rank = rank_of(w);
    w->times.steps = (double)w->steps;
    w->times.clocks = (double)w->clocks;
    w->times.seconds = now_s() - w->begin_s;
}

/* What a worker has to say of the table before it leaves it. */
static void note_stats(worker *w) {
    kolo_table_stats stats = {.stats_bytes = sizeof stats};
    if (w->table == NULL || kolo_table_get_stats(w->table, &stats) < 0)
        return;
    w->times.waited_seconds = (double)stats.waited_ns * 1e-9;
    w->times.left_out = (double)stats.left_out;
}

static void train(worker *w) {
    check(w->comm, kolo_barrier(w->comm), "cannot begin together");
    if (rank_of(w) >= w->workers) {
        serve(w);
        return;
    }
    run_clocks(w);
    if (rank_of(w) == w->evaluator) {
        outlast_others(w);
        evaluate(w);
    }
    note_stats(w);
}

static const char cannot_gather[] = "cannot gather the results";

/* Where ranks have ended and the table went on without them, those that are left report. */
static void regroup(worker *w, kolo_comm **comm, FILE **json) {
    const server_settings *of = &w->options->settings.server;
    const bool tolerant = of->server == TRAIN_SSP || of->server == TRAIN_ASP || of->backup_workers > 0;
    const int rc = kolo_barrier(w->comm);
    kolo_comm *left;
    if (rc == 0)
        return;
    if (!tolerant)
        check(w->comm, rc, cannot_gather);
    check(w->comm, kolo_comm_shrink(w->comm, &left), cannot_gather);
    w->ranks_lost = kolo_comm_size(w->comm) - kolo_comm_size(left);
    kolo_comm_destroy(w->comm);
    *comm = w->comm = left;
    if (rank_of(w) == 0)
        train_json_open(json, w->options);
}

/* All ranks get the losses of the clocks, all workers' times, and what was evaluated. */
static void gather(worker *w) {
    kolo_comm *comm = w->comm;
    const double count = (double)w->evaluations_count;
    double most;
    check(comm, kolo_allreduce(comm, &count, &most, 1, KOLO_F64, KOLO_MAX), cannot_gather);
    check(comm, kolo_allreduce(comm, w->losses, w->losses, w->clocks_planned, KOLO_F32, KOLO_SUM), cannot_gather);
    check(comm, kolo_allgather(comm, &w->times, w->times_of_all, sizeof w->times / sizeof(double), KOLO_F64),
          cannot_gather);
    int32_t root = count == most ? rank_of(w) : INT32_MAX;
    check(comm, kolo_allreduce(comm, &root, &root, 1, KOLO_I32, KOLO_MIN), cannot_gather);
    w->evaluations_count = (size_t)most;
    check(comm,
          kolo_broadcast(comm, w->evaluations, w->evaluations_count * sizeof *w->evaluations / sizeof(double), KOLO_F64,
                         root),
          cannot_gather);
    check(comm, kolo_broadcast(comm, w->all_values, w->problem.elements, KOLO_F32, root), cannot_gather);
}

int worker_run(kolo_comm **comm, const train_options *options, const dataset *train_rows, const dataset *test,
               FILE **json) {
    worker w;
    create(&w, *comm, options, train_rows, test);
    if (rank_of(&w) == 0 && !options->quiet)
        worker_report_heading(&w);
    train(&w);
    close_rows(&w); /* the others do not wait for a worker that has left */
    regroup(&w, comm, json);
    gather(&w);
    const double loss = w.evaluations_count > 0 ? w.evaluations[w.evaluations_count - 1].loss : NAN;
    if (options->settings.server.problem == TRAIN_DIGITS)
        w.test_correct = problem_digits_correct(&w.problem, w.all_values);
    if (rank_of(&w) == 0) {
        const char *measure = w.problem.kind->measure;
        worker_report_end(&w, json);
        if (w.evaluations_count == 0)
            complain("the worker that evaluated the %s has ended", measure);
        else if (!isfinite(loss))
            complain("the %s is not finite: training diverged; try a smaller --rate than %g", measure, w.rate);
    }
    destroy(&w);
    return isfinite(loss) ? EXIT_SUCCESS : EXIT_FAILURE;
}
