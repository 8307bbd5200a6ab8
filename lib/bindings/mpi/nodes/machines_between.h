/* What the calls of nodes/ have in common. */
#ifndef MPI_NODES_MACHINES_BETWEEN_H
#define MPI_NODES_MACHINES_BETWEEN_H

#include "communicators/failing.h"
#include "communicators/machines.h"
#include "nodes/machines_calls.h"

/* Long messages go in pieces that the caches hold. Each waits for the one before it: between two machines Open MPI's
 * non-blocking all-reduce sends there and back in turn, which took longer than what it overlapped with. */
enum { MPI_MACHINES_PIECE_BYTES = 1 << 20 };

static inline mpi_word mpi_machines_equals(const struct mpi_machines *machines) {
    return mpi_word_load(machines->equals);
}

/* After the MPI returned `code` between the machines: says so, ends the waits of this machine's ranks, calls the error
 * handler. Returns `code`. */
int mpi_machines_fail(const struct mpi_state *state, mpi_word comm, int code);

/* In pieces of `element_bytes` each. */
static inline size_t mpi_machines_piece(size_t element_bytes) {
    return element_bytes < MPI_MACHINES_PIECE_BYTES ? MPI_MACHINES_PIECE_BYTES / element_bytes : 1;
}

#endif
