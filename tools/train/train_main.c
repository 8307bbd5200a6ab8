/* kolo-train: data-parallel training of a neural network, and an example of how a program uses kolo.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "kolo.h"

#include "comparison.h"
#include "complain.h"
#include "dataset.h"
#include "replicas.h"
#include "train_files.h"
#include "train_options.h"
#include "train_report.h"
#include "trainer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EXIT_MISTAKE = 2 };

/* Rank 0's options are those of all: ranks that took their rows in different orders would go wrong unnoticed. */
static int share_options(kolo_comm *comm, train_options *options) {
    uint64_t numbers[] = {options->epochs, options->steps_max,         options->batch_rows,          options->hidden,
                          options->seed,   (uint64_t)options->compare, (uint64_t)options->on_failure};
    if (kolo_broadcast(comm, numbers, sizeof(numbers) / sizeof(numbers[0]), KOLO_U64, 0) < 0 ||
        kolo_broadcast(comm, &options->rate, 1, KOLO_F64, 0) < 0)
        return complain_kolo(comm, "cannot share the options");
    options->epochs = numbers[0];
    options->steps_max = numbers[1];
    options->batch_rows = numbers[2];
    options->hidden = numbers[3];
    options->seed = numbers[4];
    options->compare = (int)numbers[5];
    options->on_failure = (train_on_failure)numbers[6];
    return 0;
}

/* All ranks see a wrong size; the first one tells. */
static int check_sizes(const kolo_comm *comm, size_t batch_rows, size_t train_rows) {
    size_t ranks = (size_t)kolo_comm_size(comm);
    if (batch_rows >= ranks && batch_rows <= train_rows)
        return 0;
    if (kolo_comm_rank(comm) != 0)
        return -1;
    if (batch_rows < ranks)
        return complain(comm, "--batch %zu has not a row for each of %zu ranks; make it larger, or start fewer",
                        batch_rows, ranks);
    return complain(comm, "--batch %zu is more than the %zu rows to train with", batch_rows, train_rows);
}

/* Checks and tells how a finished training went. Returns the exit code, or -1 having said why. */
static int conclude(const trainer *t, train_files *files) {
    size_t count = t->model.parameters_count;
    uint32_t *scratch = calloc(2 * count, sizeof(*scratch));
    if (scratch == NULL)
        return complain(t->comm, "not enough memory to compare %zu parameters", count);
    int identical = replicas_identical(t->comm, t->model.parameters, count, scratch);
    free(scratch);
    if (identical < 0)
        return identical;

    int first = kolo_comm_rank(t->comm) == 0;
    comparison compared = {.same = 1};
    int compare = t->options->compare && kolo_comm_size(t->comm) > 1;
    if (compare) {
        if (first && !t->options->quiet) {
            printf("\nthe same in one process, to compare ...\n");
            fflush(stdout);
        }
        int rc = comparison_run(&compared, t);
        if (rc < 0)
            return rc;
    }
    if (first) {
        train_report report = {files->data_path, t, identical, compare ? &compared : NULL};
        train_report_summary(&report);
        if (ferror(stdout))
            return complain(t->comm, "cannot write to standard output: %s", strerror(errno));
        if (train_files_close(files, &report) < 0)
            return -1;
    }
    return identical && compared.same ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* Trains to the end from wherever the trainer is, and concludes. */
static int train_to_end(trainer *t, train_files *files) {
    int tells = kolo_comm_rank(t->comm) == 0 && !t->options->quiet;
    int rc = 0;
    while (rc == 0 && t->epochs < t->epochs_planned) {
        rc = trainer_run_epoch(t);
        if (rc == 0 && tells)
            train_report_epoch(t);
    }
    return rc == 0 ? conclude(t, files) : rc;
}

/* After a loss: replaces *comm by what is left of it and brings the ranks to one state. */
static int shrink_and_continue(kolo_comm **comm, trainer *t, train_files *files) {
    kolo_failure failure;
    kolo_comm *left;
    kolo_comm_failure(*comm, &failure);
    if (kolo_comm_shrink(*comm, &left) < 0)
        return complain(*comm, "cannot go on: %s", kolo_error_message());
    kolo_comm_destroy(*comm);
    *comm = left;
    int rc = trainer_continue(t, left);
    if (rc == 0 && kolo_comm_rank(left) == 0 && files->data_path[0] == '\0')
        rc = train_files_take_over(files, left, t->options);
    if (rc == 0 && kolo_comm_rank(left) == 0)
        fprintf(stderr, "kolo-train: %s: going on with %d rank%s after step %zu\n", failure.message,
                kolo_comm_size(left), kolo_comm_size(left) == 1 ? "" : "s", t->steps);
    return rc;
}

static int train_and_conclude(kolo_comm **comm, const train_options *options, const dataset *train, const dataset *test,
                              train_files *files) {
    trainer t;
    int rc = trainer_create(&t, *comm, options, train, test);
    if (rc < 0)
        return rc;
    if (options->on_failure == TRAIN_SHRINK)
        complain_not_of_losses();
    if (kolo_comm_rank(*comm) == 0 && !options->quiet)
        train_report_heading(&t, files->data_path);
    rc = train_to_end(&t, files);
    while (rc == COMPLAIN_LOST && options->on_failure == TRAIN_SHRINK) { /* ends: each turn has lost a rank */
        rc = shrink_and_continue(comm, &t, files);
        if (rc == 0)
            rc = train_to_end(&t, files);
    }
    trainer_destroy(&t);
    return rc;
}

/* *comm_left may be another communicator afterwards. */
static int run(kolo_comm **comm_left, train_options *options, train_files *files) {
    kolo_comm *comm = *comm_left;
    dataset all = {0};
    dataset train = {0};
    dataset test = {0};
    int rc = 0;
    mlp_use_one_thread();
    if (kolo_comm_rank(comm) == 0 && train_files_open(files, comm, options, &all) < 0)
        rc = -1;
    if (rc == 0)
        rc = share_options(comm, options);
    if (rc == 0)
        rc = replicas_share_dataset(comm, &all);
    if (rc == 0 && dataset_split(&all, &train, &test) < 0)
        rc = complain(comm, "not enough memory for %zu rows of data", all.rows);
    dataset_free(&all);
    if (rc == 0)
        rc = check_sizes(comm, options->batch_rows, train.rows);
    if (rc == 0)
        rc = train_and_conclude(comm_left, options, &train, &test, files);
    dataset_free(&train);
    dataset_free(&test);
    return rc;
}

int main(int argc, char **argv) {
    train_options options;
    char reason[512];
    train_request request = train_options_parse(&options, argc, argv, reason, sizeof(reason));
    if (request == TRAIN_HELP) {
        train_options_help(stdout);
        return EXIT_SUCCESS;
    }
    if (request == TRAIN_VERSION) {
        printf("kolo-train %s\n", kolo_version());
        return EXIT_SUCCESS;
    }

    kolo_comm *comm;
    if (kolo_comm_create(&comm, NULL) < 0) {
        fprintf(stderr, "kolo-train: %s\n", kolo_error_message());
        return EXIT_FAILURE;
    }
    int code;
    if (request == TRAIN_MISTAKE) { /* all ranks were given it; the first one tells */
        if (kolo_comm_rank(comm) == 0)
            fprintf(stderr, "kolo-train: %s (see kolo-train --help)\n", reason);
        code = EXIT_MISTAKE;
    } else {
        train_files files = {0};
        code = run(&comm, &options, &files);
        train_files_abandon(&files);
    }
    if (code < 0) { /* the other ranks must not wait for this one */
        kolo_comm_abort(comm, EXIT_FAILURE);
        code = EXIT_FAILURE;
    }
    kolo_comm_destroy(comm);
    return code;
}
