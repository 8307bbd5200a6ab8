/* A rank whose process starts another program (exec) is gone, though its pid lives on: the others find that as soon as
 * they would find its end, and say so; however the process has hidden itself from them before, whichever of its threads
 * does it, and where a child of it lives on. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"

enum { CALLS = 5, NOTICED_MS_MAX = 100, NOBODY = 65534 };

/* What the victim does before. */
enum before {
    NOTHING,
    CLOSES,       /* all descriptors but the standard streams */
    NOT_DUMPABLE, /* so that others of the same user may not look into it */
    SETUID,
    FORKS,         /* a child that lives on without exec */
    OUTLIVES,      /* the communicator by which the processes got to know each other is destroyed */
    SECOND_THREAD, /* another thread than the first execs */
    BEFORES
};

static const char *const before_names[] = {
    "nothing", "close", "not dumpable", "setuid", "fork", "a second communicator", "a thread"};

static int allreduce_once(kolo_comm *comm) {
    float data[6] = {1};
    return kolo_allreduce(comm, data, data, 6, KOLO_F32, KOLO_SUM);
}

static void start_another(void) {
    event_set();
    execlp("sleep", "sleep", "20", NULL);
}

static void *start_another_in_thread(void *nothing) {
    start_another();
    return nothing;
}

static void prepare(const struct rank *rank, enum before before) {
    pthread_t thread;
    switch (before) {
    case CLOSES:
        close_descriptors();
        break;
    case NOT_DUMPABLE:
        prctl(PR_SET_DUMPABLE, 0);
        break;
    case SETUID:
        expect(rank, setuid(NOBODY) == 0, "setuid");
        break;
    case FORKS:
        if (fork() == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            pause();
            _exit(0);
        }
        break;
    case SECOND_THREAD:
        if (pthread_create(&thread, NULL, start_another_in_thread, NULL) == 0)
            pause();
        break;
    default:
        break;
    }
}

static void run_exec(struct rank *rank) {
    const enum before before = *(const enum before *)rank->team->argument;
    kolo_comm *comm = rank->comm;
    kolo_failure failure = {.failure_bytes = sizeof failure};
    char named[32];
    if (before == OUTLIVES) {
        kolo_options options = rank->options;
        char job[160];
        snprintf(job, sizeof job, "%s-second", options.job);
        options.job = job;
        if (!expect_status(rank, kolo_comm_create(&comm, &options), 0, "kolo_comm_create"))
            return;
        kolo_comm_destroy(rank->comm);
        rank->comm = comm;
    }
    for (int i = 0; i < CALLS; i++)
        if (!expect_status(rank, allreduce_once(comm), 0, "kolo_allreduce"))
            return;
    if (rank->rank == 1) {
        sleep_ms(50); /* the others wait by now */
        prepare(rank, before);
        start_another();
    }
    const int status = allreduce_once(comm);
    const int64_t late_ns = now_ns() - event_ns();
    if (!expect_status(rank, status, KOLO_ERR_PEER_DEAD, before_names[before]))
        return;
    snprintf(named, sizeof named, "rank %d (pid", 1);
    expect_message(rank, before_names[before], named, "has started another program (exec)", NULL);
    kolo_comm_failure(comm, &failure);
    expect(rank, failure.cause == KOLO_CAUSE_EXECED, "%s: the cause is %d", before_names[before], (int)failure.cause);
    expect_prompt(rank, late_ns, NOTICED_MS_MAX, before_names[before]);
    counter_add(1);
}

static void end_victim(const struct team *team, const pid_t *pids) {
    const int64_t deadline_ns = now_ns() + patience_ms(20000) * 1000000;
    while (counter_add(0) < (uint64_t)team->ranks - 1 && now_ns() < deadline_ns)
        sleep_ms(1);
    kill(pids[1], SIGKILL);
}

int main(int argc, char **argv) {
    harness_begin(argc, argv, "Has ranks start other programs.");
    for (int before = 0; before < BEFORES; before++) {
        const enum before argument = (enum before)before;
        if (before != SETUID || geteuid() == 0)
            harness_run(&(struct team){
                .ranks = 3, .victim = 2, .run = run_exec, .argument = &argument, .meanwhile = end_victim});
    }
    return harness_end();
}
