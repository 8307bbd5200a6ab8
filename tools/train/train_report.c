#include "train_report.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "complain.h"
#include "kolo_tools.h"
#include "printed_text.h"

/* What rank 0 tells the waiting ranks after each epoch. */
enum verdict { VERDICT_LATER, VERDICT_SAME, VERDICT_DIFFERENT };

static int tell(kolo_comm *comm, int32_t verdict) {
    if (kolo_broadcast(comm, &verdict, 1, KOLO_I32, 0) < 0)
        return complain_kolo(comm, "cannot share the progress of the run in one process");
    return 0;
}

double train_report_accuracy(const trainer *t, const epoch_result *result) {
    return (double)result->test_correct / (double)t->test->rows;
}

epoch_result train_report_total(const trainer *t) {
    epoch_result sum = t->results[t->epochs - 1];
    for (size_t epoch = 0; epoch + 1 < t->epochs; epoch++) {
        sum.samples += t->results[epoch].samples;
        sum.seconds += t->results[epoch].seconds;
        sum.allreduce_seconds += t->results[epoch].allreduce_seconds;
        sum.update_seconds += t->results[epoch].update_seconds;
    }
    return sum;
}

static void compare(comparison *result, const trainer *together, const trainer *alone) {
    const epoch_result run_alone = train_report_total(alone);
    result->seconds_together = train_report_total(together).seconds;
    result->seconds_alone = run_alone.seconds;
    result->test_accuracy_alone = train_report_accuracy(alone, &run_alone);
    for (size_t step = 0; step < alone->steps; step++) {
        double reference = (double)alone->losses[step];
        double difference = fabs((double)together->losses[step] - reference) / fmax(1, fabs(reference));
        if (step == 0 || difference > result->difference_max) {
            result->difference_max = difference;
            result->step_of_max = step + 1;
        }
        if (step < COMPARISON_STEPS)
            result->early_difference_max = result->difference_max;
    }
    result->same = result->early_difference_max <= COMPARISON_TOLERANCE;
}

/* Rank 0's part. A word after each epoch keeps every single wait of the others short. */
static int lead(comparison *result, const trainer *together, kolo_comm *single) {
    trainer alone;
    if (trainer_create(&alone, single, together->options, together->train, together->test) < 0)
        return -1;
    int rc = trainer_begin(&alone);
    while (rc == 0 && alone.steps < alone.steps_planned) {
        rc = trainer_run_epoch(&alone);
        if (rc == 0)
            rc = tell(together->comm, VERDICT_LATER);
    }
    if (rc == 0) {
        compare(result, together, &alone);
        rc = tell(together->comm, result->same ? VERDICT_SAME : VERDICT_DIFFERENT);
    }
    trainer_destroy(&alone);
    return rc;
}

static int follow(comparison *result, const trainer *together) {
    int32_t verdict = VERDICT_LATER;
    for (size_t epoch = 0; epoch <= together->epochs_planned && verdict == VERDICT_LATER; epoch++)
        if (kolo_broadcast(together->comm, &verdict, 1, KOLO_I32, 0) < 0)
            return complain_kolo(together->comm, "cannot follow the run in one process");
    result->same = verdict == VERDICT_SAME;
    return 0;
}

/* Which CPUs the ranks have had; collective. */
static int find_cpus(comparison *result, const trainer *t) {
    kolo_comm *comm = t->comm;
    double seconds[] = {t->compute_seconds, t->starved_seconds};
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof(set), &set) != 0)
        CPU_ZERO(&set);
    if (kolo_allreduce(comm, &set, &set, sizeof(set), KOLO_U8, KOLO_BOR) < 0 ||
        kolo_allreduce(comm, seconds, seconds, 2, KOLO_F64, KOLO_SUM) < 0)
        return complain_kolo(comm, "cannot find out which CPUs the ranks have had");
    result->starved_share = seconds[1] / seconds[0];
    if (kolo_comm_nodes(comm) > 1)
        return 0;
    kolo_machine machine = {.machine_bytes = sizeof(machine)};
    result->cpus = CPU_COUNT(&set);
    if (kolo_machine_query(&machine) == KOLO_OK && machine.quota_millicpus > 0)
        result->cpus = (int)fmin(result->cpus, ceil(machine.quota_millicpus * 1e-3));
    return 0;
}

int comparison_run(comparison *result, const trainer *together) {
    *result = (comparison){0};
    const int found = find_cpus(result, together);
    if (found < 0)
        return found;
    if (kolo_comm_rank(together->comm) != 0)
        return follow(result, together);
    kolo_options options = KOLO_OPTIONS_INIT;
    options.rank = 0;
    options.size = 1;
    kolo_comm *single;
    if (kolo_comm_create(&single, &options) < 0)
        return complain(together->comm, "cannot begin the run in one process: %s", kolo_error_message());
    int rc = lead(result, together, single);
    kolo_comm_destroy(single);
    return rc;
}

void train_report_heading(const trainer *t) {
    size_t parameters = t->model.parameters_count;
    printf("data    %s: %zu rows to train, %zu to test\n", t->options->data_path, t->train->rows, t->test->rows);
    printf("model   %zu-%zu-%zu-%zu, %zu parameters, gradient of %.2f MB in one all-reduce a step\n",
           t->train->features, t->options->settings.hidden, t->options->settings.hidden, t->train->classes, parameters,
           (double)(parameters + 1) * sizeof(float) / 1e6);
    printf("ranks   %d, batch of %zu rows shared between them, ", kolo_comm_size(t->comm),
           t->options->settings.batch_rows);
    if (t->options->settings.accumulate > 1)
        printf("%zu added for each of ", t->options->settings.accumulate);
    printf("%zu step%s\n", t->steps_planned, t->steps_planned == 1 ? "" : "s");
    if (t->options->settings.resume)
        printf("resume  %s: after step %zu\n", t->options->resume_path, t->steps);
    if (t->options->settings.elastic)
        printf("join    kolo-train --join %s\n", t->options->job);
    printf("\n%9s  %9s  %9s  %10s  %10s\n", "epoch", "loss", "test", "samples/s", "all-reduce");
    fflush(stdout);
}

void train_report_epoch(const trainer *t) {
    const epoch_result *result = &t->results[t->epochs - 1];
    printf("%4zu/%-4zu  %9.6f  %7.2f %%  %10.0f  %8.1f %%\n", t->epochs, t->epochs_planned, result->loss,
           100 * train_report_accuracy(t, result), (double)result->samples / result->seconds,
           100 * result->allreduce_seconds / result->seconds);
    fflush(stdout);
}

/* Why training together took longer than alone, and what to do. */
static void print_loss_of_time(const comparison *c, const epoch_result *run, int ranks) {
    enum { STARVED_PERCENT_MIN = 10 };
    const double starved_percent = 100 * c->starved_share;
    double load[1];
    printf("  why slower     ");
    if (c->cpus > 0 && c->cpus < ranks) {
        printf("%d ranks share %d CPU%s: start as many ranks as CPUs\n", ranks, c->cpus, c->cpus == 1 ? "" : "s");
    } else if (starved_percent >= STARVED_PERCENT_MIN) {
        printf("ranks had no CPU for %.0f %% of their computing, as other programs\n", starved_percent);
        printf("                 run here");
        if (getloadavg(load, 1) == 1)
            printf(" (load average %.1f, these ranks included)", load[0]);
        printf(": try again\n                 when they have ended, or start fewer ranks\n");
    } else {
        printf("%.0f %% of the time went into all-reduce, as steps are short:\n",
               100 * run->allreduce_seconds / run->seconds);
        printf("                 take a larger --batch or --hidden, or fewer ranks\n");
    }
}

static void print_comparison(const comparison *c, const epoch_result *run, int ranks) {
    if (!c->same)
        printf("  one process    ANOTHER LOSS CURVE: the first %d steps' losses differ by %.1e (allowed %.0e)\n",
               COMPARISON_STEPS, c->early_difference_max, COMPARISON_TOLERANCE);
    else if (c->difference_max <= COMPARISON_TOLERANCE)
        printf("  one process    same loss curve: no step's loss differs by more than %.1e (step %zu)\n",
               c->difference_max, c->step_of_max);
    else
        printf("  one process    same first %d steps (%.1e); then rounding grew, as it can at a high --rate (%.1e at "
               "step %zu)\n",
               COMPARISON_STEPS, c->early_difference_max, c->difference_max, c->step_of_max);
    printf("  speedup        %.2f with %d rank%s: %.2f s, one process %.2f s\n", c->seconds_alone / c->seconds_together,
           ranks, ranks == 1 ? "" : "s", c->seconds_together, c->seconds_alone);
    if (c->seconds_alone < c->seconds_together)
        print_loss_of_time(c, run, ranks);
}

/* A step's time, and what is in it. */
static void print_step(const trainer *t, const epoch_result *run) {
    const train_settings *settings = &t->options->settings;
    const double ms = 1e3 / (double)run->steps;
    printf("  step           %.3f ms: %.3f gradients, ", ms * run->seconds,
           ms * (run->seconds - run->allreduce_seconds - run->update_seconds));
    if (settings->fused)
        printf("%.3f all-reduce and update\n", ms * run->allreduce_seconds);
    else
        printf("%.3f all-reduce, %.3f update\n", ms * run->allreduce_seconds, ms * run->update_seconds);
    printf("  optimizer      %s%s, %zu bytes of state per rank\n", train_optimizer_name(settings->optimizer),
           settings->fused ? " in the all-reduce" : "", update_state_bytes(&t->update));
}

static void print_parameters(const trainer *t) {
    if (t->options->settings.shared_parameters)
        printf("  parameters     %zu bytes, stored once for the ranks of a machine\n",
               t->model.parameters_count * sizeof(*t->model.parameters));
}

/* Of a step with --overlap, in seconds, as this rank has seen it; `whole` is what one without takes to communicate. */
typedef struct overlap_times {
    double compute, wait, whole, hidden;
} overlap_times;

/* Returns 0 where there have not been steps of both kinds. */
static int find_overlap(overlap_times *times, const trainer *t) {
    const exchange *e = &t->exchange;
    if (!t->options->settings.overlap || e->probes == 0 || e->overlapped_steps == 0)
        return 0;
    times->compute = e->compute_seconds / (double)e->overlapped_steps;
    times->wait = e->wait_seconds / (double)e->overlapped_steps;
    times->whole = e->probe_seconds / (double)e->probes;
    times->hidden = fmax(0, times->whole - times->wait);
    return 1;
}

static void print_overlap(const trainer *t) {
    overlap_times times;
    if (find_overlap(&times, t))
        printf("  overlap        %.3f ms compute, %.3f wait, %.3f hidden of %.3f without overlap\n",
               1e3 * times.compute, 1e3 * times.wait, 1e3 * times.hidden, 1e3 * times.whole);
}

static void json_overlap(FILE *file, const trainer *t) {
    overlap_times times;
    if (find_overlap(&times, t))
        fprintf(file,
                "  \"overlap\": {\"compute_seconds\": %.9g, \"wait_seconds\": %.9g, \"hidden_seconds\": %.9g, "
                "\"seconds_without\": %.9g},\n",
                times.compute, times.wait, times.hidden, times.whole);
}

void train_report_summary(const train_report *report) {
    const trainer *t = report->trainer;
    epoch_result run = train_report_total(t);
    int ranks = kolo_comm_size(t->comm);
    printf("\ntraining summary\n");
    printf("  loss           %.6f after %zu step%s\n", run.loss, run.steps, run.steps == 1 ? "" : "s");
    printf("  test accuracy  %.2f %% (%zu of %zu rows that training never saw)\n", 100 * train_report_accuracy(t, &run),
           run.test_correct, t->test->rows);
    printf("  throughput     %.0f samples/s, %.1f %% of the time in all-reduce\n", (double)run.samples / run.seconds,
           100 * run.allreduce_seconds / run.seconds);
    if (t->options->settings.tell_step)
        print_step(t, &run);
    print_overlap(t);
    print_parameters(t);
    printf("  replicas       %s: %zu parameters on %d rank%s\n",
           report->identical ? "identical to the last bit" : "DIFFERENT", t->model.parameters_count, ranks,
           ranks == 1 ? "" : "s");
    if (t->ranks.lost > 0)
        printf("  lost           %d of %d ranks; the others went on\n", t->ranks.lost,
               t->ranks.at_first + t->ranks.joined);
    if (t->ranks.joined > 0)
        printf("  joined         %d rank%s, %d at first\n", t->ranks.joined, t->ranks.joined == 1 ? "" : "s",
               t->ranks.at_first);
    if (report->compared != NULL)
        print_comparison(report->compared, &run, ranks);
    fflush(stdout);
}

static void json_epochs(FILE *file, const trainer *t) {
    fprintf(file, "  \"epochs\": [\n");
    for (size_t epoch = 0; epoch < t->epochs; epoch++) {
        const epoch_result *r = &t->results[epoch];
        fprintf(file,
                "    {\"steps\": %zu, \"samples\": %zu, \"loss\": %.9g, \"test_accuracy\": %.9g, \"seconds\": %.9g, "
                "\"allreduce_seconds\": %.9g}%s\n",
                r->steps, r->samples, r->loss, train_report_accuracy(t, r), r->seconds, r->allreduce_seconds,
                epoch + 1 < t->epochs ? "," : "");
    }
    fprintf(file, "  ],\n");
}

static void json_comparison(FILE *file, const comparison *c) {
    fprintf(file,
            "  \"one_process\": {\"same\": %s, \"early_difference_max\": %.9g, \"difference_max\": %.9g, "
            "\"step_of_max\": %zu, \"seconds\": %.9g, \"speedup\": %.9g, \"test_accuracy\": %.9g},\n",
            c->same ? "true" : "false", c->early_difference_max, c->difference_max, c->step_of_max, c->seconds_alone,
            c->seconds_alone / c->seconds_together, c->test_accuracy_alone);
}

void train_json_write(FILE *file, const train_report *report) {
    const trainer *t = report->trainer;
    epoch_result run = train_report_total(t);
    fprintf(file, "{\n  \"data\": ");
    json_text_print(file, t->options->data_path);
    fprintf(file, ",\n  \"train_rows\": %zu, \"test_rows\": %zu,\n", t->train->rows, t->test->rows);
    fprintf(file,
            "  \"ranks\": %d, \"ranks_lost\": %d, \"ranks_joined\": %d, \"batch\": %zu, \"accumulate\": %zu, "
            "\"hidden\": %zu, \"rate\": %.9g, \"seed\": %llu,\n",
            kolo_comm_size(t->comm), t->ranks.lost, t->ranks.joined, t->options->settings.batch_rows,
            t->options->settings.accumulate, t->options->settings.hidden, t->options->settings.rate,
            (unsigned long long)t->options->settings.seed);
    fprintf(file, "  \"parameters\": %zu, \"allreduce_bytes\": %zu, \"steps\": %zu,\n", t->model.parameters_count,
            (t->model.parameters_count + 1) * sizeof(float), t->steps);
    fprintf(file, "  \"loss\": %.9g, \"test_accuracy\": %.9g, \"samples_per_second\": %.9g, ", run.loss,
            train_report_accuracy(t, &run), (double)run.samples / run.seconds);
    fprintf(file, "\"seconds\": %.9g, \"allreduce_seconds\": %.9g, \"update_seconds\": %.9g,\n", run.seconds,
            run.allreduce_seconds, run.update_seconds);
    fprintf(file, "  \"optimizer\": \"%s\", \"fused\": %s, \"state_bytes\": %zu,\n",
            train_optimizer_name(t->options->settings.optimizer), t->options->settings.fused ? "true" : "false",
            update_state_bytes(&t->update));
    fprintf(file, "  \"replicas_identical\": %s,\n", report->identical ? "true" : "false");
    json_overlap(file, t);
    if (report->compared != NULL)
        json_comparison(file, report->compared);
    json_epochs(file, t);
    fprintf(file, "  \"losses\": [");
    for (size_t step = 0; step < t->steps; step++)
        fprintf(file, "%s%.9g", step == 0 ? "" : ", ", (double)t->losses[step]);
    fprintf(file, "]\n}\n");
}

int train_data_read(dataset *all, const kolo_comm *comm, train_options *options) {
    if (!options->is_own_data && access(options->data_path, F_OK) != 0)
        return complain(comm, "no data: '%s' is missing (it is installed with kolo-train); give --data FILE",
                        options->data_path);
    char reason[PATH_MAX + 256];
    if (dataset_read(all, options->data_path, reason, sizeof(reason)) < 0)
        return complain(comm, "%s", reason);
    options->settings.data_fingerprint = dataset_fingerprint(all);
    return 0;
}

int train_json_open(FILE **file, const kolo_comm *comm, const train_options *options) {
    if (options->json_path == NULL || *file != NULL)
        return 0;
    *file = fopen(options->json_path, "we");
    return *file != NULL ? 0 : complain(comm, "cannot write '%s': %s", options->json_path, strerror(errno));
}

int train_json_close(FILE **file, const trainer *t) {
    bool failed = ferror(*file) != 0;
    failed |= fclose(*file) != 0;
    const int write_errno = errno != 0 ? errno : EIO;
    *file = NULL;
    return failed ? complain(t->comm, "cannot write '%s': %s", t->options->json_path, strerror(write_errno)) : 0;
}
