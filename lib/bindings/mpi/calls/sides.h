/* The two sides of a call, what it sends and what it receives, as the bytes that kolo moves. */
#pragma once

#include "communicators/failing.h"
#include "types/datatypes.h"

enum { MPI_SEND, MPI_RECV }; /* scratch of a state */

struct mpi_side {
    const void *address;
    size_t count;
    const struct mpi_type *type;
    struct mpi_type derived; /* what `type` points to unless that is predefined */
};

static inline bool mpi_is_in_place(const void *buffer) {
    return (intptr_t)buffer == mpi_host.is.in_place;
}

static inline size_t mpi_side_bytes(const struct mpi_side *side) {
    return side->count * side->type->bytes;
}

/* The datatype, in `derived` if it is not predefined; NULL: there is none. */
static inline const struct mpi_type *mpi_state_type(struct mpi_state *state, struct mpi_type *derived,
                                                    mpi_word handle) {
    const struct mpi_type *const last = state->type;
    if (__builtin_expect(last && last->handle == (handle & mpi_host.handle_mask), 1))
        return last;
    state->type = mpi_type_find(handle);
    return state->type ? state->type : mpi_type_describe(derived, handle);
}

/* False: the arguments are wrong. */
static inline bool mpi_side_set(struct mpi_state *state, struct mpi_side *side, const void *address, mpi_count count,
                                mpi_word type) {
    side->address = address;
    side->count = (size_t)count;
    side->type = mpi_state_type(state, &side->derived, type);
    if (count < 0 || !side->type || mpi_is_in_place(address))
        return false;
    return address || !side->type->is_contiguous || mpi_side_bytes(side) == 0;
}

/* What the three functions below do where the datatype is not contiguous. */
const void *mpi_side_pack(struct mpi_state *state, const struct mpi_side *side, size_t blocks, mpi_word comm);
void *mpi_side_scratch(struct mpi_state *state, const struct mpi_side *side, size_t blocks);
int mpi_side_unpack(struct mpi_state *state, const struct mpi_side *side, size_t blocks, mpi_word comm);

/* Where the bytes of `blocks` times the side's elements are. Packed if they have to be; NULL: that failed. */
static inline const void *mpi_side_read(struct mpi_state *state, const struct mpi_side *side, size_t blocks,
                                        mpi_word comm) {
    return side->type->is_contiguous ? side->address : mpi_side_pack(state, side, blocks, comm);
}

/* Where they are to be written: the buffer itself, or scratch from which mpi_side_finish unpacks them. NULL: there is
 * no memory. */
static inline void *mpi_side_write(struct mpi_state *state, const struct mpi_side *side, size_t blocks) {
    return side->type->is_contiguous ? (void *)side->address : mpi_side_scratch(state, side, blocks);
}

static inline int mpi_side_finish(struct mpi_state *state, const struct mpi_side *side, size_t blocks, mpi_word comm) {
    return side->type->is_contiguous ? 0 : mpi_side_unpack(state, side, blocks, comm);
}

/* Copies what is sent if that overlaps what is received other than with `in_place` as its beginning: kolo refuses it,
 * and programs that were never told so do it. NULL: there is no memory. */
const void *mpi_copy_apart(struct mpi_state *state, const void *send, size_t send_bytes);

static inline const void *mpi_apart(struct mpi_state *state, const void *send, size_t send_bytes, const void *recv,
                                    size_t recv_bytes, const void *in_place) {
    const uintptr_t s = (uintptr_t)send, r = (uintptr_t)recv;
    if (__builtin_expect(s + send_bytes <= r || r + recv_bytes <= s || send == in_place, 1))
        return send;
    return send_bytes && recv_bytes ? mpi_copy_apart(state, send, send_bytes) : send;
}
