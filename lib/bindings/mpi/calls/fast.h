/* The short way of the calls that programs make most, small and again and again: everything about the communicator is
 * known, and so are the operation and the datatype, from its last call. They are what calls/ does, less what cannot be.
 * Of the arguments only MPI_IN_PLACE is looked at. kolo checks the others, and refuses them before it has done anything
 * (KOLO_ERR_ARG): then the call goes to calls/, which know what MPI allows beyond that. */
#pragma once

#include "calls/calls.h"
#include "calls/sides.h"
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

/* What kolo returned, as this way returns it: MPI_PASS for the long way. */
static inline int mpi_fast_result(const struct mpi_state *state, mpi_word comm, int rc) {
    if (__builtin_expect(rc == 0, 1))
        return 0;
    return rc == KOLO_ERR_ARG ? MPI_PASS : mpi_fail(state, comm, rc);
}

/* The calls. */

static inline int mpi_fast_Barrier(mpi_word comm) {
    struct mpi_state *const state = mpi_fast_state(comm);
    return __builtin_expect(!state, 0) ? MPI_PASS : mpi_fast_result(state, comm, kolo_barrier(state->fast));
}

static inline int mpi_fast_Bcast(void *buffer, int count, mpi_word type, int root, mpi_word comm) {
    struct mpi_state *const state = mpi_fast_state(comm);
    const struct mpi_type *const known = state ? mpi_fast_type(state, type) : NULL;
    if (__builtin_expect(!known || mpi_is_in_place(buffer), 0))
        return MPI_PASS;
    return mpi_fast_result(state, comm,
                           kolo_broadcast(state->fast, buffer, (size_t)count * known->bytes, KOLO_U8, root));
}

static inline int mpi_fast_Allreduce(const void *send, void *recv, int count, mpi_word type, mpi_word op,
                                     mpi_word comm) {
    struct mpi_state *const state = mpi_fast_state(comm);
    const struct mpi_reduction *const reduction = state ? mpi_fast_reduction(state, type, op) : NULL;
    if (__builtin_expect(!reduction || mpi_is_in_place(recv), 0))
        return MPI_PASS;
    const void *const from = mpi_is_in_place(send) ? recv : send;
    const size_t parts = (size_t)count * reduction->parts;
    return mpi_fast_result(state, comm,
                           kolo_allreduce(state->fast, from, recv, parts, reduction->dtype, reduction->op));
}

static inline int mpi_fast_Reduce(const void *send, void *recv, int count, mpi_word type, mpi_word op, int root,
                                  mpi_word comm) {
    struct mpi_state *const state = mpi_fast_state(comm);
    const struct mpi_reduction *const reduction = state ? mpi_fast_reduction(state, type, op) : NULL;
    const bool is_root = reduction && root == state->rank;
    if (__builtin_expect(!reduction || mpi_is_in_place(is_root ? recv : send), 0))
        return MPI_PASS;
    const void *const from = is_root && mpi_is_in_place(send) ? recv : send;
    const size_t parts = (size_t)count * reduction->parts;
    return mpi_fast_result(
        state, comm,
        kolo_reduce(state->fast, from, is_root ? recv : NULL, parts, reduction->dtype, reduction->op, root));
}

static inline int mpi_fast_reduce_blocks(struct mpi_state *state, const void *send, void *recv, int count,
                                         mpi_word type, mpi_word op, mpi_word comm) {
    const struct mpi_reduction *const reduction = mpi_fast_reduction(state, type, op);
    if (__builtin_expect(!reduction || count < 0 || mpi_is_in_place(send) || mpi_is_in_place(recv), 0))
        return MPI_PASS;
    const size_t parts = (size_t)count * reduction->parts;
    return mpi_fast_result(state, comm,
                           kolo_reduce_scatter(state->fast, send, recv, parts, reduction->dtype, reduction->op));
}

/* Of blocks of one size. */
static inline int mpi_fast_Reduce_scatter(const void *send, void *recv, const int *counts, mpi_word type, mpi_word op,
                                          mpi_word comm) {
    struct mpi_state *const state = mpi_fast_state(comm);
    if (__builtin_expect(!state || !counts, 0))
        return MPI_PASS;
    for (int rank = 1; rank < state->size; rank++)
        if (counts[rank] != counts[0])
            return MPI_PASS;
    return mpi_fast_reduce_blocks(state, send, recv, counts[0], type, op, comm);
}

static inline int mpi_fast_Reduce_scatter_block(const void *send, void *recv, int count, mpi_word type, mpi_word op,
                                                mpi_word comm) {
    struct mpi_state *const state = mpi_fast_state(comm);
    return __builtin_expect(!state, 0) ? MPI_PASS : mpi_fast_reduce_blocks(state, send, recv, count, type, op, comm);
}

/* exchange: kolo_allgather or kolo_alltoall. */
static inline int mpi_fast_exchange(int (*exchange)(kolo_comm *, const void *, void *, size_t, kolo_dtype),
                                    const void *send, int send_count, mpi_word send_type, void *recv, int recv_count,
                                    mpi_word recv_type, mpi_word comm) {
    struct mpi_state *const state = mpi_fast_state(comm);
    const size_t bytes =
        state ? mpi_fast_blocks(state, send, send_count, send_type, recv, recv_count, recv_type) : SIZE_MAX;
    if (__builtin_expect(bytes == SIZE_MAX, 0))
        return MPI_PASS;
    return mpi_fast_result(state, comm, exchange(state->fast, send, recv, bytes, KOLO_U8));
}

static inline int mpi_fast_Allgather(const void *send, int send_count, mpi_word send_type, void *recv, int recv_count,
                                     mpi_word recv_type, mpi_word comm) {
    return mpi_fast_exchange(kolo_allgather, send, send_count, send_type, recv, recv_count, recv_type, comm);
}

static inline int mpi_fast_Alltoall(const void *send, int send_count, mpi_word send_type, void *recv, int recv_count,
                                    mpi_word recv_type, mpi_word comm) {
    return mpi_fast_exchange(kolo_alltoall, send, send_count, send_type, recv, recv_count, recv_type, comm);
}
