/* The short way of the calls that programs make most, small and again and again: everything about the communicator is
 * known, and so are the operation and the datatype, from its last call. They are what calls/ does, less what cannot be.
 * Of the arguments only MPI_IN_PLACE is looked at. kolo checks the others, and refuses them before it has done anything
 * (KOLO_ERR_ARG): then the call goes to calls/, which know what MPI allows beyond that. */
#pragma once

#include "calls/sides.h"
#include "host/mpi_host.h"
#include "types/operations.h"

/* The communicator's state, if its calls may take this way; NULL: the long one is for them. */
static inline struct mpi_state *mpi_fast_state(mpi_word comm) {
    comm &= mpi_host.handle_mask;
    struct mpi_state *const state = (struct mpi_state *)(uintptr_t)kolo_load_acquire(mpi_state_slot(comm));
    mpi_progress_owe();
    return state && kolo_load_relaxed(&state->handle) == comm && state->fast ? state : NULL;
}

/* NULL: another one than last time, or none. */
static inline const struct mpi_reduction *mpi_fast_reduction(const struct mpi_state *state, mpi_word type,
                                                             mpi_word op) {
    return state->reduction_type == type && state->reduction_op == op ? state->reduction : NULL;
}

/* NULL: another one than last time, or one with gaps. */
static inline const struct mpi_type *mpi_fast_type(const struct mpi_state *state, mpi_word type) {
    const struct mpi_type *const known = state->type;
    return known && known->handle == (type & mpi_host.handle_mask) && known->is_contiguous ? known : NULL;
}

/* The bytes of each block where all that this rank says of those that it sends and of those that it receives is the
 * same; SIZE_MAX: it is not. */
static inline size_t mpi_fast_blocks(const struct mpi_state *state, const void *send, int send_count,
                                     mpi_word send_type, const void *recv, int recv_count, mpi_word recv_type) {
    const struct mpi_type *const type = mpi_fast_type(state, recv_type);
    if (!type || send_type != recv_type || send_count != recv_count || mpi_is_in_place(send) || mpi_is_in_place(recv))
        return SIZE_MAX;
    return (size_t)recv_count * type->bytes;
}
