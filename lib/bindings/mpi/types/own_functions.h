/* Operations that kolo does not have, as kolo_op_create takes them: logical ones, places of the least and the greatest,
 * products of complex numbers, and what is of long double. */
#ifndef MPI_TYPES_OWN_FUNCTIONS_H
#define MPI_TYPES_OWN_FUNCTIONS_H

#include "kolo.h"
#include "types/datatypes.h"

struct mpi_own_function {
    kolo_op_function function;
    size_t bytes;   /* of an element */
    uint32_t parts; /* of them in one of the datatype's */
};

/* function NULL: there is none for this operation and datatype. */
struct mpi_own_function mpi_own_function_find(enum mpi_op_index op, const struct mpi_type *type);

#endif
