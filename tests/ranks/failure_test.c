/* Aborts, deadlines and the use of a communicator after fork: each ends where it should, in the time it should, with
 * the rank and the code that it should name. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"
#include "kolo_lanes.h"
#include "losses.h"

enum { CODE = 42, TIMEOUT_MS = 400, CALLS = 10, UNLIMITED_MS = 300 };

static const size_t counts[] = {6, 30000};

static int allreduce_once(const struct rank *rank, size_t count) {
    float *data = calloc(count, sizeof *data);
    int status = kolo_allreduce(rank->comm, data, data, count, KOLO_F32, KOLO_SUM);
    free(data);
    return status;
}

static bool make_calls(const struct rank *rank, size_t count) {
    for (int i = 0; i < CALLS; i++)
        if (!expect_timely(rank, rank->comm, allreduce_once(rank, count), 0, -1, "kolo_allreduce"))
            return false;
    return true;
}

static void check_failure(const struct rank *rank, int status, int culprit, int code) {
    kolo_failure failure = {.failure_bytes = sizeof failure};
    expect_status(rank, kolo_comm_failure(rank->comm, &failure), 0, "kolo_comm_failure");
    expect(rank, failure.status == status && failure.rank == culprit && failure.code == code,
           "the failure is status %d, rank %d, code %d instead of %d, %d, %d", failure.status, failure.rank,
           failure.code, status, culprit, code);
    expect_status(rank, allreduce_once(rank, 1), KOLO_ERR_STATE, "the next kolo_allreduce");
    expect_status(rank, kolo_comm_abort(rank->comm, 1), KOLO_ERR_STATE, "a later kolo_comm_abort");
}

static void run_abort(struct rank *rank) {
    const size_t count = *(const size_t *)rank->team->argument;
    const int culprit = rank->ranks - 1;
    if (rank->rank == culprit) {
        if (!make_calls(rank, count))
            return;
        event_set();
        expect_status(rank, kolo_comm_abort(rank->comm, CODE), 0, "kolo_comm_abort");
    } else if (expect_status(rank, call_until_failure(rank->comm, count), KOLO_ERR_ABORTED, "kolo_allreduce")) {
        char named[64];
        snprintf(named, sizeof named, "rank %d aborted", culprit);
        expect_message(rank, "kolo_allreduce", named, "code 42", NULL);
        expect_prompt(rank, now_ns() - event_ns(), 1000, "noticed the abort");
    }
    check_failure(rank, KOLO_ERR_ABORTED, culprit, CODE);
}

/* Another thread of rank 0 aborts while rank 0 waits in one of these calls for rank 1, which has not come. */
enum { IN_BARRIER, IN_RECV, IN_DUP, IN_ALLOC, CALLS_TO_ABORT };

struct aborted {
    struct rank *rank;
    kolo_comm *comm;
    int64_t delay_ns;
    atomic_bool waits;
};

static void say_waits(void *context) {
    atomic_store((atomic_bool *)context, true);
}

static void *abort_wait(void *argument) {
    struct aborted *aborted = argument;
    while (!atomic_load(&aborted->waits))
        sleep_ms(1);
    expect_status(aborted->rank, kolo_comm_abort(aborted->rank->comm, CODE), 0, "kolo_comm_abort");
    return NULL;
}

static int call_to_abort(kolo_comm *comm, int call) {
    kolo_comm *copy;
    void *buffer;
    int word;
    return call == IN_BARRIER ? kolo_barrier(comm)
           : call == IN_RECV  ? kolo_recv(comm, &word, 1, KOLO_I32, 1, 0, NULL)
           : call == IN_DUP   ? kolo_comm_dup(comm, &copy)
                              : kolo_alloc(comm, 4096, &buffer);
}

static void run_abort_by_thread(struct rank *rank) {
    struct aborted aborted = {.rank = rank};
    const kolo_hooks hooks = {.hooks_bytes = sizeof hooks, .idle = say_waits, .context = &aborted.waits};
    kolo_request *request = NULL;
    pthread_t thread;
    rank->options.progress = 1;
    if (!expect_status(rank, kolo_comm_create(&rank->comm, &rank->options), 0, "kolo_comm_create"))
        return;
    expect_status(rank, kolo_ibarrier(rank->comm, &request), 0, "kolo_ibarrier");
    expect_status(rank, kolo_request_wait(request), 0, "kolo_request_wait");
    if (rank->rank == 0) {
        expect_status(rank, kolo_comm_set_hooks(rank->comm, &hooks), 0, "kolo_comm_set_hooks");
        expect(rank, pthread_create(&thread, NULL, abort_wait, &aborted) == 0, "no thread");
        if (expect_status(rank, call_to_abort(rank->comm, *(const int *)rank->team->argument), KOLO_ERR_ABORTED,
                          "the call"))
            expect_message(rank, "the call", "rank 0 aborted", "code 42", NULL);
        pthread_join(thread, NULL);
        counter_add(1);
    } else {
        await_counter(1);
        const int status = kolo_barrier(rank->comm); /* rank 0 may have come, so that this one is complete */
        expect_status(rank, status ? status : kolo_barrier(rank->comm), KOLO_ERR_ABORTED, "kolo_barrier after it");
    }
    kolo_comm_destroy(rank->comm);
}

/* The same at any moment of a receive, or of a send and a receive at once, after requests that are complete. */
static void *abort_soon(void *argument) {
    struct aborted *aborted = argument;
    while (!atomic_load(&aborted->waits))
        ;
    for (const int64_t end_ns = now_ns() + aborted->delay_ns; now_ns() < end_ns;)
        ;
    kolo_comm_abort(aborted->comm, CODE);
    return NULL;
}

static void run_abort_of_messages(struct rank *rank) {
    enum { ABORTS = 40, DELAY_NS_MAX = 60000 };
    for (int i = 0; i < ABORTS; i++) {
        struct aborted aborted = {.delay_ns = (int64_t)(random_seed(6, (uint64_t)i) % DELAY_NS_MAX)};
        kolo_request *request = NULL;
        pthread_t thread;
        int word = 0, got = 0;
        if (!expect_status(rank, kolo_comm_dup(rank->comm, &aborted.comm), 0, "kolo_comm_dup"))
            return;
        expect_status(rank, kolo_ibarrier(aborted.comm, &request), 0, "kolo_ibarrier");
        expect_status(rank, kolo_request_wait(request), 0, "kolo_request_wait");
        int status = kolo_barrier(aborted.comm);
        if (rank->rank == 0 && expect_status(rank, status, 0, "kolo_barrier") &&
            expect(rank, pthread_create(&thread, NULL, abort_soon, &aborted) == 0, "no thread")) {
            atomic_store(&aborted.waits, true);
            status = i % 2 ? kolo_recv(aborted.comm, &got, 1, KOLO_I32, KOLO_ANY_RANK, 0, NULL)
                           : kolo_sendrecv(aborted.comm, &word, 1, 1, 0, &got, 1, 1, 0, KOLO_I32, NULL);
            expect(rank, status == KOLO_ERR_ABORTED || status == KOLO_ERR_STATE, "a receive of nothing: %d", status);
            pthread_join(thread, NULL);
        } else if (rank->rank != 0 && status == 0) { /* rank 0 may have aborted before */
            expect_status(rank, kolo_barrier(aborted.comm), KOLO_ERR_ABORTED, "kolo_barrier after it");
        }
        kolo_comm_destroy(aborted.comm);
    }
}

/* One rank does not come in time: it stays away, or is stopped by the parent, until the others have given up. It finds
 * out when it comes. */
static void run_late(struct rank *rank) {
    const size_t count = *(const size_t *)rank->team->argument;
    const bool stopped = rank->team->meanwhile != NULL, late = rank->rank == 0;
    int64_t begin_ns = 0, held_before_ns = 0;
    int status = 0;
    if (!make_calls(rank, count)) {
        counter_add(2);
        return;
    }
    counter_add(1);
    if (late && !stopped)
        await_counter(2 * (uint64_t)rank->ranks - 1);
    while (status == 0) {
        held_before_ns = held_ns();
        begin_ns = now_ns();
        status = allreduce_once(rank, count);
    }
    const int64_t took_ns = now_ns() - begin_ns, machine_ns = held_ns() - held_before_ns;
    counter_add(1);
    if (!expect_timely(rank, rank->comm, status, KOLO_ERR_TIMEOUT, 0, "kolo_allreduce"))
        return;
    expect_message(rank, "kolo_allreduce", "rank 0 (pid", "did not come", NULL);
    if (!late)
        expect_prompt(rank, took_ns - machine_ns - TIMEOUT_MS * 12 / 10 * INT64_C(1000000), 100,
                      "gave up, past the deadline");
    expect(rank, late || rank->ranks > 2 || took_ns >= TIMEOUT_MS * INT64_C(1000000), "gave up after %lld ms already",
           (long long)took_ns / 1000000);
    check_failure(rank, KOLO_ERR_TIMEOUT, 0, 0);
}

static void stop_rank_0(const struct team *team, const pid_t *pids) {
    await_counter((uint64_t)team->ranks);
    kill(pids[0], SIGSTOP);
    await_counter(2 * (uint64_t)team->ranks - 1);
    kill(pids[0], SIGCONT);
}

/* A child of a rank: the communicator is not its own, and letting go of it must not disturb the parent. */
static void run_fork(struct rank *rank) {
    const size_t count = *(const size_t *)rank->team->argument;
    int exit_code = -1;
    void *shared = NULL;
    if (!make_calls(rank, count) || !expect_status(rank, kolo_alloc(rank->comm, 4096, &shared), 0, "kolo_alloc"))
        return;
    memset(shared, 1 + rank->rank, 4096);
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        kolo_stats stats = {.stats_bytes = sizeof stats};
        kolo_failure failure = {.failure_bytes = sizeof failure};
        void *buffer = NULL;
        expect_status(rank, allreduce_once(rank, count), KOLO_ERR_STATE, "kolo_allreduce in a child");
        expect_message(rank, "kolo_allreduce in a child", "inherited through fork", NULL);
        expect_status(rank, kolo_barrier(rank->comm), KOLO_ERR_STATE, "kolo_barrier in a child");
        expect_status(rank, kolo_broadcast(rank->comm, NULL, 0, KOLO_U8, 0), KOLO_ERR_STATE,
                      "kolo_broadcast in a child");
        expect_status(rank, kolo_comm_abort(rank->comm, CODE), KOLO_ERR_STATE, "kolo_comm_abort in a child");
        expect_status(rank, kolo_comm_set_timeout(rank->comm, 1), KOLO_ERR_STATE, "kolo_comm_set_timeout in a child");
        expect_status(rank, kolo_comm_stats(rank->comm, &stats), 0, "kolo_comm_stats in a child");
        expect(rank, stats.calls >= CALLS, "the child sees %llu calls", (unsigned long long)stats.calls);
        expect_status(rank, kolo_comm_failure(rank->comm, &failure), 0, "kolo_comm_failure in a child");
        expect(rank, failure.status == 0 && failure.cause == KOLO_CAUSE_NONE, "the child sees failure %d",
               failure.status);
        expect_status(rank, kolo_alloc(rank->comm, 4096, &buffer), KOLO_ERR_STATE, "kolo_alloc in a child");
        expect(rank, buffer == NULL, "kolo_alloc in a child gave a buffer");
        expect_status(rank, kolo_free(rank->comm, shared), KOLO_ERR_STATE, "kolo_free in a child");
        expect_status(rank, kolo_comm_destroy(rank->comm), 0, "kolo_comm_destroy in a child");
        _exit(0);
    }
    make_calls(rank, count);
    expect(rank, pid > 0 && waitpid(pid, &exit_code, 0) == pid && exit_code == 0, "the child ended with %d", exit_code);
    make_calls(rank, count); /* the child is gone: nobody may take it for this rank */
    uint8_t *bytes = shared;
    expect_status(rank, kolo_allreduce(rank->comm, bytes, bytes, 4096, KOLO_U8, KOLO_SUM), 0, "in kolo_alloc's memory");
    expect(rank, bytes[0] == rank->ranks * (rank->ranks + 1) / 2 && bytes[4095] == bytes[0],
           "the child's end changed the parent's buffer: %d", bytes[0]);
    expect_status(rank, kolo_free(rank->comm, shared), 0, "kolo_free");
}

static void run_failures(struct team *team) {
    team->timeout_ms = 0;
    team->run = run_abort;
    harness_run(team);
    if (!arguments.threads) {
        team->run = run_fork;
        harness_run(team);
    }
    team->timeout_ms = TIMEOUT_MS;
    team->run = run_late;
    harness_run(team);
    if (!arguments.threads) {
        team->meanwhile = stop_rank_0;
        harness_run(team);
    }
}

/* Limits of 0 are none: those who wait for rank 0 go on waiting. */
static void run_unlimited(struct rank *rank) {
    rank->options.timeout_ms = rank->options.create_timeout_ms = rank->team->argument ? -1 : 0; /* -1: the variables' */
    for (int step = 0; step < 2; step++) {
        if (rank->rank == 0)
            sleep_ms(UNLIMITED_MS);
        if (!expect_status(rank, step ? kolo_barrier(rank->comm) : kolo_comm_create(&rank->comm, &rank->options), 0,
                           step ? "a call without a limit" : "a creation without a limit"))
            return;
    }
}

static void run_all_unlimited(void) {
    struct team team = {.ranks = 3, .creates_itself = true, .run = run_unlimited};
    harness_run(&team);
    team.argument = "";
    setenv("KOLO_TIMEOUT_MS", "0", 1);
    setenv("KOLO_CREATE_TIMEOUT_MS", "0", 1);
    harness_run(&team);
    unsetenv("KOLO_TIMEOUT_MS");
    unsetenv("KOLO_CREATE_TIMEOUT_MS");
}

/* The limit of a communicator that lives. Rank 1 waits for rank 0 in one of these ways; meanwhile another thread of it
 * changes the limit. */
enum { WAITS_IN_CALL, WAITS_IN_LANES, WAITS_IN_BACKGROUND, WAYS_TO_WAIT };

static int wait_for_rank_0(kolo_comm *comm, int way) {
    float data[5000] = {0};
    kolo_request *request;
    if (way != WAITS_IN_BACKGROUND)
        return kolo_allreduce(comm, data, data, 5000, KOLO_F32, KOLO_SUM);
    const int status = kolo_iallreduce(comm, data, data, 5000, KOLO_F32, KOLO_SUM, &request);
    return status < 0 ? status : kolo_request_wait(request);
}

static void *change_limit(void *argument) {
    const struct rank *rank = argument;
    sleep_ms(TIMEOUT_MS / 2); /* the wait goes on by now, or begins with the new limit: both are right */
    const int64_t limit_ms = rank->team->timeout_ms ? 0 : TIMEOUT_MS;
    expect_status(rank, kolo_comm_set_timeout(rank->comm, limit_ms), 0, "kolo_comm_set_timeout");
    expect(rank, info_of(rank->comm).timeout_ms == limit_ms, "the limit is %lld ms, not %lld",
           (long long)info_of(rank->comm).timeout_ms, (long long)limit_ms);
    return NULL;
}

/* With a limit that is lifted rank 0 may come late; with one that is set the wait ends without it. */
static void run_changed(struct rank *rank) {
    const int way = *(const int *)rank->team->argument;
    const bool lifted = rank->team->timeout_ms != 0;
    pthread_t other;
    rank->options.progress = way == WAITS_IN_BACKGROUND;
    rank->options.threads = way == WAITS_IN_LANES ? 2 : 1;
    if (!expect_status(rank, kolo_comm_create(&rank->comm, &rank->options), 0, "kolo_comm_create"))
        return;
    int status = 0;
    if (rank->rank == 0) {
        if (lifted)
            sleep_ms(3 * TIMEOUT_MS);
        else
            await_counter((uint64_t)rank->ranks - 1);
        do /* what rank 1 had given to its call may be all that rank 0 needs for the same one */
            status = wait_for_rank_0(rank->comm, way);
        while (status == 0 && !lifted);
    } else {
        expect(rank, pthread_create(&other, NULL, change_limit, rank) == 0, "no thread");
        status = wait_for_rank_0(rank->comm, way);
        counter_add(1);
        pthread_join(other, NULL);
    }
    if (expect_timely(rank, rank->comm, status, lifted ? 0 : KOLO_ERR_TIMEOUT, 0, "the wait") && !lifted)
        expect_message(rank, "the wait", "rank 0 (pid", "did not come", NULL);
}

/* What is refused, and that groups have the limit of the communicator that they come of. */
static void run_limits(struct rank *rank) {
    kolo_comm *group = NULL;
    expect_status(rank, kolo_comm_set_timeout(NULL, 1), KOLO_ERR_ARG, "kolo_comm_set_timeout of NULL");
    expect_status(rank, kolo_comm_set_timeout(rank->comm, -1), KOLO_ERR_ARG, "kolo_comm_set_timeout of -1 ms");
    expect_message(rank, "kolo_comm_set_timeout", "timeout_ms -1", "0 to", NULL);
    expect_status(rank, kolo_comm_set_timeout(rank->comm, INT64_MAX), KOLO_ERR_ARG, "kolo_comm_set_timeout");
    const int64_t limits_ms[] = {4711 + rank->rank, 0};
    for (int i = 0; i < 2; i++) {
        expect_status(rank, kolo_comm_set_timeout(rank->comm, patience_ms(limits_ms[i])), 0, "kolo_comm_set_timeout");
        if (!expect_status(rank, kolo_comm_dup(rank->comm, &group), 0, "kolo_comm_dup"))
            return;
        expect(rank, info_of(group).timeout_ms == patience_ms(limits_ms[i]), "a group's limit is %lld ms, not %lld",
               (long long)info_of(group).timeout_ms, (long long)patience_ms(limits_ms[i]));
        kolo_comm_destroy(group);
    }
}

static void run_all_changed(void) {
    static const int ways[WAYS_TO_WAIT] = {WAITS_IN_CALL, WAITS_IN_LANES, WAITS_IN_BACKGROUND};
    harness_run(&(struct team){.ranks = 2, .run = run_limits});
    for (int i = 0; i < 2 * WAYS_TO_WAIT; i++)
        harness_run(&(struct team){.ranks = 2,
                                   .timeout_ms = i % 2 ? TIMEOUT_MS : 0,
                                   .creates_itself = true,
                                   .argument = &ways[i / 2],
                                   .run = run_changed});
}

/* A communicator of one rank has nobody to wait for, but can be aborted, in any lane. */
static void run_alone(struct rank *rank) {
    const bool *by_lane = rank->team->argument;
    rank->options.threads = 2;
    if (!expect_status(rank, kolo_comm_create(&rank->comm, &rank->options), 0, "kolo_comm_create"))
        return;
    expect_status(rank, kolo_comm_abort(*by_lane ? kolo_comm_lane(rank->comm, 1) : rank->comm, CODE), 0,
                  "kolo_comm_abort");
    kolo_failure failure = {.failure_bytes = sizeof failure};
    kolo_comm_failure(rank->comm, &failure);
    expect(rank,
           failure.status == KOLO_ERR_ABORTED && failure.cause == KOLO_CAUSE_ABORTED && failure.code == CODE &&
               failure.rank == 0 && failure.reporter == 0,
           "the failure is %d, code %d: %s", failure.status, failure.code, failure.message);
    expect_status(rank, kolo_barrier(kolo_comm_lane(rank->comm, 0)), KOLO_ERR_STATE, "kolo_barrier in lane 0 after it");
    if (*by_lane)
        return;
    expect_status(rank, allreduce_once(rank, 1), KOLO_ERR_STATE, "kolo_allreduce after it");
    expect_status(rank, kolo_comm_abort(rank->comm, CODE), KOLO_ERR_STATE, "a second kolo_comm_abort");
}

int main(int argc, char **argv) {
    harness_begin(argc, argv, "Aborts, delays and forks ranks in the middle of all-reduces.");
    if (wants_ranks(1))
        for (int by_lane = 0; by_lane < 2; by_lane++)
            harness_run(
                &(struct team){.ranks = 1, .creates_itself = true, .argument = &(bool){by_lane}, .run = run_alone});
    for (int call = 0; call < CALLS_TO_ABORT && wants_ranks(2); call++)
        harness_run(&(struct team){.ranks = 2, .creates_itself = true, .argument = &call, .run = run_abort_by_thread});
    if (wants_ranks(2))
        harness_run(&(struct team){.ranks = 2, .run = run_abort_of_messages});
    if (wants_ranks(3))
        run_all_unlimited();
    if (wants_ranks(2))
        run_all_changed();
    for (int ranks = 2; ranks <= 4; ranks++)
        for (kolo_algorithm algorithm = KOLO_ALGORITHM_ONESHOT; algorithm < KOLO_ALGORITHMS; algorithm++) {
            const size_t *count = &counts[(size_t)(ranks + (int)algorithm) % 2];
            struct team team = {.ranks = ranks, .algorithm = algorithm, .slot_bytes = 8192, .argument = count};
            if (wants_ranks(ranks) && wants_algorithm(algorithm) && !(arguments.quick && ranks == 3))
                run_failures(&team);
        }
    return harness_end();
}
