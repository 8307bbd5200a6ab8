/* What a datatype is, for collectives that move data: how many bytes, whether they lie one behind the other, and how
 * they are made to. */
#pragma once

#include <stddef.h>

#include "host/mpi_host.h"

struct mpi_type {
    mpi_word handle;
    size_t bytes;              /* of data in an element */
    ptrdiff_t extent;          /* from one element to the next, in bytes */
    bool is_unsure;            /* a program of the standard ABI may say that it has another size */
    bool is_contiguous;        /* elements are their bytes, without gaps and in order, from the buffer's address on */
    enum mpi_kind kind;        /* NONE: derived */
    enum mpi_type_index index; /* MPI_TYPES: derived */
};

/* Fills the tables, once, when the MPI is initialised. */
void mpi_types_setup(void);

/* NULL: no predefined datatype that is known. */
const struct mpi_type *mpi_type_find(mpi_word handle);

/* The same for one that the program passes, which exists and may be asked about. NULL also where it has another size.
 */
const struct mpi_type *mpi_type_passed(mpi_word handle);

/* The same for those of which that returns NULL: fills `type`, and returns it. Asks the MPI each time, for the handle
 * may later be another's. */
const struct mpi_type *mpi_type_describe(struct mpi_type *type, mpi_word handle);

/* "MPI_DOUBLE", of a predefined one. */
const char *mpi_type_name(const struct mpi_type *type);

/* Elements of any datatype as bytes one behind the other, which kolo moves. */

/* Where element `index` of a buffer is. */
static inline void *mpi_element(const void *buffer, const struct mpi_type *type, ptrdiff_t index) {
    return (void *)((uintptr_t)buffer + (uintptr_t)(index * type->extent));
}

/* Both return 0 or an MPI error. `count` elements are count * type->bytes bytes at `packed`. */
int mpi_pack(const void *buffer, size_t count, const struct mpi_type *type, void *packed, mpi_word comm);
int mpi_unpack(const void *packed, void *buffer, size_t count, const struct mpi_type *type, mpi_word comm);
