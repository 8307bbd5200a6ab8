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

#define MPI_TEST_ENTRY(name, parameters, arguments, flag)                                                              \
    int PMPI_##name parameters {                                                                                       \
        begin();                                                                                                       \
        const int rc = mpi_host.name arguments;                                                                        \
        return asks_again(rc, flag) ? mpi_host.name arguments : rc;                                                    \
    }
MPI_TAKEN_TESTS(MPI_TEST_ENTRY)
