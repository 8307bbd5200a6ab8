/* Makes what a communicator's collectives need: a kolo communicator of all its ranks, or those of their machines. */
#pragma once

#include "communicators/states.h"
#include "host/mpi_host.h"

/* The same as mpi_state_enter while the communicator has no kolo communicator yet. */
bool mpi_state_count(struct mpi_state *state, mpi_word comm);

/* Whether a collective, the arguments of which are right, is kolo's: the same on all ranks. Collective: it counts the
 * call, and may make the kolo communicator. */
static inline bool mpi_state_enter(struct mpi_state *state, mpi_word comm) {
    mpi_progress_owe();
    return __builtin_expect(state->kolo != NULL, 1) || mpi_state_count(state, comm);
}
