/* Sides of calls. */
#include "calls/sides.h"

#include <string.h>

const void *mpi_side_read(struct mpi_state *state, const struct mpi_side *side, size_t blocks, mpi_word comm) {
    if (side->type->is_contiguous)
        return side->address;
    void *const packed = mpi_scratch(state, MPI_SEND, blocks * mpi_side_bytes(side));
    if (packed && mpi_pack(side->address, blocks * side->count, side->type, packed, comm) != 0)
        return NULL;
    return packed;
}

void *mpi_side_write(struct mpi_state *state, const struct mpi_side *side, size_t blocks) {
    if (side->type->is_contiguous)
        return (void *)side->address;
    return mpi_scratch(state, MPI_RECV, blocks * mpi_side_bytes(side));
}

int mpi_side_finish(struct mpi_state *state, const struct mpi_side *side, size_t blocks, mpi_word comm) {
    if (side->type->is_contiguous)
        return 0;
    return mpi_unpack(state->scratch[MPI_RECV], (void *)side->address, blocks * side->count, side->type, comm);
}

const void *mpi_copy_apart(struct mpi_state *state, const void *send, size_t send_bytes) {
    void *const copy = mpi_scratch(state, MPI_SEND, send_bytes);
    return copy ? memmove(copy, send, send_bytes) : NULL;
}
