/* What a program sees of kolo's errors. */
#ifndef MPI_COMMUNICATORS_FAILING_H
#define MPI_COMMUNICATORS_FAILING_H

#include "communicators/states.h"

/* After a call of kolo's that returned `rc`: says on standard error what it was, and calls the communicator's error
 * handler, which by default ends the job. Returns the MPI's error code. */
int mpi_fail(const struct mpi_state *state, mpi_word comm, int rc) __attribute__((cold));

/* The same where kolo was not called: there is no memory for what is to be packed, or the MPI has failed to pack it. */
int mpi_fail_packing(const struct mpi_state *state, mpi_word comm) __attribute__((cold));

/* The MPI's error code for what a call of kolo's returned; an error is reported as above. */
static inline int mpi_result(const struct mpi_state *state, mpi_word comm, int rc) {
    return __builtin_expect(rc == 0, 1) ? 0 : mpi_fail(state, comm, rc);
}

#endif
