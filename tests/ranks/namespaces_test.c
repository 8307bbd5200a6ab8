/* Ranks of one job in pid namespaces of their own, as in containers that share /dev/shm: they work together; the end of
 * one is found; and what only looks like an end from another namespace, where its pid means nobody or somebody else, is
 * never taken for one. Needs the right to make namespaces. */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"
#include "job_file.h"

enum { CALLS = 20, TIMEOUT_MS = 500, NOTICED_MS_MAX = 1000 };

enum act {
    ACT_NOTHING, /* but closing descriptors that are not one's own */
    ACT_KILLED,
    ACT_EXIT,
    ACT_STALL,
    ACT_KILLED_IN_CREATION,
    ACT_SURVIVED /* by a child: of a rank that is not the first process of its namespace, which takes all with it */
};

/* What /proc shows the ranks. */
enum proc { PROC_OWN, PROC_OUTER, PROC_NONE };

struct setup {
    enum act act;
    enum proc proc;
    int victim;
    bool mixed; /* rank 0 stays in the namespace of the test */
};

static int allreduce_once(kolo_comm *comm, size_t count) {
    float *data = calloc(count, sizeof *data);
    const int status = kolo_allreduce(comm, data, data, count, KOLO_F32, KOLO_SUM);
    free(data);
    return status;
}

/* Buffers cannot be reached by way of /proc and the pid. */
static void allocate(const struct rank *rank, kolo_comm *comm) {
    float *buffer = NULL;
    if (expect_status(rank, kolo_alloc(comm, 4096, (void **)&buffer), 0, "kolo_alloc")) {
        expect_status(rank, kolo_allreduce(comm, buffer, buffer, 1024, KOLO_F32, KOLO_SUM), 0,
                      "in kolo_alloc's memory");
        kolo_free(comm, buffer);
    }
    expect_status(rank, allreduce_once(comm, 5), 0, "kolo_allreduce after kolo_alloc");
}

/* The others' memory cannot be read by their pids, which mean somebody else here, such as this process itself. */
static void exchange(const struct rank *rank, kolo_comm *comm) {
    enum { COUNT = 3000, RANKS_MAX = 4 };
    static int32_t send[RANKS_MAX * COUNT], recv[RANKS_MAX * COUNT];
    bool right = rank->ranks <= RANKS_MAX;
    for (int i = 0; right && i < rank->ranks * COUNT; i++)
        send[i] = rank->rank * 100 + i / COUNT;
    if (!expect_status(rank, kolo_alltoall(comm, send, recv, COUNT, KOLO_I32), 0, "kolo_alltoall"))
        return;
    for (int i = 0; right && i < rank->ranks * COUNT; i++)
        right = recv[i] == i / COUNT * 100 + rank->rank;
    expect(rank, right, "an exchange is wrong");
}

static void check_survivor(const struct rank *rank, kolo_comm *comm, const struct setup *setup) {
    char named[32];
    int status = 0;
    while (status == 0)
        status = allreduce_once(comm, 5);
    snprintf(named, sizeof named, "rank %d (pid", setup->victim);
    const int64_t late_ns = now_ns() - event_ns();
    counter_add(1);
    if (!expect_timely(rank, comm, status, setup->act == ACT_STALL ? KOLO_ERR_TIMEOUT : KOLO_ERR_PEER_DEAD,
                       setup->victim, "kolo_allreduce"))
        return;
    expect_message(rank, "kolo_allreduce", named, NULL);
    expect_prompt(rank, late_ns - (setup->act == ACT_STALL ? TIMEOUT_MS * INT64_C(1000000) : 0), NOTICED_MS_MAX,
                  "noticed");
    if (setup->act == ACT_STALL)
        expect(rank, late_ns >= TIMEOUT_MS * INT64_C(1000000), "gave up after %lld ms", (long long)late_ns / 1000000);
}

/* Forks a child that does nothing, and outlives this process until the others must have noticed its end. */
static void leave_child(void) {
    if (fork() != 0)
        return;
    prctl(PR_SET_PDEATHSIG, 0);
    for (int fd = 0; fd <= STDERR_FILENO; fd++)
        close(fd);
    sleep_ms(2 * NOTICED_MS_MAX);
    _exit(0);
}

/* What a rank does in its namespace. */
static void run_inside(struct rank *rank) {
    const struct setup *setup = rank->team->argument;
    const bool victim = rank->rank == setup->victim;
    kolo_comm *comm = NULL;
    if (setup->act == ACT_KILLED_IN_CREATION) {
        rank->options.size++; /* one that never comes */
        const int status = kolo_comm_create(&comm, &rank->options);
        expect_prompt(rank, now_ns() - event_ns(), NOTICED_MS_MAX, "noticed");
        expect_status(rank, status, KOLO_ERR_PEER_DEAD, "kolo_comm_create");
        return;
    }
    if (!expect_status(rank, kolo_comm_create(&comm, &rank->options), 0, "kolo_comm_create"))
        return;
    for (int i = 0; i < CALLS; i++)
        if (!expect_timely(rank, comm, allreduce_once(comm, i % 2 ? 5 : 20000), 0, -1, "kolo_allreduce")) {
            event_set(); /* nobody waits for it any more, nor for this rank */
            counter_add(2);
            return;
        }
    if (setup->act == ACT_NOTHING) {
        allocate(rank, comm);
        exchange(rank, comm);
        if (victim)
            close_descriptors();
        if (rank->rank == 0)
            sleep_ms(300); /* the others sleep in the kernel, and look who lives */
        expect_status(rank, allreduce_once(comm, 5), 0, "the last kolo_allreduce");
    } else if (!victim) {
        counter_add(1);
        while (setup->act == ACT_STALL && event_ns() == 0) /* no wait for the victim may begin before */
            sleep_ms(1);
        check_survivor(rank, comm, setup);
    } else {
        counter_add(1);
        while (counter_add(0) < (uint64_t)rank->ranks)
            sleep_ms(1);
        sleep_ms(50); /* the others wait by now */
        if (setup->act == ACT_SURVIVED)
            leave_child();
        event_set();
        if (setup->act == ACT_EXIT || setup->act == ACT_SURVIVED)
            _exit(0);
        while (setup->act != ACT_STALL || counter_add(0) < 2 * (uint64_t)rank->ranks - 1) /* killed, or given up */
            sleep_ms(1);
    }
    kolo_comm_destroy(comm);
}

static bool set_proc(enum proc proc) {
    if (proc == PROC_OUTER)
        return true;
    if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        return false;
    return proc == PROC_OWN ? mount("proc", "/proc", "proc", 0, NULL) == 0
                            : mount("tmpfs", "/proc", "tmpfs", 0, "") == 0;
}

static void await_death_time(const struct rank *rank, const struct setup *setup) {
    if (setup->act == ACT_KILLED_IN_CREATION) {
        await_job(rank, &rank->options, (UINT64_C(1) << rank->ranks) - 1);
        sleep_ms(50); /* the others wait by now */
        event_set();
    } else {
        while (event_ns() == 0)
            sleep_ms(1);
    }
}

/* Runs the rank as the first process of a namespace, or in the test's own. */
static void run_outside(struct rank *rank) {
    const struct setup *setup = rank->team->argument;
    const bool own = !(setup->mixed && rank->rank == 0);
    const bool kills =
        rank->rank == setup->victim && (setup->act == ACT_KILLED || setup->act == ACT_KILLED_IN_CREATION);
    int status = 0;
    if (!expect(rank, !own || unshare(CLONE_NEWPID) == 0, "unshare: %s", strerror(errno)))
        return;
    const pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (expect(rank, !own || set_proc(setup->proc), "mounting /proc: %s", strerror(errno)))
            run_inside(rank);
        fflush(NULL);
        _exit(0);
    }
    if (kills) {
        await_death_time(rank, setup);
        kill(pid, SIGKILL);
    }
    waitpid(pid, &status, 0);
    expect(rank, kills ? WIFSIGNALED(status) : status == 0, "the rank ended with %x", status);
}

static void run_setup(const struct setup *setup) {
    for (int by_descriptor = 0; by_descriptor < 2; by_descriptor++) {
        if (by_descriptor && setup->proc == PROC_NONE && setup->act != ACT_NOTHING && setup->act != ACT_STALL)
            continue; /* no lock without /proc there: an end is found at the deadline */
        if (setup->proc != PROC_OWN && by_descriptor != (int)setup->act % 2)
            continue; /* half of them will do */
        if (!by_descriptor && setup->act == ACT_KILLED_IN_CREATION && setup->victim == 0)
            continue; /* leaves its name */
        harness_run(&(struct team){.ranks = 3,
                                   .slot_bytes = 8192,
                                   .timeout_ms = setup->act == ACT_STALL ? TIMEOUT_MS : 0,
                                   .by_descriptor = by_descriptor,
                                   .creates_itself = true,
                                   .run = run_outside,
                                   .argument = setup});
    }
}

int main(int argc, char **argv) {
    harness_begin(argc, argv, "Runs ranks in pid namespaces of their own, and ends and stalls them there.");
    const pid_t pid = fork();
    int status = -1;
    if (pid == 0)
        _exit(unshare(CLONE_NEWPID | CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 ? 0
                                                                                                                 : 1);
    if (waitpid(pid, &status, 0) != pid || status != 0)
        harness_skip("no right to make pid and mount namespaces (needs root)");
    setenv("KOLO_SINGLE_COPY", "1", 1);
    for (int proc = PROC_OWN; proc <= (arguments.quick ? PROC_OWN : PROC_NONE); proc++)
        for (int mixed = proc == PROC_NONE; mixed <= (proc != PROC_OUTER); mixed++)
            for (int act = ACT_NOTHING; act <= ACT_KILLED_IN_CREATION; act++) {
                const struct setup setup = {(enum act)act, (enum proc)proc, (act + proc + mixed) % 3, mixed};
                run_setup(&setup);
            }
    run_setup(&(struct setup){ACT_SURVIVED, PROC_OWN, 0, true});
    return harness_end();
}
