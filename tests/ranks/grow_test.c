/* kolo_comm_listen, kolo_comm_grow and kolo_comm_join: outsiders join a communicator, at once and one after another;
 * some are refused; a member is later than a joiner has time; and what is used wrongly is refused. */
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness.h"
#include "losses.h"

enum { COUNT = 2000, PAUSE_MS = 2, JOINING_MS = 1000, LATE_MS = 1500, PATIENCE_MS = 20000 };

static void name_of(const struct rank *rank, char *name, size_t bytes) {
    snprintf(name, bytes, "%.40s-%d-grow", rank->options.job ? rank->options.job : "none", rank->ranks);
}

/* A sum over all ranks of the communicator, which is of `size`; the members' ranks are as before. */
static bool works(const struct rank *rank, kolo_comm *comm, int size) {
    int64_t *data = malloc(COUNT * sizeof *data);
    for (int i = 0; i < COUNT; i++)
        data[i] = kolo_comm_rank(comm) + i;
    bool is_right =
        expect(rank, kolo_comm_size(comm) == size, "%d ranks, not %d", kolo_comm_size(comm), size) &&
        expect_status(rank, kolo_allreduce(comm, data, data, COUNT, KOLO_I64, KOLO_SUM), 0, "kolo_allreduce");
    for (int i = 0; is_right && i < COUNT; i++)
        is_right = expect(rank, data[i] == (int64_t)size * (size - 1) / 2 + (int64_t)size * i, "element %d is %lld", i,
                          (long long)data[i]);
    free(data);
    return is_right;
}

/* How many of the team are members from the start. */
static int members_of(const struct rank *rank) {
    const int *members = rank->team->argument;
    return *members;
}

/* Takes those that bring "yes". */
static int takes(void *context, const kolo_joiner *joiner, char *why) {
    (void)context;
    if (joiner->message_bytes == 3 && memcmp(joiner->message, "yes", 3) == 0)
        return 1;
    snprintf(why, KOLO_JOIN_TEXT_BYTES, "process %d did not say yes", joiner->pid);
    return 0;
}

/* Until somebody listens, and again where the members stayed. */
static int join(const struct rank *rank, const char *message, int time_ms, kolo_comm **comm) {
    char name[80];
    kolo_join_options options = KOLO_JOIN_INIT;
    name_of(rank, name, sizeof name);
    options.job = name;
    options.message = message;
    options.message_bytes = strlen(message);
    options.timeout_ms = patience_ms(time_ms);
    int status = KOLO_ERR_ARG;
    for (int tries = 0; tries < 5000 && (status == KOLO_ERR_ARG || status == KOLO_ERR_PEER_DEAD); tries++) {
        status = kolo_comm_join(comm, &options);
        if (status == KOLO_ERR_ARG)
            sleep_ms(PAUSE_MS);
    }
    return status;
}

static bool make_members(struct rank *rank, int *listener) {
    char name[80];
    rank->options.size = members_of(rank);
    name_of(rank, name, sizeof name);
    return expect_status(rank, kolo_comm_create(&rank->comm, &rank->options), 0, "kolo_comm_create") &&
           expect_status(rank, kolo_comm_listen(rank->comm, name, listener), 0, "kolo_comm_listen") &&
           expect(rank, *listener >= 0, "no listener");
}

/* Looks again and again, as a training does between epochs, until there are so many. pause_ms: before each look. */
static bool grow_to(struct rank *rank, int listener, int size, int pause_ms) {
    kolo_grow_options options = KOLO_GROW_INIT;
    options.listener = listener;
    options.check = takes;
    options.timeout_ms = patience_ms(PATIENCE_MS);
    for (int looks = 0; looks < 5000 && kolo_comm_size(rank->comm) < size; looks++) {
        kolo_comm *grown = rank->comm;
        const int before = kolo_comm_rank(rank->comm);
        sleep_ms(pause_ms);
        if (!expect_status(rank, kolo_comm_grow(rank->comm, &options, &grown), 0, "kolo_comm_grow"))
            return false;
        if (!grown)
            continue;
        expect_status(rank, kolo_barrier(rank->comm), KOLO_ERR_STATE, "kolo_barrier in what has grown");
        kolo_failure failure = {.failure_bytes = sizeof failure};
        expect_status(rank, kolo_comm_failure(rank->comm, &failure), 0, "kolo_comm_failure");
        expect(rank, failure.status == KOLO_ERR_ABORTED, "what has grown is broken by %d", failure.status);
        kolo_comm_destroy(rank->comm);
        rank->comm = grown;
        expect(rank, kolo_comm_rank(grown) == before, "was rank %d, is %d", before, kolo_comm_rank(grown));
        expect_status(rank, kolo_comm_listen(grown, "unused", &listener), 0, "kolo_comm_listen once more");
    }
    return true;
}

/* Outsiders, each of whom then looks for the rest with the others. */
static void run_joins(struct rank *rank) {
    int listener = -1;
    const bool is_member = rank->rank < members_of(rank);
    if (is_member && !make_members(rank, &listener))
        return;
    if (!is_member) {
        if (!expect_status(rank, join(rank, "yes", PATIENCE_MS, &rank->comm), 0, "kolo_comm_join") ||
            !expect(rank, kolo_comm_rank(rank->comm) >= members_of(rank), "is rank %d", kolo_comm_rank(rank->comm)) ||
            !expect_status(rank, kolo_comm_listen(rank->comm, "unused", &listener), 0, "kolo_comm_listen"))
            return;
    }
    if (grow_to(rank, listener, rank->ranks, PAUSE_MS))
        works(rank, rank->comm, rank->ranks);
    kolo_comm_unlisten(listener, rank->rank == 0 ? "all are in" : NULL);
}

/* The second member is later than the joiner has time, which begins only when all members have come. */
static void run_late_member(struct rank *rank) {
    int listener = -1;
    const int pause_ms = rank->rank == 1 ? (int)patience_ms(LATE_MS) : PAUSE_MS;
    const bool is_in =
        rank->rank < members_of(rank)
            ? make_members(rank, &listener) && grow_to(rank, listener, rank->ranks, pause_ms)
            : expect_status(rank, join(rank, "yes", JOINING_MS, &rank->comm), 0, "kolo_comm_join") &&
                  expect_status(rank, kolo_comm_listen(rank->comm, "unused", &listener), 0, "kolo_comm_listen");
    if (is_in)
        works(rank, rank->comm, rank->ranks);
    kolo_comm_unlisten(listener, NULL);
}

/* The last one of the team is refused, in the check's words; then the listener is closed. */
static void run_refusal(struct rank *rank) {
    int listener = -1;
    kolo_comm *comm = NULL;
    if (rank->rank >= members_of(rank)) {
        const bool is_last = rank->rank == rank->ranks - 1;
        const int status = join(rank, is_last ? "no" : "yes", PATIENCE_MS, &comm);
        if (is_last && expect_status(rank, status, KOLO_ERR_MISMATCH, "kolo_comm_join of one that says no"))
            expect_message(rank, "kolo_comm_join", "did not say yes", NULL);
        else if (!is_last && expect_status(rank, status, 0, "kolo_comm_join")) {
            rank->comm = comm;
            if (expect_status(rank, kolo_comm_listen(comm, "unused", &listener), 0, "kolo_comm_listen"))
                grow_to(rank, listener, rank->ranks - 1, PAUSE_MS);
        }
    } else if (make_members(rank, &listener)) {
        grow_to(rank, listener, rank->ranks - 1, PAUSE_MS);
    }
    if (rank->comm) {
        works(rank, rank->comm, rank->ranks - 1);
        /* The one that says no may not have asked yet. */
        kolo_grow_options options = KOLO_GROW_INIT;
        options.listener = listener;
        options.check = takes;
        for (int looks = 0; looks < 50; looks++) {
            comm = rank->comm;
            expect_status(rank, kolo_comm_grow(rank->comm, &options, &comm), 0, "kolo_comm_grow");
            sleep_ms(PAUSE_MS);
        }
        expect(rank, comm == NULL, "a communicator has grown without reason");
        works(rank, rank->comm, rank->ranks - 1);
        kolo_barrier(rank->comm);
        kolo_comm_unlisten(listener, rank->rank == 0 ? "you did not say yes" : NULL);
    }
}

static void run_wrong_use(struct rank *rank) {
    kolo_comm *grown = NULL;
    int listener = -1, second = -1;
    char name[80];
    kolo_grow_options options = KOLO_GROW_INIT;
    kolo_join_options asks = KOLO_JOIN_INIT;
    name_of(rank, name, sizeof name);
    expect_status(rank, kolo_comm_listen(rank->comm, name, NULL), KOLO_ERR_ARG, "kolo_comm_listen into NULL");
    expect_status(rank, kolo_comm_grow(rank->comm, &options, NULL), KOLO_ERR_ARG, "kolo_comm_grow into NULL");
    options.timeout_ms = asks.timeout_ms = INT64_MAX;
    expect_status(rank, kolo_comm_grow(rank->comm, &options, &grown), KOLO_ERR_ARG, "kolo_comm_grow for ever");
    expect_message(rank, "kolo_comm_grow for ever", "timeout_ms 9223372036854775807", "from 0 to", NULL);
    options.timeout_ms = -1;
    for (const int *fd = (const int[]){-1, STDERR_FILENO, 12345, INT_MIN}; *fd > INT_MIN; fd++) {
        options.listener = second = *fd;
        if (expect_status(rank, kolo_comm_grow(rank->comm, &options, &grown), KOLO_ERR_ARG, "kolo_comm_grow") &&
            rank->rank == 0)
            expect_message(rank, "kolo_comm_grow without a listener", "not a descriptor of kolo_comm_listen", NULL);
        if (*fd >= 0)
            expect_status(rank, kolo_comm_listen(rank->comm, name, &second), KOLO_ERR_ARG, "kolo_comm_listen");
    }
    second = -1;
    expect_status(rank, kolo_comm_listen(rank->comm, "no name!", &listener), KOLO_ERR_ARG, "kolo_comm_listen");
    expect_status(rank, kolo_comm_join(&grown, NULL), KOLO_ERR_ARG, "kolo_comm_join without options");
    expect_status(rank, kolo_comm_join(&grown, &asks), KOLO_ERR_ARG, "kolo_comm_join without a name");
    asks.job = name;
    asks.message_bytes = KOLO_JOIN_BYTES + 1;
    asks.message = name;
    expect_status(rank, kolo_comm_join(&grown, &asks), KOLO_ERR_ARG, "kolo_comm_join with too long a message");
    if (!expect_status(rank, kolo_comm_listen(rank->comm, name, &listener), 0, "kolo_comm_listen"))
        return;
    asks.message_bytes = 0;
    if (expect_status(rank, kolo_comm_join(&grown, &asks), KOLO_ERR_ARG, "kolo_comm_join for ever"))
        expect_message(rank, "kolo_comm_join for ever", "timeout_ms 9223372036854775807", "from 0 to", NULL);
    asks.timeout_ms = -1;
    if (expect_status(rank, kolo_comm_listen(rank->comm, name, &second), KOLO_ERR_ARG, "kolo_comm_listen twice") &&
        rank->rank == 0)
        expect_message(rank, "kolo_comm_listen twice", "in use", NULL);
    expect(rank, second == -1 && grown == NULL, "a result was set on failure");
    works(rank, rank->comm, rank->ranks);
    kolo_comm_unlisten(listener, NULL);
    kolo_barrier(rank->comm);
    if (expect_status(rank, kolo_comm_join(&grown, &asks), KOLO_ERR_ARG, "kolo_comm_join of nobody"))
        expect_message(rank, "kolo_comm_join of nobody", "nobody", name, NULL);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv, "Outsiders join a communicator.");
    for (int ranks = 1; ranks <= 9; ranks++) {
        if (!wants_ranks(ranks))
            continue;
        harness_run(&(struct team){.ranks = ranks, .slot_bytes = 8192, .run = run_wrong_use});
        for (int members = 1; members<ranks; members += ranks> 4 ? 3 : 1) {
            const struct team team = {.ranks = ranks, .slot_bytes = 8192, .creates_itself = true, .argument = &members};
            struct team joins = team, refusal = team;
            joins.run = run_joins;
            refusal.run = run_refusal;
            harness_run(&joins);
            harness_run(&refusal);
            if (ranks == 3 && members == 2) {
                struct team late = team;
                late.run = run_late_member;
                harness_run(&late);
            }
        }
    }
    return harness_end();
}
