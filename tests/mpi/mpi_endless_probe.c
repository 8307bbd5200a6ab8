/* Ranks that make collectives until they are killed. Each prints its process id once all have made some. */
#include <stdio.h>
#include <unistd.h>

#include "mpi_testing.h"

int main(int argc, char **argv) {
    static double in[20000], out[20000];
    job_begin(&argc, &argv, MPI_THREAD_SINGLE);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    for (long i = 0;; i++) {
        MPI_Allreduce(in, out, (int)(i % 7 * 3000 + 1), MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        MPI_Barrier(MPI_COMM_WORLD);
        if (i == 20) {
            printf("rank %d has pid %d\n", world_rank, (int)getpid());
            fflush(stdout);
        }
    }
}
