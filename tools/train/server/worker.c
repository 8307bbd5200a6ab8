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

static void open_table(row_store *store, train_rule rule, double rate) {
    static const kolo_table_rule rules[] = {[TRAIN_RULE_SGD] = KOLO_TABLE_SGD,
                                            [TRAIN_RULE_MOMENTUM] = KOLO_TABLE_SGD,
                                            [TRAIN_RULE_ADAGRAD] = KOLO_TABLE_ADAGRAD,
                                            [TRAIN_RULE_ADAM] = KOLO_TABLE_ADAM};
    const problem *p = store->problem;
    const server_settings *settings = &p->settings->server;
    kolo_table_options options = KOLO_TABLE_OPTIONS_INIT, board = KOLO_TABLE_OPTIONS_INIT;
    options.name = train_problem_name(settings->problem);
    options.rows = p->rows;
    options.columns = p->columns;
    options.row_columns = p->row_columns;
    options.rule = rules[rule];
    options.learning_rate = rate;
    options.momentum = rule == TRAIN_RULE_MOMENTUM ? momentum : 0;
    options.staleness = settings->server == TRAIN_BSP   ? 0
                        : settings->server == TRAIN_ASP ? KOLO_STALENESS_UNBOUNDED
                                                        : (int64_t)settings->staleness;
    options.backup_workers = settings->backup_workers;
    options.hogwild = settings->hogwild;
    options.servers = settings->servers;
    check(store->comm, kolo_table_create(store->comm, &options, &store->table), "cannot make the table");
    board.name = "board";
    board.rows = (uint64_t)kolo_comm_size(store->comm);
    board.columns = BOARD_COLUMNS;
    board.dtype = KOLO_F64;
    board.rule = KOLO_TABLE_ASSIGN;
    board.staleness = BOARD_STALENESS;
    store->board_rows = allocate(board.rows, BOARD_COLUMNS * sizeof *store->board_rows);
    check(store->comm, kolo_table_create(store->comm, &board, &store->board), "cannot make the board");
}

static void open_replicas(row_store *store, train_rule rule, double rate) {
    const size_t count = store->problem->elements;
    kolo_optimizer_options options = KOLO_OPTIMIZER_OPTIONS_INIT;
    kolo_parameter_group group = KOLO_PARAMETER_GROUP_INIT;
    options.kind = rule == TRAIN_RULE_ADAM ? KOLO_OPTIMIZER_ADAM : KOLO_OPTIMIZER_SGD;
    options.count = group.end = count;
    options.op = KOLO_SUM;
    group.learning_rate = rate;
    group.momentum = rule == TRAIN_RULE_MOMENTUM ? momentum : 0;
    store->values = allocate(count, sizeof *store->values);
    store->gradients = allocate(count, sizeof *store->gradients);
    check(store->comm, kolo_optimizer_create(store->comm, &options, &group, 1, &store->optimizer),
          "cannot make the optimizer");
}

static void store_create(row_store *store, kolo_comm *comm, const problem *p, train_rule rule, double rate) {
    const server_settings *settings = &p->settings->server;
    *store = (row_store){.comm = comm, .problem = p, .workers = kolo_comm_size(comm) - settings->servers};
    if (settings->server == TRAIN_ALLREDUCE)
        open_replicas(store, rule, rate);
    else
        open_table(store, rule, rate);
    float *values = store->table == NULL ? store->values : allocate(p->elements, sizeof *values);
    if (kolo_comm_rank(comm) == 0)
        p->kind->initialize(p, values); /* and the others take these over */
    check(comm,
          store->table == NULL ? kolo_broadcast(comm, values, p->elements, KOLO_F32, 0)
                               : kolo_table_initialize(store->table, values, 0),
          "cannot share the first values");
    if (store->table != NULL)
        free(values);
}

static void store_destroy(row_store *store) {
    kolo_table_destroy(store->board); /* first, as a server does: all leave the tables in one order */
    kolo_table_destroy(store->table);
    kolo_optimizer_destroy(store->optimizer);
    free(store->board_rows);
    free(store->values);
    free(store->gradients);
    *store = (row_store){0};
}

static void pull_all(row_store *store, float *values) {
    const problem *p = store->problem;
    if (store->table == NULL)
        memcpy(values, store->values, p->elements * sizeof *values);
    else
        check(store->comm, kolo_table_pull(store->table, 0, p->rows, values), "cannot pull rows");
}

/* The rows that were chosen, or all of a problem without choice, one behind the other. */
static void pull(row_store *store, float *values) {
    const problem *p = store->problem;
    if (p->kind->choose == NULL)
        pull_all(store, values);
    else if (store->table != NULL && p->ids_count > 0)
        check(store->comm, kolo_table_pull_rows(store->table, p->ids, p->ids_count, values), "cannot pull rows");
    for (size_t i = 0; i < p->ids_count && store->table == NULL; i++)
        memcpy(values + i * p->columns, store->values + p->ids[i] * p->columns, p->columns * sizeof *values);
}

static void push(row_store *store, const float *gradients) {
    const problem *p = store->problem;
    const bool all = p->kind->choose == NULL;
    store->steps++;
    if (store->table == NULL && all)
        memcpy(store->gradients, gradients, p->elements * sizeof *gradients);
    for (size_t i = 0; i < p->ids_count && store->table == NULL; i++)
        memcpy(store->gradients + p->ids[i] * p->columns, gradients + i * p->columns, p->columns * sizeof *gradients);
    if (store->table == NULL || (!all && p->ids_count == 0))
        return;
    check(store->comm,
          all ? kolo_table_push(store->table, 0, p->rows, gradients)
              : kolo_table_push_rows(store->table, p->ids, p->ids_count, gradients),
          "cannot push rows");
}

static void end_own_clock(row_store *store) {
    const problem *p = store->problem;
    kolo_table_stats stats = {.stats_bytes = sizeof stats};
    store->clocks++;
    if (store->table == NULL) {
        check(store->comm, kolo_optimizer_step(store->optimizer, store->gradients, store->values, NULL),
              "cannot sum the gradients");
        for (size_t i = 0; i < p->ids_count; i++)
            memset(store->gradients + p->ids[i] * p->columns, 0, p->columns * sizeof *store->gradients);
        return;
    }
    check(store->comm, kolo_table_clock(store->table), "cannot end the clock");
    if (p->settings->server.backup_workers > 0 && kolo_table_get_stats(store->table, &stats) == 0)
        store->clocks = stats.clock; /* it may have been left out of some */
}

/* Notes on the board how far this worker is, and whether all are to stop. With replicas that is known at once. */
static void note_progress(row_store *store, bool stops) {
    const uint64_t own = (uint64_t)kolo_comm_rank(store->comm);
    if (store->table != NULL) {
        const double row[BOARD_COLUMNS] = {[STEPS] = (double)store->steps, [STOPS] = stops};
        check(store->comm, kolo_table_push_rows(store->board, &own, 1, row), "cannot write on the board");
    } else if (store->problem->settings->server.until > 0) {
        int32_t stop = stops;
        check(store->comm, kolo_allreduce(store->comm, &stop, &stop, 1, KOLO_I32, KOLO_MAX),
              "cannot agree on when to stop");
        store->stops = stop;
    }
}

/* The steps that all workers together have done; and, in store->stops, whether to stop. */
static uint64_t look_at_board(row_store *store) {
    uint64_t steps = 0;
    if (store->table == NULL)
        return (uint64_t)store->workers * store->steps;
    check(store->comm, kolo_table_pull(store->board, 0, (uint64_t)store->workers, store->board_rows),
          "cannot read the board");
    for (int worker = 0; worker < store->workers; worker++) {
        steps += (uint64_t)store->board_rows[worker * BOARD_COLUMNS + STEPS];
        store->stops |= store->board_rows[worker * BOARD_COLUMNS + STOPS] > 0;
    }
    return steps;
}

/* Ends a clock, however long that takes. */
static void end_clock(row_store *store, kolo_table *table) {
    int rc = kolo_table_clock(table);
    while (rc == KOLO_ERR_TIMEOUT)
        rc = kolo_table_wait(table);
    check(store->comm, rc, "cannot wait for the other workers");
}

/* Waits, where workers may be at different clocks, until the others have left or ended: then all that they pushed is
 * there. They need not wait for this worker meanwhile. */
static void outlast_others(row_store *store) {
    kolo_table_stats stats = {.stats_bytes = sizeof stats, .workers = 2};
    const train_server server = store->problem->settings->server.server;
    while (server == TRAIN_SSP && stats.workers > 1) { /* others may wait for this worker, until they leave */
        const struct timespec pause = {.tv_nsec = PAUSE_NS};
        nanosleep(&pause, NULL);
        end_clock(store, store->table);
        kolo_table_get_stats(store->table, &stats);
    }
    for (int clock = 0; server == TRAIN_ASP && clock <= BOARD_STALENESS; clock++)
        end_clock(store, store->board);
}

static void serve(row_store *store) {
    kolo_table_destroy(store->board); /* nobody is to wait for this rank */
    store->board = NULL;
    check(store->comm, kolo_table_serve(store->table), "cannot serve");
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
    store_create(&w->store, comm, p, w->rule, w->rate);
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
    pull_all(&w->store, w->all_values);
    now->iterations = (double)look_at_board(&w->store);
    now->clocks = (double)w->store.clocks;
    now->loss = w->problem.kind->loss(&w->problem, w->all_values);
    const bool stops = !isfinite(now->loss) || now->loss <= until;
    if (!w->options->quiet && (w->store.clocks >= w->shown || stops)) {
        worker_report_evaluation(now);
        w->shown = w->store.clocks + w->clocks_planned / EVALUATIONS;
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
    const double factor = is_slow(w, w->store.clocks) ? of->slow_factor : 1;
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
    const size_t clock = w->store.clocks, first = first_of_share(count, rank_of(w), w->workers);
    const size_t own = first_of_share(count, rank_of(w) + 1, w->workers) - first;
    const bool sleeps = w->options->settings.server.step_ms > 0; /* so that there is time to evaluate */
    double at_s = now_s();
    if (p->kind->choose != NULL)
        p->kind->choose(p, examples + first, own);
    const double choose_s = lap(&at_s);
    pull(&w->store, w->values);
    times->pull_seconds += lap(&at_s);
    const bool stops = rank_of(w) == w->evaluator && clock % w->every == 0 && evaluate(w);
    const double evaluate_s = lap(&at_s);
    const double loss = p->kind->gradient(p, examples + first, own, 1.0F / (float)count, w->values, w->gradients);
    w->losses[clock] = (float)(loss / (double)count);
    const double compute_s = choose_s + lap(&at_s);
    make_slower(w, compute_s, compute_s + (sleeps ? evaluate_s : 0));
    times->compute_seconds += compute_s + lap(&at_s);
    push(&w->store, w->gradients);
    times->push_seconds += lap(&at_s);
    note_progress(&w->store, stops);
    end_own_clock(&w->store);
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
    while (w->store.clocks < w->clocks_planned && !stops && !w->store.stops) {
        const size_t epoch = w->store.clocks / w->clocks_of_epoch, at = w->store.clocks % w->clocks_of_epoch * batch;
        if (ordered != epoch + 1) {
            random_stream stream = random_begin(settings->seed, 1 + epoch);
            random_permutation(&stream, w->order, examples); /* the same on every rank */
            ordered = epoch + 1;
        }
        stops = run_clock(w, w->order + at, smaller(batch, examples - at));
        look_at_board(&w->store);
    }
    w->times.rank = rank_of(w);
    w->times.steps = (double)w->store.steps;
    w->times.clocks = (double)w->store.clocks;
    w->times.seconds = now_s() - w->begin_s;
}

/* What a worker has to say of the table before it leaves it. */
static void note_stats(worker *w) {
    kolo_table_stats stats = {.stats_bytes = sizeof stats};
    if (w->store.table == NULL || kolo_table_get_stats(w->store.table, &stats) < 0)
        return;
    w->times.waited_seconds = (double)stats.waited_ns * 1e-9;
    w->times.left_out = (double)stats.left_out;
}

static void train(worker *w) {
    check(w->comm, kolo_barrier(w->comm), "cannot begin together");
    if (rank_of(w) >= w->workers) {
        serve(&w->store);
        return;
    }
    run_clocks(w);
    if (rank_of(w) == w->evaluator) {
        outlast_others(&w->store);
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
    store_destroy(&w.store); /* the others do not wait for a worker that has left */
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
