/* Sides of calls. */
#include "calls/sides.h"

#include <string.h>

bool mpi_side_set(struct mpi_state *state, struct mpi_side *side, const struct mpi_buffer *buffer, bool is_whole,
                  bool has_counts) {
    side->is = *buffer;
    side->blocks = is_whole ? (size_t)state->size : 1;
    side->type = mpi_state_type(state, &side->derived, buffer->type);
    side->begin = NULL;
    side->span = 0;
    side->bytes = side->offsets = NULL;
    if (!side->type || mpi_is_in_place(buffer->address))
        return false;
    size_t elements = (size_t)buffer->count * side->blocks;
    if (!has_counts) {
        if (!mpi_is_count(state, buffer->count, side->type->bytes))
            return false;
    } else {
        elements = 0;
        for (int rank = 0; rank < state->size; rank++) {
            if (!buffer->counts.values || !mpi_is_count(state, mpi_number(buffer->counts, rank), side->type->bytes))
                return false;
            elements += (size_t)mpi_number(buffer->counts, rank);
        }
        if (elements && !buffer->places.values)
            return false;
    }
    return buffer->address || !side->type->is_contiguous || elements * side->type->bytes == 0;
}

/* Offsets of contiguous blocks. Places may be negative, and kolo's offsets are not: they count from the first block in
 * memory. */
static void find_offsets(struct mpi_side *side, int size) {
    const ptrdiff_t extent = side->type->extent;
    ptrdiff_t low = 0, high = 0;
    bool any = false;
    for (int rank = 0; rank < size; rank++) {
        if (!side->bytes[rank])
            continue;
        const ptrdiff_t begin = mpi_number(side->is.places, rank) * extent;
        const ptrdiff_t end = begin + (ptrdiff_t)side->bytes[rank];
        low = !any || begin < low ? begin : low;
        high = !any || end > high ? end : high;
        any = true;
    }
    for (int rank = 0; rank < size; rank++)
        side->offsets[rank] = side->bytes[rank] ? (size_t)(mpi_number(side->is.places, rank) * extent - low) : 0;
    side->begin = (char *)(uintptr_t)((uintptr_t)side->is.address + (uintptr_t)low);
    side->span = (size_t)(high - low);
}

bool mpi_side_open(struct mpi_state *state, struct mpi_side *side, int which, bool copied) {
    const bool is_there = side->type->is_contiguous && !copied;
    side->span = side->blocks * mpi_block_bytes(side, 0);
    side->begin = (char *)side->is.address;
    if (side->is.counts.values) {
        side->bytes = state->blocks + (size_t)(2 * which * state->size);
        side->offsets = is_there ? side->bytes + state->size : NULL;
        side->span = 0;
        for (int rank = 0; rank < state->size; rank++)
            side->span += side->bytes[rank] = mpi_block_bytes(side, rank);
    }
    if (side->offsets)
        find_offsets(side, state->size);
    if (!is_there)
        side->begin = mpi_scratch(state, which, side->span);
    return side->begin || !side->span;
}

char *mpi_side_block(const struct mpi_side *side, int rank) {
    size_t offset = side->blocks > 1 && !side->bytes ? (size_t)rank * mpi_block_bytes(side, 0) : 0;
    if (side->offsets)
        return side->begin + side->offsets[rank];
    for (int before = 0; side->bytes && before < rank; before++)
        offset += side->bytes[before];
    return side->begin + offset;
}

static bool is_buffer(const struct mpi_side *side) {
    return side->offsets || side->begin == side->is.address;
}

/* Where the rank's block is for the program. */
static void *block_address(const struct mpi_side *side, int rank) {
    const ptrdiff_t first = side->is.counts.values ? (ptrdiff_t)mpi_number(side->is.places, rank)
                            : side->blocks > 1     ? (ptrdiff_t)rank * (ptrdiff_t)side->is.count
                                                   : 0;
    return mpi_element(side->is.address, side->type, first);
}

int mpi_side_pack_block(const struct mpi_side *side, int rank, mpi_word comm) {
    if (is_buffer(side) || !mpi_block_bytes(side, rank))
        return 0;
    return mpi_pack(block_address(side, rank), mpi_block_count(side, rank), side->type, mpi_side_block(side, rank),
                    comm);
}

/* Blocks of one size are one. */
int mpi_side_pack(const struct mpi_side *side, mpi_word comm) {
    int rc = 0;
    if (!side->bytes && !is_buffer(side) && side->span)
        return mpi_pack(side->is.address, side->blocks * mpi_block_count(side, 0), side->type, side->begin, comm);
    for (int rank = 0; rc == 0 && side->bytes && rank < (int)side->blocks; rank++)
        rc = mpi_side_pack_block(side, rank, comm);
    return rc;
}

int mpi_side_unpack(const struct mpi_side *side, mpi_word comm) {
    const char *at = side->begin;
    int rc = 0;
    if (is_buffer(side))
        return 0;
    if (!side->bytes)
        return mpi_unpack(at, (void *)side->is.address, side->blocks * mpi_block_count(side, 0), side->type, comm);
    for (int rank = 0; rc == 0 && rank < (int)side->blocks; at += side->bytes[rank], rank++)
        if (side->bytes[rank])
            rc = mpi_unpack(at, block_address(side, rank), mpi_block_count(side, rank), side->type, comm);
    return rc;
}

const void *mpi_copy_apart(struct mpi_state *state, const void *send, size_t send_bytes) {
    void *const copy = mpi_scratch(state, MPI_SEND, send_bytes);
    return copy ? memmove(copy, send, send_bytes) : NULL;
}
