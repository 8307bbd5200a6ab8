/* What the collectives do in kolo.
 *
 * Arguments that are wrong on this rank alone are passed to the MPI, too, for its own message; they are looked at
 * before the communicator is, as the call does not count. Those that are not significant on a rank are never looked at.
 */
#pragma once

#include <limits.h>

#include "kolo.h"
#include "communicators/states.h"
#include "host/mpi_host.h"

#define MPI_PASS INT_MIN

/* Each returns 0, an MPI error code that has been reported, or MPI_PASS: the call is the MPI's, which all ranks find
 * alike, and nothing has been done. */
int mpi_call_make(const struct mpi_call *call);

/* kolo's collective for an enum mpi_function. */
kolo_collective mpi_call_collective(unsigned function);

/* The same of some of them, as kolo's `collective`. state: the communicator's. */
typedef int mpi_maker(struct mpi_state *state, kolo_collective collective, const struct mpi_call *call);
mpi_maker mpi_make_barrier, mpi_make_broadcast, mpi_make_movement;    /* calls/movement.c */
mpi_maker mpi_make_reduction, mpi_make_scan, mpi_make_reduce_scatter; /* calls/reductions.c */
