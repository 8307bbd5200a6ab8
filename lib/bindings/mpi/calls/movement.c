/* Collectives that move blocks: as bytes, since ranks may describe the same data by different datatypes. Where blocks
 * have counts of their own, ranks choose by communicator alone: none knows the others' counts. */
#include "calls/calls.h"

#include <stdio.h>

#include "kolo_tools.h"
#include "calls/sides.h"
#include "communicators/making.h"
#include "nodes/machines_calls.h"

int mpi_make_barrier(struct mpi_state *state, kolo_collective collective, const struct mpi_call *call) {
    if (mpi_state_enter(state, call->comm))
        return mpi_result(state, call->comm, kolo_barrier(state->kolo));
    return mpi_machines_take(state, collective, 0) ? mpi_machines_barrier(state, call->comm) : MPI_PASS;
}

static bool is_root_valid(const struct mpi_state *state, int root) {
    return root >= 0 && root < state->size;
}

int mpi_make_broadcast(struct mpi_state *state, kolo_collective collective, const struct mpi_call *call) {
    const mpi_word comm = call->comm;
    const bool is_root = call->root == state->rank;
    struct mpi_side side;
    if (!is_root_valid(state, call->root) || !mpi_side_set(state, &side, &call->recv, false, false))
        return MPI_PASS;
    const size_t bytes = mpi_block_bytes(&side, 0);
    if (!mpi_state_enter(state, comm) && !mpi_machines_take(state, collective, bytes))
        return MPI_PASS;
    if (!mpi_side_open(state, &side, is_root ? MPI_SEND : MPI_RECV, false) ||
        (is_root && mpi_side_pack(&side, comm) != 0))
        return mpi_fail_packing(state, comm);
    const int rc = state->kolo
                       ? mpi_result(state, comm, kolo_broadcast(state->kolo, side.begin, bytes, KOLO_U8, call->root))
                       : mpi_machines_broadcast(state, comm, side.begin, bytes, call->root);
    return rc != 0 || is_root ? rc : mpi_side_unpack(&side, comm);
}

/* What a rank sends or receives for itself, and where it meets those of the others: all ranks, or the root alone, have
 * both. In place it has no side of its own, but a block in the other one. */
struct movement {
    struct mpi_side own, all;
    bool has_own, has_all, is_scatter; /* is_scatter: what is received is the own side; else what is sent */
    bool is_whole;                     /* the own side has a block for each rank, too */
};

/* False: the arguments are wrong. */
static bool set_movement(struct mpi_state *state, struct movement *move, kolo_collective collective,
                         const struct mpi_call *call) {
    const unsigned has = kolo_collective_has(collective);
    const bool has_counts = has & KOLO_HAS_COUNTS, has_root = has & KOLO_HAS_ROOT;
    move->is_scatter = collective == KOLO_SCATTER || collective == KOLO_SCATTERV;
    move->is_whole = collective == KOLO_ALLTOALL || collective == KOLO_ALLTOALLV;
    move->has_all = !has_root || call->root == state->rank;
    const struct mpi_buffer *const own = move->is_scatter ? &call->recv : &call->send;
    const struct mpi_buffer *const all = move->is_scatter ? &call->send : &call->recv;
    move->has_own = !move->has_all || !mpi_is_in_place(own->address);
    return (!has_root || is_root_valid(state, call->root)) &&
           (!move->has_all || mpi_side_set(state, &move->all, all, true, has_counts)) &&
           (!move->has_own || mpi_side_set(state, &move->own, own, move->is_whole, move->is_whole && has_counts));
}

/* Whether what a rank sends to itself is what it receives from itself. Where it is not, no MPI says so, and the other
 * ranks would wait in kolo. */
static bool agrees_with_itself(const struct mpi_state *state, const struct movement *move) {
    return !move->has_all || !move->has_own ||
           mpi_block_bytes(&move->own, state->rank) == mpi_block_bytes(&move->all, state->rank);
}

static int fail_sizes(const struct mpi_state *state, const struct movement *move, const struct mpi_call *call) {
    const size_t own = mpi_block_bytes(&move->own, state->rank), all = mpi_block_bytes(&move->all, state->rank);
    char text[160];
    snprintf(text, sizeof text, "MPI_%s: this rank sends itself %zu bytes and expects %zu",
             mpi_function_names[call->function], move->is_scatter ? all : own, move->is_scatter ? own : all);
    return mpi_fail_before(state, call->comm, text);
}

/* Opens what is there, and packs what is sent. False: there is no memory, or packing failed. */
static bool open_movement(struct mpi_state *state, struct movement *move, mpi_word comm) {
    const bool is_scatter = move->is_scatter;
    if (move->has_all && (!mpi_side_open(state, &move->all, is_scatter ? MPI_SEND : MPI_RECV, false) ||
                          (is_scatter && mpi_side_pack(&move->all, comm) != 0)))
        return false;
    if (move->has_own)
        return mpi_side_open(state, &move->own, is_scatter ? MPI_RECV : MPI_SEND, false) &&
               (is_scatter || mpi_side_pack(&move->own, comm) == 0);
    if (!move->is_whole)
        return is_scatter || mpi_side_pack_block(&move->all, state->rank, comm) == 0;
    move->own = move->all;
    if (!move->all.bytes) /* kolo_alltoall takes that */
        return mpi_side_pack(&move->own, comm) == 0;
    return mpi_side_open(state, &move->own, MPI_SEND, true) && mpi_side_pack(&move->own, comm) == 0;
}

/* Where a side of its own begins if that is in place for kolo, too. */
static const char *in_place(const struct mpi_state *state, const struct movement *move) {
    const struct mpi_side *const all = &move->all;
    if (move->is_whole)
        return all->bytes ? NULL : all->begin;
    const size_t offset = (size_t)(mpi_side_block(all, state->rank) - all->begin);
    return move->is_scatter ? move->own.begin - offset : all->begin + offset;
}

/* Packs what is sent where it overlaps what is received: between its blocks may lie what is not the call's to read.
 * Between those that are received may lie the scratch that it is then in: they go through scratch, too. */
static bool set_apart(struct mpi_state *state, struct movement *move, mpi_word comm) {
    struct mpi_side *const sent = move->is_scatter ? &move->all : &move->own;
    struct mpi_side *const taken = move->is_scatter ? &move->own : &move->all;
    if (!mpi_is_overlap(sent->begin, sent->span, taken->begin, taken->span, in_place(state, move)))
        return true;
    if (!mpi_side_open(state, sent, MPI_SEND, true) || mpi_side_pack(sent, comm) != 0)
        return false;
    return !mpi_is_overlap(sent->begin, sent->span, taken->begin, taken->span, NULL) ||
           mpi_side_open(state, taken, MPI_RECV, true);
}

int mpi_make_movement(struct mpi_state *state, kolo_collective collective, const struct mpi_call *call) {
    struct movement move;
    if (!set_movement(state, &move, collective, call) || !mpi_state_enter(state, call->comm))
        return MPI_PASS;
    if (__builtin_expect(!agrees_with_itself(state, &move), 0))
        return fail_sizes(state, &move, call);
    const bool has_both = move.has_all && (move.has_own || move.is_whole);
    if (!open_movement(state, &move, call->comm) || (has_both && !set_apart(state, &move, call->comm)))
        return mpi_fail_packing(state, call->comm);
    struct mpi_side *const own = &move.own, *const all = &move.all;
    char *const block = has_both || !move.has_all ? own->begin : mpi_side_block(all, state->rank);
    kolo_call made = {.call_bytes = sizeof made, .collective = collective, .dtype = KOLO_U8, .root = call->root};
    made.count = mpi_block_bytes(move.has_all ? all : own, state->rank);
    made.send = move.is_scatter ? (move.has_all ? all->begin : NULL) : block;
    made.recv = move.is_scatter ? block : move.has_all ? all->begin : NULL;
    if (move.is_scatter && move.has_all) {
        made.send_counts = all->bytes;
        made.send_offsets = all->offsets;
    } else if (move.has_all) {
        made.recv_counts = all->bytes;
        made.recv_offsets = all->offsets;
        made.send_counts = move.is_whole ? own->bytes : NULL;
        made.send_offsets = move.is_whole ? own->offsets : NULL;
    }
    const int rc = kolo_call_make(state->kolo, &made);
    const struct mpi_side *const taken = move.is_scatter ? (move.has_own ? own : NULL) : move.has_all ? all : NULL;
    return rc < 0 ? mpi_fail(state, call->comm, rc) : taken ? mpi_side_unpack(taken, call->comm) : 0;
}
