/* Where a communicator's ranks have no kolo communicator left from before, all tell whether they share a machine. If
 * not, the ranks of each machine get one (machines.h). */
#include "communicators/making.h"

#include <stdlib.h>

#include "communicators/pool.h"
#include "communicators/machines.h"
#include "settings.h"

/* What a rank tells of the machine that it is on. */
enum { IS_UNKNOWN = -1, HAS_OTHERS, HAS_ALL };

static int look_around(const struct mpi_state *state, mpi_word comm, mpi_word *shared) {
    int near = 0;
    if (mpi_host.Comm_split_type(comm, mpi_host.is.comm_type_shared, 0, mpi_host.is.info_null, shared) != 0)
        return IS_UNKNOWN;
    if (mpi_host.Comm_size(mpi_word_load(shared), &near) != 0 || !state->blocks)
        return IS_UNKNOWN;
    return near == state->size ? HAS_ALL : HAS_OTHERS;
}

static void make_around(struct mpi_state *state, mpi_word comm) {
    mpi_word shared[1] = {0};
    const int all = mpi_agree(comm, look_around(state, comm, shared));
    if (all == HAS_ALL)
        state->pooled = mpi_pooled_create(comm, state->rank, state->size, &state->why);
    else
        state->why = all == HAS_OTHERS
                         ? mpi_machines_make(&state->machines, comm, state->rank, state->size, mpi_word_load(shared))
                         : "an error of the MPI";
    if (mpi_word_load(shared) != 0)
        mpi_host.Comm_free(shared);
}

/* All ranks get what they need, or none does, and then the communicator is left to the MPI for good. */
static void make(struct mpi_state *state, mpi_word comm) {
    state->blocks = malloc((size_t)MPI_STATE_BLOCKS * (size_t)state->size * sizeof *state->blocks);
    state->pooled = mpi_pooled_again(comm, state->rank, state->blocks != NULL);
    if (!state->pooled)
        make_around(state, comm);
    state->kolo = state->pooled ? state->pooled->kolo : NULL;
    state->is_left = !state->kolo && !state->machines;
}

bool mpi_state_count(struct mpi_state *state, mpi_word comm) {
    if (!state->is_left && !state->machines && state->calls++ >= mpi_settings.after)
        make(state, comm);
    state->fast = mpi_settings.is_verbose ? NULL : state->kolo;
    return state->kolo != NULL;
}
