/* What reduces a predefined datatype by a predefined operation: kolo's own dtypes and operations, or functions of here
 * for what kolo does not know. */
#ifndef MPI_TYPES_OPERATIONS_H
#define MPI_TYPES_OPERATIONS_H

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

#endif
