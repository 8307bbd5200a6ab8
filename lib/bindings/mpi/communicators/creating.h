/* Kolo communicators for the ranks of a communicator `comm` of the MPI, in which this rank is `rank`. Collective over
 * it, with the same outcome on all ranks. */
#ifndef MPI_COMMUNICATORS_CREATING_H
#define MPI_COMMUNICATORS_CREATING_H

#include "communicators/pool.h"

/* Whether this process could create one at all, with its variables: 0 or an error of kolo's. Nothing is said to others.
 */
int mpi_pooled_try(void);

/* One of the pool. NULL: none has these ranks, or a rank is not ready to use it. */
struct mpi_pooled *mpi_pooled_again(mpi_word comm, int rank, bool is_ready);

/* A new one, of `size` ranks that share a machine. NULL: there is none, and *why says so. */
struct mpi_pooled *mpi_pooled_create(mpi_word comm, int rank, int size, const char **why);

#endif
