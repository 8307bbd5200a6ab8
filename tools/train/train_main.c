/* kolo-train: data-parallel training of a neural network, and an example of how a program uses kolo. */
#include "kolo.h"

#include "checkpoint.h"
#include "complain.h"
#include "dataset.h"
#include "elastic.h"
#include "messages.h"
#include "train_options.h"
#include "train_report.h"
#include "trainer.h"
#include "ways.h"
#include "worker.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { JOIN_TRIES_MAX = 10 }; /* with communicators that break before the new rank knows all */

/* One rank's part in a training. */
typedef struct session {
    kolo_comm *comm; /* the present one */
    train_options options;
    FILE *json; /* rank 0's; NULL: not open */
    dataset train;
    dataset test;
    trainer trainer;
    int listener; /* see elastic.h; -1: none */
} session;

/* All ranks see a wrong size; the first one tells. */
static int check_sizes(const kolo_comm *comm, const train_settings *settings, size_t train_rows) {
    size_t ranks = (size_t)kolo_comm_size(comm), batch_rows = settings->batch_rows;
    if (batch_rows >= ranks && train_settings_step_rows(settings) <= train_rows)
        return 0;
    if (kolo_comm_rank(comm) != 0)
        return -1;
    if (batch_rows < ranks)
        return complain(comm, "--batch %zu has not a row for each of %zu ranks; make it larger, or start fewer",
                        batch_rows, ranks);
    if (batch_rows <= train_rows)
        return complain(comm, "--accumulate: %zu batches of %zu rows are more than the %zu rows to train with",
                        settings->accumulate, batch_rows, train_rows);
    return complain(comm, "--batch %zu is more than the %zu rows to train with", batch_rows, train_rows);
}

/* Checks and tells how a finished training went. Returns the exit code, or -1 having said why. */
static int conclude(const trainer *t, FILE **json) {
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
    int compare = t->options->settings.compare && kolo_comm_size(t->comm) > 1;
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
        train_report report = {t, identical, compare ? &compared : NULL};
        train_report_summary(&report);
        if (ferror(stdout))
            return complain(t->comm, "cannot write to standard output: %s", strerror(errno));
        if (*json != NULL) {
            errno = 0;
            train_json_write(*json, &report);
            if (train_json_close(json, t) < 0)
                return -1;
        }
    }
    return identical && compared.same ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* Makes new ranks the same as the others: rank 0's options, data and state, and the socket, become theirs. */
static int hand_over(session *s, int is_new) {
    int rc = train_settings_share(s->comm, &s->options.settings);
    if (rc == 0)
        rc = replicas_share_dataset(s->comm, &s->train);
    if (rc == 0)
        rc = replicas_share_dataset(s->comm, &s->test);
    if (rc == 0)
        rc = elastic_open(&s->listener, s->comm, &s->options);
    if (rc == 0 && is_new)
        rc = trainer_create(&s->trainer, s->comm, &s->options, &s->train, &s->test);
    return rc == 0 ? trainer_continue(&s->trainer, s->comm) : rc;
}

/* Between two epochs: takes in who wants to join. */
static int take_in(session *s) {
    int joined = elastic_admit(s->listener, &s->comm, &s->options.settings);
    if (joined <= 0)
        return joined;
    int rc = hand_over(s, 0);
    if (rc == 0 && kolo_comm_rank(s->comm) == 0)
        message_print("%d joined: going on with %d ranks after step %zu", joined, kolo_comm_size(s->comm),
                      s->trainer.steps);
    return rc;
}

/* Trains to the end from wherever the trainer is, and concludes. */
static int train_to_end(session *s) {
    trainer *t = &s->trainer;
    int rc = 0;
    while (rc == 0 && t->epochs < t->epochs_planned) {
        rc = trainer_run_epoch(t);
        if (rc == 0 && kolo_comm_rank(s->comm) == 0 && !s->options.quiet)
            train_report_epoch(t);
        if (rc == 0 && s->options.settings.save)
            rc = checkpoint_save(t, s->options.save_path);
        if (rc == 0 && s->options.settings.elastic && t->epochs < t->epochs_planned)
            rc = take_in(s);
    }
    if (rc < 0)
        return rc;
    if (s->options.settings.elastic)
        elastic_close(&s->listener, s->comm);
    return conclude(t, &s->json);
}

/* After a loss: replaces the communicator by what is left of it and brings the ranks to one state. */
static int shrink_and_continue(session *s) {
    kolo_failure failure = {.failure_bytes = sizeof failure};
    kolo_comm *left;
    kolo_comm_failure(s->comm, &failure);
    if (kolo_comm_shrink(s->comm, &left) < 0)
        return complain(s->comm, "cannot go on: %s", kolo_error_message());
    kolo_comm_destroy(s->comm);
    s->comm = left;
    int rc = trainer_continue(&s->trainer, left);
    if (rc == 0 && kolo_comm_rank(left) == 0)
        rc = train_json_open(&s->json, left, &s->options);
    if (rc == 0 && kolo_comm_rank(left) == 0)
        message_print("%s: going on with %d rank%s after step %zu", failure.message, kolo_comm_size(left),
                      kolo_comm_size(left) == 1 ? "" : "s", s->trainer.steps);
    return rc;
}

static int train_and_conclude(session *s) {
    int shrinks = s->options.settings.on_failure == TRAIN_SHRINK;
    if (shrinks)
        complain_not_of_losses();
    int rc = train_to_end(s);
    while (rc == COMPLAIN_LOST && shrinks) { /* ends: each turn has lost a rank, or one that was joining */
        rc = shrink_and_continue(s);
        if (rc == 0)
            rc = train_to_end(s);
    }
    return rc;
}

/* Rank 0 reads the data; each rank has its share of them in the end. */
static int load_data(session *s) {
    dataset all = {0};
    int rc = 0;
    if (kolo_comm_rank(s->comm) == 0)
        rc = train_json_open(&s->json, s->comm, &s->options);
    if (rc == 0 && kolo_comm_rank(s->comm) == 0 && s->options.settings.save)
        rc = checkpoint_try(s->comm, s->options.save_path);
    if (rc == 0 && kolo_comm_rank(s->comm) == 0)
        rc = train_data_read(&all, s->comm, &s->options);
    if (rc == 0)
        rc = train_settings_share(s->comm, &s->options.settings);
    if (rc == 0)
        rc = replicas_share_dataset(s->comm, &all);
    if (rc == 0 && dataset_split(&all, &s->train, &s->test) < 0)
        rc = complain(s->comm, "not enough memory for %zu rows of data", all.rows);
    dataset_free(&all);
    return rc == 0 ? check_sizes(s->comm, &s->options.settings, s->train.rows) : rc;
}

/* Begins a training together with the ranks that are started with this one. */
static int start(session *s) {
    int rc = trainer_create(&s->trainer, s->comm, &s->options, &s->train, &s->test);
    if (rc == 0)
        rc = trainer_begin(&s->trainer);
    if (rc == 0 && s->options.settings.resume)
        rc = checkpoint_resume(&s->trainer, s->options.resume_path);
    if (rc == 0 && s->options.settings.elastic)
        rc = elastic_open(&s->listener, s->comm, &s->options);
    if (rc == 0 && kolo_comm_rank(s->comm) == 0 && !s->options.quiet)
        train_report_heading(&s->trainer);
    return rc;
}

/* Becomes a rank of a training that is running. Data that are named must be that training's. */
static int join(session *s) {
    if (s->options.is_own_data) {
        dataset all = {0};
        if (train_data_read(&all, NULL, &s->options) < 0)
            return -1;
        dataset_free(&all);
    }
    complain_not_of_losses(); /* a communicator that breaks now is only another try */
    for (int tries = 0; tries < JOIN_TRIES_MAX; tries++) {
        if (elastic_join(&s->comm, &s->options) < 0)
            return -1;
        int rc = hand_over(s, 1);
        if (rc != COMPLAIN_LOST)
            return rc;
        trainer_destroy(&s->trainer);
        kolo_comm_destroy(s->comm);
        s->comm = NULL;
    }
    return complain(NULL, "cannot join '%s': a rank was lost each time", s->options.join_job);
}

static int train(session *s) {
    int rc = s->options.join_job == NULL ? start(s) : 0;
    return rc == 0 ? train_and_conclude(s) : rc;
}

static int run(session *s) {
    mlp_use_one_thread();
    int rc = s->options.join_job != NULL ? join(s) : load_data(s);
    if (rc == 0 && s->options.settings.ways_count > 0)
        rc = ways_run(s->comm, &s->options, &s->train, &s->test, &s->json);
    else if (rc == 0)
        rc = train(s);
    trainer_destroy(&s->trainer);
    if (s->json != NULL) /* the training has failed */
        fclose(s->json);
    dataset_free(&s->train);
    dataset_free(&s->test);
    return rc;
}

/* With a parameter server. Only the digits are read; other problems each rank generates. */
static int run_workers(session *s) {
    mlp_use_one_thread();
    int rc = 0;
    if (s->options.settings.server.problem == TRAIN_DIGITS)
        rc = load_data(s);
    else {
        if (kolo_comm_rank(s->comm) == 0)
            rc = train_json_open(&s->json, s->comm, &s->options);
        if (rc == 0)
            rc = train_settings_share(s->comm, &s->options.settings);
    }
    if (rc == 0)
        rc = worker_run(&s->comm, &s->options, &s->train, &s->test, &s->json);
    if (s->json != NULL) /* the training has failed */
        fclose(s->json);
    dataset_free(&s->train);
    dataset_free(&s->test);
    return rc;
}

int main(int argc, char **argv) {
    session s = {.options = train_options_read(argc, argv), .listener = -1};
    kolo_options how = KOLO_OPTIONS_INIT;
    how.progress = train_settings_overlap(&s.options.settings) ? 1 : 0;
    if (s.options.join_job == NULL && kolo_comm_create(&s.comm, &how) < 0) {
        message_print("%s", kolo_error_message());
        return EXIT_FAILURE;
    }
    int code = s.options.settings.server.used ? run_workers(&s) : run(&s);
    if (code < 0) { /* the other ranks must not wait for this one */
        if (s.comm != NULL)
            kolo_comm_abort(s.comm, EXIT_FAILURE);
        code = EXIT_FAILURE;
    }
    kolo_comm_destroy(s.comm);
    return code;
}
