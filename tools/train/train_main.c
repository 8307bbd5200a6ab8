/* kolo-train: data-parallel training of a neural network, and an example of how a program uses kolo. */
#include "kolo.h"

#include "complain.h"
#include "dataset.h"
#include "messages.h"
#include "train_options.h"
#include "train_report.h"
#include "trainer.h"

#include <stdio.h>
#include <stdlib.h>

enum { JOIN_TRIES_MAX = 10 }; /* with communicators that break before the new rank knows all */

/* One rank's part in a training. */
typedef struct session {
    kolo_comm *comm; /* the present one */
    train_options options;
    FILE *json; /* rank 0's; NULL: not open */
    dataset train;
    dataset test;
    trainer trainer;
    int listener; /* see elastic_open; -1: none */
} session;

static int is_first(const session *s) {
    return kolo_comm_rank(s->comm) == 0;
}

static void check_sizes(const session *s) {
    const train_settings *settings = &s->options.settings;
    const size_t ranks = (size_t)kolo_comm_size(s->comm), batch_rows = settings->batch_rows, rows = s->train.rows;
    if (batch_rows < ranks)
        give_up_together("--batch %zu has not a row for each of %zu ranks; make it larger, or start fewer", batch_rows,
                         ranks);
    if (batch_rows > rows)
        give_up_together("--batch %zu is more than the %zu rows to train with", batch_rows, rows);
    if (train_settings_step_rows(settings) > rows)
        give_up_together("--accumulate: %zu batches of %zu rows are more than the %zu rows to train with",
                         settings->accumulate, batch_rows, rows);
}

/* Checks and tells how a finished training went. Returns the exit code, or LOST. */
static int conclude(session *s) {
    const trainer *t = &s->trainer;
    const int compares = !s->options.settings.no_compare && kolo_comm_size(s->comm) > 1;
    comparison compared = {.same = 1};
    const int identical = replicas_identical(s->comm, t->model.parameters, t->model.parameters_count);
    if (identical < 0)
        return LOST;
    if (compares && is_first(s) && !s->options.quiet)
        printf("\nthe same in one process, to compare ...\n");
    if (compares && comparison_run(&compared, t) < 0)
        return LOST;
    if (is_first(s))
        train_report_end(t, identical, compares ? &compared : NULL, &s->json);
    return identical && compared.same ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* Makes new ranks the same as the others: rank 0's options, data and state, and the socket, become theirs. */
static int hand_over(session *s, int is_new) {
    int rc = train_settings_share(s->comm, &s->options.settings);
    rc = rc < 0 ? rc : dataset_share(&s->train, s->comm);
    rc = rc < 0 ? rc : dataset_share(&s->test, s->comm);
    rc = rc < 0 ? rc : elastic_open(&s->listener, s->comm, &s->options);
    if (rc == 0 && is_new)
        rc = trainer_create(&s->trainer, s->comm, &s->options, &s->train, &s->test);
    return rc < 0 ? rc : checkpoint_continue(&s->trainer, s->comm);
}

/* Rank 0 tells of another number of ranks. */
static void tell_of_ranks(const session *s, const char *why) {
    const int ranks = kolo_comm_size(s->comm);
    if (is_first(s))
        message_print("%s: going on with %d rank%s after step %zu", why, ranks, plural((size_t)ranks),
                      s->trainer.steps);
}

/* Between two epochs: takes in who wants to join. */
static int take_in(session *s) {
    const int joined = elastic_admit(s->listener, &s->comm, &s->options.settings);
    if (joined <= 0)
        return joined;
    const int rc = hand_over(s, 0);
    char text[32];
    snprintf(text, sizeof text, "%d joined", joined);
    if (rc == 0)
        tell_of_ranks(s, text);
    return rc;
}

/* Trains to the end from wherever the trainer is, and concludes. */
static int train_to_end(session *s) {
    trainer *t = &s->trainer;
    int rc = 0;
    while (rc == 0 && t->epochs < t->epochs_planned) {
        rc = trainer_run_epoch(t);
        if (rc == 0 && is_first(s) && !s->options.quiet)
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
    return conclude(s);
}

/* After a loss: replaces the communicator by what is left of it and brings the ranks to one state. */
static int shrink_and_continue(session *s) {
    kolo_failure failure = {.failure_bytes = sizeof failure};
    kolo_comm *left;
    kolo_comm_failure(s->comm, &failure);
    if (kolo_comm_shrink(s->comm, &left) < 0)
        give_up("cannot go on: %s", kolo_error_message());
    kolo_comm_destroy(s->comm);
    s->comm = left;
    const int rc = checkpoint_continue(&s->trainer, left);
    if (rc < 0)
        return rc;
    if (is_first(s))
        train_json_open(&s->json, &s->options);
    tell_of_ranks(s, failure.message);
    return 0;
}

/* Rank 0 reads the data; each rank has its share of them in the end. */
static void load_data(session *s) {
    dataset all = {0};
    if (is_first(s) && s->options.settings.save)
        checkpoint_try(s->options.save_path);
    if (is_first(s))
        train_data_read(&all, &s->options);
    train_settings_share(s->comm, &s->options.settings);
    dataset_share(&all, s->comm);
    dataset_split(&all, &s->train, &s->test);
    dataset_free(&all);
    check_sizes(s);
}

/* Begins a training together with the ranks that are started with this one. */
static void start(session *s) {
    trainer_create(&s->trainer, s->comm, &s->options, &s->train, &s->test);
    trainer_begin(&s->trainer);
    if (s->options.settings.resume)
        checkpoint_resume(&s->trainer, s->options.resume_path);
    if (s->options.settings.elastic)
        elastic_open(&s->listener, s->comm, &s->options);
    if (is_first(s) && !s->options.quiet)
        train_report_heading(&s->trainer);
}

/* Becomes a rank of a training that is running. Data that are named must be that training's. */
static void join(session *s) {
    dataset all = {0};
    if (s->options.is_own_data)
        train_data_read(&all, &s->options);
    dataset_free(&all);
    survive_losses(); /* a communicator that breaks now is only another try */
    for (int tries = 0; tries < JOIN_TRIES_MAX; tries++) {
        s->comm = elastic_join(&s->options);
        if (hand_over(s, 1) == 0)
            return;
        trainer_destroy(&s->trainer);
        kolo_comm_destroy(s->comm);
        s->comm = NULL;
    }
    give_up("cannot join '%s': a rank was lost each time", s->options.join_job);
}

/* Until a training has begun, the loss of a rank ends it. */
static int train(session *s) {
    if (s->options.join_job == NULL)
        start(s);
    if (s->options.settings.on_failure == TRAIN_SHRINK)
        survive_losses();
    int rc = train_to_end(s);
    while (rc == LOST) /* ends: each turn has lost a rank, or one that was joining */
        rc = shrink_and_continue(s) < 0 ? LOST : train_to_end(s);
    trainer_destroy(&s->trainer);
    return rc;
}

int main(int argc, char **argv) {
    session s = {.options = train_options_read(argc, argv), .listener = -1};
    const train_settings *settings = &s.options.settings;
    kolo_options how = KOLO_OPTIONS_INIT;
    how.progress = train_settings_overlap(settings) ? 1 : 0;
    complain_in(&s.comm);
    setvbuf(stdout, NULL, _IOLBF, 0); /* to be read while it trains */
    mlp_use_one_thread();
    if (s.options.join_job != NULL) {
        join(&s);
    } else {
        if (kolo_comm_create(&s.comm, &how) < 0)
            give_up("%s", kolo_error_message());
        if (is_first(&s))
            train_json_open(&s.json, &s.options);
        if (settings->server.problem == TRAIN_DIGITS)
            load_data(&s);
        else
            train_settings_share(s.comm, &s.options.settings);
    }
    const int code = settings->server.used      ? worker_run(&s.comm, &s.options, &s.train, &s.test, &s.json)
                     : settings->ways_count > 0 ? ways_run(s.comm, &s.options, &s.train, &s.test, &s.json)
                                                : train(&s);
    dataset_free(&s.train);
    dataset_free(&s.test);
    kolo_comm_destroy(s.comm);
    return code;
}
