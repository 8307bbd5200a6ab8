/* An error of kolo becomes one of the MPI. */
#include "communicators/failing.h"

#include <stdio.h>

#include "communicators/machines.h"
#include "communicators/wording.h"

/* kolo counts the ranks of a machine, the program those of its communicator. */
static void say_rank(const struct mpi_state *state, int place) {
    for (int rank = 0; rank < state->size; rank++)
        if (state->machines->ranks[rank].machine == state->machines->machine &&
            state->machines->ranks[rank].place == place)
            fprintf(stderr, "kolo: on this machine rank %d is rank %d of %d\n", place, rank, state->size);
}

static int fail(const struct mpi_state *state, mpi_word comm, int rc, const char *message) {
    const bool is_process = rc == KOLO_ERR_PEER_DEAD && mpi_host.is.err_proc_failed;
    const int code = is_process ? mpi_host.is.err_proc_failed : mpi_host.is.err_other;
    kolo_failure failure = {.failure_bytes = sizeof failure};
    kolo_comm *const kolo = state->machines ? state->machines->near : state->kolo;
    const bool is_broken = kolo_comm_failure(kolo, &failure) == 0 && failure.status != 0;
    char text[MPI_WORDING_BYTES];
    mpi_word_message(state, state->machines ? state->machines->place : state->rank,
                     is_broken ? failure.message : message, text);
    fprintf(stderr, "kolo: rank %d of %d: %s\n", state->rank, state->size, text);
    if (!is_broken && kolo) /* of this rank alone: the others would wait for it */
        kolo_comm_abort(kolo, code);
    if (state->machines && is_broken)
        say_rank(state, failure.rank);
    fflush(stderr);
    mpi_host.Comm_call_errhandler(comm, code);
    return code;
}

int mpi_fail(const struct mpi_state *state, mpi_word comm, int rc) {
    return fail(state, comm, rc, kolo_error_message());
}

int mpi_fail_packing(const struct mpi_state *state, mpi_word comm) {
    return fail(state, comm, KOLO_ERR_SYSTEM, "no memory for packed data, or the MPI cannot pack it");
}
