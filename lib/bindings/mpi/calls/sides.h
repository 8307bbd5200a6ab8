/* The two sides of a call, what it sends and what it receives, as the bytes that kolo moves. */
#pragma once

#include "communicators/failing.h"
#include "types/datatypes.h"

enum { MPI_SEND, MPI_RECV }; /* scratch of a state */

/* One block, or one of each rank. */
struct mpi_side {
    struct mpi_buffer is; /* as the program has it */
    size_t blocks;
    const struct mpi_type *type;
    struct mpi_type derived; /* what `type` points to unless that is predefined */
    /* As kolo gets it: the buffer itself, or scratch in which the blocks lie one behind the other. */
    char *begin;
    size_t span;             /* to the end of the last block */
    size_t *bytes, *offsets; /* of blocks with counts of their own; offsets NULL: one behind the other */
};

static inline bool mpi_is_in_place(const void *buffer) {
    return (intptr_t)buffer == mpi_host.is.in_place;
}

/* The datatype, in `derived` if it is not predefined; NULL: there is none. */
static inline const struct mpi_type *mpi_state_type(struct mpi_state *state, struct mpi_type *derived,
                                                    mpi_word handle) {
    const struct mpi_type *const last = state->type;
    if (__builtin_expect(last && last->handle == (handle & mpi_host.handle_mask), 1))
        return last;
    state->type = mpi_type_passed(handle);
    return state->type ? state->type : mpi_type_describe(derived, handle);
}

static inline size_t mpi_block_count(const struct mpi_side *side, int rank) {
    return (size_t)(side->is.counts.values ? mpi_number(side->is.counts, rank) : side->is.count);
}

static inline size_t mpi_block_bytes(const struct mpi_side *side, int rank) {
    return mpi_block_count(side, rank) * side->type->bytes;
}

/* Whether so many elements for each rank can be counted in bytes. */
static inline bool mpi_is_count(const struct mpi_state *state, mpi_count count, size_t element_bytes) {
    ptrdiff_t bytes;
    return count >= 0 && !__builtin_mul_overflow(count, (ptrdiff_t)element_bytes, &bytes) &&
           !__builtin_mul_overflow(bytes, state->size, &bytes);
}

/* False: the arguments are wrong. has_counts: its blocks have counts and places of their own. */
bool mpi_side_set(struct mpi_state *state, struct mpi_side *side, const struct mpi_buffer *buffer, bool is_whole,
                  bool has_counts);

/* Finds where kolo gets it: in scratch `which` if it is not contiguous, or is to be `copied`. False: no memory. */
bool mpi_side_open(struct mpi_state *state, struct mpi_side *side, int which, bool copied);

/* Where the rank's block is then. */
char *mpi_side_block(const struct mpi_side *side, int rank);

/* Between the buffer and that, where it is not the buffer itself. 0, or an error of the MPI. */
int mpi_side_pack(const struct mpi_side *side, mpi_word comm);
int mpi_side_pack_block(const struct mpi_side *side, int rank, mpi_word comm);
int mpi_side_unpack(const struct mpi_side *side, mpi_word comm);

/* Whether what is sent overlaps what is received other than with `in_place` as its beginning: kolo refuses that, and
 * programs that were never told so do it. */
static inline bool mpi_is_overlap(const void *send, size_t send_bytes, const void *recv, size_t recv_bytes,
                                  const void *in_place) {
    const uintptr_t s = (uintptr_t)send, r = (uintptr_t)recv;
    if (__builtin_expect(s + send_bytes <= r || r + recv_bytes <= s || send == in_place, 1))
        return false;
    return send_bytes && recv_bytes;
}

/* Copies what is sent where that overlaps. NULL: there is no memory. */
const void *mpi_copy_apart(struct mpi_state *state, const void *send, size_t send_bytes);

static inline const void *mpi_apart(struct mpi_state *state, const void *send, size_t send_bytes, const void *recv,
                                    size_t recv_bytes, const void *in_place) {
    return mpi_is_overlap(send, send_bytes, recv, recv_bytes, in_place) ? mpi_copy_apart(state, send, send_bytes)
                                                                        : send;
}
