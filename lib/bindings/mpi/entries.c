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

int PMPI_Finalize(void) {
    mpi_host_find();
    mpi_life_finalize();
    const int rc = mpi_host.Finalize();
    mpi_life_end();
    return rc;
}

/* Functions that make communicators, except between groups. */

int PMPI_Comm_dup(mpi_word comm, void *made) {
    mpi_host_find();
    return mpi_state_begin(mpi_host.Comm_dup(comm, made), made);
}

int PMPI_Comm_dup_with_info(mpi_word comm, mpi_word info, void *made) {
    mpi_host_find();
    return mpi_state_begin(mpi_host.Comm_dup_with_info(comm, info, made), made);
}

int PMPI_Comm_idup(mpi_word comm, void *made, void *request) {
    mpi_host_find();
    return mpi_state_begin(mpi_host.Comm_idup(comm, made, request), made);
}

int PMPI_Comm_create(mpi_word comm, mpi_word group, void *made) {
    mpi_host_find();
    return mpi_state_begin(mpi_host.Comm_create(comm, group, made), made);
}

int PMPI_Comm_create_group(mpi_word comm, mpi_word group, int tag, void *made) {
    mpi_host_find();
    return mpi_state_begin(mpi_host.Comm_create_group(comm, group, tag, made), made);
}

int PMPI_Comm_split(mpi_word comm, int color, int key, void *made) {
    mpi_host_find();
    return mpi_state_begin(mpi_host.Comm_split(comm, color, key, made), made);
}

int PMPI_Comm_split_type(mpi_word comm, int type, int key, mpi_word info, void *made) {
    mpi_host_find();
    return mpi_state_begin(mpi_host.Comm_split_type(comm, type, key, info, made), made);
}

int PMPI_Cart_create(mpi_word comm, int dimensions, const int *sizes, const int *periods, int reorder, void *made) {
    mpi_host_find();
    return mpi_state_begin(mpi_host.Cart_create(comm, dimensions, sizes, periods, reorder, made), made);
}

int PMPI_Cart_sub(mpi_word comm, const int *kept, void *made) {
    mpi_host_find();
    return mpi_state_begin(mpi_host.Cart_sub(comm, kept, made), made);
}

int PMPI_Graph_create(mpi_word comm, int nodes, const int *indices, const int *edges, int reorder, void *made) {
    mpi_host_find();
    return mpi_state_begin(mpi_host.Graph_create(comm, nodes, indices, edges, reorder, made), made);
}

int PMPI_Dist_graph_create(mpi_word comm, int count, const int *sources, const int *degrees, const int *destinations,
                           const int *weights, mpi_word info, int reorder, void *made) {
    mpi_host_find();
    const int rc =
        mpi_host.Dist_graph_create(comm, count, sources, degrees, destinations, weights, info, reorder, made);
    return mpi_state_begin(rc, made);
}

int PMPI_Dist_graph_create_adjacent(mpi_word comm, int in, const int *sources, const int *source_weights, int out,
                                    const int *destinations, const int *destination_weights, mpi_word info, int reorder,
                                    void *made) {
    mpi_host_find();
    const int rc = mpi_host.Dist_graph_create_adjacent(comm, in, sources, source_weights, out, destinations,
                                                       destination_weights, info, reorder, made);
    return mpi_state_begin(rc, made);
}

int PMPI_Intercomm_merge(mpi_word comm, int high, void *made) {
    mpi_host_find();
    return mpi_state_begin(mpi_host.Intercomm_merge(comm, high, made), made);
}

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
