/* Where programs use MPI oddly: collectives in callbacks of MPI_Finalize, on MPI_COMM_SELF and MPI_COMM_WORLD, and of
 * datatypes; kolo's functions through the names with P; and a communicator of each kind that is never freed. */
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

#ifdef MPICH /* with Open MPI 4.1 alone such a program hangs */
static int move_at_end(MPI_Datatype type, int key, void *value, void *extra) {
    void *none;
    int has_none, moved[2] = {world_rank, world_rank + 1};
    (void)key, (void)value;
    MPI_Bcast(moved, 1, type, 1, MPI_COMM_WORLD);
    expect(moved[0] == 1 && moved[1] == 2, "a broadcast of a type that ends gave %d, %d", moved[0], moved[1]);
    MPI_Type_get_attr(type, *(int *)extra, &none, &has_none);
    expect(!has_none, "the type has an attribute that nobody has set");
    return MPI_SUCCESS;
}

static void end_types(void) {
    int key, other;
    MPI_Type_create_keyval(MPI_TYPE_NULL_COPY_FN, MPI_TYPE_NULL_DELETE_FN, &other, NULL);
    MPI_Type_create_keyval(MPI_TYPE_NULL_COPY_FN, move_at_end, &key, &other);
    for (int i = 0; i < 4; i++) {
        MPI_Datatype type;
        int moved[2] = {world_rank, world_rank};
        MPI_Type_contiguous(2, MPI_INT, &type);
        MPI_Type_commit(&type);
        MPI_Bcast(moved, 1, type, 1, MPI_COMM_WORLD);
        MPI_Type_set_attr(type, key, NULL);
        MPI_Type_free(&type);
    }
}
#endif

int main(int argc, char **argv) {
    MPI_Comm copies[3];
    int key, sum = 0;
    job_begin(&argc, &argv, MPI_THREAD_SINGLE);
    watch(60, "names with P");
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, sum_at_end, &key, NULL);
    MPI_Comm_set_attr(MPI_COMM_SELF, key, NULL);
    MPI_Comm_set_attr(MPI_COMM_WORLD, key, NULL);
    for (int i = 0; i < 3; i++) {
        MPI_Comm_dup(i ? copies[i - 1] : MPI_COMM_WORLD, &copies[i]);
        for (int round = 0; round < 4; round++) {
            PMPI_Allreduce(&world_rank, &sum, 1, MPI_INT, MPI_SUM, copies[i]);
            expect(sum == world_size * (world_size - 1) / 2, "PMPI_Allreduce gave %d", sum);
        }
    }
#ifdef MPICH
    watch(60, "callbacks of datatypes");
    end_types();
#endif
    watch(60, "MPI_Finalize");
    const int failed = job_end();
    return failed || called != 2 || wrong;
}
