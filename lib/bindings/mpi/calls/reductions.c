/* Collectives that reduce. Their datatypes are predefined: one operation of kolo's or of types/ on an array. */
#include "calls/calls.h"

#include <string.h>

#include "calls/sides.h"
#include "communicators/making.h"
#include "nodes/machines_calls.h"
#include "types/operations.h"

/* NULL: it is the MPI's. */
static const struct mpi_reduction *find(struct mpi_state *state, mpi_word type, mpi_word op) {
    if (__builtin_expect(state->reduction_type != type || state->reduction_op != op, 0)) {
        state->reduction = mpi_reduction_find(type, op);
        state->reduction_type = type;
        state->reduction_op = op;
    }
    return state->reduction;
}

/* count: of the MPI's elements. counts: of kolo's, where blocks have their own. */
static int make(struct mpi_state *state, mpi_word comm, kolo_collective collective,
                const struct mpi_reduction *reduction, int root, const void *send, void *recv, size_t count,
                const size_t *counts) {
    const kolo_call call = {.call_bytes = sizeof call,
                            .collective = collective,
                            .dtype = reduction->dtype,
                            .op = reduction->op,
                            .root = root,
                            .send = send,
                            .recv = recv,
                            .count = count * reduction->parts,
                            .send_counts = counts};
    return mpi_result(state, comm, kolo_call_make(state->kolo, &call));
}

static bool is_valid(const void *send, const void *recv, mpi_count count) {
    return count >= 0 && (count == 0 || (send && recv)) && !mpi_is_in_place(recv);
}

/* The same where `recv` need not be one: not significant, or empty. In place it holds what is sent all the same. */
static bool is_valid_without(const void *send, const void *recv, mpi_count count) {
    return is_valid(send, mpi_is_in_place(send) ? recv : send, count);
}

int mpi_make_reduction(struct mpi_state *state, kolo_collective collective, const struct mpi_call *call) {
    const struct mpi_reduction *const reduction = find(state, call->recv.type, call->op);
    const mpi_word comm = call->comm;
    const int root = collective == KOLO_REDUCE ? call->root : state->rank;
    if (!reduction || root < 0 || root >= state->size)
        return MPI_PASS;
    const void *send = call->send.address;
    void *const recv = (void *)call->recv.address;
    const bool is_root = root == state->rank;
    if (!is_valid(send, is_root ? recv : send, call->recv.count) || (mpi_is_in_place(send) && !is_root))
        return MPI_PASS;
    const size_t count = (size_t)call->recv.count, bytes = count * reduction->bytes;
    const bool is_near = mpi_state_enter(state, comm);
    if (!is_near && !mpi_machines_take(state, collective, bytes))
        return MPI_PASS;
    if (mpi_is_in_place(send))
        send = recv;
    else if (is_root)
        send = mpi_apart(state, send, bytes, recv, bytes, recv);
    if (!is_near && collective == KOLO_ALLREDUCE)
        return mpi_machines_allreduce(state, comm, send, recv, count, call->recv.type, call->op, reduction);
    if (!is_near)
        return mpi_machines_reduce(state, comm, send, recv, count, call->recv.type, call->op, reduction, root);
    return make(state, comm, collective, reduction, root, send, is_root ? recv : NULL, count, NULL);
}

int mpi_make_scan(struct mpi_state *state, kolo_collective collective, const struct mpi_call *call) {
    const struct mpi_reduction *const reduction = find(state, call->recv.type, call->op);
    if (!reduction)
        return MPI_PASS;
    const void *send = call->send.address;
    void *recv = (void *)call->recv.address;
    const mpi_count count = call->recv.count;
    const bool has_result = collective == KOLO_SCAN || state->rank > 0;
    if (!(has_result ? is_valid(send, recv, count) : is_valid_without(send, recv, count)) ||
        !mpi_state_enter(state, call->comm))
        return MPI_PASS;
    const size_t bytes = (size_t)count * reduction->bytes;
    if (!recv) /* which a rank without a result may pass */
        recv = mpi_scratch(state, MPI_RECV, bytes);
    if (bytes && !recv)
        return mpi_fail_packing(state, call->comm);
    send = mpi_is_in_place(send) ? recv : mpi_apart(state, send, bytes, recv, bytes, recv);
    return make(state, call->comm, collective, reduction, 0, send, recv, (size_t)count, NULL);
}

/* Where this rank's block begins in what is sent, and how many bytes its block has. */
struct own_block {
    size_t begin, bytes, sent_bytes;
};

/* `is_even`: all blocks have the same size, on every rank, as all have the same counts. */
static bool add_counts(const struct mpi_state *state, const struct mpi_buffer *recv, size_t element_bytes,
                       struct own_block *own, bool *is_even) {
    const mpi_count first = recv->counts.values ? mpi_number(recv->counts, 0) : recv->count;
    *own = (struct own_block){0, 0, 0};
    *is_even = true;
    for (int rank = 0; rank < state->size; rank++) {
        const mpi_count count = recv->counts.values ? mpi_number(recv->counts, rank) : first;
        if (!mpi_is_count(state, count, element_bytes))
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

/* In place kolo does not write this rank's block to the buffer, of which only the beginning changes. */
int mpi_make_reduce_scatter(struct mpi_state *state, kolo_collective collective, const struct mpi_call *call) {
    const struct mpi_reduction *const reduction = find(state, call->recv.type, call->op);
    const struct mpi_numbers counts = call->recv.counts;
    const bool is_block = collective == KOLO_REDUCE_SCATTER;
    const void *send = call->send.address;
    void *const recv = (void *)call->recv.address;
    struct own_block own;
    bool is_even;
    if (!reduction || (!is_block && !counts.values) ||
        !add_counts(state, &call->recv, reduction->bytes, &own, &is_even) ||
        !(is_block || own.bytes ? is_valid(send, recv, own.bytes > 0)
                                : is_valid_without(send, recv, own.sent_bytes > 0)) ||
        !mpi_state_enter(state, call->comm))
        return MPI_PASS;
    const bool in_place = mpi_is_in_place(send);
    if (in_place)
        send = recv;
    else
        send = mpi_apart(state, send, own.sent_bytes, recv, own.bytes, (const char *)recv - own.begin);
    void *const reduced = in_place && own.bytes ? mpi_scratch(state, MPI_RECV, own.bytes) : recv;
    if (own.bytes && !reduced)
        return mpi_fail_packing(state, call->comm);
    for (int rank = 0; !is_even && rank < state->size; rank++)
        state->blocks[rank] = (size_t)mpi_number(counts, rank) * reduction->parts;
    const int rc = make(state, call->comm, is_even ? KOLO_REDUCE_SCATTER : KOLO_REDUCE_SCATTERV, reduction, 0, send,
                        reduced, own.bytes / reduction->bytes, is_even ? NULL : state->blocks);
    if (rc == 0 && reduced != recv)
        memcpy(recv, reduced, own.bytes);
    return rc;
}
