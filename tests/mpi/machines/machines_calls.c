/* Collectives of communicators whose ranks are on several machines, or on one of several: every result is checked.
 *
 *     machines_calls [--quick]
 *     machines_calls --long SECONDS    all-reduces and broadcasts until then, for whoever kills a rank or cuts a cable
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { FIRST_CALLS = 6, ELEMENTS_MAX = 300000, SETTLE_US = 100000, SETTLE_ROUNDS = 10, RANKS_MAX = 64 };

static const int sizes[] = {0, 1, 3, 55, 1024, 20000, 131072, 262145, ELEMENTS_MAX};
static const int quick_sizes[] = {0, 1, 55, 20000, 262145};

static const char *communicator; /* under test */
static int checked;

static void fail(const char *what, long index, double found, double expected) {
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    fprintf(stderr, "rank %d of the world, %s, %s: element %ld is %g, not %g\n", rank, communicator, what, index, found,
            expected);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static void expect(const char *what, long index, double found, double expected) {
    checked++;
    if (found != expected)
        fail(what, index, found, expected);
}

static void check_sums(MPI_Comm comm, int count, double *send, double *recv) {
    int rank, size;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    const double ranks = size * (size - 1) / 2.0;
    for (int in_place = 0; in_place < 2; in_place++) {
        double *const from = in_place ? recv : send;
        for (int i = 0; i < count; i++) {
            recv[i] = -1;
            from[i] = rank + i % 7;
        }
        recv[count] = -2;
        MPI_Allreduce(in_place ? MPI_IN_PLACE : send, recv, count, MPI_DOUBLE, MPI_SUM, comm);
        for (int i = 0; i < count; i++)
            expect("MPI_Allreduce", i, recv[i], ranks + size * (i % 7));
        expect("MPI_Allreduce, behind the last", count, recv[count], -2);
    }
}

static void check_reduce(MPI_Comm comm, int count, int root, int *send, int *recv) {
    int rank, size;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    for (int in_place = 0; in_place < 2; in_place++) {
        int *const from = in_place && rank == root ? recv : send;
        for (int i = 0; i < count; i++) {
            recv[i] = -1;
            from[i] = (rank + 1) * 3 + i % 5;
        }
        MPI_Reduce(from == recv ? MPI_IN_PLACE : send, rank == root ? recv : NULL, count, MPI_INT, MPI_MAX, root, comm);
        for (int i = 0; rank == root && i < count; i++)
            expect("MPI_Reduce", i, recv[i], size * 3 + i % 5);
    }
}

/* The same data by different datatypes: the root sends doubles, the others take bytes. */
static void check_broadcast(MPI_Comm comm, int count, int root, double *buffer) {
    int rank;
    MPI_Comm_rank(comm, &rank);
    for (int i = 0; i <= count; i++)
        buffer[i] = rank == root ? root + i % 11 : -1;
    if (rank == root)
        MPI_Bcast(buffer, count, MPI_DOUBLE, root, comm);
    else
        MPI_Bcast(buffer, count * (int)sizeof *buffer, MPI_BYTE, root, comm);
    for (int i = 0; i < count; i++)
        expect("MPI_Bcast", i, buffer[i], root + i % 11);
    expect("MPI_Bcast, behind the last", count, buffer[count], rank == root ? root + count % 11 : -1);
}

/* Every second element of a vector. */
static void check_gaps(MPI_Comm comm, int count, int root, double *buffer) {
    MPI_Datatype every_second;
    int rank;
    MPI_Comm_rank(comm, &rank);
    MPI_Type_vector(count / 2, 1, 2, MPI_DOUBLE, &every_second);
    MPI_Type_commit(&every_second);
    for (int i = 0; i < count; i++)
        buffer[i] = rank == root ? i : -1;
    MPI_Bcast(buffer, 1, every_second, root, comm);
    for (int i = 0; i < count / 2 * 2; i++)
        expect("MPI_Bcast of every second element", i, buffer[i], rank == root || i % 2 == 0 ? i : -1);
    MPI_Type_free(&every_second);
}

/* Pairs, and an operation that kolo does not know. */
static void bitwise_or(void *in, void *inout, int *count, MPI_Datatype *type) {
    (void)type;
    for (int i = 0; i < *count; i++)
        ((uint32_t *)inout)[i] |= ((const uint32_t *)in)[i];
}

static void check_others(MPI_Comm comm) {
    struct {
        double value;
        int place;
    } mine, lowest;
    int rank, size;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    mine.value = size - rank;
    mine.place = rank;
    MPI_Allreduce(&mine, &lowest, 1, MPI_DOUBLE_INT, MPI_MINLOC, comm);
    expect("MPI_MINLOC, value", 0, lowest.value, 1);
    expect("MPI_MINLOC, place", 0, lowest.place, size - 1);
    MPI_Op own;
    MPI_Op_create(bitwise_or, 1, &own);
    uint32_t bit = 1u << rank, all = 0;
    MPI_Allreduce(&bit, &all, 1, MPI_UINT32_T, own, comm);
    expect("an operation of the program's", 0, all, (double)((1ull << size) - 1));
    MPI_Op_free(&own);
    int blocks[RANKS_MAX];
    MPI_Allgather(&rank, 1, MPI_INT, blocks, 1, MPI_INT, comm);
    for (int i = 0; i < size; i++)
        expect("MPI_Allgather", i, blocks[i], i);
}

static void check_all(MPI_Comm comm, const char *name, int is_quick) {
    double *const send = malloc((ELEMENTS_MAX + 1) * sizeof *send), *const recv =
                                                                        malloc((ELEMENTS_MAX + 1) * sizeof *recv);
    const int *const counts = is_quick ? quick_sizes : sizes;
    const size_t number = is_quick ? sizeof quick_sizes / sizeof *quick_sizes : sizeof sizes / sizeof *sizes;
    int size;
    communicator = name;
    MPI_Comm_size(comm, &size);
    for (int i = 0; i < FIRST_CALLS; i++) /* until kolo does them */
        check_sums(comm, 1, send, recv);
    for (size_t i = 0; i < number; i++) {
        check_sums(comm, counts[i], send, recv);
        for (int root = 0; root < size; root++) {
            check_reduce(comm, counts[i], root, (int *)send, (int *)recv);
            check_broadcast(comm, counts[i], root, recv);
            check_gaps(comm, counts[i], root, recv);
        }
        MPI_Barrier(comm);
    }
    check_others(comm);
    free(send);
    free(recv);
}

/* One clock for all: the machines are namespaces of one. */
static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

/* Nobody leaves a barrier before the last one has come. */
static void check_barrier(MPI_Comm comm) {
    enum { LATE_US = 3000 };
    int rank, size;
    communicator = "the world";
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    for (int late = 0; late < size; late++) {
        double latest;
        if (rank == late)
            usleep(LATE_US);
        const double came = now();
        MPI_Barrier(comm);
        const double left = now();
        MPI_Allreduce(&came, &latest, 1, MPI_DOUBLE, MPI_MAX, comm);
        expect("MPI_Barrier, ended before the last came", late, left < latest, 0);
    }
}

static void check_groups(int is_quick) {
    int rank, size;
    MPI_Comm comm, near;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    check_all(MPI_COMM_WORLD, "the world", is_quick);
    check_barrier(MPI_COMM_WORLD);
    MPI_Comm_split(MPI_COMM_WORLD, 0, size - rank, &comm);
    check_all(comm, "ranks in reverse", is_quick);
    MPI_Comm_free(&comm);
    MPI_Comm_split(MPI_COMM_WORLD, rank == 0, rank, &comm);
    check_all(comm, "all but the first", 1);
    MPI_Comm_free(&comm);
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &comm);
    check_all(comm, "even and odd", 1);
    MPI_Comm_free(&comm);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &near);
    check_all(near, "one machine", 1);
    MPI_Comm_free(&near);
    enum { TIMES = 3 }; /* what has been freed is used again */
    for (int i = 0; i < TIMES; i++) {
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        check_all(comm, "a copy of the world", 1);
        MPI_Comm_free(&comm);
    }
}

static void run_long(double seconds) {
    double *const buffer = calloc(ELEMENTS_MAX, sizeof *buffer);
    const double end = now() + seconds;
    int rank, is_first = 1, stop = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int call = 0; !stop; call++) {
        MPI_Allreduce(MPI_IN_PLACE, buffer, call % 8 ? 16 : ELEMENTS_MAX, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        stop = rank == 0 && now() > end;
        MPI_Bcast(&stop, 1, MPI_INT, 0, MPI_COMM_WORLD);
        if (is_first && call > 2 * FIRST_CALLS) {
            printf("rank %d is under way: process %d\n", rank, (int)getpid());
            fflush(stdout);
            is_first = 0;
        }
    }
    free(buffer);
}

/* MPICH 4.0 over UCX hangs in MPI_Finalize where a rank has had no time for its connections. */
static void settle(void) {
    int out[RANKS_MAX] = {0}, in[RANKS_MAX];
    for (int i = 0; i < SETTLE_ROUNDS; i++)
        MPI_Alltoall(out, 1, MPI_INT, in, 1, MPI_INT, MPI_COMM_WORLD);
    usleep(SETTLE_US);
}

int main(int argc, char **argv) {
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (argc > 2 && strcmp(argv[1], "--long") == 0)
        run_long(atof(argv[2]));
    else
        check_groups(argc > 1 && strcmp(argv[1], "--quick") == 0);
    settle();
    printf("rank %d: %d values\n", rank, checked);
    return MPI_Finalize();
}
