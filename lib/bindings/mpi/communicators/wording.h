/* kolo's messages in the words of an MPI program. */
#ifndef MPI_COMMUNICATORS_WORDING_H
#define MPI_COMMUNICATORS_WORDING_H

#include "communicators/states.h"

enum { MPI_WORDING_BYTES = 1024 };

/* `message` without its own "rank N: " at the beginning, which stands in what quotes it. */
const char *mpi_word_unnamed(const char *message, int rank);

/* Writes `message`, of a kolo communicator in which this rank is `rank`, with the MPI's names of functions. After what
 * it says of this rank's own call, which was the last one of `state`, stands what the program called it with. */
void mpi_word_message(const struct mpi_state *state, int rank, const char *message, char text[MPI_WORDING_BYTES]);

#endif
