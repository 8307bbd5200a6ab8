/* Broadcast and barrier; which calls are made here, and errors of the MPI between machines. */
#include "nodes/machines_calls.h"

#include <stdio.h>

/* On the root's machine all have it from the root itself; where its place has no equals, they have it before
 * it goes to the other machines, by the first rank. */
int mpi_machines_broadcast(struct mpi_state *state, mpi_word comm, void *buffer, size_t bytes, int root) {
    const struct mpi_machines *const machines = state->machines;
    const struct mpi_whereabouts from = machines->ranks[root];
    const int place = from.place < machines->places ? from.place : 0;
    const bool is_there = machines->machine == from.machine;
    const bool is_late = is_there && place != from.place; /* between the machines */
    int rc = 0;
    if (is_late)
        rc = kolo_broadcast(machines->near, buffer, bytes, KOLO_U8, from.place);
    if (rc == 0 && machines->place == place) {
        const int code = mpi_host.Bcast(buffer, (int)bytes, mpi_host.is.types[MPI_TYPE_BYTE_INDEX], from.machine,
                                        mpi_machines_equals(machines));
        if (code != 0)
            return mpi_machines_fail(state, comm, code);
    }
    if (rc == 0 && !is_late && machines->near)
        rc = kolo_broadcast(machines->near, buffer, bytes, KOLO_U8, place);
    return mpi_result(state, comm, rc);
}

int mpi_machines_barrier(struct mpi_state *state, mpi_word comm) {
    const struct mpi_machines *const machines = state->machines;
    char all = 0, mine = 0;
    int rc = machines->near ? kolo_reduce(machines->near, &mine, &all, 1, KOLO_U8, KOLO_SUM, 0) : 0;
    if (rc == 0 && machines->place == 0) {
        const int code = mpi_host.Barrier(mpi_machines_equals(machines));
        if (code != 0)
            return mpi_machines_fail(state, comm, code);
    }
    if (rc == 0 && machines->near)
        rc = kolo_broadcast(machines->near, &all, 1, KOLO_U8, 0);
    return mpi_result(state, comm, rc);
}

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

bool mpi_machines_take(const struct mpi_state *state, kolo_collective collective, size_t bytes) {
    enum { BROADCAST_BYTES_MAX = 512 << 10 }; /* then each rank's copy takes longer than the MPI's own way */
    if (!state->machines)
        return false;
    switch (collective) {
    case KOLO_BARRIER:
        return true;
    case KOLO_BROADCAST:
        return bytes > 0 && bytes <= BROADCAST_BYTES_MAX;
    default:
        return bytes > 0;
    }
}
