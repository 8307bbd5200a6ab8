/* Collectives that reduce. Their datatypes are predefined: one operation of kolo's or of types/ on an array. */
#include "calls/calls.h"

#include <string.h>

#include "calls/sides.h"
#include "communicators/making.h"
#include "nodes/machines_calls.h"
#include "types/operations.h"

/* NULL: it is the MPI's. */
static inline const struct mpi_reduction *find(struct mpi_state *state, mpi_word type, mpi_word op) {
    if (__builtin_expect(!state, 0))
        return NULL;
    if (__builtin_expect(state->reduction_type != type || state->reduction_op != op, 0)) {
        state->reduction = mpi_reduction_find(type, op);
        state->reduction_type = type;
        state->reduction_op = op;
    }
    return state->reduction;
}

static inline bool is_valid(const void *send, const void *recv, mpi_count count) {
    return count >= 0 && (count == 0 || (send && recv)) && !mpi_is_in_place(recv);
}

/* The same where `recv` need not be one: not significant, or empty. In place it holds what is sent all the same. */
static bool is_valid_without(const void *send, const void *recv, mpi_count count) {
    return is_valid(send, mpi_is_in_place(send) ? recv : send, count);
}

int mpi_call_allreduce(const void *send, void *recv, mpi_count count, mpi_word type, mpi_word op, mpi_word comm) {
    struct mpi_state *const state = mpi_state_find(comm);
    const struct mpi_reduction *const reduction = find(state, type, op);
    if (!reduction || !is_valid(send, recv, count))
        return MPI_PASS;
    const size_t bytes = (size_t)count * reduction->bytes;
    const bool is_near = mpi_state_enter(state, comm);
    if (!is_near && !mpi_machines_take(state, MPI_MACHINES_ALLREDUCE, bytes))
        return MPI_PASS;
    send = mpi_is_in_place(send) ? recv : mpi_apart(state, send, bytes, recv, bytes, recv);
    if (!is_near)
        return mpi_machines_allreduce(state, comm, send, recv, (size_t)count, type, op, reduction);
    return mpi_result(
        state, comm,
        kolo_allreduce(state->kolo, send, recv, (size_t)count * reduction->parts, reduction->dtype, reduction->op));
}

int mpi_call_reduce(const void *send, void *recv, mpi_count count, mpi_word type, mpi_word op, int root,
                    mpi_word comm) {
    struct mpi_state *const state = mpi_state_find(comm);
    const struct mpi_reduction *const reduction = find(state, type, op);
    if (!reduction || root < 0 || root >= state->size)
        return MPI_PASS;
    const bool is_root = root == state->rank;
    if (!is_valid(send, is_root ? recv : send, count) || (mpi_is_in_place(send) && !is_root))
        return MPI_PASS;
    const size_t bytes = (size_t)count * reduction->bytes;
    const bool is_near = mpi_state_enter(state, comm);
    if (!is_near && !mpi_machines_take(state, MPI_MACHINES_REDUCE, bytes))
        return MPI_PASS;
    if (mpi_is_in_place(send))
        send = recv;
    else if (is_root)
        send = mpi_apart(state, send, bytes, recv, bytes, recv);
    if (!is_near)
        return mpi_machines_reduce(state, comm, send, recv, (size_t)count, type, op, reduction, root);
    return mpi_result(state, comm,
                      kolo_reduce(state->kolo, send, is_root ? recv : NULL, (size_t)count * reduction->parts,
                                  reduction->dtype, reduction->op, root));
}

int mpi_call_scan(kolo_collective collective, const void *send, void *recv, mpi_count count, mpi_word type, mpi_word op,
                  mpi_word comm) {
    struct mpi_state *const state = mpi_state_find(comm);
    const struct mpi_reduction *const reduction = find(state, type, op);
    if (!reduction)
        return MPI_PASS;
    const bool has_result = collective == KOLO_SCAN || state->rank > 0;
    if (!(has_result ? is_valid(send, recv, count) : is_valid_without(send, recv, count)) ||
        !mpi_state_enter(state, comm))
        return MPI_PASS;
    const size_t bytes = (size_t)count * reduction->bytes;
    if (!recv) /* which a rank without a result may pass */
        recv = mpi_scratch(state, MPI_RECV, bytes);
    if (bytes && !recv)
        return mpi_fail_packing(state, comm);
    send = mpi_is_in_place(send) ? recv : mpi_apart(state, send, bytes, recv, bytes, recv);
    return mpi_result(state, comm,
                      kolo_call_make(state->kolo, &(kolo_call){.call_bytes = sizeof(kolo_call),
                                                               .collective = collective,
                                                               .dtype = reduction->dtype,
                                                               .op = reduction->op,
                                                               .send = send,
                                                               .recv = recv,
                                                               .count = (size_t)count * reduction->parts}));
}

/* Where this rank's block begins in what is sent, and how many bytes its block has. */
struct own_block {
    size_t begin, bytes, sent_bytes;
};

/* Where kolo writes this rank's block. In place it is not the buffer, of which only the beginning changes. */
static void *open_own(struct mpi_state *state, bool in_place, void *recv, const struct own_block *own) {
    return in_place && own->bytes ? mpi_scratch(state, MPI_RECV, own->bytes) : recv;
}

static int finish_own(const struct mpi_state *state, mpi_word comm, int rc, void *recv, const void *reduced,
                      const struct own_block *own) {
    if (rc == 0 && reduced != recv)
        memcpy(recv, reduced, own->bytes);
    return mpi_result(state, comm, rc);
}

int mpi_call_reduce_scatter_block(const void *send, void *recv, mpi_count count, mpi_word type, mpi_word op,
                                  mpi_word comm) {
    struct mpi_state *const state = mpi_state_find(comm);
    const struct mpi_reduction *const reduction = find(state, type, op);
    if (!reduction || !is_valid(send, recv, count) || !mpi_state_enter(state, comm))
        return MPI_PASS;
    const size_t bytes = (size_t)count * reduction->bytes;
    const struct own_block own = {(size_t)state->rank * bytes, bytes, (size_t)state->size * bytes};
    const bool in_place = mpi_is_in_place(send);
    if (!in_place)
        send = mpi_apart(state, send, own.sent_bytes, recv, bytes, (const char *)recv - own.begin);
    void *const reduced = open_own(state, in_place, recv, &own);
    if (own.bytes && !reduced)
        return mpi_fail_packing(state, comm);
    const int rc = kolo_reduce_scatter(state->kolo, in_place ? recv : send, reduced, (size_t)count * reduction->parts,
                                       reduction->dtype, reduction->op);
    return finish_own(state, comm, rc, recv, reduced, &own);
}

/* `is_even`: all blocks have the same size, on every rank, as all have the same counts. */
static bool add_counts(const struct mpi_state *state, struct mpi_numbers counts, size_t element_bytes,
                       struct own_block *own, bool *is_even) {
    const mpi_count first = mpi_number(counts, 0);
    *own = (struct own_block){0, 0, 0};
    *is_even = true;
    for (int rank = 0; rank < state->size; rank++) {
        const mpi_count count = mpi_number(counts, rank);
        if (count < 0)
            return false;
        *is_even &= count == first;
        if (rank == state->rank) {
            own->begin = own->sent_bytes;
            own->bytes = (size_t)count * element_bytes;
        }
        own->sent_bytes += (size_t)count * element_bytes;
    }
    return true;
}

int mpi_call_reduce_scatter(const void *send, void *recv, struct mpi_numbers counts, mpi_word type, mpi_word op,
                            mpi_word comm) {
    struct mpi_state *const state = mpi_state_find(comm);
    const struct mpi_reduction *const reduction = find(state, type, op);
    struct own_block own;
    bool is_even;
    if (!reduction || !counts.values || !add_counts(state, counts, reduction->bytes, &own, &is_even) ||
        !(own.bytes ? is_valid(send, recv, 1) : is_valid_without(send, recv, own.sent_bytes > 0)) ||
        !mpi_state_enter(state, comm))
        return MPI_PASS;
    const bool in_place = mpi_is_in_place(send);
    if (!in_place)
        send = mpi_apart(state, send, own.sent_bytes, recv, own.bytes, (const char *)recv - own.begin);
    void *const reduced = open_own(state, in_place, recv, &own);
    if (own.bytes && !reduced)
        return mpi_fail_packing(state, comm);
    if (!is_even)
        for (int rank = 0; rank < state->size; rank++)
            state->blocks[rank] = (size_t)mpi_number(counts, rank) * reduction->parts;
    const void *const sent = in_place ? recv : send;
    const int rc =
        is_even ? kolo_reduce_scatter(state->kolo, sent, reduced, (size_t)mpi_number(counts, 0) * reduction->parts,
                                      reduction->dtype, reduction->op)
                : kolo_reduce_scatterv(state->kolo, sent, reduced, state->blocks, reduction->dtype, reduction->op);
    return finish_own(state, comm, rc, recv, reduced, &own);
}
