/* The functions that programs call in place of the MPI's, by their second names: those by their first ones go here
 * (entries_tools.c), as do Open MPI's Fortran and profilers. */
#include "entries.h"

#include "calls/fast.h"
#include "communicators/states.h"
#include "mpi_life.h"

int PMPI_Init(int *argc, char ***argv) {
    mpi_host_find();
    mpi_life_prepare();
    const int rc = mpi_host.Init(argc, argv);
    if (rc == 0)
        mpi_life_begin();
    return rc;
}

int PMPI_Init_thread(int *argc, char ***argv, int required, int *provided) {
    mpi_host_find();
    mpi_life_prepare();
    const int rc = mpi_host.Init_thread(argc, argv, required, provided);
    if (rc == 0)
        mpi_life_begin();
    return rc;
}

int PMPI_Session_init(mpi_word info, mpi_word handler, void *session) {
    mpi_host_find();
    mpi_life_note_session();
    return mpi_host.Session_init ? mpi_host.Session_init(info, handler, session) : mpi_host.is.err_other;
}

int PMPI_Finalize(void) {
    mpi_host_find();
    if (mpi_settings.is_on && mpi_settings.is_verbose)
        mpi_report_print();
    const int rc = mpi_host.Finalize();
    mpi_life_end();
    return rc;
}

#define MPI_MAKING_ENTRY(name, parameters, arguments)                                                                  \
    int PMPI_##name parameters {                                                                                       \
        mpi_host_find();                                                                                               \
        return mpi_state_begin(mpi_host.name arguments, made);                                                         \
    }
MPI_MAKING_FUNCTIONS(MPI_MAKING_ENTRY)

int PMPI_Comm_free(void *comm) {
    mpi_host_find();
    return mpi_state_end(mpi_host.Comm_free, comm);
}

int PMPI_Comm_disconnect(void *comm) {
    mpi_host_find();
    return mpi_state_end(mpi_host.Comm_disconnect, comm);
}

/* Collectives. */

/* Made by kolo or by the MPI. */
static int make(const struct mpi_call *call) {
    const int64_t began = mpi_report_begin();
    const int made = mpi_call_make(call), rc = made == MPI_PASS ? mpi_pass(call) : made;
    mpi_report_end(call->function, began, made == MPI_PASS, call->comm);
    return rc;
}

#define MPI_MAKE(name, large, ...)                                                                                     \
    make(&(struct mpi_call){.function = MPI_##name##_INDEX, .is_large = large, .comm = comm, __VA_ARGS__})

/* Those that have a short way return what it has returned, unless that is MPI_PASS. */
#define MPI_FAST_ENTRY(name, parameters, arguments, ...)                                                               \
    static __attribute__((noinline)) int name##_slowly parameters {                                                    \
        return MPI_MAKE(name, false, __VA_ARGS__);                                                                     \
    }                                                                                                                  \
    int PMPI_##name parameters {                                                                                       \
        const int rc = mpi_fast_##name arguments;                                                                      \
        return __builtin_expect(rc != MPI_PASS, 1) ? rc : name##_slowly arguments;                                     \
    }
#define MPI_OTHER_ENTRY(name, parameters, arguments, ...)                                                              \
    int PMPI_##name parameters {                                                                                       \
        return MPI_MAKE(name, false, __VA_ARGS__);                                                                     \
    }
#define MPI_LARGE_ENTRY(name, parameters, arguments, ...)                                                              \
    int PMPI_##name parameters {                                                                                       \
        return MPI_MAKE(name, true, __VA_ARGS__);                                                                      \
    }
MPI_FAST_ENTRY(Barrier, (mpi_word comm), (comm))
MPI_FAST_FUNCTIONS(MPI_FAST_ENTRY, , int)
MPI_OTHER_FUNCTIONS(MPI_OTHER_ENTRY, , int)
MPI_COUNTED_FUNCTIONS(MPI_LARGE_ENTRY, _c, mpi_count)
