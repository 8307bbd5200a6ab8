/* Makes the kolo communicator of one of the program's. */
#ifndef MPI_COMMUNICATORS_MAKING_H
#define MPI_COMMUNICATORS_MAKING_H

#include "communicators/states.h"

/* Collective over `comm`. All ranks get one, or none does, and then the communicator is left to the MPI for good. */
void mpi_make(struct mpi_state *state, mpi_word comm);

/* Collective over `comm`, in which this rank is `rank` of `size`, all of them on one machine: a kolo communicator of
 * them, new or from the pool. NULL on all ranks: there is none, and *why says so. */
struct mpi_pooled *mpi_pooled_make(mpi_word comm, int rank, int size, const char **why);

/* The lowest of all ranks' values; -1 if the MPI fails. */
int mpi_agree(mpi_word comm, int value);

#endif
