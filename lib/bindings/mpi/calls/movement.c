/* Collectives that move blocks of one size: as bytes, since ranks may describe the same data by different datatypes. */
#include "calls/calls.h"

#include "calls/sides.h"
#include "communicators/making.h"
#include "nodes/machines_calls.h"

static bool is_root_valid(const struct mpi_state *state, int root) {
    return root >= 0 && root < state->size;
}

int mpi_call_barrier(mpi_word comm) {
    struct mpi_state *const state = mpi_state_find(comm);
    if (!state)
        return MPI_PASS;
    if (mpi_state_enter(state, comm))
        return mpi_result(state, comm, kolo_barrier(state->kolo));
    return mpi_machines_take(state, MPI_MACHINES_BARRIER, 0) ? mpi_machines_barrier(state, comm) : MPI_PASS;
}

int mpi_call_broadcast(void *buffer, mpi_count count, mpi_word type, int root, mpi_word comm) {
    struct mpi_state *const state = mpi_state_find(comm);
    struct mpi_side side;
    if (!state || !is_root_valid(state, root) || !mpi_side_set(state, &side, buffer, count, type))
        return MPI_PASS;
    const size_t bytes = mpi_side_bytes(&side);
    if (!mpi_state_enter(state, comm) && !mpi_machines_take(state, MPI_MACHINES_BROADCAST, bytes))
        return MPI_PASS;
    const bool is_root = root == state->rank;
    void *const moved = is_root ? (void *)mpi_side_read(state, &side, 1, comm) : mpi_side_write(state, &side, 1);
    if (!moved && bytes)
        return mpi_fail_packing(state, comm);
    const int rc = state->kolo ? mpi_result(state, comm, kolo_broadcast(state->kolo, moved, bytes, KOLO_U8, root))
                               : mpi_machines_broadcast(state, comm, moved, bytes, root);
    if (rc != 0 || is_root)
        return rc;
    return mpi_side_finish(state, &side, 1, comm);
}

/* This rank's block of a buffer of blocks as bytes that are in their place for kolo already. False: packing failed. */
static bool place_own_block(const struct mpi_state *state, const struct mpi_side *side, char *bytes, mpi_word comm) {
    const ptrdiff_t first = (ptrdiff_t)state->rank * (ptrdiff_t)side->count;
    return side->type->is_contiguous ||
           mpi_pack(mpi_element(side->address, side->type, first), side->count, side->type, bytes, comm) == 0;
}

/* Blocks of all ranks and this rank's own as the bytes that kolo moves. */
struct moved {
    const void *own;
    char *all;
};

/* The own block comes from `from` or, where that is NULL, from its place in `to`. False: packing failed. */
static bool open_all(struct mpi_state *state, const struct mpi_side *from, const struct mpi_side *to,
                     struct moved *moved, mpi_word comm) {
    const size_t bytes = mpi_side_bytes(to), blocks = (size_t)state->size;
    moved->all = mpi_side_write(state, to, blocks);
    char *const place = moved->all + (size_t)state->rank * bytes;
    moved->own = place;
    if (bytes == 0)
        return true;
    if (!moved->all)
        return false;
    if (!from)
        return place_own_block(state, to, place, comm);
    moved->own = mpi_side_read(state, from, 1, comm);
    if (moved->own)
        moved->own = mpi_apart(state, moved->own, bytes, moved->all, blocks * bytes, place);
    return moved->own != NULL;
}

int mpi_call_allgather(const void *send, mpi_count send_count, mpi_word send_type, void *recv, mpi_count recv_count,
                       mpi_word recv_type, mpi_word comm) {
    struct mpi_state *const state = mpi_state_find(comm);
    const bool in_place = mpi_is_in_place(send);
    struct mpi_side from, to;
    if (!state || !mpi_side_set(state, &to, recv, recv_count, recv_type) ||
        (!in_place &&
         (!mpi_side_set(state, &from, send, send_count, send_type) || mpi_side_bytes(&from) != mpi_side_bytes(&to))) ||
        !mpi_state_enter(state, comm))
        return MPI_PASS;
    struct moved moved;
    if (!open_all(state, in_place ? NULL : &from, &to, &moved, comm))
        return mpi_fail_packing(state, comm);
    const int rc = kolo_allgather(state->kolo, moved.own, moved.all, mpi_side_bytes(&to), KOLO_U8);
    return rc < 0 ? mpi_fail(state, comm, rc) : mpi_side_finish(state, &to, (size_t)state->size, comm);
}

int mpi_call_alltoall(const void *send, mpi_count send_count, mpi_word send_type, void *recv, mpi_count recv_count,
                      mpi_word recv_type, mpi_word comm) {
    struct mpi_state *const state = mpi_state_find(comm);
    const bool in_place = mpi_is_in_place(send);
    struct mpi_side from, to;
    if (!state || !mpi_side_set(state, &to, recv, recv_count, recv_type) ||
        (!in_place &&
         (!mpi_side_set(state, &from, send, send_count, send_type) || mpi_side_bytes(&from) != mpi_side_bytes(&to))) ||
        !mpi_state_enter(state, comm))
        return MPI_PASS;
    const size_t bytes = mpi_side_bytes(&to), blocks = (size_t)state->size, all = blocks * bytes;
    void *const moved = mpi_side_write(state, &to, blocks);
    const void *sent = moved;
    if (in_place && moved && !to.type->is_contiguous && mpi_pack(recv, blocks * to.count, to.type, moved, comm) != 0)
        sent = NULL;
    if (!in_place && (sent = mpi_side_read(state, &from, blocks, comm)))
        sent = mpi_apart(state, sent, all, moved, all, moved);
    if (bytes && (!sent || !moved))
        return mpi_fail_packing(state, comm);
    const int rc = kolo_alltoall(state->kolo, sent, moved, bytes, KOLO_U8);
    return rc < 0 ? mpi_fail(state, comm, rc) : mpi_side_finish(state, &to, blocks, comm);
}

/* In place (`from` is NULL) the root's own block is where it is to be. */
static int gather_at_root(struct mpi_state *state, const struct mpi_side *from, const struct mpi_side *to, int root,
                          mpi_word comm) {
    struct moved moved;
    if (!open_all(state, from, to, &moved, comm))
        return mpi_fail_packing(state, comm);
    const int rc = kolo_gather(state->kolo, moved.own, moved.all, mpi_side_bytes(to), KOLO_U8, root);
    return rc < 0 ? mpi_fail(state, comm, rc) : mpi_side_finish(state, to, (size_t)state->size, comm);
}

int mpi_call_gather(const void *send, mpi_count send_count, mpi_word send_type, void *recv, mpi_count recv_count,
                    mpi_word recv_type, int root, mpi_word comm) {
    struct mpi_state *const state = mpi_state_find(comm);
    struct mpi_side from, to;
    if (!state || !is_root_valid(state, root))
        return MPI_PASS;
    const bool is_root = root == state->rank, in_place = is_root && mpi_is_in_place(send);
    if ((is_root && !mpi_side_set(state, &to, recv, recv_count, recv_type)) ||
        (!in_place && !mpi_side_set(state, &from, send, send_count, send_type)) ||
        (is_root && !in_place && mpi_side_bytes(&from) != mpi_side_bytes(&to)) || !mpi_state_enter(state, comm))
        return MPI_PASS;
    if (is_root)
        return gather_at_root(state, in_place ? NULL : &from, &to, root, comm);
    const void *const sent = mpi_side_read(state, &from, 1, comm);
    const size_t bytes = mpi_side_bytes(&from);
    if (bytes && !sent)
        return mpi_fail_packing(state, comm);
    return mpi_result(state, comm, kolo_gather(state->kolo, sent, NULL, bytes, KOLO_U8, root));
}

/* In place the root's own block stays where it is. */
static int scatter_at_root(struct mpi_state *state, bool in_place, const struct mpi_side *from,
                           const struct mpi_side *to, int root, mpi_word comm) {
    const size_t bytes = mpi_side_bytes(from), blocks = (size_t)state->size;
    const char *sent = mpi_side_read(state, from, blocks, comm);
    void *const moved = in_place ? (void *)(sent + (size_t)root * bytes) : mpi_side_write(state, to, 1);
    if (!in_place && sent)
        sent = mpi_apart(state, sent, blocks * bytes, moved, bytes, (const char *)moved - (size_t)root * bytes);
    if (bytes && (!sent || !moved))
        return mpi_fail_packing(state, comm);
    const int rc = kolo_scatter(state->kolo, sent, moved, bytes, KOLO_U8, root);
    return rc < 0 ? mpi_fail(state, comm, rc) : in_place ? 0 : mpi_side_finish(state, to, 1, comm);
}

int mpi_call_scatter(const void *send, mpi_count send_count, mpi_word send_type, void *recv, mpi_count recv_count,
                     mpi_word recv_type, int root, mpi_word comm) {
    struct mpi_state *const state = mpi_state_find(comm);
    struct mpi_side from, to;
    if (!state || !is_root_valid(state, root))
        return MPI_PASS;
    const bool is_root = root == state->rank, in_place = is_root && mpi_is_in_place(recv);
    if ((is_root && !mpi_side_set(state, &from, send, send_count, send_type)) ||
        (!in_place && !mpi_side_set(state, &to, recv, recv_count, recv_type)) ||
        (is_root && !in_place && mpi_side_bytes(&from) != mpi_side_bytes(&to)) || !mpi_state_enter(state, comm))
        return MPI_PASS;
    if (is_root)
        return scatter_at_root(state, in_place, &from, &to, root, comm);
    void *const moved = mpi_side_write(state, &to, 1);
    if (mpi_side_bytes(&to) && !moved)
        return mpi_fail_packing(state, comm);
    const int rc = kolo_scatter(state->kolo, NULL, moved, mpi_side_bytes(&to), KOLO_U8, root);
    return rc < 0 ? mpi_fail(state, comm, rc) : mpi_side_finish(state, &to, 1, comm);
}
