/* Waiting for other machines, and their errors. */
#include "nodes/machines_between.h"

#include <sched.h>
#include <stdio.h>

int mpi_machines_fail(const struct mpi_state *state, mpi_word comm, int code) {
    enum { TEXT_BYTES = 4096, SHOWN = 300 };
    char text[TEXT_BYTES] = "";
    int length = 0;
    mpi_host.Error_string(code, text, &length);
    fprintf(stderr, "kolo: rank %d of %d: the MPI failed between the machines: %.*s\n", state->rank, state->size, SHOWN,
            text);
    fflush(stderr);
    if (state->machines->near)
        kolo_comm_abort(state->machines->near, code);
    mpi_host.Comm_call_errhandler(comm, code);
    return code;
}

int mpi_machines_wait(void *request) {
    enum { TESTS = 64 }; /* before others get the processor */
    int is_done = 0, rc = 0;
    for (unsigned tests = 0; rc == 0 && !is_done; tests++) {
        if (tests > TESTS)
            sched_yield();
        rc = mpi_host.Test(request, &is_done, (void *)mpi_host.is.status_ignore);
    }
    return rc;
}
