/* The functions by their first names, and tools. A tool, such as a profiler, has functions MPI_X of its own, which call
 * PMPI_X. Where it stands before this library, in the program or preloaded, it is called first, and comes to what kolo
 * does by itself. Where it stands behind, linked as a library or preloaded later, MPI_X passes each call to it; and its
 * PMPI_X is the one of here. So it sees each call once, as without kolo, and kolo makes the collectives. What kolo asks
 * of the MPI for itself goes to the MPI's own functions (mpi_host), and no tool sees it. */
#include <dlfcn.h>

#include "entries.h"

#define MPI_FIRST(name, parameters, ...) int(*name) parameters;
#define MPI_FIRST_OURS(name, ...)        .name = PMPI_##name,
static struct {
    MPI_TAKEN_FUNCTIONS(MPI_FIRST)
    MPI_TAKEN_TESTS(MPI_FIRST)
    MPI_TAKEN_LATE_FUNCTIONS(MPI_FIRST)
} first = {MPI_TAKEN_FUNCTIONS(MPI_FIRST_OURS) MPI_TAKEN_TESTS(MPI_FIRST_OURS)
               MPI_TAKEN_LATE_FUNCTIONS(MPI_FIRST_OURS)};

/* The next library's function of a first name; NULL: that is the MPI, which has the second name, too, or none. */
static void *find_tool(const char *first_name, const char *second_name) {
    Dl_info tool, mpi;
    void *const found = dlsym(RTLD_NEXT, first_name), *const second = dlsym(RTLD_NEXT, second_name);
    const bool is_of_mpi =
        found && second && dladdr(found, &tool) && dladdr(second, &mpi) && tool.dli_fbase == mpi.dli_fbase;
    return is_of_mpi ? NULL : found;
}

/* When the library is loaded, all that is linked or preloaded is there. Most processes that have it preloaded are no
 * MPI programs. */
static __attribute__((constructor)) void find_tools(void) {
    void *found;
    if (!dlsym(RTLD_NEXT, "MPI_Init"))
        return;
#define MPI_FIRST_FIND(name, ...)                                                                                      \
    found = find_tool("MPI_" #name, "PMPI_" #name);                                                                    \
    if (found)                                                                                                         \
        *(void **)&first.name = found;
    MPI_TAKEN_FUNCTIONS(MPI_FIRST_FIND)
    MPI_TAKEN_TESTS(MPI_FIRST_FIND)
    MPI_TAKEN_LATE_FUNCTIONS(MPI_FIRST_FIND)
}

#define MPI_FIRST_NAME(name, parameters, arguments, ...)                                                               \
    int MPI_##name parameters {                                                                                        \
        return first.name arguments;                                                                                   \
    }
MPI_TAKEN_FUNCTIONS(MPI_FIRST_NAME)
MPI_TAKEN_TESTS(MPI_FIRST_NAME)
MPI_TAKEN_LATE_FUNCTIONS(MPI_FIRST_NAME)
