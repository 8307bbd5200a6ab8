/* What reduces a predefined datatype by a predefined operation: kolo's own dtypes and operations, or functions of here
 * for what kolo does not know. */
#pragma once

#include "kolo.h"
#include "types/datatypes.h"

struct mpi_reduction {
    kolo_op op;
    kolo_dtype dtype;
    uint32_t parts; /* elements of kolo's in one of the MPI's; 0: the operation is not for the datatype */
    uint32_t bytes; /* of one of the MPI's */
};

int mpi_operations_setup(void);

/* NULL where the MPI is to do it: operations of the program's own, and what is not allowed. */
const struct mpi_reduction *mpi_reduction_find(mpi_word type, mpi_word op);

/* "MPI_SUM"; NULL: it is not predefined. */
const char *mpi_operation_name(mpi_word op);

/* Operations that kolo does not have, as kolo_op_create takes them: logical ones, places of the least and the greatest,
 * products of complex numbers, and what is of long double. */

struct mpi_own_function {
    kolo_op_function function;
    size_t bytes;   /* of an element */
    uint32_t parts; /* of them in one of the datatype's */
};

/* function NULL: there is none for this operation and datatype. */
struct mpi_own_function mpi_own_function_find(enum mpi_op_index op, const struct mpi_type *type);
