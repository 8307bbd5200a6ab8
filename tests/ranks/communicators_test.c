/* Several communicators: two at once, used in turn with the ranks in another order; one after another under the same
 * job name and through the same descriptor; nothing left behind by two hundred of them; and ranks that leave with a
 * call under way. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness.h"
#include "losses.h"

static bool sum_is_right(const struct rank *rank, kolo_comm *comm, size_t count) {
    uint64_t *data = malloc(count * sizeof *data);
    const uint64_t size = (uint64_t)kolo_comm_size(comm);
    for (size_t i = 0; i < count; i++)
        data[i] = (uint64_t)kolo_comm_rank(comm) * 1000 + i;
    bool right = expect_status(rank, kolo_allreduce(comm, data, data, count, KOLO_U64, KOLO_SUM), 0, "kolo_allreduce");
    for (size_t i = 0; right && i < count; i++)
        right =
            expect(rank, data[i] == size * (size - 1) / 2 * 1000 + size * i, "element %zu of %zu is wrong", i, count);
    free(data);
    return right;
}

static void run_two_at_once(struct rank *rank) {
    char job[128];
    kolo_options options = rank->options;
    kolo_comm *reversed;
    options.rank = rank->ranks - 1 - rank->rank;
    options.slot_bytes = 8192;
    snprintf(job, sizeof job, "%s-reversed", rank->options.job);
    options.job = job;
    if (!expect_status(rank, kolo_comm_create(&reversed, &options), 0, "kolo_comm_create"))
        return;
    expect(rank, kolo_comm_rank(reversed) == options.rank && kolo_comm_rank(rank->comm) == rank->rank,
           "the communicators have ranks %d and %d", kolo_comm_rank(rank->comm), kolo_comm_rank(reversed));
    for (size_t i = 0; i < 100; i++)
        if (!sum_is_right(rank, i % 2 ? reversed : rank->comm, 1 + i * i) ||
            !sum_is_right(rank, i % 3 ? reversed : rank->comm, 3))
            break;
    kolo_comm_destroy(reversed);
}

static int mappings(void) {
    int lines = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    for (int c; maps && (c = fgetc(maps)) != EOF;)
        lines += c == '\n';
    if (maps)
        fclose(maps);
    return lines;
}

enum { CYCLES_BEFORE = 5, CYCLES = 200, MAPPINGS_TOLERATED = 8 /* of the allocator's own */ };

static bool run_cycle(struct rank *rank, size_t count) {
    kolo_comm *comm;
    if (!expect_status(rank, kolo_comm_create(&comm, &rank->options), 0, "kolo_comm_create"))
        return false;
    bool right = sum_is_right(rank, comm, count);
    kolo_comm_destroy(comm);
    return right;
}

static void run_cycles(struct rank *rank) {
    const int cycles = arguments.quick ? CYCLES / 5 : CYCLES;
    for (int i = 0; i < CYCLES_BEFORE; i++)
        if (!run_cycle(rank, 10))
            return;
    const int descriptors = open_descriptors(), maps = mappings();
    for (int i = 0; i < cycles; i++)
        if (!run_cycle(rank, i % 2 ? 1 : 3000))
            return;
    if (arguments.threads) /* which of all ranks' descriptors are open just now is chance */
        return;
    expect(rank, open_descriptors() == descriptors, "%d descriptors before, %d after %d communicators", descriptors,
           open_descriptors(), cycles);
    expect(rank, mappings() <= maps + MAPPINGS_TOLERATED, "%d mappings before, %d after %d communicators", maps,
           mappings(), cycles);
}

/* More communicators at once than one after another: each must find its own peers. */
static void run_many_at_once(struct rank *rank) {
    enum { COMMS = 20 };
    kolo_comm *comms[COMMS] = {NULL};
    int created = 0;
    while (created < COMMS &&
           expect_status(rank, kolo_comm_create(&comms[created], &rank->options), 0, "kolo_comm_create"))
        created++;
    for (size_t i = 0; created == COMMS && i < COMMS; i++)
        if (!sum_is_right(rank, comms[(i * 7) % COMMS], 1 + i * 50))
            break;
    for (int i = 0; i < created; i++)
        kolo_comm_destroy(comms[created - 1 - i]);
}

/* Leaving, with a call under way: it has ended for the rank that leaves, which uses its buffers at once; the others are
 * still reading them. */

enum { CALL_COUNT = 1 << 18 /* of u32: enough to go directly */, ROUNDS = 12 };

static bool create_with_thread(struct rank *rank, kolo_comm **comm) {
    rank->options.progress = 1;
    return expect_status(rank, kolo_comm_create(comm, &rank->options), 0, "kolo_comm_create");
}

static uint32_t value_of(int rank, int round, size_t i) {
    return (uint32_t)(rank * 1000003 + round * 101) + (uint32_t)i * 7;
}

/* How an operation keeps its rank's call under way, in a buffer or out of another rank's. */
struct holdup {
    bool holds;
    int more_ms; /* once rank 0 has ended the call for itself, or is about to */
    atomic_int calls;
};

static void add_slowly(const void *in, void *inout, size_t count, void *context) {
    struct holdup *holdup = context;
    const uint32_t *const addends = in;
    if (holdup->holds && atomic_fetch_add(&holdup->calls, 1) == 0) {
        counter_add(1);
        await_counter(2);
        sleep_ms(holdup->more_ms);
    }
    for (size_t i = 0; i < count; i++)
        ((uint32_t *)inout)[i] += addends[i];
}

/* Rank 0 leaves while the last rank sums what is in rank 0's memory, which is given back: nobody's call succeeds. */
static void leave(const struct rank *rank, kolo_comm *comm, kolo_request *request) {
    kolo_failure failure = {.failure_bytes = sizeof failure};
    if (rank->rank == 0) {
        await_counter(1);
        kolo_comm_destroy(comm);
        counter_add(1);
        expect_status(rank, kolo_request_wait(request), KOLO_ERR_STATE, "the request of who has left");
        return;
    }
    if (expect_status(rank, kolo_request_wait(request), KOLO_ERR_PEER_DEAD, "a request under way"))
        expect_message(rank, "a request under way", "rank 0 (pid", "has left the communicator in call", NULL);
    kolo_comm_failure(comm, &failure);
    expect(rank, failure.rank == 0 && failure.cause == KOLO_CAUSE_LEFT, "rank %d is at fault, cause %d", failure.rank,
           failure.cause);
    kolo_comm_destroy(comm);
}

/* Rank 0 aborts, and frees the buffers that its own progress thread still uses. */
static void abort_and_free(const struct rank *rank, kolo_comm *comm, kolo_request *request, void *send, void *recv) {
    if (rank->rank == 0) {
        await_counter(1);
        expect_status(rank, kolo_comm_abort(comm, 1), 0, "kolo_comm_abort");
        counter_add(1);
        expect_status(rank, kolo_free(comm, send), 0, "kolo_free");
        expect_status(rank, kolo_free(comm, recv), 0, "kolo_free");
    }
    expect_status(rank, kolo_request_wait(request), KOLO_ERR_ABORTED, "a request under way");
    kolo_comm_destroy(comm);
}

static void run_leave(struct rank *rank) {
    const bool *aborts = rank->team->argument;
    kolo_comm *comm, *other;
    struct holdup holdup = {.holds = rank->rank == (*aborts ? 0 : rank->ranks - 1), .more_ms = *aborts ? 50 : 0};
    uint32_t *send = NULL, *recv = NULL;
    kolo_request *request = NULL;
    kolo_op add;
    if (!create_with_thread(rank, &comm))
        return;
    expect_status(rank, kolo_op_create(&add, add_slowly, &holdup, sizeof *send, 0), 0, "kolo_op_create");
    expect_status(rank, kolo_comm_dup(comm, &other), 0, "kolo_comm_dup");
    expect_status(rank, kolo_alloc(other, CALL_COUNT * sizeof *send, (void **)&send), 0, "kolo_alloc");
    expect_status(rank, kolo_alloc(other, CALL_COUNT * sizeof *recv, (void **)&recv), 0, "kolo_alloc");
    for (size_t i = 0; i < CALL_COUNT; i++)
        send[i] = value_of(rank->rank, 0, i);
    expect_status(rank, kolo_iallreduce(other, send, recv, CALL_COUNT, KOLO_U32, add, &request), 0, "issuing");
    if (*aborts)
        abort_and_free(rank, other, request, send, recv);
    else
        leave(rank, other, request);
    expect_status(rank, kolo_barrier(comm), 0, "another communicator's barrier");
    expect_status(rank, kolo_op_destroy(add), 0, "kolo_op_destroy");
    kolo_comm_destroy(comm);
}

/* The calls of a round: an all-reduce in buffers of kolo_alloc, an all-gather and an all-to-all, which read out of
 * other ranks' memory, and an all-reduce by slots. */
enum { GATHERED = 1, EXCHANGED = 2, CALLS = 4 };

struct round {
    const struct rank *rank;
    int round;
    bool leaves; /* then the buffers of kolo_alloc may be gone with the communicator */
    uint32_t *send[CALLS], *recv[CALLS];
    kolo_request *requests[CALLS];
};

static size_t elements_of(const struct round *calls, int call, bool is_recv) {
    return call == EXCHANGED || (call == GATHERED && is_recv) ? (size_t)calls->rank->ranks * CALL_COUNT : CALL_COUNT;
}

static uint32_t result_of(const struct round *calls, int call, size_t i) {
    const int self = calls->rank->rank, from = (int)(i / CALL_COUNT);
    if (call == GATHERED || call == EXCHANGED)
        return value_of(from, calls->round + call,
                        i % CALL_COUNT + (call == EXCHANGED ? (size_t)self * CALL_COUNT : 0));
    uint32_t sum = 0;
    for (int rank = 0; rank < calls->rank->ranks; rank++)
        sum += value_of(rank, calls->round + call, i);
    return sum;
}

/* Waits for a call, looks at its result if it has one, and uses its buffers for something else. */
static void end_call(struct round *calls, int call) {
    const int status = kolo_request_wait(calls->requests[call]),
              lost = calls->leaves ? KOLO_ERR_STATE : KOLO_ERR_PEER_DEAD;
    expect(calls->rank, status == 0 || status == lost, "call %d of round %d returns %d (%s)", call, calls->round,
           status, kolo_error_message());
    if (calls->leaves && call == 0)
        return;
    size_t wrong = 0;
    for (size_t i = 0; status == 0 && i < elements_of(calls, call, true); i++)
        wrong += calls->recv[call][i] != result_of(calls, call, i);
    expect(calls->rank, wrong == 0, "call %d of round %d returns 0 with %zu wrong elements", call, calls->round, wrong);
    memset(calls->send[call], 0x5a, elements_of(calls, call, false) * sizeof **calls->send);
    memset(calls->recv[call], 0xa5, elements_of(calls, call, true) * sizeof **calls->recv);
}

static void *end_later_half(void *argument) {
    for (int call = CALLS - 1; call >= CALLS / 2; call--)
        end_call(argument, call);
    return NULL;
}

static void issue_calls(struct round *calls, kolo_comm *comm) {
    uint32_t **const send = calls->send, **const recv = calls->recv;
    for (int call = 0; call < CALLS; call++) {
        const size_t count = elements_of(calls, call, false);
        if (call == 0) {
            expect_status(calls->rank, kolo_alloc(comm, count * sizeof **send, (void **)&send[0]), 0, "kolo_alloc");
            expect_status(calls->rank, kolo_alloc(comm, count * sizeof **recv, (void **)&recv[0]), 0, "kolo_alloc");
        } else {
            send[call] = malloc(count * sizeof **send);
            recv[call] = malloc(elements_of(calls, call, true) * sizeof **recv);
        }
        for (size_t i = 0; i < count; i++)
            send[call][i] = value_of(calls->rank->rank, calls->round + call, i);
    }
    const int issued[CALLS] = {
        kolo_iallreduce(comm, send[0], recv[0], CALL_COUNT, KOLO_U32, KOLO_SUM, &calls->requests[0]),
        kolo_iallgather(comm, send[1], recv[1], CALL_COUNT, KOLO_U32, &calls->requests[1]),
        kolo_ialltoall(comm, send[2], recv[2], CALL_COUNT, KOLO_U32, &calls->requests[2]),
        kolo_iallreduce(comm, send[3], recv[3], CALL_COUNT, KOLO_U32, KOLO_SUM, &calls->requests[3])};
    for (int call = 0; call < CALLS; call++)
        expect_status(calls->rank, issued[call], 0, "issuing");
}

/* Whether nobody has written to what the calls have calls, which is freed. */
static void free_calls(const struct round *calls) {
    for (int call = 1; call < CALLS; call++) {
        const unsigned char *const bytes = (unsigned char *)calls->recv[call];
        size_t changed = 0;
        for (size_t i = 0; i < elements_of(calls, call, true) * sizeof **calls->recv; i++)
            changed += bytes[i] != 0xa5;
        expect(calls->rank, changed == 0, "%zu bytes of call %d of round %d were written after it had ended", changed,
               call, calls->round);
        free(calls->send[call]);
        free(calls->recv[call]);
    }
}

/* A pause that this rank draws, of up to 4 ms. */
static void pause_shortly(uint64_t *random) {
    nanosleep(&(struct timespec){.tv_nsec = (long)random_below(random, 4000000)}, NULL);
}

/* In each round another rank leaves at some moment, as two of its threads wait; the last one, which does not, is
 * stopped meanwhile at some moment (stop_last). */
static void run_leave_anywhere(struct rank *rank) {
    const int rounds = arguments.quick ? 3 : ROUNDS;
    uint64_t random = random_seed(2, (uint64_t)rank->rank);
    kolo_comm *comm, *other;
    int fd;
    if (!create_with_thread(rank, &comm))
        return;
    for (int round = 0; round < rounds; round++) {
        struct round calls = {.rank = rank, .round = round, .leaves = rank->rank == round % (rank->ranks - 1)};
        pthread_t thread;
        if (!expect_status(rank, kolo_comm_dup(comm, &other), 0, "kolo_comm_dup"))
            return;
        if (round % 2) /* the thread carries them out at once; else it may be who waits */
            expect_status(rank, kolo_comm_eventfd(other, &fd), 0, "kolo_comm_eventfd");
        issue_calls(&calls, other);
        const bool has_thread = pthread_create(&thread, NULL, end_later_half, &calls) == 0;
        counter_add(1);
        if (calls.leaves) {
            await_counter((uint64_t)(round * (rank->ranks + 1) + rank->ranks));
            pause_shortly(&random);
            kolo_comm_destroy(other);
        }
        for (int call = 0; call < CALLS / 2; call++)
            end_call(&calls, call);
        if (has_thread)
            pthread_join(thread, NULL);
        else
            end_later_half(&calls);
        if (calls.leaves)
            counter_add(1); /* the last rank goes on */
        expect_status(rank, kolo_barrier(comm), 0, "another communicator's barrier");
        free_calls(&calls);
        if (!calls.leaves)
            kolo_comm_destroy(other);
    }
    kolo_comm_destroy(comm);
}

static void stop_last(const struct team *team, const pid_t *pids) {
    const int rounds = arguments.quick ? 3 : ROUNDS;
    uint64_t random = random_seed(3, 0);
    for (int round = 0; round < rounds; round++) {
        await_counter((uint64_t)(round * (team->ranks + 1) + team->ranks));
        pause_shortly(&random);
        kill(pids[team->ranks - 1], SIGSTOP);
        await_counter((uint64_t)((round + 1) * (team->ranks + 1)));
        kill(pids[team->ranks - 1], SIGCONT);
    }
}

int main(int argc, char **argv) {
    static const int counts[] = {1, 2, 3, 5};
    harness_begin(argc, argv, "Creates, uses and destroys several communicators at once and one after another.");
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        if (!wants_ranks(counts[i]))
            continue;
        struct team team = {.ranks = counts[i], .slot_bytes = 4096, .run = run_two_at_once};
        harness_run(&team);
        team.creates_itself = true;
        team.run = run_many_at_once;
        harness_run(&team);
        team.by_descriptor = true;
        harness_run(&team);
        team.by_descriptor = false;
        team.run = run_cycles;
        harness_run(&team);
        team.by_descriptor = team.empties_file = true;
        team.slot_bytes = 16384;
        harness_run(&team);
    }
    setenv("KOLO_SINGLE_COPY", "65536", 1); /* of run_leave_anywhere */
    for (size_t i = 1; i < sizeof counts / sizeof *counts; i++) {
        if (!wants_ranks(counts[i]))
            continue;
        for (int aborts = 0; aborts < 2; aborts++)
            harness_run(&(struct team){.ranks = counts[i],
                                       .algorithm = KOLO_ALGORITHM_DIRECT,
                                       .slot_bytes = 16384,
                                       .creates_itself = true,
                                       .run = run_leave,
                                       .argument = &(bool){aborts}});
        harness_run(&(struct team){.ranks = counts[i],
                                   .slot_bytes = 16384,
                                   .creates_itself = true,
                                   .run = run_leave_anywhere,
                                   .meanwhile = arguments.threads ? NULL : stop_last});
    }
    return harness_end();
}
