/* The functions that say at once whether something is done. An MPI's own barrier looks after all that is under way,
 * kolo's does not where nobody had to wait. So what came before it may still lie in the MPI's queues, and the next test
 * looks at it only after it has said no. The standard allows that, but programs that test just once do not expect it:
 * where the MPI says no, it is let go on and asked again, once after each collective of kolo's. */
#include "entries.h"

#include "host/mpi_host.h"

/* A program of sessions, which calls no MPI_Init, may come here first. */
static inline void begin(void) {
    if (__builtin_expect(!mpi_settings.is_on, 0))
        mpi_host_find();
}

/* Whether the answer was no and the MPI, which has gone on now, is to be asked again. */
static inline bool asks_again(int rc, const int *flag) {
    if (rc != 0 || *flag || !kolo_load_relaxed(&mpi_progress_is_due) || !mpi_settings.is_on)
        return false;
    kolo_store_relaxed(&mpi_progress_is_due, 0);
    mpi_progress(NULL);
    return true;
}

int PMPI_Test(void *request, int *flag, void *status) {
    begin();
    const int rc = mpi_host.Test(request, flag, status);
    return asks_again(rc, flag) ? mpi_host.Test(request, flag, status) : rc;
}

int PMPI_Testall(int count, void *requests, int *flag, void *statuses) {
    begin();
    const int rc = mpi_host.Testall(count, requests, flag, statuses);
    return asks_again(rc, flag) ? mpi_host.Testall(count, requests, flag, statuses) : rc;
}

int PMPI_Testany(int count, void *requests, int *index, int *flag, void *status) {
    begin();
    const int rc = mpi_host.Testany(count, requests, index, flag, status);
    return asks_again(rc, flag) ? mpi_host.Testany(count, requests, index, flag, status) : rc;
}

int PMPI_Testsome(int count, void *requests, int *done, int *indices, void *statuses) {
    begin();
    const int rc = mpi_host.Testsome(count, requests, done, indices, statuses);
    return asks_again(rc, done) ? mpi_host.Testsome(count, requests, done, indices, statuses) : rc;
}

int PMPI_Request_get_status(mpi_word request, int *flag, void *status) {
    begin();
    const int rc = mpi_host.Request_get_status(request, flag, status);
    return asks_again(rc, flag) ? mpi_host.Request_get_status(request, flag, status) : rc;
}

int PMPI_Iprobe(int source, int tag, mpi_word comm, int *flag, void *status) {
    begin();
    const int rc = mpi_host.Iprobe(source, tag, comm, flag, status);
    return asks_again(rc, flag) ? mpi_host.Iprobe(source, tag, comm, flag, status) : rc;
}

int PMPI_Improbe(int source, int tag, mpi_word comm, int *flag, void *message, void *status) {
    begin();
    const int rc = mpi_host.Improbe(source, tag, comm, flag, message, status);
    return asks_again(rc, flag) ? mpi_host.Improbe(source, tag, comm, flag, message, status) : rc;
}

int PMPI_Win_test(mpi_word win, int *flag) {
    begin();
    const int rc = mpi_host.Win_test(win, flag);
    return asks_again(rc, flag) ? mpi_host.Win_test(win, flag) : rc;
}
