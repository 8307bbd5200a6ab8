#include <inttypes.h>
#include <math.h>

#include "printed_text.h"
#include "train_report.h"
#include "worker.h"

/* How workers exchange rows: "ssp, staleness 3, 1 server". */
static void print_mode(const server_settings *of) {
    if (of->server == TRAIN_ALLREDUCE) {
        printf("an all-reduce in each clock");
        return;
    }
    printf("%s", train_server_name(of->server));
    if (of->server == TRAIN_SSP)
        printf(", staleness %zu", of->staleness);
    if (of->hogwild)
        printf(", hogwild");
    if (of->backup_workers > 0)
        printf(", %d backup", of->backup_workers);
    if (of->servers > 0)
        printf(", %d server%s", of->servers, plural((size_t)of->servers));
}

void worker_report_heading(const worker *w) {
    const problem *p = &w->problem;
    const server_settings *of = &w->options->settings.server;
    printf("problem %s: %" PRIu64 " rows, %zu parameters, %zu examples, batch of %zu\n",
           train_problem_name(of->problem), p->rows, p->elements, p->examples, w->options->settings.batch_rows);
    printf("server  ");
    print_mode(of);
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

void worker_report_evaluation(const evaluation *now) {
    printf("%9.0f  %11.0f  %9.3f  %10.6f\n", now->clocks, now->iterations, now->seconds, now->loss);
}

/* The first evaluation with a loss that --until asks for; NULL: none. */
static const evaluation *find_reached(const worker *w) {
    const double until = w->options->settings.server.until;
    for (size_t i = 0; i < w->evaluations_count && until > 0; i++)
        if (w->evaluations[i].loss <= until)
            return &w->evaluations[i];
    return NULL;
}

/* NULL: none. */
static const evaluation *last_evaluation(const worker *w) {
    return w->evaluations_count > 0 ? &w->evaluations[w->evaluations_count - 1] : NULL;
}

static double test_accuracy(const worker *w) {
    return (double)w->test_correct / (double)w->problem.test->rows;
}

static void print_summary(const worker *w) {
    const server_settings *of = &w->options->settings.server;
    const problem *p = &w->problem;
    const evaluation *reached = find_reached(w), *last = last_evaluation(w);
    printf("\ntraining summary\n");
    if (last != NULL)
        printf("  %-13s  %.6f after %.0f clocks, %.0f iterations, %.3f s\n", p->kind->measure, last->loss, last->clocks,
               last->iterations, last->seconds);
    if (p->kind->known != NULL)
        printf("  known          %.6f %s\n", p->known_loss, p->kind->known);
    if (of->problem == TRAIN_DIGITS)
        printf("  test accuracy  %.2f %% (%zu of %zu rows that training never saw)\n", 100 * test_accuracy(w),
               w->test_correct, p->test->rows);
    if (reached != NULL)
        printf("  until %-7g  reached after %.0f iterations, in %.3f s\n", of->until, reached->iterations,
               reached->seconds);
    else if (of->until > 0)
        printf("  until %-7g  not reached\n", of->until);
    if (w->ranks_lost > 0)
        printf("  lost           %d rank%s; the others went on\n", w->ranks_lost, plural((size_t)w->ranks_lost));
    printf("\n%-12s %8s %8s %9s %9s %9s %9s %9s\n", "ms of a step", "steps", "all", "compute", "pull", "push", "clock",
           "waited");
    for (int i = 0; i < kolo_comm_size(w->comm); i++) {
        const worker_times *times = &w->times_of_all[i];
        const double ms = 1e3 / times->steps;
        if (times->steps > 0)
            printf("worker %-5.0f %8.0f %8.3f %9.3f %9.3f %9.3f %9.3f %9.3f\n", times->rank, times->steps,
                   ms * (times->seconds - times->evaluate_seconds), ms * times->compute_seconds,
                   ms * times->pull_seconds, ms * times->push_seconds, ms * times->clock_seconds,
                   ms * times->waited_seconds);
    }
}

static void write_evaluation(FILE *file, const evaluation *one) {
    fprintf(file, "{");
    json_pairs_print(file, "clocks=%.0f iterations=%.0f seconds=%.9g loss=%.9g", one->clocks, one->iterations,
                     one->seconds, one->loss);
    fprintf(file, "}");
}

static void write_settings(FILE *file, const worker *w) {
    const train_settings *settings = &w->options->settings;
    const server_settings *of = &settings->server;
    const problem *p = &w->problem;
    char staleness[24] = "null", slow_rank[16] = "null";
    if (of->server == TRAIN_BSP || of->server == TRAIN_SSP)
        snprintf(staleness, sizeof staleness, "%zu", of->server == TRAIN_BSP ? 0 : of->staleness);
    if (of->slow_rank != SLOW_NONE)
        snprintf(slow_rank, sizeof slow_rank, of->slow_rank == SLOW_ANY ? "\"any\"" : "%d", of->slow_rank);
    json_pairs_print(file,
                     "problem=\"%s\" measure=\"%s\" rows=%" PRIu64 " parameters=%zu examples=%zu batch=%zu "
                     "seed=%" PRIu64 " rule=\"%s\" rate=%.9g",
                     train_problem_name(of->problem), p->kind->measure, p->rows, p->elements, p->examples,
                     settings->batch_rows, settings->seed, train_rule_name(w->rule), w->rate);
    fprintf(file, ",\n  ");
    json_pairs_print(file,
                     "server=\"%s\" staleness=%s workers=%d servers=%d backup_workers=%d hogwild=%s slow_rank=%s "
                     "slow_factor=%.9g step_ms=%.9g ranks_lost=%d",
                     train_server_name(of->server), staleness, w->workers, of->servers, of->backup_workers,
                     of->hogwild ? "true" : "false", slow_rank, of->slow_factor, of->step_ms, w->ranks_lost);
}

static void write_times(FILE *file, const worker_times *times, const char *before) {
    fprintf(file, "%s\n    {", before);
    json_pairs_print(file,
                     "rank=%.0f steps=%.0f clocks=%.0f seconds=%.9g compute_seconds=%.9g pull_seconds=%.9g "
                     "push_seconds=%.9g clock_seconds=%.9g waited_seconds=%.9g evaluate_seconds=%.9g left_out=%.0f",
                     times->rank, times->steps, times->clocks, times->seconds, times->compute_seconds,
                     times->pull_seconds, times->push_seconds, times->clock_seconds, times->waited_seconds,
                     times->evaluate_seconds, times->left_out);
    fprintf(file, "}");
}

static void write_json(FILE *file, const worker *w) {
    const double until = w->options->settings.server.until;
    const evaluation *reached = find_reached(w), *last = last_evaluation(w);
    double clocks = 0; /* that any worker has begun */
    fprintf(file, "{\n  ");
    write_settings(file, w);
    fprintf(file, ",\n  ");
    json_pairs_print(file, "loss=%.9g known_loss=%.9g until=%.9g test_accuracy=%.9g", last != NULL ? last->loss : NAN,
                     w->problem.kind->known != NULL ? w->problem.known_loss : NAN, until > 0 ? until : NAN,
                     w->problem.test->rows > 0 ? test_accuracy(w) : NAN);
    fprintf(file, ",\n  \"reached\": ");
    if (reached != NULL)
        write_evaluation(file, reached);
    else
        fprintf(file, "null");
    fprintf(file, ",\n  \"evaluations\": [");
    for (size_t i = 0; i < w->evaluations_count; i++) {
        fprintf(file, i > 0 ? ",\n    " : "\n    ");
        write_evaluation(file, &w->evaluations[i]);
    }
    fprintf(file, "\n  ],\n  \"times\": [");
    const char *before = "";
    for (int i = 0; i < kolo_comm_size(w->comm); i++) {
        const worker_times *times = &w->times_of_all[i];
        if (times->steps == 0)
            continue;
        write_times(file, times, before);
        before = ",";
        clocks = fmax(clocks, times->clocks);
    }
    fprintf(file, "\n  ],\n  \"losses\": ");
    json_floats_print(file, w->losses, smaller((size_t)clocks, w->clocks_planned));
    fprintf(file, "\n}\n");
}

void worker_report_end(const worker *w, FILE **json) {
    print_summary(w);
    train_print_end();
    if (*json != NULL)
        write_json(*json, w);
    train_json_close(json, w->options);
}
