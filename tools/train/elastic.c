/* --elastic: new processes join a training at the end of an epoch. */
#include "trainer.h"

#include "complain.h"
#include "messages.h"
#include "train_report.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { TRIES_MAX = 10 };

/* What a process brings that wants to join. */
typedef struct elastic_request {
    train_settings settings;
    uint64_t given; /* which of them count */
} elastic_request;

static_assert(sizeof(elastic_request) <= KOLO_JOIN_BYTES, "a request fits");

int elastic_open(int *listener, kolo_comm *comm, const train_options *options) {
    if (kolo_comm_rank(comm) == 0 && options->job == NULL)
        give_up("--elastic: those who join need a name: set KOLO_JOB, or start the ranks with kolorun");
    const int rc = kolo_comm_listen(comm, options->job, listener);
    if (rc == KOLO_ERR_ARG)
        give_up_together("--elastic: a training named '%s' is running; choose another KOLO_JOB", options->job);
    if (rc == KOLO_ERR_UNSUPPORTED || rc == KOLO_ERR_SYSTEM)
        give_up_together("--elastic: cannot listen for those who join '%s': %s", options->job, kolo_error_message());
    return check(comm, rc, "cannot listen for those who join");
}

static int admitted; /* since rank 0 began to look who asks */

/* Whether one that asks can train with the others. */
static int fits(void *context, const kolo_joiner *joiner, char *why) {
    const train_settings *training = context;
    const elastic_request *request = joiner->message;
    int is_fit = 0;
    if (joiner->refused != NULL)
        snprintf(why, KOLO_JOIN_TEXT_BYTES, "%s", joiner->refused);
    else if (joiner->message_bytes != sizeof(*request))
        snprintf(why, KOLO_JOIN_TEXT_BYTES, "it is no kolo-train, or one of another version");
    else if ((size_t)joiner->rank >= training->batch_rows)
        snprintf(why, KOLO_JOIN_TEXT_BYTES, "a batch of %zu rows has none for one more than %d ranks",
                 training->batch_rows, joiner->rank);
    else
        is_fit = train_settings_agree(&request->settings, request->given, training, why, KOLO_JOIN_TEXT_BYTES);
    if (!is_fit)
        message_print("refused process %d, which asked to join: %s", joiner->pid, why);
    admitted += is_fit;
    return is_fit;
}

int elastic_admit(int listener, kolo_comm **comm, train_settings *training) {
    admitted = 0;
    kolo_grow_options how = KOLO_GROW_INIT;
    kolo_comm *larger = NULL;
    int size = kolo_comm_size(*comm);
    how.listener = listener;
    how.check = fits;
    how.context = training;
    if (kolo_comm_grow(*comm, &how, &larger) < 0) {
        kolo_failure failure = {.failure_bytes = sizeof failure};
        kolo_comm_failure(*comm, &failure);
        if (failure.status != 0)
            return check(*comm, failure.status, "cannot take in those who join");
        if (kolo_comm_rank(*comm) == 0)
            message_print("could not take in %d more: %s: going on with %d rank%s", admitted, kolo_error_message(),
                          size, plural((size_t)size));
        return 0;
    }
    if (larger == NULL)
        return 0;
    kolo_comm_destroy(*comm);
    *comm = larger;
    return kolo_comm_size(larger) - size;
}

void elastic_close(int *listener, const kolo_comm *comm) {
    kolo_comm_unlisten(*listener, kolo_comm_rank(comm) == 0 ? "the training is over" : NULL);
    *listener = -1;
}

static int asked; /* how often this process has */

static void say_asked(void *context) {
    const kolo_join_options *how = context;
    if (asked++ == 0)
        message_print("process %d waits for the end of an epoch, to join '%s'", (int)getpid(), how->job);
}

kolo_comm *elastic_join(const train_options *options) {
    const elastic_request request = {.settings = options->settings, .given = options->given};
    const char *job = options->join_job;
    asked = 0;
    kolo_join_options how = KOLO_JOIN_INIT;
    how.job = job;
    how.message = &request;
    how.message_bytes = sizeof(request);
    how.asked = say_asked;
    how.context = &how;
    for (int tries = 0; tries < TRIES_MAX; tries++) {
        kolo_comm *comm;
        const int rc = kolo_comm_join(&comm, &how);
        if (rc == 0)
            return comm;
        if (rc == KOLO_ERR_ARG)
            give_up("cannot join '%s': %s", job,
                    asked > 0 ? "the training is over" : "no training of that name and user is running");
        if (rc != KOLO_ERR_PEER_DEAD && rc != KOLO_ERR_TIMEOUT)
            give_up("cannot join '%s': %s", job, kolo_error_message());
        complain("could not join '%s', and asks again: %s", job, kolo_error_message());
    }
    give_up("cannot join '%s': %d times without success", job, TRIES_MAX);
}
