/* The black box: after known calls each rank's last 64 are seen from outside as they were made, with whom they waited
 * for; and when a rank dies, the log of the one that finds out shows where each stood, once. */
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"
#include "kolo_tools.h"
#include "kolo_watch.h"
#include "named_call.h"

enum { CALLS = 150, LARGE_CALL = CALLS - 5, LATE_CALL = CALLS - 3, LARGE_COUNT = 70000, LATE_MS_MIN = 150 };

/* What all ranks call as their call `number`, from 1. */
static kolo_watched_call call_of(int ranks, uint64_t number) {
    kolo_watched_call call = {.number = number, .collective = KOLO_ALLREDUCE, .dtype = KOLO_F32, .count = number};
    if (number == LARGE_CALL)
        call.count = LARGE_COUNT;
    else if (number % 7 == 3)
        call = (kolo_watched_call){.number = number, .collective = KOLO_BARRIER, .dtype = KOLO_U8};
    else if (number % 7 == 5)
        call = (kolo_watched_call){.number = number,
                                   .collective = KOLO_BROADCAST,
                                   .dtype = KOLO_I64,
                                   .root = (int)(number % (uint64_t)ranks),
                                   .count = 2 * number};
    else
        call.op = (kolo_op)(number % 4);
    if (number % 7 == 6 && number != LARGE_CALL) {
        call.collective = (kolo_collective)(KOLO_ALLREDUCE + number / 7 % (KOLO_ALLOC - KOLO_ALLREDUCE));
        call.op = kolo_collective_has(call.collective) & KOLO_HAS_OP ? call.op : KOLO_SUM;
        call.root = kolo_collective_has(call.collective) & KOLO_HAS_ROOT ? (int)(number % (uint64_t)ranks) : 0;
        call.count = kolo_collective_has(call.collective) & KOLO_HAS_COUNTS ? 0 : number;
    }
    return call;
}

static void apply_nothing(void *context, size_t first, size_t count, const void *gradients, void *parameters) {
    (void)context, (void)first, (void)count, (void)gradients, (void)parameters;
}

static int make_call(const struct rank *rank, uint64_t number, void *data) {
    const kolo_watched_call call = call_of(rank->ranks, number);
    float *recv = (float *)data + LARGE_COUNT / 2;
    const kolo_tensor tensors[] = {{data, call.count - 1}, {recv, 1}};
    size_t counts[HARNESS_RANKS_MAX];
    for (int i = 0; i < rank->ranks; i++) /* of an all-to-all two ranks have the same for each other */
        counts[i] = number + (uint64_t)i + (call.collective == KOLO_ALLTOALLV ? (uint64_t)rank->rank : 0);
    return named_call_make(
        rank->comm,
        &(kolo_call){.collective = call.collective,
                     .dtype = call.dtype,
                     .op = call.op,
                     .root = call.root,
                     .send = data,
                     .recv = call.collective == KOLO_ALLREDUCE || call.collective == KOLO_BROADCAST ? data : recv,
                     .count = kolo_collective_has(call.collective) & KOLO_HAS_COUNTS ? counts[rank->rank] : call.count,
                     .send_counts = counts,
                     .recv_counts = counts,
                     .tensors = tensors,
                     .ntensors = 2,
                     .function = apply_nothing});
}

/* Opens a watch on this process and finds the team's communicator in it, the one of that many ranks. */
static kolo_watch *watch_self(const struct rank *rank) {
    char pid[16];
    kolo_watch *watch = NULL;
    snprintf(pid, sizeof pid, "%d", (int)getpid());
    if (!expect_status(rank, kolo_watch_open(&watch, pid), 0, "kolo_watch_open"))
        return NULL;
    kolo_watched_comm comm = {.comm_bytes = sizeof comm};
    const int count = kolo_watch_search(watch, NULL);
    expect(rank, count == 1, "%d communicators were found", count);
    expect_status(rank, kolo_watch_read(watch, 0, &comm), 0, "kolo_watch_read");
    expect(rank, comm.ranks == rank->ranks && !comm.over && comm.failure == 0, "%d ranks, over %d, failure %d",
           comm.ranks, comm.over, comm.failure);
    expect(rank, strcmp(comm.job, rank->options.job ? rank->options.job : "") == 0, "the job is %s", comm.job);
    return watch;
}

/* How long the others, all of which wait for this rank in call `number`, have been waiting in it; -1: not all do yet.
 */
static int64_t others_wait_ns(const struct rank *rank, kolo_watch *watch, uint64_t number) {
    kolo_watched_comm comm = {.comm_bytes = sizeof comm};
    int64_t longest_ns = 0;
    kolo_watch_read(watch, 0, &comm);
    for (int peer = 0; peer < rank->ranks; peer++) {
        kolo_watched_rank seen = {.rank_bytes = sizeof seen};
        kolo_watched_call call = {.call_bytes = sizeof call};
        if (peer == rank->rank)
            continue;
        kolo_watch_rank(watch, 0, peer, &seen);
        if (seen.waits_for != rank->rank || kolo_watch_call(watch, 0, peer, number, &call) < 0 || call.began_ns == 0)
            return -1;
        if (comm.read_ns - call.began_ns > longest_ns)
            longest_ns = comm.read_ns - call.began_ns;
    }
    return longest_ns;
}

/* Waits until all others wait for this rank in call `number`, then for longer than they have waited for anybody in it.
 */
static void come_late(const struct rank *rank, uint64_t number) {
    kolo_watch *watch = watch_self(rank);
    const int64_t deadline_ns = now_ns() + patience_ms(60000) * 1000000;
    int64_t waiting_ns = -1;
    while (watch && waiting_ns < 0 && now_ns() < deadline_ns) {
        sleep_ms(1);
        waiting_ns = others_wait_ns(rank, watch, number);
    }
    expect(rank, waiting_ns >= 0, "the others do not wait in call %" PRIu64, number);
    sleep_ms(2 * waiting_ns / 1000000 + LATE_MS_MIN);
    kolo_watch_close(watch);
}

static void check_call(const struct rank *rank, const kolo_watch *watch, int peer, uint64_t number) {
    const kolo_watched_call made = call_of(rank->ranks, number);
    kolo_watched_call seen = {.call_bytes = sizeof seen};
    if (!expect_status(rank, kolo_watch_call(watch, 0, peer, number, &seen), 0, "kolo_watch_call"))
        return;
    expect(rank,
           seen.number == number && seen.collective == made.collective && seen.dtype == made.dtype &&
               seen.op == made.op && seen.root == made.root && seen.count == made.count,
           "call %" PRIu64 " of rank %d is %s of %" PRIu64 " %s", number, peer,
           kolo_name(KOLO_NAME_COLLECTIVE, seen.collective), seen.count, kolo_name(KOLO_NAME_DTYPE, seen.dtype));
    expect(rank, seen.waited_for != peer && seen.waited_for < rank->ranks, "call %" PRIu64 " of rank %d waited for %d",
           number, peer, seen.waited_for);
    if (number == LARGE_CALL)
        expect(rank, seen.began_ns > 0 && seen.ended_ns > seen.began_ns && seen.ended_ns < now_ns(),
               "the large call of rank %d was from %" PRId64 " to %" PRId64, peer, seen.began_ns, seen.ended_ns);
    if (number == LATE_CALL && peer != 1)
        expect(rank,
               seen.waited_for == 1 && seen.waited_ns >= LATE_MS_MIN * 1000000 &&
                   seen.ended_ns - seen.began_ns >= seen.waited_ns,
               "call %" PRIu64 " of rank %d waited for rank %d for %" PRId64 " ns, from %" PRId64 " to %" PRId64,
               number, peer, seen.waited_for, seen.waited_ns, seen.began_ns, seen.ended_ns);
}

/* What is seen of this rank from outside is what kolo_comm_stats says, call by call. */
static void check_totals(const struct rank *rank, const kolo_watched_rank *seen) {
    kolo_stats stats = {.stats_bytes = sizeof stats};
    uint64_t made[KOLO_COLLECTIVES] = {0};
    kolo_comm_stats(rank->comm, &stats);
    expect(rank,
           seen->payload_bytes == stats.payload_bytes && seen->sent_bytes == stats.sent_bytes &&
               seen->received_bytes == stats.received_bytes && seen->pid == getpid(),
           "the totals of process %d are not those of kolo_comm_stats", seen->pid);
    expect(rank, stats.calls == CALLS, "kolo_comm_stats tells of %" PRIu64 " calls", stats.calls);
    for (uint64_t number = 1; number <= CALLS; number++)
        made[call_of(rank->ranks, number).collective]++;
    uint64_t bytes = 0;
    for (int i = 0; i < KOLO_COLLECTIVES; i++) {
        expect(rank, stats.calls_by_collective[i] == made[i] && seen->calls_by_collective[i] == made[i],
               "%" PRIu64 " calls of %s, %" PRIu64 " seen, %" PRIu64 " were made", stats.calls_by_collective[i],
               kolo_name(KOLO_NAME_COLLECTIVE, i), seen->calls_by_collective[i], made[i]);
        bytes += seen->payload_by_collective[i];
    }
    expect(rank, bytes == stats.payload_bytes, "%" PRIu64 " bytes of all collectives", bytes);
}

static void check_histories(const struct rank *rank) {
    kolo_watch *watch = watch_self(rank);
    for (int peer = 0; watch && peer < rank->ranks; peer++) {
        kolo_watched_rank seen = {.rank_bytes = sizeof seen};
        kolo_watched_call call = {.call_bytes = sizeof call};
        expect_status(rank, kolo_watch_rank(watch, 0, peer, &seen), 0, "kolo_watch_rank");
        expect(rank, seen.calls == CALLS && seen.calls_ended == CALLS && seen.waits_for == -1,
               "rank %d has begun %" PRIu64 " calls, ended %" PRIu64 " and waits for %d", peer, seen.calls,
               seen.calls_ended, seen.waits_for);
        expect(rank, peer == 1 || seen.waited_ns >= LATE_MS_MIN * 1000000, "rank %d waited %" PRIu64 " ns", peer,
               seen.waited_ns);
        for (uint64_t number = CALLS - KOLO_WATCH_CALLS + 1; number <= CALLS; number++)
            check_call(rank, watch, peer, number);
        expect_status(rank, kolo_watch_call(watch, 0, peer, CALLS - KOLO_WATCH_CALLS, &call), KOLO_ERR_ARG,
                      "the call before the last 64");
        expect_status(rank, kolo_watch_call(watch, 0, peer, CALLS + 1, &call), KOLO_ERR_ARG, "a call to come");
        if (peer == rank->rank)
            check_totals(rank, &seen);
    }
    kolo_watch_close(watch);
}

static void run_history(struct rank *rank) {
    void *data = calloc(LARGE_COUNT, sizeof(double));
    for (uint64_t number = 1; number <= CALLS; number++) {
        if (number == LATE_CALL && rank->rank == 1)
            come_late(rank, number);
        if (!expect_status(rank, make_call(rank, number, data), 0, "a call"))
            break;
    }
    counter_add(1);
    while (counter_add(0) < (uint64_t)rank->ranks) /* all have left their last call */
        sleep_ms(1);
    check_histories(rank);
    free(data);
}

/* A message that comes within a collective counts as itself. */
static void run_bytes(struct rank *rank) {
    static double data[LARGE_COUNT];
    const int left = (rank->rank + rank->ranks - 1) % rank->ranks, right = (rank->rank + 1) % rank->ranks;
    uint64_t sent = 0, taken = 0;
    kolo_request *request = NULL;
    kolo_watched_rank seen = {.rank_bytes = sizeof seen};
    const int issued = kolo_isendrecv(rank->comm, &sent, 1, right, 0, &taken, 1, left, 0, KOLO_U64, NULL, &request);
    const int made = kolo_allreduce(rank->comm, data, data, LARGE_COUNT, KOLO_F64, KOLO_SUM);
    expect(rank, issued == 0 && made == 0 && kolo_request_wait(request) == 0, "a message beside an all-reduce");
    kolo_watch *watch = watch_self(rank);
    if (watch)
        expect_status(rank, kolo_watch_rank(watch, 0, rank->rank, &seen), 0, "kolo_watch_rank");
    kolo_watch_close(watch);
    expect(rank,
           seen.payload_by_collective[KOLO_ALLREDUCE] == sizeof data &&
               seen.payload_by_collective[KOLO_SEND] == sizeof sent &&
               seen.payload_by_collective[KOLO_RECV] == sizeof taken && seen.payload_bytes == sizeof data + 16,
           "%" PRIu64 " bytes of all-reduces, %" PRIu64 " sent, %" PRIu64 " received",
           seen.payload_by_collective[KOLO_ALLREDUCE], seen.payload_by_collective[KOLO_SEND],
           seen.payload_by_collective[KOLO_RECV]);
    kolo_barrier(rank->comm); /* none has left before all have looked */
}

/* The log of a failure. */

static int count_of(const char *text, const char *word) {
    int count = 0;
    for (const char *at = text; (at = strstr(at, word)) != NULL; at++)
        count++;
    return count;
}

static void check_log(const struct rank *rank, int log, int victim) {
    static char text[16384];
    kolo_failure failure = {.failure_bytes = sizeof failure};
    char line[200];
    const ssize_t got = pread(log, text, sizeof text - 1, 0);
    text[got > 0 ? got : 0] = '\0';
    kolo_comm_failure(rank->comm, &failure);
    expect(rank, count_of(text, failure.message) == 1, "the failure is not in the log: %s", text);
    expect(rank, count_of(text, "where the ranks stood") == (failure.reporter == rank->rank),
           "reporter %d; the log is: %s", failure.reporter, text);
    if (failure.reporter != rank->rank)
        return;
    if (rank->ranks > 16) { /* those that stand alike share a line; some may have heard of the failure already */
        expect(rank, count_of(text, "  rank ") <= 5 && strstr(text, "  rank 1: in no call, after 10, barrier; "),
               "ranks do not share lines: %s", text);
        expect(rank, strstr(text, ": in call 11, allreduce of 11 f32, sum; 0 steps; waiting for rank 1\n") != NULL,
               "nobody waits for the victim: %s", text);
        return;
    }
    for (int peer = 0; peer < rank->ranks; peer++) {
        snprintf(line, sizeof line, "  rank %d (pid ", peer);
        expect(rank, count_of(text, line) == 1, "rank %d is not in the table: %s", peer, text);
    }
    snprintf(line, sizeof line, "  rank %d (pid %d): in call 11, allreduce of 11 f32, sum; ", rank->rank, getpid());
    expect(rank, strstr(text, line) != NULL, "no '%s' in %s", line, text);
    snprintf(line, sizeof line, "; waiting for rank %d for ", victim);
    expect(rank, strstr(text, line) != NULL, "no '%s' in %s", line, text);
    expect(rank, strstr(text, "): in no call, after 10, barrier; ") && strstr(text, "; its process has ended\n"),
           "the victim's line is wrong: %s", text);
}

/* The victim is killed once all others wait for it in call 11. */
static void run_death(struct rank *rank) {
    const int victim = 1;
    const int log = memfd_create("log", 0), own_stderr = dup(2);
    float data[16] = {0};
    int status = log >= 0 && own_stderr >= 0 ? 0 : KOLO_ERR_SYSTEM;
    setenv("KOLO_LOG", "error", 1);
    expect_status(rank, kolo_comm_create(&rank->comm, &rank->options), 0, "kolo_comm_create");
    for (int call = 1; status == 0 && call <= 10; call++)
        status = call == 10 ? kolo_barrier(rank->comm) : kolo_allreduce(rank->comm, data, data, 4, KOLO_F32, KOLO_SUM);
    if (!expect_status(rank, status, 0, "the first calls"))
        return;
    if (rank->rank == victim) {
        come_late(rank, 11);
        kill(getpid(), SIGKILL);
    }
    dup2(log, 2);
    status = kolo_allreduce(rank->comm, data, data, 11, KOLO_F32, KOLO_SUM);
    dup2(own_stderr, 2);
    if (expect_status(rank, status, KOLO_ERR_PEER_DEAD, "call 11"))
        check_log(rank, log, victim);
    close(log);
    close(own_stderr);
}

/* Who aborts knows why: it is not reported as an error. */
static void run_abort(struct rank *rank) {
    char text[4096] = "";
    const int log = memfd_create("log", 0), own_stderr = dup(2);
    setenv("KOLO_LOG", "warn", 1);
    expect_status(rank, kolo_comm_create(&rank->comm, &rank->options), 0, "kolo_comm_create");
    dup2(log, 2);
    if (rank->rank == 0)
        expect_status(rank, kolo_comm_abort(rank->comm, 7), 0, "kolo_comm_abort");
    else
        expect_status(rank, kolo_barrier(rank->comm), KOLO_ERR_ABORTED, "kolo_barrier");
    dup2(own_stderr, 2);
    expect(rank, pread(log, text, sizeof text - 1, 0) == 0, "the log has: %s", text);
    close(log);
    close(own_stderr);
}

/* A process whose first thread has ended while others, two ranks, go on. */

static const char *threads_job;

static void *be_rank(void *number) {
    kolo_options options = KOLO_OPTIONS_INIT;
    kolo_comm *comm = NULL;
    options.rank = *(const int *)number;
    options.size = 2;
    options.job = threads_job;
    if (expect_status(NULL, kolo_comm_create(&comm, &options), 0, "kolo_comm_create"))
        counter_add(1);
    pause();
    return NULL;
}

static _Noreturn void end_first_thread(uint64_t all_ready) {
    static int numbers[] = {0, 1};
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        expect(NULL, pthread_create(&threads[i], NULL, be_rank, &numbers[i]) == 0, "pthread_create failed");
    while (counter_add(0) < all_ready + 1) /* the parent has found them, which it cannot later */
        sleep_ms(1);
    pthread_exit(NULL);
}

static bool is_over(kolo_watch *watch, char *process) {
    kolo_watched_comm comm = {.comm_bytes = sizeof comm};
    kolo_watched_rank seen = {.rank_bytes = sizeof seen};
    expect_status(NULL, kolo_watch_read(watch, 0, &comm), 0, "kolo_watch_read");
    expect_status(NULL, kolo_watch_rank(watch, 0, 1, &seen), 0, "kolo_watch_rank");
    *process = seen.process;
    return comm.over;
}

static void watch_without_first_thread(void) {
    const uint64_t all_ready = counter_add(0) + 2;
    char target[16], process = '\0';
    kolo_watch *watch = NULL;
    threads_job = fresh_job();
    fflush(NULL);
    const pid_t pid = fork();
    if (pid == 0)
        end_first_thread(all_ready);
    while (counter_add(0) < all_ready)
        sleep_ms(1);
    snprintf(target, sizeof target, "%d", (int)pid);
    const bool is_open = expect_status(NULL, kolo_watch_open(&watch, target), 0, "kolo_watch_open") &&
                         expect(NULL, kolo_watch_search(watch, NULL) > 0, "there is no communicator to watch");
    counter_add(1);
    while (is_open && process != 'Z' && expect(NULL, !is_over(watch, &process), "its communicator is over"))
        sleep_ms(1);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    expect(NULL, is_open && is_over(watch, &process) && process == '\0', "a killed process lives, in state %c",
           process);
    kolo_watch_close(watch);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv, "Looks at ranks' last calls from outside, and at what the log shows of a failure.");
    for (int ranks = 2; ranks <= 4; ranks++) {
        if (!wants_ranks(ranks))
            continue;
        harness_run(&(struct team){.ranks = ranks, .run = run_history});
        if (arguments.threads)
            continue;
        harness_run(&(struct team){.ranks = ranks, .run = run_bytes});
        harness_run(&(struct team){.ranks = ranks, .by_descriptor = true, .run = run_history});
        harness_run(&(struct team){.ranks = ranks, .creates_itself = true, .victim = 2, .run = run_death});
        harness_run(&(struct team){.ranks = ranks, .creates_itself = true, .run = run_abort});
    }
    if (!arguments.threads) {
        harness_run(&(struct team){.ranks = 20, .creates_itself = true, .victim = 2, .run = run_death});
        watch_without_first_thread();
    }
    return harness_end();
}
