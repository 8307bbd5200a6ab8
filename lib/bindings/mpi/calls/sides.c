/* Sides of calls. */
#include "calls/sides.h"

#include <string.h>

const void *mpi_side_pack(struct mpi_state *state, const struct mpi_side *side, size_t blocks, mpi_word comm) {
    void *const packed = mpi_scratch(state, MPI_SEND, blocks * mpi_side_bytes(side));
    if (packed && mpi_pack(side->address, blocks * side->count, side->type, packed, comm) != 0)
        return NULL;
    return packed;
}

void *mpi_side_scratch(struct mpi_state *state, const struct mpi_side *side, size_t blocks) {
    return mpi_scratch(state, MPI_RECV, blocks * mpi_side_bytes(side));
}

int mpi_side_unpack(struct mpi_state *state, const struct mpi_side *side, size_t blocks, mpi_word comm) {
    return mpi_unpack(state->scratch[MPI_RECV], (void *)side->address, blocks * side->count, side->type, comm);
}

const void *mpi_copy_apart(struct mpi_state *state, const void *send, size_t send_bytes) {
    void *const copy = mpi_scratch(state, MPI_SEND, send_bytes);
    return copy ? memmove(copy, send, send_bytes) : NULL;
}
