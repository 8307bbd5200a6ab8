/* Which collective of kolo's is made for a call. */
#include "calls/calls.h"

static const struct {
    mpi_maker *make;
    kolo_collective collective;
} makers[MPI_FUNCTIONS] = {
    [MPI_Barrier_INDEX] = {mpi_make_barrier, KOLO_BARRIER},
    [MPI_Bcast_INDEX] = {mpi_make_broadcast, KOLO_BROADCAST},
    [MPI_Allreduce_INDEX] = {mpi_make_reduction, KOLO_ALLREDUCE},
    [MPI_Reduce_INDEX] = {mpi_make_reduction, KOLO_REDUCE},
    [MPI_Scan_INDEX] = {mpi_make_scan, KOLO_SCAN},
    [MPI_Exscan_INDEX] = {mpi_make_scan, KOLO_EXSCAN},
    [MPI_Reduce_scatter_INDEX] = {mpi_make_reduce_scatter, KOLO_REDUCE_SCATTERV},
    [MPI_Reduce_scatter_block_INDEX] = {mpi_make_reduce_scatter, KOLO_REDUCE_SCATTER},
    [MPI_Allgather_INDEX] = {mpi_make_movement, KOLO_ALLGATHER},
    [MPI_Allgatherv_INDEX] = {mpi_make_movement, KOLO_ALLGATHERV},
    [MPI_Alltoall_INDEX] = {mpi_make_movement, KOLO_ALLTOALL},
    [MPI_Alltoallv_INDEX] = {mpi_make_movement, KOLO_ALLTOALLV},
    [MPI_Gather_INDEX] = {mpi_make_movement, KOLO_GATHER},
    [MPI_Gatherv_INDEX] = {mpi_make_movement, KOLO_GATHERV},
    [MPI_Scatter_INDEX] = {mpi_make_movement, KOLO_SCATTER},
    [MPI_Scatterv_INDEX] = {mpi_make_movement, KOLO_SCATTERV},
};

kolo_collective mpi_call_collective(unsigned function) {
    return makers[function].collective;
}

int mpi_call_make(const struct mpi_call *call) {
    struct mpi_state *const state = mpi_state_find(call->comm);
    return state && !state->is_left ? makers[call->function].make(state, makers[call->function].collective, call)
                                    : MPI_PASS;
}
