#include "train_report.h"

#include <errno.h>
#include <inttypes.h>
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

double loss_difference_max(const trainer *t, const trainer *reference, size_t steps, size_t *step_of_max) {
    double largest = 0;
    *step_of_max = 1;
    for (size_t step = 0; step < steps; step++) {
        const double its = (double)reference->losses[step];
        const double difference = fabs((double)t->losses[step] - its) / fmax(1, fabs(its));
        if (difference > largest) {
            largest = difference;
            *step_of_max = step + 1;
        }
    }
    return largest;
}

static void compare(comparison *result, const trainer *together, const trainer *alone) {
    const epoch_result run_alone = train_report_total(alone);
    size_t step;
    result->seconds_together = train_report_total(together).seconds;
    result->seconds_alone = run_alone.seconds;
    result->test_accuracy_alone = train_report_accuracy(alone, &run_alone);
    result->early_difference_max = loss_difference_max(together, alone, smaller(alone->steps, COMPARISON_STEPS), &step);
    result->difference_max = loss_difference_max(together, alone, alone->steps, &result->step_of_max);
    result->same = result->early_difference_max <= COMPARISON_TOLERANCE;
}

/* Which CPUs the ranks have had; collective. */
static int find_cpus(comparison *result, const trainer *t) {
    static const char cannot[] = "cannot find out which CPUs the ranks have had";
    kolo_comm *comm = t->comm;
    double seconds[] = {t->compute_seconds, t->starved_seconds};
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof(set), &set) != 0)
        CPU_ZERO(&set);
    if (check(comm, kolo_allreduce(comm, &set, &set, sizeof(set), KOLO_U8, KOLO_BOR), cannot) < 0 ||
        check(comm, kolo_allreduce(comm, seconds, seconds, 2, KOLO_F64, KOLO_SUM), cannot) < 0)
        return LOST;
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
    enum { LATER, SAME, DIFFERENT }; /* what rank 0 tells after each epoch; that keeps every single wait short */
    const int first = kolo_comm_rank(together->comm) == 0;
    int32_t verdict = LATER;
    trainer alone = {0};
    kolo_comm *single = NULL;
    *result = (comparison){0};
    int rc = find_cpus(result, together);
    if (first && rc == 0) {
        single = comm_of_one_rank("cannot begin the run in one process");
        trainer_create(&alone, single, together->options, together->train, together->test);
        trainer_begin(&alone);
    }
    while (rc == 0 && verdict == LATER) {
        if (first && trainer_run_epoch(&alone) == 0 && alone.steps == alone.steps_planned) {
            compare(result, together, &alone);
            verdict = result->same ? SAME : DIFFERENT;
        }
        rc = check(together->comm, kolo_broadcast(together->comm, &verdict, 1, KOLO_I32, 0),
                   "cannot share the progress of the run in one process");
    }
    result->same = verdict == SAME;
    if (single != NULL)
        trainer_destroy(&alone);
    kolo_comm_destroy(single);
    return rc;
}

const char *plural(size_t count) {
    return count == 1 ? "" : "s";
}

static const char *truth(int is_true) {
    return is_true ? "true" : "false";
}

void train_report_heading(const trainer *t) {
    const train_settings *settings = t->settings;
    const size_t parameters = t->model.parameters_count;
    printf("data    %s: %zu rows to train, %zu to test\n", t->options->data_path, t->train->rows, t->test->rows);
    printf("model   %zu-%zu-%zu-%zu, %zu parameters, gradient of %.2f MB\n", t->train->features, settings->hidden,
           settings->hidden, t->train->classes, parameters, (double)(parameters + 1) * sizeof(float) / 1e6);
    printf("ranks   %d, batch of %zu rows shared between them, ", kolo_comm_size(t->comm), settings->batch_rows);
    if (settings->accumulate > 1)
        printf("%zu added for each of ", settings->accumulate);
    printf("%zu step%s\n", t->steps_planned, plural(t->steps_planned));
    if (settings->resume)
        printf("resume  %s: after step %zu\n", t->options->resume_path, t->steps);
    if (settings->elastic)
        printf("join    kolo-train --join %s\n", t->options->job);
    printf("\n%9s  %9s  %9s  %10s  %10s\n", "epoch", "loss", "test", "samples/s", "all-reduce");
}

void train_report_epoch(const trainer *t) {
    const epoch_result *result = &t->results[t->epochs - 1];
    printf("%4zu/%-4zu  %9.6f  %7.2f %%  %10.0f  %8.1f %%\n", t->epochs, t->epochs_planned, result->loss,
           100 * train_report_accuracy(t, result), (double)result->samples / result->seconds,
           100 * result->allreduce_seconds / result->seconds);
}

/* Why training together took longer than alone, and what to do. */
static void print_loss_of_time(const comparison *c, const epoch_result *run, int ranks) {
    enum { STARVED_PERCENT_MIN = 10 };
    const double starved_percent = 100 * c->starved_share;
    double load[1];
    printf("  why slower     ");
    if (c->cpus > 0 && c->cpus < ranks) {
        printf("%d ranks share %d CPU%s: start as many ranks as CPUs\n", ranks, c->cpus, plural((size_t)c->cpus));
    } else if (starved_percent >= STARVED_PERCENT_MIN) {
        printf("ranks had no CPU for %.0f %% of the computing, as other programs\n", starved_percent);
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
        printf("  one process    ANOTHER LOSS CURVE: the first %d steps' losses differ\n"
               "                 by %.1e (allowed %.0e)\n",
               COMPARISON_STEPS, c->early_difference_max, COMPARISON_TOLERANCE);
    else if (c->difference_max <= COMPARISON_TOLERANCE)
        printf("  one process    same loss curve: losses differ by %.1e at most (step %zu)\n", c->difference_max,
               c->step_of_max);
    else
        printf("  one process    same first %d steps (%.1e); then rounding grew, as it can\n"
               "                 at a high --rate (%.1e at step %zu)\n",
               COMPARISON_STEPS, c->early_difference_max, c->difference_max, c->step_of_max);
    printf("  speedup        %.2f with %d rank%s: %.2f s, one process %.2f s\n", c->seconds_alone / c->seconds_together,
           ranks, plural((size_t)ranks), c->seconds_together, c->seconds_alone);
    if (c->seconds_alone < c->seconds_together)
        print_loss_of_time(c, run, ranks);
}

/* A step's time, and what is in it. */
static void print_step(const trainer *t, const epoch_result *run) {
    const train_settings *settings = t->settings;
    const int fused = settings->way.fused;
    const double ms = 1e3 / (double)run->steps, allreduce_ms = ms * run->allreduce_seconds;
    const double update_ms = ms * run->update_seconds;
    printf("  step           %.3f ms: %.3f gradients, %.3f all-reduce", ms * run->seconds,
           ms * run->seconds - allreduce_ms - update_ms, allreduce_ms);
    if (fused)
        printf(" and update\n");
    else
        printf(", %.3f update\n", update_ms);
    printf("  optimizer      %s%s, %zu bytes of state per rank\n", train_optimizer_name(settings->optimizer),
           fused ? " in the all-reduce" : "", trainer_state_bytes(t));
}

static void print_summary(const trainer *t, const epoch_result *run, int identical, const comparison *compared) {
    const int ranks = kolo_comm_size(t->comm);
    const headcount *heads = &t->ranks;
    printf("\ntraining summary\n  loss           %.6f after %zu step%s\n", run->loss, run->steps, plural(run->steps));
    printf("  test accuracy  %.2f %% (%zu of %zu rows that training never saw)\n", 100 * train_report_accuracy(t, run),
           run->test_correct, t->test->rows);
    printf("  throughput     %.0f samples/s, %.1f %% of the time in all-reduce\n", (double)run->samples / run->seconds,
           100 * run->allreduce_seconds / run->seconds);
    if (t->settings->tell_step)
        print_step(t, run);
    if (t->settings->way.shared_parameters)
        printf("  parameters     %zu bytes, stored once for the ranks of a machine\n",
               t->model.parameters_count * sizeof(*t->model.parameters));
    printf("  replicas       %s: %zu parameters on %d rank%s\n", identical ? "identical to the last bit" : "DIFFERENT",
           t->model.parameters_count, ranks, plural((size_t)ranks));
    if (heads->lost > 0)
        printf("  lost           %d of %d ranks; the others went on\n", heads->lost, heads->at_first + heads->joined);
    if (heads->joined > 0)
        printf("  joined         %d rank%s, %d at first\n", heads->joined, plural((size_t)heads->joined),
               heads->at_first);
    if (compared != NULL)
        print_comparison(compared, run, ranks);
}

void train_report_settings(FILE *file, const trainer *t) {
    const train_settings *settings = t->settings;
    fprintf(file, "{\n  \"data\": ");
    json_text_print(file, t->options->data_path);
    fprintf(file, ",\n  ");
    json_pairs_print(file,
                     "ranks=%d nodes=%d train_rows=%zu test_rows=%zu batch=%zu accumulate=%zu hidden=%zu rate=%.9g "
                     "seed=%" PRIu64 " optimizer=\"%s\" parameters=%zu steps=%zu",
                     kolo_comm_size(t->comm), kolo_comm_nodes(t->comm), t->train->rows, t->test->rows,
                     settings->batch_rows, settings->accumulate, settings->hidden, settings->rate, settings->seed,
                     train_optimizer_name(settings->optimizer), t->model.parameters_count, t->steps);
    fprintf(file, ",\n  ");
}

static void write_json(FILE *file, const trainer *t, const epoch_result *run, int identical, const comparison *c) {
    train_report_settings(file, t);
    json_pairs_print(file,
                     "ranks_lost=%d ranks_joined=%d fused=%s state_bytes=%zu allreduce_bytes=%zu\n"
                     "loss=%.9g test_accuracy=%.9g samples_per_second=%.9g seconds=%.9g allreduce_seconds=%.9g "
                     "update_seconds=%.9g replicas_identical=%s",
                     t->ranks.lost, t->ranks.joined, truth(t->settings->way.fused), trainer_state_bytes(t),
                     (t->model.parameters_count + 1) * sizeof(float), run->loss, train_report_accuracy(t, run),
                     (double)run->samples / run->seconds, run->seconds, run->allreduce_seconds, run->update_seconds,
                     truth(identical));
    if (c != NULL) {
        fprintf(file, ",\n  \"one_process\": ");
        json_pairs_print(file,
                         "{same=%s early_difference_max=%.9g difference_max=%.9g step_of_max=%zu seconds=%.9g "
                         "speedup=%.9g test_accuracy=%.9g}",
                         truth(c->same), c->early_difference_max, c->difference_max, c->step_of_max, c->seconds_alone,
                         c->seconds_alone / c->seconds_together, c->test_accuracy_alone);
    }
    fprintf(file, ",\n  \"epochs\": [");
    for (const epoch_result *r = t->results; r < t->results + t->epochs; r++) {
        fprintf(file, r > t->results ? ",\n    " : "\n    ");
        json_pairs_print(file,
                         "{steps=%zu samples=%zu loss=%.9g test_accuracy=%.9g seconds=%.9g allreduce_seconds=%.9g}",
                         r->steps, r->samples, r->loss, train_report_accuracy(t, r), r->seconds, r->allreduce_seconds);
    }
    fprintf(file, "\n  ],\n  \"losses\": ");
    json_floats_print(file, t->losses, t->steps);
    fprintf(file, "\n}\n");
}

void train_report_end(const trainer *t, int identical, const comparison *compared, FILE **json) {
    const epoch_result run = train_report_total(t);
    print_summary(t, &run, identical, compared);
    if (*json != NULL)
        write_json(*json, t, &run, identical, compared);
    train_report_close(json, t->options);
}

void train_data_read(dataset *all, train_options *options) {
    char reason[PATH_MAX + 256];
    if (!options->is_own_data && access(options->data_path, F_OK) != 0)
        give_up("no data: '%s' is missing (it is installed with kolo-train); give --data FILE", options->data_path);
    if (dataset_read(all, options->data_path, reason, sizeof(reason)) < 0)
        give_up("%s", reason);
    options->settings.data_fingerprint = dataset_fingerprint(all);
}

void train_json_open(FILE **file, const train_options *options) {
    if (options->json_path != NULL && *file == NULL && (*file = fopen(options->json_path, "we")) == NULL)
        give_up("cannot write '%s': %s", options->json_path, strerror(errno));
}

void train_report_close(FILE **file, const train_options *options) {
    if (fflush(stdout) != 0 || ferror(stdout))
        give_up("cannot write to standard output: %s", strerror(errno));
    if (*file != NULL && (fflush(*file) != 0 || ferror(*file) || fclose(*file) != 0))
        give_up("cannot write '%s': %s", options->json_path, strerror(errno));
    *file = NULL;
}
