/* Collectives whose blocks have a count each. They choose by communicator alone: no rank knows the others' counts. */
#include "calls/calls.h"

#include "calls/sides.h"
#include "communicators/making.h"

/* A buffer of such blocks, as kolo takes it. */
struct blocks {
    const char *address;
    const struct mpi_type *type;
    struct mpi_type derived; /* what `type` points to unless that is predefined */
    struct mpi_numbers counts, places;
    size_t *bytes, *offsets; /* of each block; offsets NULL: one block behind the other, as packed */
    char *begin;             /* from where the offsets count */
    size_t span;             /* to the end of the last */
};

/* False: the arguments are wrong. */
static bool set_blocks(struct blocks *blocks, struct mpi_state *state, const void *address, struct mpi_numbers counts,
                       struct mpi_numbers places, mpi_word type) {
    *blocks = (struct blocks){.address = address, .counts = counts, .places = places};
    blocks->type = mpi_state_type(state, &blocks->derived, type);
    if (!blocks->type || !counts.values || !places.values || mpi_is_in_place(address))
        return false;
    size_t elements = 0;
    for (int rank = 0; rank < state->size; rank++) {
        if (mpi_number(counts, rank) < 0)
            return false;
        elements += (size_t)mpi_number(counts, rank);
    }
    return address || !blocks->type->is_contiguous || elements * blocks->type->bytes == 0;
}

static size_t block_bytes(const struct blocks *blocks, int rank) {
    return (size_t)mpi_number(blocks->counts, rank) * blocks->type->bytes;
}

/* Offsets of contiguous blocks, in the state's arrays `first` and the one after. Places may be negative, and kolo's
 * offsets are not: they count from the first block in memory. */
static void find_offsets(struct blocks *blocks, const struct mpi_state *state, int first) {
    const ptrdiff_t extent = blocks->type->extent;
    ptrdiff_t low = 0, high = 0;
    bool any = false;
    blocks->bytes = state->blocks + (size_t)first * (size_t)state->size;
    blocks->offsets = blocks->bytes + state->size;
    for (int rank = 0; rank < state->size; rank++) {
        const ptrdiff_t begin = mpi_number(blocks->places, rank) * extent;
        const ptrdiff_t end = begin + (ptrdiff_t)block_bytes(blocks, rank);
        blocks->bytes[rank] = block_bytes(blocks, rank);
        if (!blocks->bytes[rank])
            continue;
        low = !any || begin < low ? begin : low;
        high = !any || end > high ? end : high;
        any = true;
    }
    for (int rank = 0; rank < state->size; rank++)
        blocks->offsets[rank] = blocks->bytes[rank] ? (size_t)(mpi_number(blocks->places, rank) * extent - low) : 0;
    blocks->begin = (char *)(uintptr_t)((uintptr_t)blocks->address + (uintptr_t)low);
    blocks->span = (size_t)(high - low);
}

/* The same for blocks that are, or will be, packed one behind the other in scratch `which`. */
static bool take_scratch(struct blocks *blocks, struct mpi_state *state, int first, int which) {
    size_t all = 0;
    blocks->bytes = state->blocks + (size_t)first * (size_t)state->size;
    blocks->offsets = NULL;
    for (int rank = 0; rank < state->size; rank++)
        all += blocks->bytes[rank] = block_bytes(blocks, rank);
    blocks->span = all;
    blocks->begin = mpi_scratch(state, which, all);
    return blocks->begin || all == 0;
}

static void *block_address(const struct blocks *blocks, int rank) {
    return mpi_element(blocks->address, blocks->type, (ptrdiff_t)mpi_number(blocks->places, rank));
}

static bool pack_blocks(struct blocks *blocks, struct mpi_state *state, int first, int which, mpi_word comm) {
    if (!take_scratch(blocks, state, first, which))
        return false;
    char *at = blocks->begin;
    for (int rank = 0; rank < state->size; at += blocks->bytes[rank], rank++)
        if (blocks->bytes[rank] && mpi_pack(block_address(blocks, rank), (size_t)mpi_number(blocks->counts, rank),
                                            blocks->type, at, comm) != 0)
            return false;
    return true;
}

static int unpack_blocks(const struct blocks *blocks, const struct mpi_state *state, mpi_word comm) {
    int rc = 0;
    const char *at = blocks->begin;
    if (blocks->offsets)
        return 0;
    for (int rank = 0; rc == 0 && rank < state->size; at += blocks->bytes[rank], rank++)
        if (blocks->bytes[rank])
            rc = mpi_unpack(at, block_address(blocks, rank), (size_t)mpi_number(blocks->counts, rank), blocks->type,
                            comm);
    return rc;
}

/* False: there is no memory, or packing failed. */
static bool open_recv(struct blocks *blocks, struct mpi_state *state, int first) {
    if (!blocks->type->is_contiguous)
        return take_scratch(blocks, state, first, MPI_RECV);
    find_offsets(blocks, state, first);
    return true;
}

static bool open_send(struct blocks *blocks, struct mpi_state *state, int first, mpi_word comm) {
    if (!blocks->type->is_contiguous)
        return pack_blocks(blocks, state, first, MPI_SEND, comm);
    find_offsets(blocks, state, first);
    return true;
}

/* Where a block begins in what kolo gets. */
static char *find_block(const struct blocks *blocks, int rank) {
    size_t offset = 0;
    if (blocks->offsets)
        return blocks->begin + blocks->offsets[rank];
    for (int before = 0; before < rank; before++)
        offset += blocks->bytes[before];
    return blocks->begin + offset;
}

/* This rank's own block as kolo is to send it: from `from`, or in place of its place in `to`. NULL: that failed. */
static const void *open_own(struct mpi_state *state, const struct mpi_side *from, const struct blocks *to,
                            mpi_word comm) {
    char *const own = find_block(to, state->rank);
    const size_t bytes = to->bytes[state->rank];
    if (!from && to->offsets)
        return own;
    if (!from)
        return !bytes || mpi_pack(block_address(to, state->rank), (size_t)mpi_number(to->counts, state->rank), to->type,
                                  own, comm) == 0
                   ? own
                   : NULL;
    const void *const sent = mpi_side_read(state, from, 1, comm);
    return sent ? mpi_apart(state, sent, bytes, to->begin, to->span, own) : NULL;
}

int mpi_call_allgatherv(const void *send, mpi_count send_count, mpi_word send_type, void *recv,
                        struct mpi_numbers counts, struct mpi_numbers places, mpi_word recv_type, mpi_word comm) {
    struct mpi_state *const state = mpi_state_find(comm);
    const bool in_place = mpi_is_in_place(send);
    struct mpi_side from;
    struct blocks to;
    if (!state || !set_blocks(&to, state, recv, counts, places, recv_type) ||
        (!in_place && (!mpi_side_set(state, &from, send, send_count, send_type) ||
                       mpi_side_bytes(&from) != block_bytes(&to, state->rank))) ||
        !mpi_state_enter(state, comm))
        return MPI_PASS;
    const bool opened = open_recv(&to, state, 0);
    const void *const sent = opened ? open_own(state, in_place ? NULL : &from, &to, comm) : NULL;
    if (!opened || (!sent && to.bytes[state->rank]))
        return mpi_fail_packing(state, comm);
    const int rc = kolo_allgatherv(state->kolo, sent, to.begin, to.bytes, to.offsets, KOLO_U8);
    return rc < 0 ? mpi_fail(state, comm, rc) : unpack_blocks(&to, state, comm);
}

static int gatherv_at_root(struct mpi_state *state, const struct mpi_side *from, struct blocks *to, int root,
                           mpi_word comm) {
    const bool opened = open_recv(to, state, 0);
    const void *const sent = opened ? open_own(state, from, to, comm) : NULL;
    if (!opened || (!sent && to->bytes[root]))
        return mpi_fail_packing(state, comm);
    const int rc = kolo_gatherv(state->kolo, sent, to->bytes[root], to->begin, to->bytes, to->offsets, KOLO_U8, root);
    return rc < 0 ? mpi_fail(state, comm, rc) : unpack_blocks(to, state, comm);
}

int mpi_call_gatherv(const void *send, mpi_count send_count, mpi_word send_type, void *recv, struct mpi_numbers counts,
                     struct mpi_numbers places, mpi_word recv_type, int root, mpi_word comm) {
    struct mpi_state *const state = mpi_state_find(comm);
    struct mpi_side from;
    struct blocks to;
    if (!state || root < 0 || root >= state->size)
        return MPI_PASS;
    const bool is_root = root == state->rank, in_place = is_root && mpi_is_in_place(send);
    if ((is_root && !set_blocks(&to, state, recv, counts, places, recv_type)) ||
        (!in_place && !mpi_side_set(state, &from, send, send_count, send_type)) ||
        (is_root && !in_place && mpi_side_bytes(&from) != block_bytes(&to, root)) || !mpi_state_enter(state, comm))
        return MPI_PASS;
    if (is_root)
        return gatherv_at_root(state, in_place ? NULL : &from, &to, root, comm);
    const void *const sent = mpi_side_read(state, &from, 1, comm);
    const size_t bytes = mpi_side_bytes(&from);
    if (bytes && !sent)
        return mpi_fail_packing(state, comm);
    const int rc = kolo_gatherv(state->kolo, sent, bytes, NULL, NULL, NULL, KOLO_U8, root);
    return mpi_result(state, comm, rc);
}

/* In place (`to` is NULL) the root's own block stays where it is. */
static int scatterv_at_root(struct mpi_state *state, struct blocks *from, const struct mpi_side *to, int root,
                            mpi_word comm) {
    bool opened = open_send(from, state, 0, comm);
    if (!opened)
        return mpi_fail_packing(state, comm);
    const size_t bytes = from->bytes[root];
    void *const moved = to ? mpi_side_write(state, to, 1) : find_block(from, root);
    const void *const apart = to ? mpi_apart(state, from->begin, from->span, moved, bytes,
                                             (char *)moved - (find_block(from, root) - from->begin))
                                 : from->begin;
    if (apart != from->begin) /* copied, with the same offsets */
        from->begin = (char *)apart;
    if ((bytes && !moved) || (from->span && !from->begin))
        return mpi_fail_packing(state, comm);
    const int rc = kolo_scatterv(state->kolo, from->begin, from->bytes, from->offsets, moved, bytes, KOLO_U8, root);
    return rc < 0 ? mpi_fail(state, comm, rc) : to ? mpi_side_finish(state, to, 1, comm) : 0;
}

int mpi_call_scatterv(const void *send, struct mpi_numbers counts, struct mpi_numbers places, mpi_word send_type,
                      void *recv, mpi_count recv_count, mpi_word recv_type, int root, mpi_word comm) {
    struct mpi_state *const state = mpi_state_find(comm);
    struct mpi_side to;
    struct blocks from;
    if (!state || root < 0 || root >= state->size)
        return MPI_PASS;
    const bool is_root = root == state->rank, in_place = is_root && mpi_is_in_place(recv);
    if ((is_root && !set_blocks(&from, state, send, counts, places, send_type)) ||
        (!in_place && !mpi_side_set(state, &to, recv, recv_count, recv_type)) ||
        (is_root && !in_place && mpi_side_bytes(&to) != block_bytes(&from, root)) || !mpi_state_enter(state, comm))
        return MPI_PASS;
    if (is_root)
        return scatterv_at_root(state, &from, in_place ? NULL : &to, root, comm);
    void *const moved = mpi_side_write(state, &to, 1);
    if (mpi_side_bytes(&to) && !moved)
        return mpi_fail_packing(state, comm);
    const int rc = kolo_scatterv(state->kolo, NULL, NULL, NULL, moved, mpi_side_bytes(&to), KOLO_U8, root);
    return rc < 0 ? mpi_fail(state, comm, rc) : mpi_side_finish(state, &to, 1, comm);
}

int mpi_call_alltoallv(const void *send, struct mpi_numbers send_counts, struct mpi_numbers send_places,
                       mpi_word send_type, void *recv, struct mpi_numbers recv_counts, struct mpi_numbers recv_places,
                       mpi_word recv_type, mpi_word comm) {
    enum { TO = 0, FROM = 2 }; /* arrays of the state */
    struct mpi_state *const state = mpi_state_find(comm);
    const bool in_place = mpi_is_in_place(send);
    struct blocks from, to;
    if (!state || !set_blocks(&to, state, recv, recv_counts, recv_places, recv_type))
        return MPI_PASS;
    from = to;
    if ((!in_place && (!set_blocks(&from, state, send, send_counts, send_places, send_type) ||
                       block_bytes(&from, state->rank) != block_bytes(&to, state->rank))) ||
        !mpi_state_enter(state, comm))
        return MPI_PASS;
    bool opened = open_recv(&to, state, TO);
    opened =
        opened && (in_place ? pack_blocks(&from, state, FROM, MPI_SEND, comm) : open_send(&from, state, FROM, comm));
    if (!opened)
        return mpi_fail_packing(state, comm);
    const char *const apart = mpi_apart(state, from.begin, from.span, to.begin, to.span, NULL);
    if (from.span && !apart)
        return mpi_fail_packing(state, comm);
    const int rc =
        kolo_alltoallv(state->kolo, apart, from.bytes, from.offsets, to.begin, to.bytes, to.offsets, KOLO_U8);
    return rc < 0 ? mpi_fail(state, comm, rc) : unpack_blocks(&to, state, comm);
}
