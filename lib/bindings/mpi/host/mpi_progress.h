/* Lets the MPI go on while a rank waits in kolo: others may need that. */
#ifndef MPI_HOST_PROGRESS_H
#define MPI_HOST_PROGRESS_H

#include "sync/atomic.h"

/* 1: a collective has been made in kolo since the MPI was last let go on. */
extern kolo_atomic_u64 mpi_progress_is_due;

/* After the MPI has been initialised, on all ranks of MPI_COMM_WORLD. 0 or an MPI error. */
int mpi_progress_setup(void);

/* A kolo_progress_function. */
void mpi_progress(void *context);

#endif
