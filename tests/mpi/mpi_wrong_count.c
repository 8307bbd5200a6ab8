/* An all-reduce whose count is negative on the last rank alone, while the others wait for it.
 *
 *     mpirun -n 2 ./mpi_wrong_count CASE
 *
 * fatal: with the default error handler. again: that rank gets its error and calls once more, as the others do.
 * barrier: it goes on to a barrier, which without kolo is a hang, or worse. */
#include <string.h>

#include "mpi_testing.h"

enum { LIMIT_S = 30 };

static MPI_Comm comm; /* MPI_COMM_WORLD is still needed for the end */

static int sum_ranks(int count, int *sum) {
    *sum = -1;
    return MPI_Allreduce(&world_rank, sum, count, MPI_INT, MPI_SUM, comm);
}

static void expect_sum(int code, const int *sum) {
    expect(code == MPI_SUCCESS && *sum == world_size * (world_size - 1) / 2, "the sum is %d, code %d", *sum, code);
}

int main(int argc, char **argv) {
    int sum;
    job_begin(&argc, &argv, MPI_THREAD_SINGLE);
    const char *const what = argc > 1 ? argv[1] : "again";
    const bool is_last = world_rank == world_size - 1, is_again = strcmp(what, "again") == 0;
    watch(LIMIT_S, what);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, strcmp(what, "fatal") == 0 ? MPI_ERRORS_ARE_FATAL : MPI_ERRORS_RETURN);
    for (int round = 0; round < 3; round++)
        expect_sum(sum_ranks(1, &sum), &sum);
    int class = MPI_SUCCESS, code = sum_ranks(is_last ? -1 : 1, &sum);
    if (is_last && code != MPI_SUCCESS)
        MPI_Error_class(code, &class);
    expect(!is_last || class == MPI_ERR_COUNT, "a negative count gave class %d", class);
    if (is_again) {
        expect_sum(is_last ? sum_ranks(1, &sum) : code, &sum);
        expect_sum(sum_ranks(1, &sum), &sum);
    } else {
        expect((is_last ? MPI_Barrier(comm) : code) != MPI_SUCCESS, "ranks in different collectives got no error");
    }
    MPI_Comm_free(&comm);
    return job_end();
}
