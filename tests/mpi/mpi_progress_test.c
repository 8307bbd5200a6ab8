/* Programs that are right by the standard, and hang if a rank that waits in a collective makes no progress for the MPI.
 *
 *     mpirun -n 2 ./mpi_progress_test CASE     (see --help; all if there is none) */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mpi_testing.h"

enum { LARGE = 1 << 20, ROUNDS = 5, LIMIT_S = 10 };

static int *numbers;

/* Rank 0 is in the collective when rank 1 begins what needs it. */
static void run_synchronous_send(void) {
    MPI_Request request;
    if (world_rank == 0)
        MPI_Irecv(numbers, 1, MPI_INT, 1, 1, MPI_COMM_WORLD, &request);
    usleep(world_rank ? 20000 : 0);
    if (world_rank == 1)
        MPI_Ssend(numbers, 1, MPI_INT, 0, 1, MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
    if (world_rank == 0)
        MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void run_large_send(void) {
    MPI_Request request;
    int sum, one = 1;
    if (world_rank == 0)
        MPI_Irecv(numbers, LARGE, MPI_INT, 1, 1, MPI_COMM_WORLD, &request);
    usleep(world_rank ? 20000 : 0);
    if (world_rank == 1)
        MPI_Send(numbers, LARGE, MPI_INT, 0, 1, MPI_COMM_WORLD);
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (world_rank == 0)
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    expect(sum == world_size, "the sum is %d", sum);
}

static void run_background_sum(void) {
    MPI_Request request;
    int sums[2000];
    for (int i = 0; i < 2000; i++)
        numbers[i] = i;
    MPI_Iallreduce(numbers, sums, 2000, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
    if (world_rank == 1) {
        usleep(20000);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (world_rank != 1)
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    for (int i = 0; i < 2000; i++)
        expect(sums[i] == i * world_size, "sum %d is %d", i, sums[i]);
}

static void run_one_sided(void) {
    MPI_Win win;
    long counter = 0, one = 1, found = -1;
    MPI_Win_create(&counter, sizeof counter, sizeof counter, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    usleep(world_rank ? 20000 : 0);
    if (world_rank == 1) {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
        MPI_Accumulate(&one, 1, MPI_LONG, 0, 0, 1, MPI_LONG, MPI_SUM, win);
        MPI_Win_flush(0, win);
        MPI_Get(&found, 1, MPI_LONG, 0, 0, 1, MPI_LONG, win);
        MPI_Win_unlock(0, win);
        expect(found == 1, "the counter is %ld", found);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_free(&win);
}

static const struct {
    const char *name;
    void (*run)(void);
} cases[] = {{"synchronous-send", run_synchronous_send},
             {"large-send", run_large_send},
             {"background-sum", run_background_sum},
             {"one-sided", run_one_sided}};

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "--help") == 0) {
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
            puts(cases[i].name);
        return 0;
    }
    job_begin(&argc, &argv, MPI_THREAD_SINGLE);
    numbers = calloc(LARGE, sizeof *numbers);
    for (int i = 0; i < ROUNDS; i++) /* kolo takes over after some calls */
        MPI_Barrier(MPI_COMM_WORLD);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        watch(LIMIT_S, cases[i].name);
        for (int round = 0; round < ROUNDS && (argc < 2 || strcmp(argv[1], cases[i].name) == 0); round++)
            cases[i].run();
    }
    free(numbers);
    return job_end();
}
