/* Makes the kolo communicator of one of the program's. */
#ifndef MPI_COMMUNICATORS_MAKING_H
#define MPI_COMMUNICATORS_MAKING_H

#include "communicators/states.h"

/* Collective over `comm`. All ranks get one, or none does, and then the communicator is left to the MPI for good. */
void mpi_make(struct mpi_state *state, mpi_word comm);

#endif
