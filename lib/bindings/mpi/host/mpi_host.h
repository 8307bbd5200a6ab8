/* The MPI that the program runs on: which family, what its constants are, where its functions are. Nothing is linked:
 * it is found among the libraries that the process has loaded, when the program first calls MPI. And how it is let go
 * on while a rank waits in kolo. */
#pragma once

#include <stdbool.h>

#include "host/constants.h"
#include "host/functions.h"
#include "sync/atomic.h"

struct mpi_host {
    struct mpi_constants is;
    mpi_word handle_mask; /* the bits of a machine word that are the handle's */
    const char *soname;   /* of its library */
#define MPI_FUNCTION_POINTER(name, parameters, ...) int(*name) parameters;
    MPI_USED_FUNCTIONS(MPI_FUNCTION_POINTER)
    MPI_TAKEN_FUNCTIONS(MPI_FUNCTION_POINTER)
    MPI_TAKEN_TESTS(MPI_FUNCTION_POINTER)
    MPI_TAKEN_LATE_FUNCTIONS(MPI_FUNCTION_POINTER)
    MPI_OPTIONAL_FUNCTIONS(MPI_FUNCTION_POINTER)
};

extern struct mpi_host mpi_host;

/* Finds it; nothing more where it has been found. Ends the process where a program calls MPI and none is loaded: it
 * could not go on. */
void mpi_host_find(void);

extern const char *const mpi_function_names[]; /* "Bcast", by enum mpi_function */

/* Has the MPI make the call: its result, or an error of ours, which has been reported. */
int mpi_pass(const struct mpi_call *call);

/* A handle that the MPI has written, or is to read, in memory. */
static inline mpi_word mpi_word_load(const void *handle) {
    return mpi_host.is.handle_bytes == 4 ? *(const uint32_t *)handle : *(const mpi_word *)handle;
}

/* The lowest of all ranks' values; -1 if the MPI fails. Collective. */
int mpi_agree(mpi_word comm, int value);

/* Lets the MPI go on while a rank waits in kolo: others may need that. */

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

/* The hook `idle` of communicators. */
void mpi_progress(void *context);
