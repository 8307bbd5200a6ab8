/* What the header of an MPI would say: a table for each family. Handles are machine words. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "host/mpi_names.h"

typedef uintptr_t mpi_word; /* a handle */

struct mpi_constants {
    const char *family;
    int handle_bytes; /* of a handle in memory */
    bool knows_sizes; /* MPI_Type_size may be asked about any of the datatypes below, also those that do not exist */
    int any_source, any_tag, root, undefined;
    int comm_type_shared;
    int ident; /* of MPI_Group_compare */
    int combiner_named, combiner_dup, combiner_contiguous;
    int combiner_f90_real, combiner_f90_integer; /* that of complex numbers is between them */
    int combiner_value_index;                    /* of MPI 4.1 */
    int err_other, err_proc_failed;              /* the second only where there is MPIX_Comm_revoke */
    intptr_t in_place, status_ignore;
    mpi_word comm_null, comm_world, comm_self, info_null, errors_return, type_null;
    mpi_word ops[MPI_OPS];
    mpi_word types[MPI_TYPES]; /* 0: the family has none of that name */
};

/* Numbers in the header. */
extern const struct mpi_constants mpi_constants_mpich;
extern const struct mpi_constants mpi_constants_standard;

/* Open MPI's handles are addresses: `find` returns that of a symbol, or NULL. */
void mpi_constants_openmpi(struct mpi_constants *constants, void *(*find)(void *library, const char *name),
                           void *library);
