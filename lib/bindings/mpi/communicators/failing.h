/* What a program sees of kolo's errors, in the words of MPI. */
#pragma once

#include "communicators/states.h"

/* After a call of kolo's that returned `rc`: says on standard error what it was, and calls the communicator's error
 * handler, which by default ends the job. Returns the MPI's error code. */
int mpi_fail(const struct mpi_state *state, mpi_word comm, int rc) __attribute__((cold));

/* The same where kolo was not called, for `message`. */
int mpi_fail_before(const struct mpi_state *state, mpi_word comm, const char *message) __attribute__((cold));

/* There is no memory for what is to be packed, or the MPI has failed to pack it. */
int mpi_fail_packing(const struct mpi_state *state, mpi_word comm) __attribute__((cold));

/* The MPI's error code for what a call of kolo's returned; an error is reported as above. */
static inline int mpi_result(const struct mpi_state *state, mpi_word comm, int rc) {
    return __builtin_expect(rc == 0, 1) ? 0 : mpi_fail(state, comm, rc);
}

/* kolo's messages in the words of an MPI program. */

enum { MPI_WORDING_BYTES = 1024 };

/* `message` without its own "rank N: " at the beginning, which stands in what quotes it. */
const char *mpi_word_unnamed(const char *message, int rank);

/* Writes `message`, of a kolo communicator in which this rank is `rank`, with the MPI's names of functions. After what
 * it says of this rank's own call, which was the last one of `state`, stands what the program called it with. */
void mpi_word_message(const struct mpi_state *state, int rank, const char *message, char text[MPI_WORDING_BYTES]);
