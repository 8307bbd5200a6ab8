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
    row_store_create(&w->store, comm, p, w->rule, w->rate);
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
    row_store_pull_all(&w->store, w->all_values);
    now->iterations = (double)row_store_look(&w->store);
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
    row_store_pull(&w->store, w->values);
    times->pull_seconds += lap(&at_s);
    const bool stops = rank_of(w) == w->evaluator && clock % w->every == 0 && evaluate(w);
    const double evaluate_s = lap(&at_s);
    const double loss = p->kind->gradient(p, examples + first, own, 1.0F / (float)count, w->values, w->gradients);
    w->losses[clock] = (float)(loss / (double)count);
    const double compute_s = choose_s + lap(&at_s);
    make_slower(w, compute_s, compute_s + (sleeps ? evaluate_s : 0));
    times->compute_seconds += compute_s + lap(&at_s);
    row_store_push(&w->store, w->gradients);
    times->push_seconds += lap(&at_s);
    row_store_note(&w->store, stops);
    row_store_clock(&w->store);
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
        row_store_look(&w->store);
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
        row_store_serve(&w->store);
        return;
    }
    run_clocks(w);
    if (rank_of(w) == w->evaluator) {
        row_store_outlast(&w->store);
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
    row_store_destroy(&w.store); /* the others do not wait for a worker that has left */
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
