/* What a datatype is, for collectives that move data: how many bytes, and whether they lie one behind the other. */
#ifndef MPI_TYPES_DATATYPES_H
#define MPI_TYPES_DATATYPES_H

#include <stddef.h>

#include "host/mpi_host.h"

struct mpi_type {
    mpi_word handle;
    size_t bytes;              /* of data in an element */
    ptrdiff_t extent;          /* from one element to the next, in bytes */
    bool is_contiguous;        /* elements are their bytes, without gaps and in order, from the buffer's address on */
    enum mpi_kind kind;        /* NONE: derived */
    enum mpi_type_index index; /* MPI_TYPES: derived */
};

/* Fills the tables, once, when the MPI is initialised. 0 or an MPI error. */
int mpi_types_setup(void);

/* NULL: no datatype that can be used. What is found for a derived type stays with it until it is freed. */
const struct mpi_type *mpi_type_find(mpi_word handle);

#endif
