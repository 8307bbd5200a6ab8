/* The process's kolo communicators, which are created for those of the program: those in use, and those whose MPI
 * communicator has ended, for the next one of the same ranks in the same order. Creating one takes milliseconds, and
 * programs that split and free all the time are common. Any thread may call. */
#pragma once

#include "kolo.h"
#include "host/mpi_host.h"

enum { MPI_JOB_BYTES = 64 };

struct mpi_pooled {
    kolo_comm *kolo;
    char job[MPI_JOB_BYTES]; /* its name, the same on all ranks and nobody else's */
    mpi_word group[1];       /* of the MPI, as it has it in memory */
    bool is_free;
    struct mpi_pooled *next;
};

/* On rank 0: takes a free one of the same group out of the pool; NULL: there is none. */
struct mpi_pooled *mpi_pool_take(const void *group);

/* On the others: the one of that name, if it is free here, too, and this process is the same rank there. An MPI may
 * take processes that have disconnected and connected again for each other. */
struct mpi_pooled *mpi_pool_take_job(const char *job, int rank);

/* Makes room for one more, as a record without a kolo communicator, by destroying a free one if there are `most`.
 * NULL: all are in use. */
struct mpi_pooled *mpi_pool_reserve(int64_t most);

/* Back into the pool, or forgotten where its kolo communicator is missing or broken. */
void mpi_pool_return(struct mpi_pooled *pooled);

/* Destroys all. */
void mpi_pool_end(void);

/* Kolo communicators for the ranks of a communicator `comm` of the MPI, in which this rank is `rank`. Collective over
 * it, with the same outcome on all ranks. */

/* Whether this process could create one at all, with its variables: 0 or an error of kolo's. Nothing is said to others.
 */
int mpi_pooled_try(void);

/* One of the pool. NULL: none has these ranks, or a rank is not ready to use it. */
struct mpi_pooled *mpi_pooled_again(mpi_word comm, int rank, bool is_ready);

/* A new one, of `size` ranks that share a machine. NULL: there is none, and *why says so. */
struct mpi_pooled *mpi_pooled_create(mpi_word comm, int rank, int size, const char **why);
