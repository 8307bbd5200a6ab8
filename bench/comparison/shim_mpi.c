/* Any MPI: compiled with its own mpicc. */
#include <limits.h>
#include <mpi.h>
#include <stdio.h>

#include "driver.h"

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

static int begin(kolo_dtype dtype, int *rank, int *ranks, const char **library) {
    static char version[MPI_MAX_LIBRARY_VERSION_STRING];
    int length;
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

static int allreduce(const void *send, void *recv, size_t count) {
    if (count > INT_MAX) {
        fprintf(stderr, "driver: %zu elements are more than an MPI call takes\n", count);
        return DRIVER_FAILED;
    }
    const void *from = send == recv ? MPI_IN_PLACE : send;
    return MPI_Allreduce(from, recv, (int)count, datatype, MPI_SUM, MPI_COMM_WORLD) == MPI_SUCCESS ? 0 : DRIVER_FAILED;
}

static int end(void) {
    return MPI_Finalize() == MPI_SUCCESS ? 0 : DRIVER_FAILED;
}

int main(int argc, char **argv) {
    static const driver_shim shim = {begin, allreduce, end};
    return driver_run(argc, argv, &shim);
}
