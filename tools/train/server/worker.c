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
#include "worker_report.h"

enum { EVALUATIONS = 20 };   /* where --every does not say otherwise */
enum { FOR_SLOW = 1 << 30 }; /* random numbers */

static int rank_of(const worker *w) {
    return kolo_comm_rank(w->comm);
}

static int is_worker(const worker *w) {
    return rank_of(w) < w->workers;
}

static size_t share(size_t count, int rank, int ranks) {
    return count * (size_t)rank / (size_t)ranks;
}

static size_t smaller(size_t a, size_t b) {
    return a < b ? a : b;
}

/* All ranks see a wrong number; the first one tells. */
static int check_ranks(const kolo_comm *comm, const train_settings *settings) {
    const server_settings *of = &settings->server;
    const int ranks = kolo_comm_size(comm), workers = ranks - of->servers, first = kolo_comm_rank(comm) == 0;
    if (workers < 1)
        return first ? complain(comm, "--servers %d: %d rank%s, so no worker is left", of->servers, ranks,
                                ranks == 1 ? " is there" : "s are there")
                     : -1;
    if (of->backup_workers >= workers)
        return first ? complain(comm, "--backup-workers %d: must be less than the %d workers", of->backup_workers,
                                workers)
                     : -1;
    if (of->slow_rank >= workers)
        return first ? complain(comm, "--slow: there is no worker %d of %d", of->slow_rank, workers) : -1;
    if (settings->batch_rows < (size_t)workers)
        return first ? complain(comm, "--batch %zu has not a row for each of %d workers", settings->batch_rows, workers)
                     : -1;
    return 0;
}

static int allocate(worker *w) {
    w->order = calloc(w->problem.examples, sizeof *w->order);
    w->values = calloc(w->problem.elements, sizeof *w->values);
    w->gradients = calloc(w->problem.elements, sizeof *w->gradients);
    w->all_values = calloc(w->problem.elements, sizeof *w->all_values);
    w->losses = calloc(w->clocks_planned, sizeof *w->losses);
    w->evaluations = calloc(w->clocks_planned + 2, sizeof *w->evaluations);
    w->times_of_all = calloc((size_t)kolo_comm_size(w->comm), sizeof *w->times_of_all);
    return w->order != NULL && w->values != NULL && w->gradients != NULL && w->all_values != NULL &&
                   w->losses != NULL && w->evaluations != NULL && w->times_of_all != NULL
               ? 0
               : complain(w->comm, "not enough memory for %zu parameters", w->problem.elements);
}

static int create(worker *w, kolo_comm *comm, const train_options *options, const dataset *train, const dataset *test) {
    const train_settings *settings = &options->settings;
    const server_settings *of = &settings->server;
    *w = (worker){.comm = comm, .options = options, .workers = kolo_comm_size(comm) - of->servers};
    if (check_ranks(comm, settings) < 0)
        return -1;
    if (problem_create(&w->problem, settings, train, test, settings->batch_rows / (size_t)w->workers + 1) < 0)
        return complain(comm, "not enough memory for the problem '%s'", train_problem_name(of->problem));
    const problem_kind *kind = w->problem.kind;
    const size_t clocks_of_epoch = (w->problem.examples + settings->batch_rows - 1) / settings->batch_rows;
    const size_t epochs = of->has_epochs ? settings->epochs : kind->epochs;
    if (settings->batch_rows > w->problem.examples)
        return rank_of(w) == 0 ? complain(comm, "--batch %zu is more than the %zu rows to train with",
                                          settings->batch_rows, w->problem.examples)
                               : -1;
    w->clocks_planned = smaller(settings->steps_max, clocks_of_epoch * epochs);
    w->every = of->every > 0 ? of->every : w->clocks_planned / EVALUATIONS + (w->clocks_planned < EVALUATIONS);
    w->rule = of->has_rule                                                        ? of->rule
              : of->hogwild                                                       ? TRAIN_RULE_SGD
              : of->server == TRAIN_ALLREDUCE && kind->rule == TRAIN_RULE_ADAGRAD ? TRAIN_RULE_SGD
                                                                                  : kind->rule;
    w->rate = of->has_rate ? settings->rate : kind->rate;
    w->evaluator = of->slow_rank == 0 && w->workers > 1 ? 1 : 0;
    const int rc = allocate(w);
    return rc == 0 ? row_store_create(&w->store, comm, &w->problem, w->rule, w->rate) : rc;
}

static void destroy(worker *w) {
    row_store_destroy(&w->store);
    if (w->problem.kind != NULL)
        problem_destroy(&w->problem);
    free(w->order);
    free(w->values);
    free(w->gradients);
    free(w->all_values);
    free(w->losses);
    free(w->evaluations);
    free(w->times_of_all);
}

/* The loss of the rows as they are now. */
static int evaluate(worker *w, bool *stops) {
    const server_settings *of = &w->options->settings.server;
    const double begin_s = now_s();
    evaluation *now = &w->evaluations[w->evaluations_count];
    uint64_t iterations;
    int rc = row_store_pull_all(&w->store, w->all_values);
    if (rc == 0)
        rc = row_store_look(&w->store, &iterations);
    if (rc < 0)
        return rc;
    *now = (evaluation){.clocks = (double)w->store.clocks,
                        .iterations = (double)iterations,
                        .seconds = begin_s - w->begin_s,
                        .loss = w->problem.kind->loss(&w->problem, w->all_values)};
    w->evaluations_count++;
    *stops = !isfinite(now->loss) || (of->has_until && now->loss <= of->until);
    if (!w->options->quiet && (w->store.clocks >= w->shown || *stops)) {
        worker_report_evaluation(now);
        w->shown = w->store.clocks + w->clocks_planned / EVALUATIONS;
    }
    w->times.evaluate_seconds += now_s() - begin_s;
    return 0;
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

/* One clock, on `count` examples, of which each worker takes its share. */
static int run_clock(worker *w, const size_t *examples, size_t count, bool *stops) {
    problem *p = &w->problem;
    const size_t clock = w->store.clocks;
    const bool evaluates = rank_of(w) == w->evaluator && clock % w->every == 0;
    const bool sleeps = w->options->settings.server.step_ms > 0; /* so that there is time to evaluate */
    const size_t first = share(count, rank_of(w), w->workers);
    const size_t own = share(count, rank_of(w) + 1, w->workers) - first;
    int rc = 0;
    double begin_s = now_s();
    if (p->kind->choose != NULL)
        p->kind->choose(p, examples + first, own);
    const double chosen_s = now_s();
    rc = row_store_pull(&w->store, w->values);
    const double pulled_s = now_s();
    if (rc == 0 && evaluates)
        rc = evaluate(w, stops);
    if (rc < 0)
        return rc;
    const double evaluated_s = now_s();
    const double loss = p->kind->gradient(p, examples + first, own, 1.0F / (float)count, w->values, w->gradients);
    w->losses[clock] = (float)(loss / (double)count);
    const double compute_s = now_s() - evaluated_s + (chosen_s - begin_s);
    make_slower(w, compute_s, compute_s + (sleeps ? evaluated_s - pulled_s : 0));
    const double computed_s = now_s();
    rc = row_store_push(&w->store, w->gradients);
    const double pushed_s = now_s();
    if (rc == 0)
        rc = row_store_note(&w->store, *stops);
    if (rc == 0)
        rc = row_store_clock(&w->store);
    w->times.compute_seconds += computed_s - evaluated_s + (chosen_s - begin_s);
    w->times.pull_seconds += pulled_s - chosen_s;
    w->times.push_seconds += pushed_s - computed_s;
    w->times.clock_seconds += now_s() - pushed_s;
    return rc;
}

/* All clocks, until it is time to stop. */
static int run_clocks(worker *w) {
    const train_settings *settings = &w->options->settings;
    const size_t clocks_of_epoch = (w->problem.examples + settings->batch_rows - 1) / settings->batch_rows;
    bool stops = false;
    int rc = 0;
    size_t ordered = 0; /* epochs */
    uint64_t iterations;
    w->begin_s = now_s();
    while (rc == 0 && w->store.clocks < w->clocks_planned && !stops && !w->store.stops) {
        const size_t epoch = w->store.clocks / clocks_of_epoch;
        const size_t at = w->store.clocks % clocks_of_epoch * settings->batch_rows;
        if (ordered != epoch + 1) {
            random_stream stream = random_begin(settings->seed, 1 + epoch);
            random_permutation(&stream, w->order, w->problem.examples); /* the same on every rank */
            ordered = epoch + 1;
        }
        rc = run_clock(w, w->order + at, smaller(settings->batch_rows, w->problem.examples - at), &stops);
        if (rc == 0)
            rc = row_store_look(&w->store, &iterations);
    }
    w->times.rank = rank_of(w);
    w->times.steps = (double)w->store.steps;
    w->times.clocks = (double)w->store.clocks;
    w->times.seconds = now_s() - w->begin_s;
    return rc;
}

/* What a worker has to say of the table before it leaves it. */
static void note_stats(worker *w) {
    kolo_table_stats stats = {.stats_bytes = sizeof stats};
    if (w->store.table == NULL || kolo_table_get_stats(w->store.table, &stats) < 0)
        return;
    w->times.waited_seconds = (double)stats.waited_ns * 1e-9;
    w->times.left_out = (double)stats.left_out;
}

static int train(worker *w) {
    if (kolo_barrier(w->comm) < 0)
        return complain_kolo(w->comm, "cannot begin together");
    if (!is_worker(w))
        return row_store_serve(&w->store);
    int rc = run_clocks(w);
    note_stats(w);
    if (rc < 0 || rank_of(w) != w->evaluator)
        return rc;
    bool stops;
    rc = row_store_outlast(&w->store);
    note_stats(w);
    return rc == 0 ? evaluate(w, &stops) : rc;
}

/* Where ranks have ended and the table went on without them, those that are left report. */
static int regroup(worker *w, kolo_comm **comm, FILE **json) {
    const server_settings *of = &w->options->settings.server;
    const bool tolerant = of->server == TRAIN_SSP || of->server == TRAIN_ASP || of->backup_workers > 0;
    kolo_comm *left;
    if (kolo_barrier(w->comm) == 0)
        return 0;
    if (!tolerant || kolo_comm_shrink(w->comm, &left) < 0)
        return complain_kolo(w->comm, "cannot gather the results");
    w->ranks_lost = kolo_comm_size(w->comm) - kolo_comm_size(left);
    kolo_comm_destroy(w->comm);
    *comm = w->comm = left;
    return rank_of(w) == 0 ? train_json_open(json, left, w->options) : 0;
}

/* All ranks get the losses of the clocks, all workers' times, and what was evaluated. */
static int gather(worker *w) {
    double count = (double)w->evaluations_count, most;
    if (kolo_allreduce(w->comm, &count, &most, 1, KOLO_F64, KOLO_MAX) < 0 ||
        kolo_allreduce(w->comm, w->losses, w->losses, w->clocks_planned, KOLO_F32, KOLO_SUM) < 0 ||
        kolo_allgather(w->comm, &w->times, w->times_of_all, sizeof w->times / sizeof(double), KOLO_F64) < 0)
        return complain_kolo(w->comm, "cannot gather the results");
    int32_t root = count == most ? rank_of(w) : INT32_MAX;
    if (kolo_allreduce(w->comm, &root, &root, 1, KOLO_I32, KOLO_MIN) < 0)
        return complain_kolo(w->comm, "cannot gather the results");
    w->evaluations_count = (size_t)most;
    if (kolo_broadcast(w->comm, w->evaluations, w->evaluations_count * sizeof *w->evaluations / sizeof(double),
                       KOLO_F64, root) < 0 ||
        kolo_broadcast(w->comm, w->all_values, w->problem.elements, KOLO_F32, root) < 0)
        return complain_kolo(w->comm, "cannot gather the results");
    return 0;
}

const evaluation *worker_reached(const worker *w) {
    const server_settings *of = &w->options->settings.server;
    for (size_t i = 0; i < w->evaluations_count && of->has_until; i++)
        if (w->evaluations[i].loss <= of->until)
            return &w->evaluations[i];
    return NULL;
}

/* Returns the exit code. */
static int report(worker *w, FILE **json) {
    const double loss = w->evaluations_count > 0 ? w->evaluations[w->evaluations_count - 1].loss : NAN;
    if (w->options->settings.server.problem == TRAIN_DIGITS)
        w->test_correct = problem_digits_correct(&w->problem, w->all_values);
    if (rank_of(w) == 0) {
        worker_report_summary(w);
        if (ferror(stdout))
            return complain(w->comm, "cannot write to standard output: %s", strerror(errno));
        if (worker_report_json(w, json) < 0)
            return -1;
        if (w->evaluations_count == 0)
            complain(w->comm, "the worker that evaluated the %s has ended", w->problem.kind->measure);
        else if (!isfinite(loss))
            complain(w->comm, "the %s is not finite: training diverged; try a smaller --rate than %g",
                     w->problem.kind->measure, w->rate);
    }
    return isfinite(loss) ? EXIT_SUCCESS : EXIT_FAILURE;
}

int worker_run(kolo_comm **comm, const train_options *options, const dataset *train_rows, const dataset *test,
               FILE **json) {
    worker w;
    int rc = create(&w, *comm, options, train_rows, test);
    if (rc == 0 && rank_of(&w) == 0 && !options->quiet)
        worker_report_heading(&w);
    if (rc == 0)
        rc = train(&w);
    row_store_destroy(&w.store); /* the others do not wait for a worker that has left */
    if (rc == 0)
        rc = regroup(&w, comm, json);
    if (rc == 0)
        rc = gather(&w);
    if (rc == 0)
        rc = report(&w, json);
    destroy(&w);
    return rc;
}
