/* Several threads of each rank, each with communicators of its own: collectives and messages at once, and communicators
 * that come and go meanwhile. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mpi_testing.h"

enum { THREADS = 3, LIMIT_S = 120, COUNT = 50 };

static int rounds = 200;

struct thread {
    pthread_t id;
    MPI_Comm comm;
    int number;
    const char *problem;
};

static void run_collectives(struct thread *thread, MPI_Comm comm, int round) {
    long in[COUNT], sums[COUNT], all[COUNT];
    const int root = round % world_size;
    long rooted = world_rank == root ? round * 1000 + thread->number : -1, turned = -1, mine = world_rank + round;
    for (int i = 0; i < COUNT; i++)
        in[i] = (long)world_rank * i + round * thread->number;
    MPI_Allreduce(in, sums, COUNT, MPI_LONG, MPI_SUM, comm);
    for (int i = 0; i < COUNT; i++)
        if (sums[i] != (long)world_size * (world_size - 1) / 2 * i + (long)world_size * round * thread->number)
            thread->problem = "a wrong sum";
    MPI_Bcast(&rooted, 1, MPI_LONG, root, comm);
    if (rooted != round * 1000 + thread->number)
        thread->problem = "a wrong broadcast";
    MPI_Allgather(&mine, 1, MPI_LONG, all, 1, MPI_LONG, comm);
    for (int i = 0; i < world_size; i++)
        if (all[i] != i + round)
            thread->problem = "a wrong all-gather";
    MPI_Sendrecv(&mine, 1, MPI_LONG, (world_rank + 1) % world_size, thread->number, &turned, 1, MPI_LONG,
                 (world_rank + world_size - 1) % world_size, thread->number, comm, MPI_STATUS_IGNORE);
    if (turned != (world_rank + world_size - 1) % world_size + round)
        thread->problem = "a wrong message";
    MPI_Barrier(comm);
}

static void *run(void *argument) {
    struct thread *thread = argument;
    for (int round = 0; round < rounds; round++) {
        MPI_Comm again = thread->comm;
        const bool is_new = round % 20 == 10;
        if (is_new)
            MPI_Comm_dup(thread->comm, &again);
        for (int i = 0; i < (is_new ? 5 : 1); i++)
            run_collectives(thread, again, round);
        if (is_new)
            MPI_Comm_free(&again);
    }
    return NULL;
}

int main(int argc, char **argv) {
    struct thread threads[THREADS];
    job_begin(&argc, &argv, MPI_THREAD_MULTIPLE);
    if (argc > 1 && strcmp(argv[1], "--quick") == 0)
        rounds = 45;
    watch(LIMIT_S, "threads");
    for (int i = 0; i < THREADS; i++) {
        threads[i] = (struct thread){.number = i};
        MPI_Comm_dup(MPI_COMM_WORLD, &threads[i].comm);
    }
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i].id, NULL, run, &threads[i]) != 0)
            fail("no thread");
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i].id, NULL);
        expect(!threads[i].problem, "thread %d: %s", i, threads[i].problem ? threads[i].problem : "");
        MPI_Comm_free(&threads[i].comm);
    }
    return job_end();
}
