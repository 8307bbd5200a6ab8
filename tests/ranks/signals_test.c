/* Signals at any time: a timer that interrupts every system call changes nothing, from creation to the end; SIGINT ends
 * a rank, wherever it is, without residue; a handler hears of a mistake in kolo's threads. The program's own question
 * ends a wait, and its own work is done in waits. And the one misuse that a debug build can see: two threads in one
 * communicator at once. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "harness.h"
#include "job_file.h"
#include "kolo_watch.h"

enum { TIMER_US = 1000, CREATIONS = 5, CALLS = 100 };

static volatile sig_atomic_t interruptions;

/* The library's call comes here: as of Linux before 6.10, and a timer that is faster than the call. */
int posix_fallocate(int fd, off_t offset, off_t bytes) {
    sigset_t blocked;
    pthread_sigmask(SIG_SETMASK, NULL, &blocked);
    if (interruptions > 0 && !sigismember(&blocked, SIGALRM))
        return EINTR;
    return fallocate(fd, 0, offset, bytes) < 0 ? errno : 0;
}

static void count_interruption(int number) {
    (void)number;
    interruptions++;
}

/* Without SA_RESTART: whatever can return EINTR does. */
static void start_timer(void) {
    const struct sigaction action = {.sa_handler = count_interruption};
    const struct itimerval timer = {.it_interval = {0, TIMER_US}, .it_value = {0, TIMER_US}};
    sigaction(SIGVTALRM, &action, NULL);
    sigaction(SIGPROF, &action, NULL);
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &timer, NULL);
}

static void stop_timer(void) {
    const struct itimerval none = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &none, NULL);
}

static bool sums_are_right(struct rank *rank, kolo_comm *comm) {
    enum { COUNT = 30000 };
    void *buffer = NULL;
    if (!expect_status(rank, kolo_alloc(comm, COUNT * sizeof(int32_t), &buffer), 0, "kolo_alloc"))
        return false;
    int32_t *data = buffer;
    bool right = true;
    for (int call = 0; right && call < CALLS; call++) {
        const size_t count = call % 3 ? 7 : COUNT;
        for (size_t i = 0; i < count; i++)
            data[i] = rank->rank + call;
        if (call % 20 == rank->rank)
            usleep(15000); /* the others go to sleep; cut short by the timer */
        right = expect_status(rank, kolo_allreduce(comm, data, data, count, KOLO_I32, KOLO_SUM), 0, "kolo_allreduce");
        const int32_t wanted = rank->ranks * (rank->ranks - 1) / 2 + rank->ranks * call;
        for (size_t i = 0; right && i < count; i++)
            right = expect(rank, data[i] == wanted, "element %zu is %d, not %d", i, data[i], wanted);
    }
    return expect_status(rank, kolo_free(comm, buffer), 0, "kolo_free") && right;
}

static void run_interrupted(struct rank *rank) {
    char job[128];
    const char *name = rank->options.job;
    start_timer();
    for (int i = 0; i < CREATIONS; i++) {
        kolo_comm *comm = NULL;
        if (name) {
            snprintf(job, sizeof job, "%s-%d", name, i);
            rank->options.job = job;
        }
        if (rank->rank == i % rank->ranks)
            usleep(20000);
        if (!expect_status(rank, kolo_comm_create(&comm, &rank->options), 0, "kolo_comm_create") ||
            !sums_are_right(rank, comm) || !expect_status(rank, kolo_comm_destroy(comm), 0, "kolo_comm_destroy"))
            break;
    }
    stop_timer();
    expect(rank, interruptions > 20, "only %d interruptions", (int)interruptions);
}

/* Everybody all-reduces until SIGINT ends one of them, by its default action. */
static void run_until_interrupt(struct rank *rank) {
    float data[100] = {0};
    int status = 0;
    signal(SIGINT, SIG_DFL);
    counter_add(1);
    while (status == 0)
        status = kolo_allreduce(rank->comm, data, data, 100, KOLO_F32, KOLO_SUM);
    expect_status(rank, status, KOLO_ERR_PEER_DEAD, "kolo_allreduce");
}

static void interrupt_rank_1(const struct team *team, const pid_t *pids) {
    if (team->creates_itself) /* or rank 0 would know nothing of it */
        await_job(NULL, team_options(), 3);
    while (counter_add(0) < (uint64_t)team->ranks)
        sleep_ms(1);
    sleep_ms(20);
    kill(pids[1], SIGINT);
}

/* The name of a job whose only rank so far is ended by SIGINT stays, stale, for the next job to replace; a rank that is
 * not rank 0 leaves nothing. */
static void run_creation_until_interrupt(struct rank *rank) {
    kolo_comm *comm = NULL;
    signal(SIGINT, SIG_DFL);
    rank->options.size = 3;
    counter_add(1);
    expect_status(rank, kolo_comm_create(&comm, &rank->options), KOLO_ERR_PEER_DEAD, "kolo_comm_create");
}

/* A mistake of the program's, in what the progress thread calls: the program's handler is told. */
static volatile sig_atomic_t mistakes;
static pthread_t mistaken;

static void count_mistake(int number) {
    (void)number;
    mistakes++;
}

static void add_with_mistake(const void *in, void *inout, size_t count, void *context) {
    (void)context;
    for (size_t i = 0; i < count; i++)
        ((int64_t *)inout)[i] += ((const int64_t *)in)[i];
    mistaken = pthread_self();
    raise(SIGSEGV);
}

static void run_mistake(struct rank *rank) {
    int64_t sum = rank->rank;
    kolo_request *request = NULL;
    kolo_comm *comm;
    kolo_op op;
    rank->options.progress = 1;
    signal(SIGSEGV, count_mistake);
    if (expect_status(rank, kolo_comm_create(&comm, &rank->options), 0, "kolo_comm_create") &&
        expect_status(rank, kolo_op_create(&op, add_with_mistake, NULL, sizeof sum, 0), 0, "kolo_op_create") &&
        expect_status(rank, kolo_iallreduce(comm, &sum, &sum, 1, KOLO_I64, op, &request), 0, "kolo_iallreduce")) {
        for (int ms = 0; rank->rank == 0 && mistakes == 0 && ms < 10000; ms++)
            sleep_ms(1); /* no wait before: this thread must not do the work */
        expect_status(rank, kolo_request_wait(request), 0, "kolo_request_wait");
        expect(rank, sum == 1, "0 + 1 is %d", (int)sum);
        expect(rank, rank->rank != 0 || mistakes > 0, "the handler was not called");
        expect(rank, rank->rank != 0 || !pthread_equal(mistaken, pthread_self()), "the thread has not done it");
        kolo_op_destroy(op);
    }
    kolo_comm_destroy(comm);
    signal(SIGSEGV, SIG_DFL);
}

/* Waits until another thread is in the rank's first call. */
static void await_other_thread(const struct rank *rank) {
    kolo_watched_comm comm = {.comm_bytes = sizeof comm};
    kolo_watched_rank seen = {.rank_bytes = sizeof seen};
    kolo_watch *watch = NULL;
    char self[16];
    snprintf(self, sizeof self, "%d", (int)getpid());
    expect_status(rank, kolo_watch_open(&watch, self), 0, "kolo_watch_open");
    expect(rank, kolo_watch_search(watch, NULL) > 0, "there is no communicator to watch");
    while (watch && expect_status(rank, kolo_watch_read(watch, 0, &comm), 0, "kolo_watch_read") &&
           expect_status(rank, kolo_watch_rank(watch, 0, rank->rank, &seen), 0, "kolo_watch_rank") && seen.calls == 0)
        sleep_ms(1);
    kolo_watch_close(watch);
}

/* The answer ends the wait of rank 0 at the second question, for both ranks. It waits in a barrier, for its helper
 * in a sum, for a barrier that its progress thread carries out, or in one behind that. */
static enum { BLOCKED, WAITS_FOR_HELPER, WAITS_FOR_REQUEST, WAITS_BEHIND_REQUEST, WAYS } way;

static int answer(void *context) {
    atomic_int *questions = context;
    return ++*questions == 2 ? 77 : 0;
}

/* The helper of rank 0, in its part of the sum, is as late as the second question. */
static void add_late(const void *in, void *inout, size_t count, void *context) {
    static atomic_int slept_ms;
    for (const atomic_int *questions = context; gettid() != getpid() && *questions < 2 && slept_ms < 20000; slept_ms++)
        sleep_ms(1);
    for (size_t i = 0; i < count; i++)
        ((int32_t *)inout)[i] += ((const int32_t *)in)[i];
}

static int wait_for_helper(struct rank *rank, atomic_int *questions) {
    enum { COUNT = 1 << 18 };
    atomic_int none = 2;
    int32_t *data = calloc(COUNT, sizeof *data);
    kolo_op op;
    expect_status(rank,
                  kolo_op_create(&op, add_late, rank->rank == 0 ? questions : &none, sizeof *data, KOLO_OP_COMMUTATIVE),
                  0, "kolo_op_create");
    const int status = kolo_allreduce(rank->comm, data, data, COUNT, KOLO_I32, op);
    free(data);
    return status;
}

static int wait_as_rank_0(struct rank *rank) {
    kolo_request *request = NULL;
    if (way == BLOCKED)
        return kolo_barrier(rank->comm);
    expect_status(rank, kolo_ibarrier(rank->comm, &request), 0, "kolo_ibarrier");
    await_other_thread(rank);
    if (way == WAITS_BEHIND_REQUEST)
        expect_status(rank, kolo_barrier(rank->comm), KOLO_ERR_STATE, "kolo_barrier behind a request");
    return kolo_request_wait(request);
}

static void run_asked(struct rank *rank) {
    kolo_failure failure = {.failure_bytes = sizeof failure};
    atomic_int questions = 0;
    const kolo_hooks hooks = {.hooks_bytes = sizeof hooks, .interrupt = answer, .context = &questions}, unsized = {0};
    rank->options.progress = way > WAITS_FOR_HELPER;
    rank->options.threads = way == WAITS_FOR_HELPER ? 2 : 1;
    if (!expect_status(rank, kolo_comm_create(&rank->comm, &rank->options), 0, "kolo_comm_create"))
        return;
    expect_status(rank, kolo_comm_set_hooks(NULL, &hooks), KOLO_ERR_ARG, "kolo_comm_set_hooks of NULL");
    expect_status(rank, kolo_comm_set_hooks(rank->comm, &unsized), KOLO_ERR_ARG, "kolo_comm_set_hooks without size");
    if (rank->rank == 0)
        expect_status(rank, kolo_comm_set_hooks(rank->comm, &hooks), 0, "kolo_comm_set_hooks");
    else
        while (way != WAITS_FOR_HELPER && counter_add(0) == 0)
            sleep_ms(1);
    int status = way == WAITS_FOR_HELPER ? wait_for_helper(rank, &questions)
                 : rank->rank == 0       ? wait_as_rank_0(rank)
                                         : kolo_barrier(rank->comm);
    if (rank->rank != 0 && status == 0) /* rank 0 had come, so that the barrier was complete */
        status = kolo_barrier(rank->comm);
    expect_status(rank, status, KOLO_ERR_ABORTED, "kolo_barrier");
    counter_add(1);
    expect_status(rank, kolo_comm_failure(rank->comm, &failure), 0, "kolo_comm_failure");
    expect(rank, failure.cause == KOLO_CAUSE_ABORTED && failure.rank == 0 && failure.code == 77,
           "cause %d, rank %d, code %d", (int)failure.cause, failure.rank, failure.code);
    expect(rank, questions == (rank->rank == 0 ? 2 : 0), "%d questions", (int)questions);
}

/* Rank 1 comes before the answer, which ends neither that wait of rank 0 nor a later one. */
static int answer_late(void *context) {
    atomic_int *questions = context;
    if (++*questions != 2)
        return 0;
    for (counter_add(1); counter_add(0) < 2;)
        sleep_ms(1);
    return 77;
}

static void do_nothing(void *argument) {
    (void)argument;
}

static void run_answered_late(struct rank *rank) {
    atomic_int questions = 0;
    const kolo_hooks hooks = {.hooks_bytes = sizeof hooks, .interrupt = answer_late, .context = &questions};
    kolo_request *request = NULL;
    rank->options.progress = 1;
    if (!expect_status(rank, kolo_comm_create(&rank->comm, &rank->options), 0, "kolo_comm_create"))
        return;
    if (rank->rank == 0) {
        expect_status(rank, kolo_comm_set_hooks(rank->comm, &hooks), 0, "kolo_comm_set_hooks");
        expect_status(rank, kolo_ibarrier(rank->comm, &request), 0, "kolo_ibarrier");
        await_other_thread(rank);
        expect_status(rank, kolo_irun(rank->comm, do_nothing, NULL, NULL), 0, "kolo_irun behind a request");
        expect_status(rank, kolo_request_wait(request), 0, "kolo_request_wait");
    } else {
        while (counter_add(0) == 0)
            sleep_ms(1);
        expect_status(rank, kolo_barrier(rank->comm), 0, "kolo_barrier");
        counter_add(1);
        sleep_ms(100); /* rank 0 sleeps in its wait */
    }
    expect_status(rank, kolo_barrier(rank->comm), 0, "kolo_barrier after the answer");
    kolo_comm_destroy(rank->comm);
}

static void go_on_elsewhere(void *context) {
    (*(int *)context)++;
    counter_add(1);
}

/* Rank 1 comes only once rank 0, which waits for it, has done something else: in a collective, then in a receive. Of
 * the last barrier nobody is told. */
static void run_idle(struct rank *rank) {
    const bool waits = rank->rank == 0;
    int turns = 0, word = 5;
    const kolo_hooks hooks = {.hooks_bytes = sizeof hooks, .idle = go_on_elsewhere, .context = &turns};
    for (int call = 0; call < 2; call++) {
        expect_status(rank, kolo_barrier(rank->comm), 0, "kolo_barrier");
        const uint64_t before = counter_add(0);
        expect_status(rank, kolo_barrier(rank->comm), 0, "kolo_barrier");
        if (waits)
            expect_status(rank, kolo_comm_set_hooks(rank->comm, &hooks), 0, "kolo_comm_set_hooks");
        else
            while (counter_add(0) < before + 40) /* more than the yields before it sleeps */
                sleep_ms(1);
        if (call == 0)
            expect_status(rank, kolo_barrier(rank->comm), 0, "kolo_barrier");
        else if (waits)
            expect_status(rank, kolo_recv(rank->comm, &word, 1, KOLO_I32, 1, 3, NULL), 0, "kolo_recv");
        else
            expect_status(rank, kolo_send(rank->comm, &word, 1, KOLO_I32, 0, 3), 0, "kolo_send");
        expect_status(rank, kolo_comm_set_hooks(rank->comm, NULL), 0, "kolo_comm_set_hooks to none");
    }
    expect(rank, waits ? turns >= 80 : turns == 0, "%d turns", turns);
    const int last = turns;
    if (!waits)
        sleep_ms(20);
    expect_status(rank, kolo_barrier(rank->comm), 0, "kolo_barrier");
    expect(rank, turns == last, "%d turns after the function was taken away", turns - last);
}

#ifndef NDEBUG
static void *enter_second(void *argument) {
    struct rank *rank = argument;
    await_other_thread(rank);
    expect_status(rank, kolo_barrier(rank->comm), KOLO_ERR_STATE, "kolo_barrier in a second thread");
    expect_message(rank, "kolo_barrier in a second thread", "kolo_barrier in thread", "is in a call", NULL);
    counter_add(1);
    return NULL;
}

static void run_two_threads(struct rank *rank) {
    pthread_t thread;
    if (rank->rank != 0) {
        while (counter_add(0) == 0) /* the first thread is in until then */
            sleep_ms(1);
        expect_status(rank, kolo_barrier(rank->comm), 0, "kolo_barrier");
    } else if (expect(rank, pthread_create(&thread, NULL, enter_second, rank) == 0, "pthread_create")) {
        expect_status(rank, kolo_barrier(rank->comm), 0, "kolo_barrier in the first thread");
        pthread_join(thread, NULL);
    }
    expect_status(rank, kolo_barrier(rank->comm), 0, "kolo_barrier after it");
}
#endif

int main(int argc, char **argv) {
    harness_begin(argc, argv, "Interrupts ranks all the time, and enters a communicator twice.");
    for (int ranks = 2; ranks <= 4 && !arguments.threads; ranks += 2)
        for (int by_descriptor = 0; by_descriptor < 2 && wants_ranks(ranks); by_descriptor++)
            harness_run(&(struct team){.ranks = ranks,
                                       .slot_bytes = 8192,
                                       .by_descriptor = by_descriptor,
                                       .creates_itself = true,
                                       .run = run_interrupted});
    harness_run(&(struct team){.ranks = 2, .run = run_idle});
    if (!arguments.threads) {
        for (way = 0; way < WAYS; way++)
            harness_run(&(struct team){.ranks = 2, .creates_itself = true, .run = run_asked});
        harness_run(&(struct team){.ranks = 2, .creates_itself = true, .run = run_answered_late});
        harness_run(&(struct team){.ranks = 2, .creates_itself = true, .run = run_mistake});
        harness_run(&(struct team){.ranks = 3, .victim = 2, .run = run_until_interrupt, .meanwhile = interrupt_rank_1});
        harness_run(&(struct team){.ranks = 2,
                                   .creates_itself = true,
                                   .victim = 2,
                                   .run = run_creation_until_interrupt,
                                   .meanwhile = interrupt_rank_1});
    }
#ifndef NDEBUG
    harness_run(&(struct team){.ranks = 2, .run = run_two_threads});
#endif
    return harness_end();
}
