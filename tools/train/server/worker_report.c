#include "worker_report.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "complain.h"
#include "printed_text.h"

/* How workers exchange rows: "ssp, staleness 3, 1 server". */
static void print_mode(const worker *w) {
    const server_settings *of = &w->options->settings.server;
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
        printf(", %d server%s", of->servers, of->servers == 1 ? "" : "s");
}

void worker_report_heading(const worker *w) {
    const problem *p = &w->problem;
    const server_settings *of = &w->options->settings.server;
    printf("problem %s: %llu rows, %zu parameters, %zu examples, batch of %zu\n", train_problem_name(of->problem),
           (unsigned long long)p->rows, p->elements, p->examples, w->options->settings.batch_rows);
    printf("server  ");
    print_mode(w);
    printf("; %d worker%s, rule %s, rate %g\n", w->workers, w->workers == 1 ? "" : "s", train_rule_name(w->rule),
           w->rate);
    if (of->slow_rank >= 0)
        printf("slow    worker %d takes %g times as long for a step\n", of->slow_rank, of->slow_factor);
    if (of->slow_rank == SLOW_ANY)
        printf("slow    a worker in each clock, drawn by chance, takes %g times as long\n", of->slow_factor);
    if (of->step_ms > 0)
        printf("step    computes for %g ms at least\n", of->step_ms);
    printf("\n%9s  %11s  %9s  %10s\n", "clock", "iterations", "seconds", p->kind->measure);
    fflush(stdout);
}

void worker_report_evaluation(const evaluation *now) {
    printf("%9.0f  %11.0f  %9.3f  %10.6f\n", now->clocks, now->iterations, now->seconds, now->loss);
    fflush(stdout);
}

static int ranks_of(const worker *w) {
    return kolo_comm_size(w->comm);
}

static void print_workers(const worker *w) {
    printf("\n%-12s %8s %8s %9s %9s %9s %9s %9s\n", "ms of a step", "steps", "all", "compute", "pull", "push", "clock",
           "waited");
    for (int i = 0; i < ranks_of(w); i++) {
        const worker_times *times = &w->times_of_all[i];
        const double ms = 1e3 / times->steps;
        if (times->steps > 0)
            printf("worker %-5.0f %8.0f %8.3f %9.3f %9.3f %9.3f %9.3f %9.3f\n", times->rank, times->steps,
                   ms * (times->seconds - times->evaluate_seconds), ms * times->compute_seconds,
                   ms * times->pull_seconds, ms * times->push_seconds, ms * times->clock_seconds,
                   ms * times->waited_seconds);
    }
}

void worker_report_summary(const worker *w) {
    const server_settings *of = &w->options->settings.server;
    const problem *p = &w->problem;
    const evaluation *reached = worker_reached(w);
    printf("\ntraining summary\n");
    if (w->evaluations_count > 0) {
        const evaluation *last = &w->evaluations[w->evaluations_count - 1];
        printf("  %-13s  %.6f after %.0f clocks, %.0f iterations, %.3f s\n", p->kind->measure, last->loss, last->clocks,
               last->iterations, last->seconds);
    }
    if (p->kind->known != NULL)
        printf("  known          %.6f %s\n", p->known_loss, p->kind->known);
    if (of->problem == TRAIN_DIGITS)
        printf("  test accuracy  %.2f %% (%zu of %zu rows that training never saw)\n",
               100 * (double)w->test_correct / (double)p->test->rows, w->test_correct, p->test->rows);
    if (reached != NULL)
        printf("  until %-7g  reached after %.0f iterations, in %.3f s\n", of->until, reached->iterations,
               reached->seconds);
    else if (of->has_until)
        printf("  until %-7g  not reached\n", of->until);
    if (w->ranks_lost > 0)
        printf("  lost           %d rank%s; the others went on\n", w->ranks_lost, w->ranks_lost == 1 ? "" : "s");
    print_workers(w);
    fflush(stdout);
}

/* JSON has no number for NaN. */
static void json_number(FILE *file, const char *before, double value) {
    if (isfinite(value))
        fprintf(file, "%s%.9g", before, value);
    else
        fprintf(file, "%snull", before);
}

static void json_evaluation(FILE *file, const evaluation *one) {
    fprintf(file, "{\"clocks\": %.0f, \"iterations\": %.0f, \"seconds\": %.9g, ", one->clocks, one->iterations,
            one->seconds);
    json_number(file, "\"loss\": ", one->loss);
    fprintf(file, "}");
}

static void json_settings(FILE *file, const worker *w) {
    const train_settings *settings = &w->options->settings;
    const server_settings *of = &settings->server;
    const problem *p = &w->problem;
    fprintf(file, "{\n  \"problem\": \"%s\", \"measure\": \"%s\", \"rows\": %llu, \"parameters\": %zu, ",
            train_problem_name(of->problem), p->kind->measure, (unsigned long long)p->rows, p->elements);
    fprintf(file, "\"examples\": %zu, \"batch\": %zu, \"seed\": %llu,\n", p->examples, settings->batch_rows,
            (unsigned long long)settings->seed);
    fprintf(file, "  \"server\": \"%s\", \"staleness\": ", train_server_name(of->server));
    if (of->server == TRAIN_BSP || of->server == TRAIN_SSP)
        fprintf(file, "%zu", of->server == TRAIN_BSP ? 0 : of->staleness);
    else
        fprintf(file, "null");
    fprintf(file,
            ", \"workers\": %d, \"servers\": %d, \"backup_workers\": %d, \"hogwild\": %s, \"rule\": \"%s\", "
            "\"rate\": %.9g,\n",
            w->workers, of->servers, of->backup_workers, of->hogwild ? "true" : "false", train_rule_name(w->rule),
            w->rate);
    fprintf(file, "  \"slow_rank\": ");
    if (of->slow_rank >= 0)
        fprintf(file, "%d", of->slow_rank);
    else
        fprintf(file, of->slow_rank == SLOW_ANY ? "\"any\"" : "null");
    fprintf(file, ", \"slow_factor\": %.9g, \"step_ms\": %.9g, \"ranks_lost\": %d,\n", of->slow_factor, of->step_ms,
            w->ranks_lost);
}

static void json_workers(FILE *file, const worker *w) {
    const char *between = "";
    fprintf(file, "  \"times\": [");
    for (int i = 0; i < ranks_of(w); i++) {
        const worker_times *times = &w->times_of_all[i];
        if (times->steps == 0)
            continue;
        fprintf(
            file,
            "%s\n    {\"rank\": %.0f, \"steps\": %.0f, \"clocks\": %.0f, \"seconds\": %.9g, \"compute_seconds\": %.9g, "
            "\"pull_seconds\": %.9g, \"push_seconds\": %.9g,\n     \"clock_seconds\": %.9g, \"waited_seconds\": %.9g, "
            "\"evaluate_seconds\": %.9g, \"left_out\": %.0f}",
            between, times->rank, times->steps, times->clocks, times->seconds, times->compute_seconds,
            times->pull_seconds, times->push_seconds, times->clock_seconds, times->waited_seconds,
            times->evaluate_seconds, times->left_out);
        between = ",";
    }
    fprintf(file, "\n  ],\n");
}

static void json_results(FILE *file, const worker *w) {
    const server_settings *of = &w->options->settings.server;
    const problem *p = &w->problem;
    const evaluation *reached = worker_reached(w);
    size_t clocks = 0; /* that any worker has begun */
    for (int i = 0; i < ranks_of(w); i++)
        clocks = w->times_of_all[i].clocks > (double)clocks ? (size_t)w->times_of_all[i].clocks : clocks;
    if (w->evaluations_count > 0)
        json_number(file, "  \"loss\": ", w->evaluations[w->evaluations_count - 1].loss);
    else
        fprintf(file, "  \"loss\": null");
    json_number(file, ", \"known_loss\": ", p->kind->known != NULL ? p->known_loss : NAN);
    json_number(file, ", \"until\": ", of->has_until ? of->until : NAN);
    fprintf(file, ", \"reached\": ");
    if (reached != NULL)
        json_evaluation(file, reached);
    else
        fprintf(file, "null");
    if (of->problem == TRAIN_DIGITS)
        fprintf(file, ", \"test_accuracy\": %.9g", (double)w->test_correct / (double)p->test->rows);
    fprintf(file, ",\n  \"evaluations\": [");
    for (size_t i = 0; i < w->evaluations_count; i++) {
        fprintf(file, i > 0 ? ",\n    " : "\n    ");
        json_evaluation(file, &w->evaluations[i]);
    }
    fprintf(file, "\n  ],\n");
    json_workers(file, w);
    fprintf(file, "  \"losses\": [");
    for (size_t clock = 0; clock < clocks && clock < w->clocks_planned; clock++)
        json_number(file, clock == 0 ? "" : ", ", (double)w->losses[clock]);
    fprintf(file, "]\n}\n");
}

int worker_report_json(const worker *w, FILE **file) {
    if (*file == NULL)
        return 0;
    errno = 0;
    json_settings(*file, w);
    json_results(*file, w);
    bool failed = ferror(*file) != 0;
    failed |= fclose(*file) != 0;
    const int write_errno = errno != 0 ? errno : EIO;
    *file = NULL;
    return failed ? complain(w->comm, "cannot write '%s': %s", w->options->json_path, strerror(write_errno)) : 0;
}
