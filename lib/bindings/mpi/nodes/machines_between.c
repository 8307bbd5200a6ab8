/* Which calls are made here, and errors of the MPI between machines. */
#include "nodes/machines_between.h"

#include <stdio.h>

int mpi_machines_fail(const struct mpi_state *state, mpi_word comm, int code) {
    enum { TEXT_BYTES = 4096, SHOWN = 300 };
    char text[TEXT_BYTES] = "";
    int length = 0;
    mpi_host.Error_string(code, text, &length);
    fprintf(stderr, "kolo: rank %d of %d: the MPI failed between the machines: %.*s\n", state->rank, state->size, SHOWN,
            text);
    fflush(stderr);
    if (state->machines->near)
        kolo_comm_abort(state->machines->near, code);
    mpi_host.Comm_call_errhandler(comm, code);
    return code;
}

bool mpi_machines_take(const struct mpi_state *state, enum mpi_machines_call call, size_t bytes) {
    enum { BROADCAST_BYTES_MAX = 512 << 10 }; /* then each rank's copy takes longer than the MPI's own way */
    if (!state->machines)
        return false;
    switch (call) {
    case MPI_MACHINES_BARRIER:
        return true;
    case MPI_MACHINES_BROADCAST:
        return bytes > 0 && bytes <= BROADCAST_BYTES_MAX;
    default:
        return bytes > 0;
    }
}
