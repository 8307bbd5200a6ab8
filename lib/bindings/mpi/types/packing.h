/* Elements of any datatype as bytes one behind the other, which kolo moves. */
#ifndef MPI_TYPES_PACKING_H
#define MPI_TYPES_PACKING_H

#include "types/datatypes.h"

/* Where element `index` of a buffer is. */
static inline void *mpi_element(const void *buffer, const struct mpi_type *type, ptrdiff_t index) {
    return (void *)((uintptr_t)buffer + (uintptr_t)(index * type->extent));
}

/* Both return 0 or an MPI error. `count` elements are count * type->bytes bytes at `packed`. */
int mpi_pack(const void *buffer, size_t count, const struct mpi_type *type, void *packed, mpi_word comm);
int mpi_unpack(const void *packed, void *buffer, size_t count, const struct mpi_type *type, mpi_word comm);

#endif
