/* Where programs use MPI oddly: collectives in callbacks of MPI_Finalize, kolo's functions through the names with P,
 * and a communicator of each kind that is never freed. */
#include <stddef.h>

#include "mpi_testing.h"

static int called, wrong;

static int sum_at_end(MPI_Comm comm, int key, void *value, void *extra) {
    int sum = 0;
    (void)comm, (void)key, (void)value, (void)extra;
    MPI_Allreduce(&world_rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    wrong |= sum != world_size * (world_size - 1) / 2;
    called++;
    return MPI_SUCCESS;
}

int main(int argc, char **argv) {
    MPI_Comm copies[3];
    int key, sum = 0;
    job_begin(&argc, &argv, MPI_THREAD_SINGLE);
    watch(60, "names with P");
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, sum_at_end, &key, NULL);
    MPI_Comm_set_attr(MPI_COMM_SELF, key, NULL);
    for (int i = 0; i < 3; i++) {
        MPI_Comm_dup(i ? copies[i - 1] : MPI_COMM_WORLD, &copies[i]);
        for (int round = 0; round < 4; round++) {
            PMPI_Allreduce(&world_rank, &sum, 1, MPI_INT, MPI_SUM, copies[i]);
            expect(sum == world_size * (world_size - 1) / 2, "PMPI_Allreduce gave %d", sum);
        }
    }
    watch(60, "MPI_Finalize");
    const int failed = job_end();
    return failed || called != 1 || wrong;
}
