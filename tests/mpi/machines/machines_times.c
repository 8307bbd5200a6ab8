/* Times of collectives with kolo and without, in turns in one job that has libkolo-mpi.so preloaded: what the MPI
 * itself does is called in its own library, where nothing takes its place.
 *
 *     machines_times SECONDS BYTES_MAX CALL...    CALL: allreduce, broadcast, reduce, barrier
 *
 * Prints a line for each call and size: bytes, the MPI's and kolo's time of a call in microseconds (medians of the
 * turns, each the mean of many calls on the slowest rank), and of how many turns. */
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { TURNS = 9, FIRST_CALLS = 10, CALLS_MAX = 3000, STEP = 8, SETTLE_US = 100000 };

static struct {
    int (*allreduce)(const void *, void *, int, MPI_Datatype, MPI_Op, MPI_Comm);
    int (*reduce)(const void *, void *, int, MPI_Datatype, MPI_Op, int, MPI_Comm);
    int (*broadcast)(void *, int, MPI_Datatype, int, MPI_Comm);
    int (*barrier)(MPI_Comm);
} plain;

static double *send, *recv;

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static void find_plain(void) {
    void *const library = dlopen(getenv("MPI_LIBRARY"), RTLD_LAZY | RTLD_NOLOAD);
    if (!library) {
        fprintf(stderr, "MPI_LIBRARY does not name the MPI's library\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    *(void **)&plain.allreduce = dlsym(library, "PMPI_Allreduce");
    *(void **)&plain.reduce = dlsym(library, "PMPI_Reduce");
    *(void **)&plain.broadcast = dlsym(library, "PMPI_Bcast");
    *(void **)&plain.barrier = dlsym(library, "PMPI_Barrier");
}

static void call(const char *name, int is_plain, size_t bytes) {
    const int count = (int)(bytes / sizeof *send);
    const MPI_Comm comm = MPI_COMM_WORLD;
    if (name[0] == 'a')
        (is_plain ? plain.allreduce : MPI_Allreduce)(send, recv, count, MPI_DOUBLE, MPI_SUM, comm);
    else if (name[0] == 'r')
        (is_plain ? plain.reduce : MPI_Reduce)(send, recv, count, MPI_DOUBLE, MPI_SUM, 0, comm);
    else if (strcmp(name, "broadcast") == 0)
        (is_plain ? plain.broadcast : MPI_Bcast)(recv, count, MPI_DOUBLE, 0, comm);
    else
        (is_plain ? plain.barrier : MPI_Barrier)(comm);
}

/* The mean time of `calls` calls, on the slowest rank. */
static double take_turn(const char *name, int is_plain, size_t bytes, int calls) {
    double slowest;
    plain.barrier(MPI_COMM_WORLD);
    const double begin = now();
    for (int i = 0; i < calls; i++)
        call(name, is_plain, bytes);
    const double mean = (now() - begin) / calls;
    plain.allreduce(&mean, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return slowest;
}

static int compare(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void compare_size(const char *name, size_t bytes, double seconds) {
    double times[2][TURNS];
    int rank, calls[2];
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int is_plain = 0; is_plain < 2; is_plain++) {
        const double first = take_turn(name, is_plain, bytes, 2);
        const double wanted = seconds / (2.0 * TURNS) / first;
        calls[is_plain] = wanted < 1 ? 1 : wanted > CALLS_MAX ? CALLS_MAX : (int)wanted;
    }
    for (int turn = 0; turn < TURNS; turn++)
        for (int is_plain = 0; is_plain < 2; is_plain++)
            times[is_plain][turn] = take_turn(name, is_plain, bytes, calls[is_plain]);
    for (int is_plain = 0; is_plain < 2; is_plain++)
        qsort(times[is_plain], TURNS, sizeof(double), compare);
    if (rank == 0) {
        printf("%-10s %9zu %10.1f %10.1f %6.2f\n", name, bytes, times[1][TURNS / 2] * 1e6, times[0][TURNS / 2] * 1e6,
               times[0][TURNS / 2] / times[1][TURNS / 2]);
        fflush(stdout);
    }
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    const double seconds = argc > 1 ? atof(argv[1]) : 1;
    const size_t bytes_max = argc > 2 ? (size_t)atol(argv[2]) : 1 << 20;
    find_plain();
    send = calloc(1, bytes_max);
    recv = calloc(1, bytes_max);
    for (int i = 0; i < FIRST_CALLS; i++)
        MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 3; i < argc; i++)
        for (size_t bytes = 8; bytes <= bytes_max; bytes *= STEP) {
            compare_size(argv[i], bytes, seconds);
            if (strcmp(argv[i], "barrier") == 0)
                break;
        }
    int out[64] = {0}, in[64];
    for (int i = 0; i < FIRST_CALLS; i++)
        MPI_Alltoall(out, 1, MPI_INT, in, 1, MPI_INT, MPI_COMM_WORLD);
    usleep(SETTLE_US); /* see machines_calls.c */
    free(send);
    free(recv);
    return MPI_Finalize();
}
