/* Finds the MPI by the names that its library has in the various implementations. A program's libmpi may be loaded such
 * that its names are nobody else's (as mpi4py does), so that RTLD_NEXT would not see it. */
#include "host/mpi_host.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct mpi_host mpi_host;

static const char *const sonames[] = {"libmpi_abi.so.1", "libmpi_abi.so.0", "libmpi.so.40", "libmpi.so.12",
                                      "libmpich.so.12"};

static void set_constants(void *library, const char *name) {
    if (strstr(name, "libmpi_abi.so"))
        mpi_host.is = mpi_constants_standard;
    else if (dlsym(library, "ompi_mpi_comm_world"))
        mpi_constants_openmpi(&mpi_host.is, dlsym, library);
    else
        mpi_host.is = mpi_constants_mpich;
    if (!dlsym(library, "MPIX_Comm_revoke"))
        mpi_host.is.err_proc_failed = 0;
    mpi_host.handle_mask = mpi_host.is.handle_bytes == 4 ? UINT32_MAX : UINTPTR_MAX;
}

/* False if the library lacks one of the functions that every MPI has. */
static bool set_functions(void *library) {
    bool complete = true;
#define MPI_FUNCTION_FIND(name, ...)  *(void **)&mpi_host.name = dlsym(library, "PMPI_" #name);
#define MPI_FUNCTION_CHECK(name, ...) complete &= mpi_host.name != NULL;
    MPI_USED_FUNCTIONS(MPI_FUNCTION_FIND)
    MPI_TAKEN_FUNCTIONS(MPI_FUNCTION_FIND)
    MPI_TAKEN_TESTS(MPI_FUNCTION_FIND)
    MPI_TAKEN_LATE_FUNCTIONS(MPI_FUNCTION_FIND)
    MPI_OPTIONAL_FUNCTIONS(MPI_FUNCTION_FIND)
    MPI_USED_FUNCTIONS(MPI_FUNCTION_CHECK)
    MPI_TAKEN_FUNCTIONS(MPI_FUNCTION_CHECK)
    MPI_TAKEN_TESTS(MPI_FUNCTION_CHECK)
    return complete;
}

static bool take(const char *name) {
    void *const library = dlopen(name, RTLD_LAZY | RTLD_NOLOAD);
    if (!library || !set_functions(library))
        return false;
    set_constants(library, name);
    mpi_host.soname = name;
    return true;
}

static void find_once(void) {
    for (size_t i = 0; i < sizeof sonames / sizeof *sonames; i++)
        if (take(sonames[i]))
            return;
    Dl_info info; /* of a library that some vendor calls otherwise */
    void *const next = dlsym(RTLD_NEXT, "PMPI_Allreduce");
    if (next && dladdr(next, &info) && info.dli_fname && take(info.dli_fname))
        return;
    fprintf(stderr, "kolo: libkolo-mpi.so finds no library of an MPI that it knows in this process: run the program "
                    "without it\n");
    abort();
}

void mpi_host_find(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, find_once);
}

int mpi_agree(mpi_word comm, int value) {
    const mpi_word integer = mpi_host.is.types[MPI_TYPE_INT_INDEX];
    int lowest = -1;
    const int rc = mpi_host.Allreduce(&value, &lowest, 1, integer, mpi_host.is.ops[MPI_OP_MIN_INDEX], comm);
    return rc == 0 ? lowest : -1;
}

/* A communicator of our own, in which no rank sends a message to another one. A probe there makes the MPI look after
 * all that is under way, for all communicators. */

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
