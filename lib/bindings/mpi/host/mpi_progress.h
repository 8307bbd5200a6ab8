/* Lets the MPI go on while a rank waits in kolo: others may need that. */
#ifndef MPI_HOST_PROGRESS_H
#define MPI_HOST_PROGRESS_H

#include "host/constants.h"
#include "sync/atomic.h"

/* 1: a collective has been made in kolo since the MPI was last let go on. */
extern kolo_atomic_u64 mpi_progress_is_due;

/* After the MPI has been initialised, on all ranks of MPI_COMM_WORLD. 0 or an MPI error. */
int mpi_progress_setup(void);

/* For each collective of kolo's. */
static inline void mpi_progress_owe(void) {
    if (!kolo_load_relaxed(&mpi_progress_is_due)) /* threads share it */
        kolo_store_relaxed(&mpi_progress_is_due, 1);
}

/* That communicator of the library's own, the same ranks as MPI_COMM_WORLD. It returns errors. */
mpi_word mpi_progress_comm(void);

/* A kolo_progress_function. */
void mpi_progress(void *context);

#endif
