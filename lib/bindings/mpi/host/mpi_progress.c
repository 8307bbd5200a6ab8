/* A communicator of our own, in which no rank sends a message to another one. A probe there makes the MPI look after
 * all that is under way, for all communicators. */
#include "host/mpi_progress.h"

#include "host/mpi_host.h"

kolo_atomic_u64 mpi_progress_is_due;

static mpi_word private[1]; /* as the MPI has it in memory */

int mpi_progress_setup(void) {
    const int rc = mpi_host.Comm_dup(mpi_host.is.comm_world, private);
    if (rc == 0)
        mpi_host.Comm_set_errhandler(mpi_word_load(private), mpi_host.is.errors_return);
    return rc;
}

mpi_word mpi_progress_comm(void) {
    return mpi_word_load(private);
}

void mpi_progress(void *context) {
    int flag;
    (void)context;
    mpi_host.Iprobe(mpi_host.is.any_source, mpi_host.is.any_tag, mpi_word_load(private), &flag,
                    (void *)mpi_host.is.status_ignore);
}
