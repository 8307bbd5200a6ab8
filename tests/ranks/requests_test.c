/* Collectives in the background: each against the sequential reference, with and without a progress thread, completed
 * in every way; and what becomes of requests when communicators are destroyed or aborted, ranks die, disagree or fork.
 * random_programs_test.c mixes them with all else. */
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "oracle.h"
#include "reference.h"

enum { SLOT_BYTES = 4096, PENDING_MAX = 400, WAYS = 6 };

/* How a team's communicator is made. */
struct mode {
    int progress;
    bool at_once; /* whoever has an eventfd wants to hear soon: the thread does not defer even where it has no processor
                   */
};

static bool create(struct rank *rank, kolo_comm **comm) {
    const struct mode *mode = rank->team->argument;
    int fd;
    rank->options.progress = mode->progress;
    return expect_status(rank, kolo_comm_create(comm, &rank->options), 0, "kolo_comm_create") &&
           (!mode->at_once || expect_status(rank, kolo_comm_eventfd(*comm, &fd), 0, "kolo_comm_eventfd"));
}

static bool has_progress(const struct rank *rank) {
    return ((const struct mode *)rank->team->argument)->progress > 0;
}

/* Calls in flight, in the order of issue. */
struct flight {
    const struct rank *rank;
    int count;
    kolo_request *requests[PENDING_MAX];
    struct prepared *calls[PENDING_MAX];
    uint64_t random; /* of this rank alone */
};

static bool land(struct flight *flight, int index, int status) {
    const bool right = call_check(flight->rank, flight->calls[index], status);
    free(flight->calls[index]);
    flight->count--;
    memmove(&flight->requests[index], &flight->requests[index + 1],
            (size_t)(flight->count - index) * sizeof *flight->requests);
    memmove(&flight->calls[index], &flight->calls[index + 1], (size_t)(flight->count - index) * sizeof *flight->calls);
    return right;
}

static bool issue(struct flight *flight, kolo_comm *comm, const struct call *call) {
    struct prepared *prepared = malloc(sizeof *prepared);
    call_prepare(prepared, call, comm);
    const int status = call_issue(prepared, comm, &flight->requests[flight->count]);
    if (!expect_status(flight->rank, status, 0, "issuing"))
        return false;
    memset(&prepared->sent, 0xff, sizeof prepared->sent); /* the counts have been copied */
    memset(&prepared->taken, 0xff, sizeof prepared->taken);
    flight->calls[flight->count++] = prepared;
    return true;
}

static bool test_until_done(struct flight *flight, int index) {
    int done = 0;
    while (!done)
        if (!expect_status(flight->rank, kolo_request_test(flight->requests[index], &done), 0, "kolo_request_test"))
            return false;
    return land(flight, index, kolo_request_wait(flight->requests[index]));
}

static bool wait_for_any(struct flight *flight) {
    int index = -2;
    const int status = kolo_request_wait_any(flight->requests, (size_t)flight->count, &index);
    return expect(flight->rank, index >= 0 && index < flight->count && !flight->requests[index],
                  "kolo_request_wait_any: index %d of %d", index, flight->count) &&
           land(flight, index, status);
}

/* In any order. */
static bool wait_for_all(struct flight *flight) {
    for (int i = flight->count - 1; i > 0; i--) {
        const int other = (int)random_below(&flight->random, (uint64_t)i + 1);
        kolo_request *const request = flight->requests[i];
        struct prepared *const call = flight->calls[i];
        flight->requests[i] = flight->requests[other], flight->calls[i] = flight->calls[other];
        flight->requests[other] = request, flight->calls[other] = call;
    }
    const int status = kolo_request_wait_all(flight->requests, (size_t)flight->count);
    bool right = expect_status(flight->rank, status, 0, "kolo_request_wait_all");
    while (flight->count) {
        right = expect(flight->rank, !flight->requests[0], "kolo_request_wait_all has left a request") && right;
        right = land(flight, 0, 0) && right;
    }
    return right;
}

/* Completes all; `way` is how. */
static bool complete(struct flight *flight, unsigned way) {
    while (flight->count) {
        const int any = way == 1 ? flight->count - 1 : way == 2 ? (int)random_below(&flight->random, 1000) : 0;
        const bool right =
            way < 3    ? land(flight, any % flight->count, kolo_request_wait(flight->requests[any % flight->count]))
            : way == 3 ? test_until_done(flight, flight->count - 1)
            : way == 4 ? wait_for_any(flight)
                       : wait_for_all(flight);
        if (!right)
            return false;
    }
    return true;
}

/* Each collective, many in flight, completed in every way. */
static void run_each(struct rank *rank) {
    static const size_t counts[] = {1, 0, 7, 49, 300, 1023, 4100};
    kolo_comm *comm;
    if (!create(rank, &comm))
        return;
    struct flight flight = {.rank = rank, .random = random_seed(1, (uint64_t)rank->rank)};
    uint32_t index = 0;
    bool right = true;
    for (unsigned way = 0; right && way < WAYS; way++) {
        for (size_t kind = 0; right && kind < COLLECTIVES; kind++)
            for (int in_place = 0; right && in_place <= works_in_place(&collective_shapes[kind]); in_place++) {
                index++;
                right = issue(&flight, comm,
                              &(struct call){index, &collective_shapes[kind], (kolo_dtype)(index % KOLO_DTYPES),
                                             (kolo_op)(index % KOLO_AVG), (int)(index % (uint32_t)rank->ranks),
                                             counts[index % 7], in_place, NULL, NULL, 0});
                if (right && index % 11 == 0) {
                    kolo_request *barrier = NULL;
                    right = expect_status(rank, kolo_ibarrier(comm, &barrier), 0, "kolo_ibarrier") &&
                            (index % 2 || expect_status(rank, kolo_request_wait(barrier), 0, "a barrier's wait"));
                    if (index % 2 && right) /* a call that is not in the background comes after all that are */
                        right = expect_status(rank, kolo_barrier(comm), 0, "kolo_barrier") &&
                                expect_status(rank, kolo_request_wait(barrier), 0, "a barrier's wait");
                }
            }
        right = right && complete(&flight, way);
    }
    kolo_comm_destroy(comm);
}

static bool expect_calls(const struct rank *rank, const kolo_comm *comm, uint64_t least, uint64_t most) {
    kolo_stats stats = {.stats_bytes = sizeof stats};
    return expect_status(rank, kolo_comm_stats(comm, &stats), 0, "kolo_comm_stats") &&
           expect(rank,
                  stats.calls >= least && stats.calls <= most &&
                      stats.calls_by_collective[KOLO_ALLREDUCE] == stats.calls,
                  "%d calls are counted, not %d to %d", (int)stats.calls, (int)least, (int)most);
}

/* Thousands of requests, after which no more memory is in use than after the first hundreds. */
static void run_many(struct rank *rank) {
    enum { BATCH = 200, BATCHES = 50, STARTED_BYTES = 16384 /* what the progress thread takes when it starts */ };
    kolo_comm *comm;
    if (!create(rank, &comm))
        return;
    kolo_request *requests[BATCH];
    int data[BATCH];
    size_t in_use = 0;
    bool right = true;
    for (int batch = 0; right && batch < (arguments.quick ? BATCHES / 10 : BATCHES); batch++) {
        for (int i = 0; right && i < BATCH; i++) {
            data[i] = batch + i + rank->rank;
            right = expect_status(rank, kolo_iallreduce(comm, &data[i], &data[i], 1, KOLO_I32, KOLO_SUM, &requests[i]),
                                  0, "issuing");
        }
        right = right && expect_calls(rank, comm, 0, (uint64_t)(batch + 1) * BATCH); /* beside the progress thread */
        right = right && expect_status(rank, kolo_request_wait_all(requests, BATCH), 0, "kolo_request_wait_all");
        right = right && expect_calls(rank, comm, (uint64_t)(batch + 1) * BATCH, (uint64_t)(batch + 1) * BATCH);
        for (int i = 0; right && i < BATCH; i++)
            right = expect(rank, data[i] == rank->ranks * (batch + i) + rank->ranks * (rank->ranks - 1) / 2,
                           "sum %d of batch %d is wrong", i, batch);
        const size_t now_in_use = heap_bytes();
        if (batch == 1)
            in_use = now_in_use;
        else if (batch > 1 && !arguments.threads)
            right = right && expect(rank, now_in_use <= in_use + STARTED_BYTES, "%zu bytes in use, then %zu", in_use,
                                    now_in_use);
    }
    kolo_comm_destroy(comm);
}

struct doubling {
    int64_t *data;
    int calls;
};

static void double_data(void *argument) {
    struct doubling *doubling = argument;
    *doubling->data *= 2;
    doubling->calls++;
}

static void abort_comm(void *argument) {
    kolo_comm_abort(argument, 7);
}

/* A function that is called at once aborts its communicator, with a receive in flight. */
static void run_abort_in_function(struct rank *rank) {
    kolo_comm *comm;
    kolo_request *request;
    int data;
    if (!create(rank, &comm))
        return;
    if (rank->rank == 0) {
        expect_status(rank, kolo_irecv(comm, &data, 1, KOLO_I32, 1, 0, NULL, &request), 0, "kolo_irecv");
        expect_status(rank, kolo_irun(comm, abort_comm, comm, NULL), KOLO_ERR_STATE, "kolo_irun of an abort");
        if (expect_status(rank, kolo_request_wait(request), KOLO_ERR_ABORTED, "the receive"))
            expect_message(rank, "the receive", "rank 0 aborted the communicator with code 7", NULL);
    }
    kolo_comm_destroy(comm);
}

/* Functions between sums of what they change, all in flight at once; and one behind a barrier that is aborted, which is
 * never called. */
static void run_functions(struct rank *rank) {
    enum { ROUNDS = 10 };
    const int64_t ranks = rank->ranks;
    int64_t data = rank->rank + 1, expected = ranks * (ranks + 1) / 2;
    struct doubling doubling = {&data, 0}, never = {&data, 0};
    kolo_request *requests[2 * ROUNDS], *aborted[2] = {NULL, NULL};
    kolo_comm *comm, *other;
    if (!create(rank, &comm))
        return;
    for (int i = 0; i < ROUNDS; i++) {
        expected *= i ? 2 * ranks : 2;
        expect_status(rank, kolo_irun(comm, double_data, &doubling, &requests[2 * i]), 0, "kolo_irun");
        expect_status(rank, kolo_iallreduce(comm, &data, &data, 1, KOLO_I64, KOLO_SUM, &requests[2 * i + 1]), 0,
                      "issuing");
    }
    expect_status(rank, kolo_irun(comm, double_data, &doubling, NULL), 0, "kolo_irun without a request");
    expect(rank, data == 2 * expected && doubling.calls == ROUNDS + 1, "%lld after %d calls, not %lld", (long long)data,
           doubling.calls, 2 * (long long)expected);
    expect_status(rank, kolo_request_wait_all(requests, 2 * ROUNDS), 0, "kolo_request_wait_all");
    expect_status(rank, kolo_irun(comm, NULL, NULL, &aborted[0]), KOLO_ERR_ARG, "kolo_irun without a function");
    if (ranks > 1 && expect_status(rank, kolo_comm_dup(comm, &other), 0, "kolo_comm_dup")) {
        if (rank->rank == 0) { /* the others do not make this call */
            expect_status(rank, kolo_ibarrier(other, &aborted[0]), 0, "kolo_ibarrier");
            expect_status(rank, kolo_irun(other, double_data, &never, &aborted[1]), 0, "kolo_irun");
            expect_status(rank, kolo_comm_abort(other, 7), 0, "kolo_comm_abort");
            expect_status(rank, kolo_request_wait(aborted[1]), KOLO_ERR_ABORTED, "a function behind the abort");
            expect_status(rank, kolo_request_wait(aborted[0]), KOLO_ERR_ABORTED, "the barrier");
            expect_status(rank, kolo_irun(other, double_data, &never, NULL), KOLO_ERR_STATE, "kolo_irun when broken");
            expect(rank, never.calls == 0, "a function was called behind an abort");
        }
        kolo_comm_destroy(other);
    }
    kolo_comm_destroy(comm);
}

/* Ends. */

enum { IN_FLIGHT = 100 };

/* Sums of many sizes in flight. */
struct sums {
    kolo_request *requests[IN_FLIGHT];
    float data[IN_FLIGHT][2000];
};

static struct sums *issue_sums(const struct rank *rank, kolo_comm *comm) {
    struct sums *sums = calloc(1, sizeof *sums);
    for (size_t i = 0; i < IN_FLIGHT; i++)
        expect_status(rank,
                      kolo_iallreduce(comm, sums->data[i], sums->data[i], 1 + 499 * (i % 5), KOLO_F32, KOLO_SUM,
                                      &sums->requests[i]),
                      0, "issuing");
    return sums;
}

/* Waits for all, and frees them. The first ones may have succeeded; those from the first failure on have failed with
 * `wanted` and say `words`. Returns how many. */
static int count_failed(const struct rank *rank, struct sums *sums, int wanted, const char *words) {
    int failed = 0;
    for (int i = 0; i < IN_FLIGHT; i++) {
        const int status = kolo_request_wait(sums->requests[i]);
        failed += failed || status;
        if (!failed)
            continue;
        expect(rank, status == wanted, "request %d: %d (%s), not %d", i, status, kolo_error_message(), wanted);
        expect_message(rank, "a request", words, NULL);
    }
    free(sums);
    return failed;
}

/* Rank 0 aborts; the others have issued one request more than it has. */
static void run_abort(struct rank *rank) {
    kolo_comm *comm, *other;
    kolo_request *last = NULL, *after = NULL;
    if (!create(rank, &comm))
        return;
    if (expect_status(rank, kolo_comm_dup(comm, &other), 0, "kolo_comm_dup")) {
        struct sums *sums = issue_sums(rank, other);
        if (rank->rank)
            expect_status(rank, kolo_ibarrier(other, &last), 0, "kolo_ibarrier");
        expect_status(rank, kolo_barrier(comm), 0, "another communicator's barrier");
        if (rank->rank == 0) {
            expect_status(rank, kolo_comm_abort(other, 7), 0, "kolo_comm_abort");
            const int failed =
                count_failed(rank, sums, KOLO_ERR_ABORTED, "rank 0 aborted the communicator with code 7");
            expect(rank, failed == IN_FLIGHT || has_progress(rank), "only %d requests were aborted", failed);
        } else {
            count_failed(rank, sums, KOLO_ERR_ABORTED, "rank 0 aborted the communicator with code 7");
            expect_status(rank, kolo_request_wait(last), KOLO_ERR_ABORTED, "a request that rank 0 does not make");
        }
        expect_status(rank, kolo_ibarrier(other, &after), KOLO_ERR_STATE, "a request after the abort");
        expect_message(rank, "a request after the abort", "kolo_ibarrier", "aborted", NULL);
        kolo_comm_destroy(other);
    }
    expect_status(rank, kolo_barrier(comm), 0, "another communicator's barrier");
    kolo_comm_destroy(comm);
}

static int compare_ns(const void *a, const void *b) {
    const int64_t first = *(const int64_t *)a, second = *(const int64_t *)b;
    return (first > second) - (first < second);
}

/* An abort waits for nobody, not even for the progress thread, which sleeps for up to 10 ms until it looks. */
static void run_abort_at_once(struct rank *rank) {
    enum { ABORTS = 9, ASLEEP_MS = 3, AT_ONCE_NS = 2000000 };
    kolo_comm *comm, *other;
    int64_t ns[ABORTS] = {0};
    if (!create(rank, &comm))
        return;
    for (int i = 0; i < ABORTS; i++) {
        kolo_request *request = NULL;
        int fd;
        if (!expect_status(rank, kolo_comm_dup(comm, &other), 0, "kolo_comm_dup"))
            break;
        if (rank->rank == 0) { /* the others do not make this call */
            kolo_comm_eventfd(other, &fd);
            expect_status(rank, kolo_ibarrier(other, &request), 0, "kolo_ibarrier");
            sleep_ms(ASLEEP_MS);
            const int64_t begin_ns = now_ns() - held_ns();
            expect_status(rank, kolo_comm_abort(other, 7), 0, "kolo_comm_abort");
            ns[i] = now_ns() - held_ns() - begin_ns;
            expect_status(rank, kolo_barrier(other), KOLO_ERR_STATE, "a call after the abort");
            expect_status(rank, kolo_request_wait(request), KOLO_ERR_ABORTED, "the request in flight");
            expect_message(rank, "the request in flight", "rank 0 aborted the communicator with code 7", NULL);
        }
        expect_status(rank, kolo_barrier(comm), 0, "another communicator's barrier");
        kolo_comm_destroy(other);
    }
    qsort(ns, ABORTS, sizeof *ns, compare_ns);
    expect(rank, ns[ABORTS / 2] < AT_ONCE_NS, "an abort takes %d us", (int)(ns[ABORTS / 2] / 1000));
    kolo_comm_destroy(comm);
}

/* Each rank aborts communicators that it alone is in while the progress thread carries out requests. No failure is
 * published in such a communicator: the thread must hear of the abort from the queue. */
static void run_abort_alone(struct rank *rank) {
    enum { ABORTS = 20, REQUESTS = 600 };
    kolo_comm *comm, *alone;
    kolo_request *requests[REQUESTS];
    int data[REQUESTS] = {0}, fd;
    if (!create(rank, &comm))
        return;
    for (int i = 0; i < ABORTS; i++) {
        if (!expect_status(rank, kolo_comm_split(comm, rank->rank, 0, &alone), 0, "kolo_comm_split"))
            break;
        expect_status(rank, kolo_comm_eventfd(alone, &fd), 0, "kolo_comm_eventfd");
        for (int j = 0; j < REQUESTS; j++)
            expect_status(rank, kolo_iallreduce(alone, &data[j], &data[j], 1, KOLO_I32, KOLO_SUM, &requests[j]), 0,
                          "issuing");
        expect_status(rank, kolo_comm_abort(alone, 7), 0, "kolo_comm_abort");
        bool failed = false;
        for (int j = 0; j < REQUESTS; j++) {
            const int status = kolo_request_wait(requests[j]);
            failed |= status != 0;
            if (failed && expect_status(rank, status, KOLO_ERR_ABORTED, "a request"))
                expect_message(rank, "a request", "rank 0 aborted the communicator with code 7", NULL);
        }
        kolo_comm_destroy(alone);
    }
    kolo_comm_destroy(comm);
}

static atomic_bool messages_end;

static void *send_to_itself(void *comm) {
    int sent = 1, received;
    kolo_request *requests[2];
    while (!atomic_load(&messages_end) && kolo_irecv(comm, &received, 1, KOLO_I32, 0, 0, NULL, &requests[0]) == 0 &&
           kolo_isend(comm, &sent, 1, KOLO_I32, 0, 0, &requests[1]) == 0 && kolo_request_wait_all(requests, 2) == 0)
        ;
    return NULL;
}

/* A thread waits for any request of a communicator that its rank alone is in, while another completes some elsewhere.
 */
static void run_wait_any_alone(struct rank *rank) {
    enum { WAITS = 20000 };
    kolo_comm *comm, *alone[2];
    pthread_t thread;
    int received, index;
    if (!create(rank, &comm))
        return;
    for (int i = 0; i < 2; i++)
        if (!expect_status(rank, kolo_comm_split(comm, rank->rank, 0, &alone[i]), 0, "kolo_comm_split"))
            return;
    atomic_store(&messages_end, false);
    if (!expect(rank, pthread_create(&thread, NULL, send_to_itself, alone[1]) == 0, "no thread"))
        return;
    for (int i = 0; i < WAITS; i++) {
        kolo_request *request; /* of a message that nobody can send */
        expect_status(rank, kolo_irecv(alone[0], &received, 1, KOLO_I32, 0, 5, NULL, &request), 0, "kolo_irecv");
        if (!expect(rank, kolo_request_wait_any(&request, 1, &index) < 0, "a receive from itself without a message"))
            break;
    }
    atomic_store(&messages_end, true);
    pthread_join(thread, NULL);
    for (int i = 0; i < 2; i++)
        kolo_comm_destroy(alone[i]);
    kolo_comm_destroy(comm);
}

struct aborter {
    kolo_comm *comm;
    atomic_uint calls;
    unsigned after; /* so many of them */
};

static void *abort_amid_calls(void *argument) {
    struct aborter *aborter = argument;
    while (atomic_load(&aborter->calls) < aborter->after)
        ;
    kolo_comm_abort(aborter->comm, 7);
    return NULL;
}

/* Another thread aborts while this one makes calls of both kinds in turn, so that the communicator is ready now and not
 * then: it must not be ready again after the abort. */
static void run_abort_by_thread(struct rank *rank) {
    enum { ABORTS = 20, BEFORE_MAX = 40 };
    kolo_comm *comm;
    int data = 0;
    if (!create(rank, &comm))
        return;
    for (int i = 0; i < ABORTS; i++) {
        struct aborter aborter = {.after = (unsigned)(random_seed(5, (uint64_t)i) % BEFORE_MAX)};
        pthread_t thread;
        int status = 0;
        if (!expect_status(rank, kolo_comm_split(comm, rank->rank, 0, &aborter.comm), 0, "kolo_comm_split") ||
            !expect(rank, pthread_create(&thread, NULL, abort_amid_calls, &aborter) == 0, "no thread"))
            break;
        while (status == 0) {
            kolo_request *request;
            status = kolo_iallreduce(aborter.comm, &data, &data, 1, KOLO_I32, KOLO_SUM, &request);
            if (status == 0)
                status = kolo_request_wait(request);
            if (status == 0)
                status = kolo_allreduce(aborter.comm, &data, &data, 1, KOLO_I32, KOLO_SUM);
            atomic_fetch_add(&aborter.calls, 1);
        }
        expect(rank, status == KOLO_ERR_ABORTED || status == KOLO_ERR_STATE, "the call that failed: status %d", status);
        pthread_join(thread, NULL);
        expect_status(rank, kolo_allreduce(aborter.comm, &data, &data, 1, KOLO_I32, KOLO_SUM), KOLO_ERR_STATE,
                      "a call after the abort");
        kolo_comm_destroy(aborter.comm);
    }
    kolo_comm_destroy(comm);
}

/* Rank 0 leaves with its requests in flight: the others, which have one more, hear of it in some of theirs. */
static void run_destroy(struct rank *rank) {
    kolo_comm *comm, *other;
    if (!create(rank, &comm))
        return;
    if (expect_status(rank, kolo_comm_dup(comm, &other), 0, "kolo_comm_dup")) {
        struct sums *sums = issue_sums(rank, other);
        kolo_request *last = NULL;
        if (rank->rank)
            expect_status(rank, kolo_ibarrier(other, &last), 0, "kolo_ibarrier");
        expect_status(rank, kolo_barrier(comm), 0, "another communicator's barrier");
        if (rank->rank == 0) {
            kolo_comm_destroy(other);
            const int failed = count_failed(rank, sums, KOLO_ERR_STATE, "destroyed before");
            expect(rank, failed == IN_FLIGHT || has_progress(rank), "only %d requests have failed", failed);
        } else {
            count_failed(rank, sums, KOLO_ERR_PEER_DEAD, "rank 0");
            expect_status(rank, kolo_request_wait(last), KOLO_ERR_PEER_DEAD, "a request that rank 0 does not make");
            expect_message(rank, "a request that rank 0 does not make", "rank 0", NULL);
            kolo_comm_destroy(other);
        }
    }
    expect_status(rank, kolo_barrier(comm), 0, "another communicator's barrier");
    kolo_comm_destroy(comm);
}

/* A wait that is slower to return than another thread is to destroy the communicator: a signal keeps it. Not for long,
 * in case that it is this thread that carries the call out, which the other one waits for. */

static atomic_int destroyed;

static void await_destroyed(int number) {
    (void)number;
    for (int ms = 0; ms < 1000 && !atomic_load(&destroyed); ms++)
        sleep_ms(1);
}

struct slow_wait {
    kolo_request *request;
    atomic_int begun;
    int way, status;
};

static void *wait_slowly(void *argument) {
    struct slow_wait *wait = argument;
    int index = 0;
    atomic_store(&wait->begun, 1);
    wait->status = wait->way == 0   ? kolo_request_wait(wait->request)
                   : wait->way == 1 ? kolo_request_wait_all(&wait->request, 1)
                                    : kolo_request_wait_any(&wait->request, 1, &index);
    return NULL;
}

/* Takes back the memory that was just freed, and fills it. */
static void spoil_freed(void) {
    enum { SIZE_MAX_BYTES = 4096, EACH = 8 };
    static void *blocks[SIZE_MAX_BYTES / 16][EACH];
    for (size_t i = 1; i < SIZE_MAX_BYTES / 16; i++)
        for (int j = 0; j < EACH; j++)
            memset(blocks[i][j] = malloc(16 * i), 0xa5, 16 * i);
    for (size_t i = 1; i < SIZE_MAX_BYTES / 16; i++)
        for (int j = 0; j < EACH; j++)
            free(blocks[i][j]);
}

static void run_destroy_beside_waits(struct rank *rank) {
    kolo_comm *comm, *other;
    int fd;
    if (!create(rank, &comm))
        return;
    for (int way = 0; way < 3; way++) {
        struct slow_wait wait = {.way = way};
        pthread_t thread;
        if (!expect_status(rank, kolo_comm_dup(comm, &other), 0, "kolo_comm_dup"))
            break;
        if (rank->rank == 0) { /* the others do not make this call */
            expect_status(rank, kolo_comm_eventfd(other, &fd), 0, "kolo_comm_eventfd");
            expect_status(rank, kolo_ibarrier(other, &wait.request), 0, "kolo_ibarrier");
            sleep_ms(20); /* the progress thread carries it out by now */
            atomic_store(&destroyed, 0);
            signal(SIGUSR1, await_destroyed);
            if (expect(rank, pthread_create(&thread, NULL, wait_slowly, &wait) == 0, "no thread")) {
                while (!atomic_load(&wait.begun))
                    sleep_ms(1);
                sleep_ms(30); /* it sleeps by now, or spins */
                pthread_kill(thread, SIGUSR1);
                sleep_ms(10);
                kolo_comm_destroy(other);
                spoil_freed();
                atomic_store(&destroyed, 1);
                pthread_join(thread, NULL);
                expect(rank, wait.status == KOLO_ERR_STATE, "way %d of waiting returns %d", way, wait.status);
            }
        }
        expect_status(rank, kolo_barrier(comm), 0, "another communicator's barrier");
        if (rank->rank)
            kolo_comm_destroy(other);
    }
    kolo_comm_destroy(comm);
}

/* The last rank dies: all that are in flight fail, and the others go on in a communicator without it. */
static void run_death(struct rank *rank) {
    kolo_comm *comm, *shrunk = NULL;
    float one = 1;
    if (!create(rank, &comm))
        return;
    expect_status(rank, kolo_barrier(comm), 0, "kolo_barrier");
    if (rank->rank == rank->ranks - 1) {
        while (counter_add(0) < (uint64_t)rank->ranks - 1) /* until the others have issued theirs */
            sleep_ms(1);
        event_set();
        kill(getpid(), SIGKILL);
    }
    char name[32];
    snprintf(name, sizeof name, "rank %d (pid", rank->ranks - 1);
    struct sums *sums = issue_sums(rank, comm);
    counter_add(1);
    const int failed = count_failed(rank, sums, KOLO_ERR_PEER_DEAD, name);
    expect(rank, failed == IN_FLIGHT, "only %d requests have failed", failed);
    expect_prompt(rank, now_ns() - event_ns(), 1000, "noticed the death");
    expect_status(rank, kolo_barrier(comm), KOLO_ERR_STATE, "a barrier after the death");
    if (expect_status(rank, kolo_comm_shrink(comm, &shrunk), 0, "kolo_comm_shrink")) {
        kolo_request *request = NULL;
        expect_status(rank, kolo_iallreduce(shrunk, &one, &one, 1, KOLO_F32, KOLO_SUM, &request), 0, "issuing");
        expect_status(rank, kolo_request_wait(request), 0, "a sum of those that are left");
        expect(rank, one == (float)(rank->ranks - 1), "the sum of those that are left is %g", (double)one);
        kolo_comm_destroy(shrunk);
    }
    kolo_comm_destroy(comm);
}

/* Rank 0 issues two requests in another order than the rest. A progress thread may find that before the second one. */
static void run_mismatch(struct rank *rank) {
    kolo_comm *comm;
    kolo_request *both[2] = {NULL}, *first = NULL;
    int data[3] = {1, 2, 3};
    if (!create(rank, &comm))
        return;
    expect_status(rank, kolo_iallreduce(comm, data, data, 1, KOLO_I32, KOLO_SUM, &first), 0, "issuing");
    for (int i = 0; i < 2; i++) {
        const int status = i == (rank->rank == 0)
                               ? kolo_ibarrier(comm, &both[i])
                               : kolo_iallreduce(comm, &data[1 + i], &data[1 + i], 1, KOLO_I32, KOLO_MAX, &both[i]);
        if (i == 0 || !has_progress(rank) || status != KOLO_ERR_STATE)
            expect_status(rank, status, 0, "issuing");
    }
    expect_status(rank, kolo_request_wait(first), 0, "the first request");
    expect_status(rank, kolo_request_wait_all(both, 2), KOLO_ERR_MISMATCH, "the other two");
    expect_message(rank, "the other two", "barrier", "allreduce", NULL);
    expect_status(rank, kolo_barrier(comm), KOLO_ERR_STATE, "a barrier after the mismatch");
    kolo_comm_destroy(comm);
}

/* Single calls. */

static void expect_refused(const struct rank *rank, int status, const char *function, const char *words) {
    if (expect_status(rank, status, KOLO_ERR_ARG, words))
        expect_message(rank, words, function, words, NULL);
}

static void run_arguments(struct rank *rank) {
    kolo_comm *comm;
    if (!create(rank, &comm))
        return;
    kolo_request *const untouched = (kolo_request *)&comm, *request = untouched, *first = NULL;
    int data[8] = {1}, index = 5, done = 5;
    size_t huge[HARNESS_RANKS_MAX];
    memset(huge, 0xff, sizeof huge);
    expect_status(rank, kolo_iallreduce(comm, data, data + 4, 4, KOLO_I32, KOLO_SUM, &first), 0, "issuing");
    expect_refused(rank, kolo_ibarrier(comm, NULL), "kolo_ibarrier", "request is NULL");
    expect_refused(rank, kolo_ibarrier(NULL, &request), "kolo_ibarrier", "comm is NULL");
    expect_refused(rank, kolo_iallreduce(comm, data, data, 1, (kolo_dtype)77, KOLO_SUM, &request), "kolo_iallreduce",
                   "dtype 77");
    expect_refused(rank, kolo_ireduce(comm, data, data, 1, KOLO_F32, KOLO_BXOR, 0, &request), "kolo_ireduce",
                   "bxor is for integers");
    expect_refused(rank, kolo_ibroadcast(comm, data, 1, KOLO_I32, rank->ranks, &request), "kolo_ibroadcast", "root");
    expect_refused(rank, kolo_iscan(comm, NULL, data, 1, KOLO_I32, KOLO_SUM, &request), "kolo_iscan", "send is NULL");
    expect_refused(rank, kolo_iallgatherv(comm, data, data, NULL, NULL, KOLO_I32, &request), "kolo_iallgatherv",
                   "counts of recv is NULL");
    expect_refused(rank, kolo_ialltoallv(comm, data, huge, NULL, data, huge, NULL, KOLO_I32, &request),
                   "kolo_ialltoallv", "more than memory can hold");
    expect(rank, request == untouched, "a call that was refused has set the request");
    expect_refused(rank, kolo_request_test(first, NULL), "kolo_request_test", "done is NULL");
    expect_refused(rank, kolo_request_wait_all(NULL, 1), "kolo_request_wait_all", "requests is NULL");
    expect_refused(rank, kolo_request_wait_any(&first, 1, NULL), "kolo_request_wait_any", "index is NULL");
    expect_refused(rank, kolo_request_wait_any(NULL, 1, &index), "kolo_request_wait_any", "requests is NULL");
    expect_refused(rank, kolo_comm_eventfd(comm, NULL), "kolo_comm_eventfd", "fd is NULL");
    expect_status(rank, kolo_request_wait_any(NULL, 0, &index), 0, "kolo_request_wait_any of none");
    expect(rank, index == -1, "index %d of none", index);
    expect_status(rank, kolo_request_wait(NULL), 0, "kolo_request_wait of NULL");
    expect_status(rank, kolo_request_test(NULL, &done), 0, "kolo_request_test of NULL");
    expect(rank, done == 1, "NULL is not complete");
    expect_status(rank, kolo_request_wait(first), 0, "the one request that was right");
    expect(rank, data[4] == rank->ranks, "its sum is %d", data[4]);
    expect_status(rank, kolo_barrier(comm), 0, "kolo_barrier");
    kolo_comm_destroy(comm);
}

static uint64_t read_events(int fd) {
    uint64_t events = 0;
    return read(fd, &events, sizeof events) == sizeof events ? events : 0;
}

static void run_eventfd(struct rank *rank) {
    enum { REQUESTS = 20 };
    kolo_comm *comm;
    kolo_request *requests[REQUESTS];
    int fd = -1, again = -1;
    if (!create(rank, &comm) || !expect_status(rank, kolo_comm_eventfd(comm, &fd), 0, "kolo_comm_eventfd"))
        return;
    expect_status(rank, kolo_comm_eventfd(comm, &again), 0, "kolo_comm_eventfd");
    expect(rank, fd >= 0 && again == fd, "descriptors %d and %d", fd, again);
    expect(rank, read_events(fd) == 0, "an event before the first request");
    for (int i = 0; i < REQUESTS; i++)
        expect_status(rank, kolo_ibarrier(comm, &requests[i]), 0, "kolo_ibarrier");
    uint64_t events = 0;
    if (has_progress(rank)) {
        struct pollfd polled = {.fd = fd, .events = POLLIN};
        while (events < REQUESTS && expect(rank, poll(&polled, 1, 60000) == 1, "no event in a minute"))
            events += read_events(fd);
    } else {
        expect_status(rank, kolo_barrier(comm), 0, "kolo_barrier");
        events = read_events(fd);
    }
    expect(rank, events == REQUESTS, "%d events of %d requests", (int)events, REQUESTS);
    for (int i = 0; i < REQUESTS; i++) {
        int done = 0;
        expect_status(rank, kolo_request_test(requests[i], &done), 0, "kolo_request_test");
        expect(rank, done == 1, "request %d is not complete after its event", i);
    }
    expect_status(rank, kolo_request_wait_all(requests, REQUESTS), 0, "kolo_request_wait_all");
    kolo_comm_destroy(comm);
}

/* What a child does with its parent's requests; its exit status. */
static int use_inherited(kolo_comm *comm, struct sums *sums) {
    int done = 0, fd;
    kolo_request *another;
    const bool refused =
        kolo_ibarrier(comm, &another) == KOLO_ERR_STATE && kolo_comm_eventfd(comm, &fd) == KOLO_ERR_STATE;
    const bool tested = kolo_request_test(sums->requests[0], &done) == 0 && done;
    const bool failed = kolo_request_wait(sums->requests[IN_FLIGHT - 1]) == KOLO_ERR_STATE &&
                        strstr(kolo_error_message(), "fork") != NULL;
    kolo_comm_destroy(comm);
    sums->requests[IN_FLIGHT - 1] = NULL;
    const bool all = kolo_request_wait_all(sums->requests, IN_FLIGHT) <= 0;
    free(sums);
    return refused && tested && failed && all ? 0 : 1;
}

static void run_fork(struct rank *rank) {
    kolo_comm *comm;
    if (!create(rank, &comm))
        return;
    struct sums *sums = issue_sums(rank, comm);
    kolo_request *late = NULL;
    const pid_t child = fork();
    if (child == 0)
        _exit(use_inherited(comm, sums));
    int status = -1;
    expect(rank, child > 0 && waitpid(child, &status, 0) == child, "no child");
    expect_status(rank, kolo_ibarrier(comm, &late), 0, "kolo_ibarrier");
    expect_status(rank, kolo_request_wait_all(sums->requests, IN_FLIGHT), 0, "the parent's requests");
    expect_status(rank, kolo_request_wait(late), 0, "the parent's barrier");
    if (!has_progress(rank)) /* else some may have been complete */
        expect(rank, status == 0, "the child ended with %d", status);
    free(sums);
    kolo_comm_destroy(comm);
}

int main(int argc, char **argv) {
    static const int counts[] = {1, 2, 3, 4, 5};
    static const struct mode modes[] = {{-1, false}, {1, false}, {1, true}};
    static const struct {
        void (*run)(struct rank *);
        bool dies, forks, has_thread;
        int ranks_min;
    } parts[] = {{run_each, .ranks_min = 1},
                 {run_many, .ranks_min = 1},
                 {run_functions, .ranks_min = 1},
                 {run_arguments, .ranks_min = 1},
                 {run_eventfd, .ranks_min = 1},
                 {run_abort, .ranks_min = 1},
                 {run_abort_at_once, .ranks_min = 2},
                 {run_abort_alone, .ranks_min = 1},
                 {run_wait_any_alone, .ranks_min = 1},
                 {run_abort_in_function, .ranks_min = 2},
                 {run_abort_by_thread, .ranks_min = 1},
                 {run_destroy, .ranks_min = 1},
                 {run_destroy_beside_waits, .has_thread = true, .ranks_min = 2},
                 {run_mismatch, .ranks_min = 2},
                 {run_death, .dies = true, .ranks_min = 2},
                 {run_fork, .forks = true, .ranks_min = 1}};
    harness_begin(argc, argv, "Checks collectives in the background.");
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        for (size_t mode = 0; mode < sizeof modes / sizeof *modes; mode++)
            for (size_t part = 0; part < sizeof parts / sizeof *parts; part++) {
                const struct team team = {.ranks = counts[i],
                                          .slot_bytes = SLOT_BYTES,
                                          .creates_itself = true,
                                          .victim = parts[part].dies ? counts[i] : 0,
                                          .run = parts[part].run,
                                          .argument = &modes[mode]};
                if (wants_ranks(counts[i]) && counts[i] >= parts[part].ranks_min &&
                    (modes[mode].progress > 0 || !parts[part].has_thread) &&
                    !(arguments.threads && (parts[part].dies || parts[part].forks)))
                    harness_run(&team);
            }
    return harness_end();
}
