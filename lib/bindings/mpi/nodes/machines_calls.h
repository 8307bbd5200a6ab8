/* Communicators whose ranks are on several machines: kolo does what is to be done within each machine, and the
 * program's MPI what is to be done between them, on communicators of ranks that have the same place on their machines.
 *
 *     all-reduce  the machine's ranks reduce to its first one, these make an all-reduce, and each broadcasts;
 *                 first ranks of two machines exchange short ones
 *     broadcast   from the root to those of its place on the other machines, and within each machine from there
 *     reduce      within each machine to the root's place, and from these to the root
 *     barrier     an all-reduce of nothing
 *
 * All else is left to the MPI, and so are messages of sizes at which it is as fast (mpi_machines_take).
 *
 * Nobody waits for ever. A rank that waits in kolo calls the MPI's progress all the while (mpi_progress), so what
 * its machine's first rank waits for between the machines goes on. Where the MPI reports an error there, that rank
 * aborts the machine's kolo communicator, which ends the others' waits. Where a rank of a machine has died, the others
 * there call the error handler, which ends the job unless the program has its own. */
#pragma once

#include "communicators/failing.h"
#include "communicators/machines.h"
#include "communicators/states.h"

/* Whether such a call is made here: by what is the same on all ranks. The state has no kolo communicator. */
bool mpi_machines_take(const struct mpi_state *state, kolo_collective collective, size_t bytes);

/* Each returns 0, or the MPI's error code, which has been reported. */
struct mpi_reduction;
int mpi_machines_allreduce(struct mpi_state *state, mpi_word comm, const void *send, void *recv, size_t count,
                           mpi_word type, mpi_word op, const struct mpi_reduction *reduction);
int mpi_machines_reduce(struct mpi_state *state, mpi_word comm, const void *send, void *recv, size_t count,
                        mpi_word type, mpi_word op, const struct mpi_reduction *reduction, int root);
int mpi_machines_broadcast(struct mpi_state *state, mpi_word comm, void *buffer, size_t bytes, int root);
int mpi_machines_barrier(struct mpi_state *state, mpi_word comm);

/* What the calls of nodes/ have in common. */

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
