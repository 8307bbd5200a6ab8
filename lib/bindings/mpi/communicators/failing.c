/* An error of kolo becomes one of the MPI. */
#include "communicators/failing.h"

#include <stdio.h>

int mpi_fail(const struct mpi_state *state, mpi_word comm, int rc) {
    const bool is_process = rc == KOLO_ERR_PEER_DEAD && mpi_host.is.err_proc_failed;
    const int code = is_process ? mpi_host.is.err_proc_failed : mpi_host.is.err_other;
    kolo_failure failure = {.failure_bytes = sizeof failure};
    const bool is_broken = kolo_comm_failure(state->kolo, &failure) == 0 && failure.status != 0;
    if (!is_broken) /* of this rank alone: the others would wait for it */
        kolo_comm_abort(state->kolo, code);
    fprintf(stderr, "kolo: rank %d of %d: %s: %s\n", state->rank, state->size, kolo_strerror(rc),
            is_broken ? failure.message : kolo_error_message());
    fflush(stderr);
    mpi_host.Comm_call_errhandler(comm, code);
    return code;
}
