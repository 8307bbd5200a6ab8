/* Any MPI: compiled with its own mpicc. */
#include <limits.h>
#include <mpi.h>
#include <stdio.h>

#include "driver.h"

static kolo_collective collective_in_use;
static MPI_Datatype datatype;

/* 0 where the MPI has no such type: bfloat16 is no part of the standard that most implement. */
static int choose_datatype(kolo_dtype dtype) {
    datatype = MPI_FLOAT;
    if (dtype != KOLO_BF16)
        return 0;
#if defined(MPIX_BFLOAT16)
    datatype = MPIX_BFLOAT16;
    return 0;
#else
    return DRIVER_UNSUPPORTED;
#endif
}

static int begin(kolo_collective collective, kolo_dtype dtype, int *rank, int *ranks, const char **library) {
    static char version[MPI_MAX_LIBRARY_VERSION_STRING];
    int length;
    collective_in_use = collective;
    if (MPI_Init(NULL, NULL) != MPI_SUCCESS)
        return DRIVER_FAILED; /* MPI has said why, and as a rule has ended the process */
    MPI_Comm_rank(MPI_COMM_WORLD, rank);
    MPI_Comm_size(MPI_COMM_WORLD, ranks);
    MPI_Get_library_version(version, &length);
    *library = version;
    int status = choose_datatype(dtype);
    if (status != 0)
        MPI_Finalize();
    return status;
}

/* Returns what MPI does. */
static int make_call(const void *send, void *recv, int count) {
    const MPI_Comm all = MPI_COMM_WORLD;
    switch (collective_in_use) {
    case KOLO_ALLREDUCE:
        return MPI_Allreduce(send == recv ? MPI_IN_PLACE : send, recv, count, datatype, MPI_SUM, all);
    case KOLO_REDUCE:
        return MPI_Reduce(send, recv, count, datatype, MPI_SUM, 0, all);
    case KOLO_REDUCE_SCATTER:
        return MPI_Reduce_scatter_block(send, recv, count, datatype, MPI_SUM, all);
    case KOLO_ALLGATHER:
        return MPI_Allgather(send, count, datatype, recv, count, datatype, all);
    case KOLO_BROADCAST:
        return MPI_Bcast(recv, count, datatype, 0, all);
    case KOLO_GATHER:
        return MPI_Gather(send, count, datatype, recv, count, datatype, 0, all);
    case KOLO_SCATTER:
        return MPI_Scatter(send, count, datatype, recv, count, datatype, 0, all);
    case KOLO_ALLTOALL:
        return MPI_Alltoall(send, count, datatype, recv, count, datatype, all);
    case KOLO_SCAN:
        return MPI_Scan(send, recv, count, datatype, MPI_SUM, all);
    case KOLO_EXSCAN:
        return MPI_Exscan(send, recv, count, datatype, MPI_SUM, all);
    default:
        return MPI_ERR_OTHER;
    }
}

static int call(const void *send, void *recv, size_t count) {
    if (count > INT_MAX) {
        fprintf(stderr, "driver: %zu elements are more than an MPI call takes\n", count);
        return DRIVER_FAILED;
    }
    return make_call(send, recv, (int)count) == MPI_SUCCESS ? 0 : DRIVER_FAILED;
}

static int end(void) {
    return MPI_Finalize() == MPI_SUCCESS ? 0 : DRIVER_FAILED;
}

int main(int argc, char **argv) {
    static const driver_shim shim = {begin, call, end};
    return driver_run(argc, argv, &shim);
}
